import type { Shape } from '@pgqueue/core/internal';
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
} from '@pgqueue/core/internal';
import type { NodeTasks } from '@pgqueue/postgres/internal';
import type { NodeOptions, NodeSettings } from '../node-options.ts';
import { isGiven, nodeSettings, nodeShape } from '../node-options.ts';

/**
 * A task whose jobs a puller takes: its name, for every version of its payload; the task itself; or an object
 * with the same members.
 */
export type PulledTask =
  | string
  | {
      readonly name: string;
      /** Newest payload version. Default: any. */
      readonly version?: number;
      /** Oldest payload version. Default 1. */
      readonly minVersion?: number;
      readonly timeoutMs?: number | null;
      /**
       * Takes bundles, in one slot; `claim` may then return more jobs than it was asked for. This task has
       * bundles only while every node of the pool takes them. Default false.
       */
      readonly batch?: boolean;
    };

/** Options of {@link createPuller}. */
export interface PullerOptions extends NodeOptions {
  readonly tasks: readonly PulledTask[];
  /**
   * Jobs that the puller may hold at once, 1 to 100,000; the scheduler makes work ready for that many.
   * Default 100.
   */
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
    // A task made by defineTask has more members.
    either(aText({ max: 200 }), anObject(pulled, { what: 'a task', own: true })),
    'a list of tasks, or of their names',
  ),
  slots: optional(aNumber({ min: 1, max: 100_000, whole: true })),
};

const claimShape = {
  max: optional(aNumber({ min: 1, whole: true })),
  waitMs: optional(aNumber({ min: 0, max: 86_400_000 })),
};

/**
 * Checks what a claim was given.
 * @throws {PgQueueError} `configuration`
 */
export function checkClaim(wanted: { readonly max?: number; readonly waitMs?: number } = {}): void {
  throwProblems('configuration', 'puller.claim', optionProblems(wanted, claimShape));
}

/**
 * Returns the settings of a puller.
 * @throws {PgQueueError} `configuration`, with everything that is wrong at once
 */
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

/** Reports whether an entry names a task; others are among the problems already. */
function isNamed(task: unknown): boolean {
  return typeof task === 'string' || isGiven(task);
}

const versionMax = 2_147_483_647;
