import type { Shape } from '../../options/options.ts';
import { aFlag, aFunction, optional } from '../../options/options.ts';
import { aName, checkPart } from '../check-part.ts';
import type { Gate } from '../gate.ts';
import type { JobFacts, Snapshot } from '../snapshot.ts';
import type { Cost, GroupBy, Limit } from './lib/group.ts';
import { aLimit, alike, costsOf, groupOf, nameProblems, once } from './lib/group.ts';
import { openTallies } from './lib/tallies.ts';
import type { Counting } from './lib/use.ts';
import { rememberUse } from './lib/use.ts';
import { sayGroup } from './lib/format.ts';

/** What is counted, and how many may be in flight: see {@link concurrency}. */
export interface ConcurrencyOptions {
  /** What is limited, as reasons call it: `tenant` gives `tenant acme has 5 of 5 in flight`. */
  readonly name: string;
  /** Each of its values has a limit of its own, over all queues. Default: all jobs count together. */
  readonly by?: GroupBy;
  /** The most that may be in flight of each value; null: no limit. Asked once a plan. */
  readonly limit: Limit | ((value: string, snapshot: Snapshot) => Limit | null);
  /** What a job takes of it while it is in flight. Default: 1. Must not depend on what changes meanwhile. */
  readonly cost?: (job: JobFacts) => Cost;
  /** A promise that `by` and `cost` depend on the job's queue and key only: then the rest of a key need not be asked about. */
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
 * Limits how many jobs, or how much of what they take, are in flight at once: scheduled, or running. Exact: a plan counts every
 * work item there is, and what it takes itself. Jobs that one handler call takes together count once for each value, with
 * the most that one of them takes.
 *
 * Where `by` or `cost` fails, nothing goes beyond the limit for it: a waiting job is held; one in flight counts for every value, or, where
 * its cost is not known, fills its value until it ends.
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
  return {
    name,
    onError: 'hold',
    groups: alike(options),
    tellsTime: typeof limit !== 'function',
    open: (snapshot) => {
      const limitOf =
        typeof limit === 'function' ? once((value) => limit(value, snapshot)) : (): Limit => limit;
      const label = (_job: JobFacts, value: string): string =>
        sayGroup(name, by === undefined ? undefined : value);
      return openTallies(
        snapshot,
        { ...counting, limitOf, label, held: lane ? 'hold_lane' : 'hold' },
        memory,
      );
    },
  };
}
