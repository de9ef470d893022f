import type { Shape } from '../../options/options.ts';
import { aFlag, aFunction, optional } from '../../options/options.ts';
import { aName, checkPart } from '../check-part.ts';
import { madeWith } from '../made-with.ts';
import type { Gate } from '../gate.ts';
import type { JobFacts, Snapshot } from '../snapshot.ts';
import type { Cost, GroupBy, Limit } from './state/group.ts';
import { aLimit, alike, costsOf, groupOf, limitGiven, nameProblems, once } from './state/group.ts';
import { openTallies } from './state/tallies.ts';
import type { Counting } from './state/use.ts';
import { rememberUse } from './state/use.ts';
import { sayGroup } from './state/format.ts';

/** Options of {@link concurrency}: the groups that are counted, and how much of each may be in flight. */
export interface ConcurrencyOptions {
  /** Name of the limit, used in reasons: `tenant` gives `tenant acme has 5 of 5 in flight`. */
  readonly name: string;
  /** Groups jobs. Each value has a limit of its own, over all queues. Default: all jobs count together. */
  readonly by?: GroupBy;
  /**
   * Most that may be in flight of each value. Null: no limit. A function is called once a plan for each
   * value.
   */
  readonly limit: Limit | ((value: string, snapshot: Snapshot) => Limit | null);
  /**
   * Amount of the limit that a job takes while it is in flight. Default: 1. Must not depend on anything that
   * changes meanwhile.
   */
  readonly cost?: (job: JobFacts) => Cost;
  /**
   * Promises that `by` and `cost` depend on the job's queue and key only. Then one held job holds its whole
   * lane, and the other jobs of the key are not asked about.
   */
  readonly lane?: boolean;
}

const shape: Shape<ConcurrencyOptions> = {
  name: aName,
  by: optional(aFunction),
  limit: aLimit(),
  cost: optional(aFunction),
  lane: optional(aFlag),
};

/**
 * Limits how many jobs, or how much of what they take, are in flight at once: ready or running.
 *
 * The limit is exact: a plan counts every work item there is, and the jobs that it takes itself. Jobs that
 * one handler call takes together count once for each value, with the most that one of them takes.
 *
 * A failure of `by` or `cost` never lets a job exceed the limit. A waiting job is held. A job in flight
 * counts for every value if `by` fails, and fills its value until it ends if `cost` fails.
 * @throws {PgQueueError} `configuration`
 */
export function concurrency(options: ConcurrencyOptions): Gate {
  checkPart('gate', 'concurrency', {
    options,
    shape,
    further: ({ limit: given, cost: by }) => nameProblems({ limit: given }, by),
  });
  const { name, by, limit, cost, lane = false } = options;
  const counting: Counting = {
    groupOf: (job) => (by === undefined ? '' : groupOf(by, job)),
    costsOf: cost === undefined ? null : (job) => costsOf(cost, job),
  };
  const memory = rememberUse(counting);
  return madeWith(options, {
    name,
    onError: 'hold',
    groups: alike(options),
    tellsTime: typeof limit !== 'function',
    open: (snapshot) => {
      const limitOf =
        typeof limit === 'function'
          ? once((value) => limitGiven('limit', value, limit(value, snapshot)))
          : (): Limit => limit;
      const label = (_job: JobFacts, value: string): string =>
        sayGroup(name, by === undefined ? undefined : value);
      return openTallies(
        snapshot,
        { ...counting, limitOf, label, held: lane ? 'hold_lane' : 'hold' },
        memory,
      );
    },
  } satisfies Gate);
}
