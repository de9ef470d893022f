import type { Backoff, DatabaseHealth, QueueSeen, Rate, Rule, Shape, VersionRange } from '@pgqueue/core';
import {
  aFlag,
  aFunction,
  aListOf,
  aNumber,
  anObject,
  anything,
  aRecordOf,
  aText,
  either,
  oneOf,
  optional,
  orNull,
} from '@pgqueue/core';
import type { NodeOptions } from './fleet.ts';
import type { WorkloadFile } from './json-workload.ts';
import type { FailureOptions, SimulateOptions } from './options.ts';
import type { StreamOptions } from './synthetic.ts';

const aCount = aNumber({ min: 0, whole: true });

const rate: Shape<Rate> = { perSecond: aNumber({ above: 0 }), burst: aNumber({ min: 0 }) };

const aRate = anObject(rate, { what: 'an object with perSecond and burst' });

const queue: Shape<Partial<QueueSeen>> = {
  pool: optional(aText({ max: 100 })),
  paused: optional(aFlag),
  concurrency: optional(orNull(aCount)),
  keyConcurrency: optional(orNull(aCount)),
  rate: optional(orNull(aRate)),
  keyRate: optional(orNull(aRate)),
  weight: optional(aNumber({ above: 0 })),
};

/** The settings of each queue. */
const queues: Rule = aRecordOf(anObject(queue), 'an object with the settings of each queue');

const versions: Shape<VersionRange> = {
  min: aNumber({ min: 1, whole: true }),
  max: aNumber({ min: 1, whole: true }),
};

const node: Shape<NodeOptions> = {
  count: optional(aNumber({ min: 1, max: 10_000, whole: true })),
  slots: aNumber({ min: 1, max: 100_000, whole: true }),
  pool: optional(aText({ max: 100 })),
  tasks: optional(aRecordOf(anObject(versions))),
};

const fleet: Rule = aListOf(anObject(node), 'a list of nodes');

const backoff: Shape<Partial<Backoff>> = {
  kind: optional(oneOf('fixed', 'linear', 'exponential')),
  baseMs: optional(aNumber({ min: 0 })),
  factor: optional(aNumber({ min: 0 })),
  maxMs: optional(aNumber({ min: 0 })),
  jitter: optional(aNumber({ min: 0, max: 1 })),
};

const share = aNumber({ min: 0, max: 1 });
const limit = aNumber({ min: 1, max: 1_000, whole: true });

const failures: Shape<FailureOptions> = {
  errorRate: optional(share),
  crashRate: optional(share),
  maxTries: optional(limit),
  maxCrashes: optional(limit),
  backoff: optional(anObject(backoff)),
};

const aReading = orNull(aNumber({ min: 0 }));

const health: Shape<DatabaseHealth> = {
  readMs: aNumber(),
  oldestSnapshotMs: aReading,
  deadRows: aReading,
  replicationLagMs: aReading,
};

const isIterable: Rule = {
  expected: 'arrivals that can be iterated, such as an array',
  judge: (value) => typeof value === 'object' && value !== null && Symbol.iterator in value,
};

/** Written as a whole or composed; made by an older release, perhaps. */
const aPolicy: Rule = {
  expected: 'a policy: what policy({ gates, order }) returns, or an object with a plan of its own',
  judge: (value) =>
    typeof value === 'object' && value !== null && 'plan' in value && typeof value.plan === 'function',
};

/** A rule for each option of a simulation. */
export const simulateShape: Shape<SimulateOptions> = {
  policy: aPolicy,
  workload: isIterable,
  fleet: optional(fleet),
  queues: optional(queues),
  failures: optional(anObject(failures)),
  seed: optional(aNumber({ whole: true })),
  tickMs: optional(aNumber({ min: 0, max: 60_000 })),
  horizonMs: optional(aNumber({ min: 0, max: 60_000 })),
  batchMax: optional(aNumber({ min: 1, max: 10_000, whole: true })),
  weightOf: optional(aFunction),
  bundleMs: optional(aFunction),
  prepared: optional(aRecordOf(anything)),
  health: optional(anObject(health)),
  untilMs: optional({
    expected: 'a number of milliseconds',
    judge: (value) => typeof value === 'number' && !Number.isNaN(value),
  }),
  onProgress: optional(aFunction),
};

/** A rule for each member of a workload in a file; its arrivals are checked one by one. */
export const fileShape: Shape<WorkloadFile> = {
  arrivals: { expected: 'an array of arrivals', judge: Array.isArray },
  queues: optional(queues),
  fleet: optional(fleet),
};

const aDuration = either(
  aNumber({ min: 0 }),
  anObject({
    meanMs: optional(aNumber({ min: 0 })),
    medianMs: optional(aNumber({ min: 0 })),
    sigma: optional(aNumber({ min: 0 })),
  }),
);

const many = aNumber({ min: 1, max: 10_000_000, whole: true });

/** A rule for each option of a synthetic workload. */
export const streamShape: Shape<StreamOptions> = {
  jobs: aCount,
  perSecond: aNumber({ above: 0 }),
  startMs: optional(aNumber()),
  queue: optional(aText()),
  task: optional(aText()),
  keys: optional(many),
  skew: optional(aNumber({ min: 0 })),
  keyPrefix: optional(aText({ min: 0 })),
  duration: aDuration,
  burst: optional(many),
  priority: optional(aNumber({ whole: true })),
  attributes: optional(either(aRecordOf(anything), aFunction)),
  deadlineMs: optional(aNumber()),
  seed: optional(aNumber({ whole: true })),
};
