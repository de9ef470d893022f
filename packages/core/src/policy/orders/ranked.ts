import { answerOf } from '../answer.ts';
import type { Shape } from '../../options/options.ts';
import { aFlag, aFunction, optional } from '../../options/options.ts';
import { aName, checkPart } from '../check-part.ts';
import { madeWith } from '../made-with.ts';
import { ownPart } from '../own-parts.ts';
import type { Heads, OpenOrder, Order } from '../order.ts';
import type { Candidate, JobFacts, Lane, Snapshot } from '../snapshot.ts';
import { compareText } from '../snapshot.ts';
import { createHeap } from './ranking/heap.ts';

/** Rules of an order by rank. */
export interface Ranking {
  readonly name: string;
  /**
   * Returns the rank of a job. The smallest goes first. `taken`: the number of jobs of its lane that the plan
   * has taken already. Must not be NaN.
   */
  readonly rank: (job: Candidate, snapshot: Snapshot, taken: number) => number;
  /**
   * A job lends its rank to the jobs before it in its lane, which must go first. Otherwise an urgent job
   * would wait for as long as the jobs before it do. With this flag, `rank` is called once for every visible
   * job, with `taken` 0. Default false.
   */
  readonly lends?: boolean;
  readonly outranks?: (job: JobFacts, other: JobFacts, nowMs: number) => boolean;
}

const shape: Shape<Ranking> = {
  name: aName,
  rank: aFunction,
  lends: optional(aFlag),
  outranks: optional(aFunction),
};

/**
 * Orders lanes by the rank of their head, the smallest first. Among equal ranks, the job enqueued first goes
 * first. The order keeps no state.
 * @throws {PgQueueError} `configuration`
 */
export function ranked(ranking: Ranking): Order {
  checkPart('order', 'ranked', { options: ranking, shape });
  const { name, outranks } = ranking;
  return madeWith(ranking, {
    name,
    ...(outranks === undefined ? {} : { outranks }),
    open: (snapshot, _state, heads) => openRanked(ranking, snapshot, heads),
  } satisfies Order);
}

interface RankedLane {
  readonly lane: Lane;
  readonly head: Candidate;
  readonly rank: number;
  readonly taken: number;
}

function before(a: RankedLane, b: RankedLane): boolean {
  if (a.rank !== b.rank) return a.rank < b.rank;
  return a.head.seq !== b.head.seq ? a.head.seq < b.head.seq : compareText(a.head.id, b.head.id) < 0;
}

/** Checks each rank. @throws {Error} for a rank that is no number, which would leave the order to chance */
function checked({ name, rank }: Ranking, snapshot: Snapshot): (job: Candidate, taken: number) => number {
  return (job, taken) => {
    const value = answerOf('rank', rank(job, snapshot, taken));
    if (typeof value === 'number' && !Number.isNaN(value)) return value;
    throw new Error(`order ${name} has no number for job ${job.id}`);
  };
}

/** Opens a ranking for one plan. */
export function openRanked(ranking: Ranking, snapshot: Snapshot, heads: Heads): OpenOrder {
  const rank = checked(ranking, snapshot);
  const lent = ranking.lends === true ? lending(rank) : undefined;
  const entryOf = (lane: Lane, taken: number): RankedLane | undefined => {
    const head = heads.of(lane);
    if (head === undefined) return undefined;
    return { lane, head, taken, rank: lent?.(lane, head) ?? rank(head, taken) };
  };
  const heap = createHeap(
    heads.lanes().flatMap((lane) => entryOf(lane, 0) ?? []),
    before,
  );
  const moved = (lane: Lane, more: number): void => {
    const top = heap.peek();
    // another lane's job went, or the lane is not on top: its entry is updated when it comes up
    if (top?.lane !== lane) return;
    const entry = entryOf(lane, top.taken + more);
    if (entry === undefined) heap.pop();
    else heap.replace(entry);
  };
  return {
    next: () => {
      for (;;) {
        const top = heap.peek();
        if (top === undefined || heads.of(top.lane) === top.head) return top?.lane;
        moved(top.lane, 0);
      }
    },
    taken: (lane) => moved(lane, 1),
    passed: (lane) => moved(lane, 0),
  };
}

/**
 * Returns a function that gives the smallest rank of a lane's head and of all jobs behind it. Undefined: the
 * lane has a single visible job, which lends to no other.
 */
function lending(
  rank: (job: Candidate, taken: number) => number,
): (lane: Lane, head: Candidate) => number | undefined {
  const lanes = new Map<Lane, ReadonlyMap<Candidate, number>>();
  const smallest = (lane: Lane): ReadonlyMap<Candidate, number> => {
    const ranks = new Map<Candidate, number>();
    let least = Infinity;
    for (const job of lane.jobs.toReversed()) {
      least = Math.min(least, rank(job, 0));
      ranks.set(job, least);
    }
    return ranks;
  };
  return (lane, head) => {
    if (lane.jobs.length === 1) return undefined;
    const ranks = lanes.get(lane) ?? smallest(lane);
    lanes.set(lane, ranks);
    return ranks.get(head);
  };
}

/** Orders jobs strictly by enqueuing, over all keys. */
export function fifo(): Order {
  return ownPart(ranked({ name: 'fifo', rank: ({ seq }) => seq, outranks: () => false }));
}

/**
 * Takes one job of each key in turn, the longest waiting first. A failed policy falls back to this order. It
 * keeps no state, so it can't fail.
 */
export function turns(): Order {
  return ownPart(ranked({ name: 'turns', rank: (_job, _snapshot, taken) => taken }));
}
