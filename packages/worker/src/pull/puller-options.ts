import type { Shape } from '@pgqueue/core';
import {
  aFlag,
  aListOf,
  aNumber,
  anObject,
  aText,
  either,
  optional,
  optionProblems,
  orNull,
  throwProblems,
} from '@pgqueue/core';
import type { NodeTasks } from '@pgqueue/postgres';
import type { NodeOptions, NodeSettings } from '../node-options.ts';
import { isGiven, nodeSettings, nodeShape } from '../node-options.ts';

/** What a puller takes jobs of: a task's name, for every version of its payload; or the task, or what it would say. */
export type PulledTask =
  | string
  | {
      readonly name: string;
      /** The newest payload version. Default: any. */
      readonly version?: number;
      /** The oldest. Default 1. */
      readonly minVersion?: number;
      readonly timeoutMs?: number | null;
      /**
       * Whether it takes bundles, in one slot: `claim` may then return more jobs than it was asked for. While a node of the pool does not,
       * there are none of this task. Default false.
       */
      readonly batch?: boolean;
    };

/** What {@link createPuller} takes. */
export interface PullerOptions extends NodeOptions {
  readonly tasks: readonly PulledTask[];
  /** Jobs that it may hold at once, 1 to 100,000: the scheduler makes work ready for so many. Default 100. */
  readonly slots?: number;
}

const pulled: Shape<Exclude<PulledTask, string>> = {
  name: aText({ max: 200 }),
  version: optional(aNumber({ min: 1, whole: true })),
  minVersion: optional(aNumber({ min: 1, whole: true })),
  timeoutMs: optional(orNull(aNumber({ above: 0 }))),
  batch: optional(aFlag),
};

const pullerShape: Shape<PullerOptions> = {
  ...nodeShape,
  tasks: aListOf(
    // a task that defineTask made has more
    either(aText({ max: 200 }), anObject(pulled, { what: 'a task', own: true })),
    'a list of tasks, or of their names',
  ),
  slots: optional(aNumber({ min: 1, max: 100_000, whole: true })),
};

/** @throws {PgQueueError} `configuration`, with everything that is wrong at once */
export function pullerSettings(options: PullerOptions): NodeSettings {
  const wrong = optionProblems(options, pullerShape);
  if (!isGiven(options)) throwProblems('configuration', 'the puller', wrong);
  const { slots = 100 } = options;
  const given = Array.isArray(options.tasks) ? (options.tasks as readonly PulledTask[]) : [];
  const tasks: NodeTasks = Object.fromEntries(
    given.filter(isNamed).map((task) => {
      const {
        name,
        version = versionMax,
        minVersion = 1,
        timeoutMs = null,
        batch = false,
      } = typeof task === 'string' ? { name: task } : task;
      return [name, { min: minVersion, max: version, timeoutMs, ...(batch ? { batch } : {}) }];
    }),
  );
  const { settings, problems } = nodeSettings(options, { slots, tasks });
  throwProblems('configuration', 'the puller', [
    ...wrong,
    ...problems,
    ...(options.tasks?.length === 0 ? ['tasks is empty: there is nothing to pull'] : []),
  ]);
  return settings;
}

/** Others are refused by then. */
function isNamed(task: unknown): boolean {
  return typeof task === 'string' || isGiven(task);
}

const versionMax = 2_147_483_647;
