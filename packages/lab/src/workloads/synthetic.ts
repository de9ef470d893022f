import type { Attributes } from '@pgqueue/core';
import type { Shape } from '@pgqueue/core/internal';
import {
  aFunction,
  aNumber,
  anObject,
  anything,
  aRecordOf,
  aText,
  either,
  optional,
  optionProblems,
  throwProblems,
} from '@pgqueue/core/internal';
import type { Random } from './random.ts';
import { createRandom } from './random.ts';
import { aCount } from './shapes.ts';
import type { Arrival } from './arrival.ts';
import type { FlowArrival } from './flow-arrival.ts';
import type { Workload } from './workload.ts';
import { inOrder } from './workload.ts';

/** Options of {@link synthetic}: jobs that arrive at random. */
export interface StreamOptions {
  readonly jobs: number;
  /** Mean number of jobs a second. Arrivals are independent of each other (Poisson). */
  readonly perSecond: number;
  readonly startMs?: number;
  readonly queue?: string;
  readonly task?: string;
  /** Number of keys. `key-1` is the most frequent. Default 1. */
  readonly keys?: number;
  /** Skew of the keys (Zipf): the k-th key comes in proportion to 1 / k^skew. Default 0: all keys alike. */
  readonly skew?: number;
  /** Prefix of the keys' names. Default `key`: `key-1`, `key-2`, … */
  readonly keyPrefix?: string;
  /**
   * Duration of each job in milliseconds: a constant, a lognormal distribution (half of the jobs below
   * `medianMs`; the larger `sigma`, the longer the tail), or an exponential one with `meanMs`.
   */
  readonly duration:
    | number
    | { readonly medianMs: number; readonly sigma: number }
    | { readonly meanMs: number };
  /** Number of jobs that arrive at the same moment. Default 1. */
  readonly burst?: number;
  readonly priority?: number;
  readonly attributes?: Attributes | ((random: Random) => Attributes);
  /** Deadline of each job, in milliseconds after its arrival. */
  readonly deadlineMs?: number;
  /** Default 1. */
  readonly seed?: number;
}

const aDuration = either(
  aNumber({ min: 0 }),
  anObject({
    meanMs: optional(aNumber({ min: 0 })),
    medianMs: optional(aNumber({ min: 0 })),
    sigma: optional(aNumber({ min: 0 })),
  }),
);

const many = aNumber({ min: 1, max: 10_000_000, whole: true });

/** Rule of each option of a synthetic workload. */
const streamShape: Shape<StreamOptions> = {
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

/**
 * Creates a random workload. It can be iterated again and again, and is the same each time.
 * @throws {PgQueueError} `configuration`
 */
export function synthetic(options: StreamOptions): Iterable<Arrival> {
  throwProblems('configuration', 'the workload', [
    ...optionProblems(options, streamShape),
    ...durationProblems(options),
  ]);
  return { [Symbol.iterator]: () => stream(options) };
}

/** Merges several workloads into one, in the order of time. */
export function merge(...workloads: readonly Workload[]): Workload {
  return { [Symbol.iterator]: () => merged(workloads.map(inOrder)) };
}

function* stream(options: StreamOptions): Generator<Arrival> {
  const { jobs, perSecond, startMs = 0, queue, task, priority, deadlineMs, seed = 1 } = options;
  const { keys = 1, skew = 0, keyPrefix = 'key', burst = 1, attributes } = options;
  const random = createRandom(seed);
  const pick = zipf(keys, skew);
  const names = Array.from({ length: keys }, (_, at) => `${keyPrefix}-${at + 1}`);
  const fixed = {
    ...(queue === undefined ? {} : { queue }),
    ...(task === undefined ? {} : { task }),
    ...(priority === undefined ? {} : { priority }),
  };
  let atMs = startMs;
  for (let made = 0; made < jobs; made += 1) {
    if (made % burst === 0) atMs += random.exponential((1_000 * burst) / perSecond);
    const given = typeof attributes === 'function' ? attributes(random) : attributes;
    yield {
      ...fixed,
      atMs,
      key: names[pick(random.uniform())] ?? '',
      durationMs: durationOf(options.duration, random),
      ...(given === undefined ? {} : { attributes: given }),
      ...(deadlineMs === undefined ? {} : { deadlineMs: atMs + deadlineMs }),
    };
  }
}

function durationOf(duration: StreamOptions['duration'], random: Random): number {
  if (typeof duration === 'number') return duration;
  return 'meanMs' in duration
    ? random.exponential(duration.meanMs)
    : random.lognormal(duration.medianMs, duration.sigma);
}

/** Returns a function from a number between 0 and 1 to a rank, from 0 on. */
function zipf(count: number, skew: number): (uniform: number) => number {
  const upTo = new Float64Array(count);
  let sum = 0;
  for (let at = 0; at < count; at += 1) {
    sum += (at + 1) ** -skew;
    upTo[at] = sum;
  }
  return (uniform) => {
    const wanted = uniform * sum;
    let [low, high] = [0, count - 1];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((upTo[middle] ?? 0) > wanted) high = middle;
      else low = middle + 1;
    }
    return low;
  };
}

function* merged(sources: readonly Iterator<Arrival | FlowArrival>[]): Generator<Arrival | FlowArrival> {
  const heads = sources.map((source) => source.next());
  for (;;) {
    let first = -1;
    let firstMs = Infinity;
    heads.forEach((head, at) => {
      if (head.done === true || head.value.atMs >= firstMs) return;
      [first, firstMs] = [at, head.value.atMs];
    });
    const [head, source] = [heads[first], sources[first]];
    if (head === undefined || head.done === true || source === undefined) return;
    yield head.value;
    heads[first] = source.next();
  }
}

function durationProblems(options: unknown): readonly string[] {
  const duration =
    typeof options === 'object' && options !== null && 'duration' in options ? options.duration : 0;
  if (typeof duration !== 'object' || duration === null || 'meanMs' in duration) return [];
  return 'medianMs' in duration && 'sigma' in duration
    ? []
    : ['duration must have meanMs, or medianMs and sigma'];
}
