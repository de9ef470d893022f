import type { Backoff, DatabaseHealth, Json, Policy, QueueSeen } from '@pgqueue/core';
import type { Rule, Shape } from '@pgqueue/core/internal';
import {
  aFunction,
  aNumber,
  anObject,
  anything,
  aRecordOf,
  oneOf,
  optional,
  orNull,
  defaultBackoff,
  defaultMaxCrashes,
  defaultMaxTries,
  defaultQueue,
  optionProblems,
  throwProblems,
} from '@pgqueue/core/internal';
import type { NodeOptions } from '../workloads/fleet.ts';
import { fleet, queues } from '../workloads/shapes.ts';
import type { Workload } from '../workloads/workload.ts';

/** Rates at which attempts fail, and the limits of retries. */
export interface FailureOptions {
  /** Share of attempts that end with an error, 0 to 1. Default 0. */
  readonly errorRate?: number;
  /**
   * Share of attempts that lose their lease because their node crashes, 0 to 1. Default 0. The fleet stays as
   * it is.
   */
  readonly crashRate?: number;
  /** Tries before a job is dead. Default 20. */
  readonly maxTries?: number;
  /** Crashes before a job is dead. Default 3. */
  readonly maxCrashes?: number;
  readonly backoff?: Partial<Backoff>;
}

/** Progress of a simulation. */
export interface SimulationProgress {
  readonly ended: number;
  readonly waiting: number;
  readonly plans: number;
  /** Virtual time since the first arrival, in milliseconds. */
  readonly passedMs: number;
}

/** Conditions of a simulation: everything except the policy. */
export interface Conditions {
  readonly workload: Workload;
  /** Worker nodes. Default: one node with ten slots. */
  readonly fleet?: readonly NodeOptions[];
  /** Settings of queues, as in queue_config. A setting that is left out has its default. */
  readonly queues?: Readonly<Record<string, Partial<QueueSeen>>>;
  readonly failures?: FailureOptions;
  /** Seed of all randomness. The same seed gives the same result. Default 1. */
  readonly seed?: number;
  /**
   * Shortest time from one plan to the next, in milliseconds: the duration of a tick. 0: a plan whenever
   * something has changed. Default 5.
   */
  readonly tickMs?: number;
  /**
   * Time in milliseconds for whose consumption work items are made ahead, beyond free slots. Default: four
   * ticks.
   */
  readonly horizonMs?: number;
  /** Most jobs in one plan. Default 2,000. */
  readonly batchMax?: number;
  /** Weight of a key beside the others of its queue, for the measure of fairness. Default: all the same. */
  readonly weightOf?: (lane: { readonly queue: string; readonly key: string }) => number;
  /** Duration of one handler call for several jobs, in milliseconds. Default: that of the longest job. */
  readonly bundleMs?: (durationsMs: readonly number[]) => number;
  /** Values of `Snapshot.prepared`, for policies that fetch data. */
  readonly prepared?: Readonly<Record<string, Json>>;
  /** Value of `Snapshot.health`. Default: null. */
  readonly health?: DatabaseHealth;
  /**
   * Time at which the simulation ends, even if jobs wait or run. Default: it ends when nothing can happen any
   * more.
   */
  readonly untilMs?: number;
  /**
   * Called with the progress after every 1,000 ended jobs and plans, for as long as the simulation goes on.
   */
  readonly onProgress?: (progress: SimulationProgress) => void;
}

/** Options of a simulation: a policy, and its conditions. */
export interface SimulateOptions extends Conditions {
  readonly policy: Policy;
}

/** Options with all defaults applied. */
export interface Settings {
  readonly policy: Policy;
  readonly workload: Workload;
  readonly fleet: readonly NodeOptions[];
  readonly queues: Readonly<Record<string, QueueSeen>>;
  readonly failures: Required<FailureOptions>;
  readonly seed: number;
  readonly tickMs: number;
  readonly horizonMs: number;
  readonly batchMax: number;
  readonly weightOf: NonNullable<Conditions['weightOf']>;
  readonly bundleMs: NonNullable<Conditions['bundleMs']>;
  readonly prepared: Readonly<Record<string, Json>>;
  readonly health: DatabaseHealth | null;
  readonly untilMs: number;
  readonly onProgress: NonNullable<Conditions['onProgress']>;
}

const backoff: Shape<Partial<Backoff>> = {
  kind: optional(oneOf('fixed', 'linear', 'exponential')),
  baseMs: optional(aNumber({ min: 0 })),
  factor: optional(aNumber({ min: 0 })),
  maxMs: optional(aNumber({ min: 0 })),
  jitter: optional(aNumber({ min: 0, max: 1 })),
};

const share = aNumber({ min: 0, max: 1 });

const limit = aNumber({ min: 1, max: 1_000, whole: true });

const aReading = orNull(aNumber({ min: 0 }));

const failures: Shape<FailureOptions> = {
  errorRate: optional(share),
  crashRate: optional(share),
  maxTries: optional(limit),
  maxCrashes: optional(limit),
  backoff: optional(anObject(backoff)),
};

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

/** Accepts a composed policy or one written as a whole, also one made by an older release. */
const aPolicy: Rule = {
  expected: 'a policy: what policy({ gates, order }) returns, or an object with a plan of its own',
  judge: (value) =>
    typeof value === 'object' && value !== null && 'plan' in value && typeof value.plan === 'function',
};

/** Rule of each option of a simulation. */
const simulateShape: Shape<SimulateOptions> = {
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

/**
 * Checks the options and applies defaults.
 * @throws {PgQueueError} `configuration`, with all problems at once
 */
export function toSettings(options: SimulateOptions): Settings {
  throwProblems('configuration', 'the simulation', optionProblems(options, simulateShape));
  const { failures = {}, tickMs = 5 } = options;
  const queues = Object.fromEntries(
    Object.entries(options.queues ?? {}).map(([name, queue]) => [name, { ...defaultQueue, ...queue }]),
  );
  const settings: Settings = {
    policy: options.policy,
    workload: options.workload,
    fleet: options.fleet ?? [{ slots: 10 }],
    queues,
    failures: {
      errorRate: failures.errorRate ?? 0,
      crashRate: failures.crashRate ?? 0,
      maxTries: failures.maxTries ?? defaultMaxTries,
      maxCrashes: failures.maxCrashes ?? defaultMaxCrashes,
      backoff: failures.backoff ?? defaultBackoff,
    },
    seed: options.seed ?? 1,
    tickMs,
    horizonMs: options.horizonMs ?? 4 * tickMs,
    batchMax: options.batchMax ?? 2_000,
    weightOf: options.weightOf ?? ((): number => 1),
    bundleMs:
      options.bundleMs ?? ((durationsMs) => durationsMs.reduce((one, other) => Math.max(one, other), 0)),
    prepared: options.prepared ?? {},
    health: options.health ?? null,
    untilMs: options.untilMs ?? Infinity,
    onProgress: options.onProgress ?? ((): void => {}),
  };
  throwProblems('configuration', 'the simulation', problemsOf(settings));
  return settings;
}

/** Reports problems that the shapes of the options can't express. */
function problemsOf({ failures: { errorRate, crashRate } }: Settings): readonly string[] {
  return errorRate + crashRate <= 1
    ? []
    : ['failures.errorRate and failures.crashRate must not be more than 1 together'];
}
