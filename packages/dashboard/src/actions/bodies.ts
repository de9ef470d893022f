import type { Rule } from '@pgqueue/core/internal';
import {
  aFlag,
  aListOf,
  aNumber,
  anObject,
  anything,
  aText,
  isUuid,
  oneOf,
  optional,
  orNull,
  optionProblems,
  shareWeights,
} from '@pgqueue/core/internal';

const anId: Rule = { expected: 'a UUID', judge: (value) => typeof value === 'string' && isUuid(value) };
const aPriority = aNumber({ min: -2_147_483_648, max: 2_147_483_647, whole: true });
const aCount = aNumber({ min: 0, max: 2_147_483_647, whole: true });
const aRate = anObject({ perSecond: aNumber({ above: 0 }), burst: optional(aNumber({ min: 1 })) });

const actionOf = (kinds: readonly string[]): Rule => ({
  expected: `an action: an object whose kind is one of ${kinds.join(', ')}`,
  judge: (value, path) => {
    const { kind } = (value ?? {}) as Readonly<Record<string, unknown>>;
    const shape = { kind: oneOf(...kinds), ...(kind === 'reprioritise' ? { priority: aPriority } : {}) };
    return optionProblems(value, shape, { path });
  },
});

export const aJobAction: Rule = actionOf(['retry', 'run_now', 'cancel', 'reprioritise', 'delete']);
export const aDeadAction: Rule = actionOf(['redrive', 'delete']);

const aStep = aText({ max: 200 });
const flowActions: Readonly<Record<string, Readonly<Record<string, Rule>>>> = {
  signal: { step: aStep, value: anything },
  cancel: { reason: optional(aText({ max: 2_000 })) },
  retry: { step: optional(aStep) },
};

const aFlowAction: Rule = {
  expected: `an action: an object whose kind is one of ${Object.keys(flowActions).join(', ')}`,
  judge: (value, path) => {
    const { kind } = (value ?? {}) as Readonly<Record<string, unknown>>;
    const own = typeof kind === 'string' && Object.hasOwn(flowActions, kind) ? flowActions[kind] : {};
    return optionProblems(value, { kind: oneOf(...Object.keys(flowActions)), ...own }, { path });
  },
};

const ids = aListOf(anId);

/** Rules for the bodies of actions, matching the types of the contract. */
export const bodies: Readonly<
  Record<
    'jobs' | 'flow' | 'queue' | 'node' | 'schedule' | 'undo' | 'bulkOfJobs' | 'bulkOfDead',
    Readonly<Record<string, Rule>>
  >
> = {
  jobs: {
    ids: {
      ...ids,
      expected: 'a list of 1 to 1000 UUIDs',
      judge: (value, path) =>
        Array.isArray(value) && value.length >= 1 && value.length <= 1_000 ? ids.judge(value, path) : false,
    },
    action: aJobAction,
  },
  flow: { id: anId, action: aFlowAction },
  queue: {
    queue: aText({ max: 100 }),
    settings: anObject({
      paused: optional(aFlag),
      pool: optional(orNull(aText({ max: 100 }))),
      retentionMs: optional(orNull(aNumber({ min: 0, max: 3_650 * 86_400_000 }))),
      concurrency: optional(orNull(aCount)),
      keyConcurrency: optional(orNull(aCount)),
      rate: optional(orNull(aRate)),
      keyRate: optional(orNull(aRate)),
      keyPending: optional(orNull(aNumber({ min: 1, max: 100_000, whole: true }))),
      weight: optional(orNull(aNumber(shareWeights))),
    }),
  },
  node: { node: aText({ max: 200 }), action: oneOf('reset') },
  schedule: { name: aText({ max: 200 }), action: oneOf('run_now', 'pause', 'resume') },
  undo: { id: anId },
  bulkOfJobs: { over: oneOf('jobs'), filter: anything, action: aJobAction },
  bulkOfDead: { over: oneOf('dead'), filter: anything, action: aDeadAction },
};
