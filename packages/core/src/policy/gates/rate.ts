import type { Shape } from '../../options/options.ts';
import { aFlag, aFunction, optional } from '../../options/options.ts';
import { aName, checkPart } from '../check-part.ts';
import type { Gate } from '../gate.ts';
import type { JobFacts, Rate, Snapshot } from '../snapshot.ts';
import { bucketGate } from './lib/bucket-gate.ts';
import type { Cost, GroupBy, Limit } from './lib/group.ts';
import { aLimit, alike, costsOf, groupOf, limitFor, nameProblems, once } from './lib/group.ts';
import { sayGroup } from './lib/format.ts';

/** A limit, or one for each value; null: none. Asked once a plan. */
export type LimitBy = Limit | ((value: string, snapshot: Snapshot) => Limit | null);

/** What is counted, and how many may be dispatched in a time: see {@link rate}. */
export interface RateOptions {
  /** What is limited, as reasons call it: `api acme is at its rate of 5 a second …`. */
  readonly name: string;
  /** Each of its values has a rate of its own, over all queues. Default: all jobs count together. */
  readonly by?: GroupBy;
  /** Jobs, or what they take, a second on average. */
  readonly perSecond: LimitBy;
  /** The most at once. To use the whole rate, it has to hold what comes in between two ticks: a tenth of a second's worth, or more. */
  readonly burst: LimitBy;
  /** What a job takes of it. Default: 1. */
  readonly cost?: (job: JobFacts) => Cost;
  /** A promise that `by` and `cost` depend on the job's queue and key only: then the rest of a key need not be asked about. */
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
 * Limits how many jobs are dispatched in the course of time: a token bucket for each value. Exact: over any window of w seconds by the
 * database's clock, jobs of at most `perSecond × w + burst` are dispatched, through restarts and changes of the leader, too. A
 * job that takes more than the burst never goes; one that takes much may wait long where others that take little never let the bucket
 * fill. Jobs for which `by` or `cost` fails are held.
 * @throws {PgQueueError} `configuration`
 */
export function rate(options: RateOptions): Gate {
  checkPart('gate', 'rate', {
    options,
    shape,
    further: (given) => nameProblems({ perSecond: given.perSecond, burst: given.burst }, given.cost),
  });
  const { name, by, perSecond, burst, cost, lane = false } = options;
  const open = (limit: LimitBy, snapshot: Snapshot): ((value: string) => Limit | null) =>
    typeof limit === 'function' ? once((value) => limit(value, snapshot)) : () => limit;
  const gate = bucketGate(name, (snapshot) => ({
    groupOf: (job) => (by === undefined ? '' : groupOf(by, job)),
    costsOf: cost === undefined ? null : (job) => costsOf(cost, job),
    rateOf: rateBy(open(perSecond, snapshot), open(burst, snapshot)),
    label: (_job, value) => sayGroup(name, by === undefined ? undefined : value),
    held: lane ? 'hold_lane' : 'hold',
  }));
  const tellsTime = typeof perSecond !== 'function' && typeof burst !== 'function';
  return { ...gate, groups: alike(options), tellsTime };
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
