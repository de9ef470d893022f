import type { Shape } from '../../options/options.ts';
import { aFlag, aFunction, optional } from '../../options/options.ts';
import { aName, checkPart } from '../check-part.ts';
import { madeWith } from '../made-with.ts';
import type { Gate } from '../gate.ts';
import type { JobFacts, Rate, Snapshot } from '../snapshot.ts';
import { bucketGate } from './state/bucket-gate.ts';
import type { Cost, GroupBy, Limit } from './state/group.ts';
import { aLimit, alike, costsOf, groupOf, limitFor, limitGiven, nameProblems, once } from './state/group.ts';
import { sayGroup } from './state/format.ts';

/**
 * A limit, or a function that gives one for each value. Null: no limit. The function is called once a plan
 * for each value.
 */
export type LimitBy = Limit | ((value: string, snapshot: Snapshot) => Limit | null);

/** Options of {@link rate}: the groups that are counted, and how much of each may be dispatched over time. */
export interface RateOptions {
  /** Name of the rate, used in reasons: `api acme is at its rate of 5 a second …`. */
  readonly name: string;
  /** Groups jobs. Each value has a rate of its own, over all queues. Default: all jobs count together. */
  readonly by?: GroupBy;
  /** Average number of jobs a second, or of their cost. */
  readonly perSecond: LimitBy;
  /**
   * Most that may be dispatched at once. To use the whole rate, the burst has to hold the tokens that arrive
   * between two ticks: a tenth of a second's worth or more.
   */
  readonly burst: LimitBy;
  /** Amount of the rate that a job takes. Default: 1. */
  readonly cost?: (job: JobFacts) => Cost;
  /**
   * Promises that `by` and `cost` depend on the job's queue and key only. Then one held job holds its whole
   * lane, and the other jobs of the key are not asked about.
   */
  readonly lane?: boolean;
}

const shape: Shape<RateOptions> = {
  name: aName,
  by: optional(aFunction),
  perSecond: aLimit(0),
  burst: aLimit(0),
  cost: optional(aFunction),
  lane: optional(aFlag),
};

/**
 * Limits how many jobs are dispatched over time, with a token bucket for each value.
 *
 * The limit is exact: over any window of w seconds by the database's clock, at most `perSecond × w + burst`
 * is dispatched, also across restarts and changes of the leader. A job whose cost exceeds the burst never
 * goes. A job with a high cost may wait long while jobs with low costs keep the bucket from filling. A job
 * for which `by` or `cost` fails is held.
 * @throws {PgQueueError} `configuration`
 */
export function rate(options: RateOptions): Gate {
  checkPart('gate', 'rate', {
    options,
    shape,
    further: (given) => nameProblems({ perSecond: given.perSecond, burst: given.burst }, given.cost),
  });
  const { name, by, perSecond, burst, cost, lane = false } = options;
  const open = (what: string, limit: LimitBy, snapshot: Snapshot): ((value: string) => Limit | null) =>
    typeof limit === 'function'
      ? once((value) => limitGiven(what, value, limit(value, snapshot)))
      : () => limit;
  const gate = bucketGate(name, (snapshot) => ({
    groupOf: (job) => (by === undefined ? '' : groupOf(by, job)),
    costsOf: cost === undefined ? null : (job) => costsOf(cost, job),
    rateOf: rateBy(open('perSecond', perSecond, snapshot), open('burst', burst, snapshot)),
    label: (_job, value) => sayGroup(name, by === undefined ? undefined : value),
    held: lane ? 'hold_lane' : 'hold',
    byKey: by !== undefined,
  }));
  const tellsTime = typeof perSecond !== 'function' && typeof burst !== 'function';
  return madeWith(options, { ...gate, groups: alike(options), tellsTime });
}

function rateBy(
  perSecond: (value: string) => Limit | null,
  burst: (value: string) => Limit | null,
): (value: string, name: string) => Rate | null {
  return (value, name) => {
    const [most, atOnce] = [perSecond(value), burst(value)];
    if (most === null || atOnce === null) return null;
    const rate = { perSecond: limitFor(most, name), burst: limitFor(atOnce, name) };
    return rate.perSecond === Infinity || rate.burst === Infinity ? null : rate;
  };
}
