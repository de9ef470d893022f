import type { Heads, OpenOrder, Order } from '../order.ts';
import type { Candidate, JobFacts, Lane, Snapshot } from '../snapshot.ts';
import { compareText } from '../snapshot.ts';
import { createHeap } from './heap.ts';

/** What an order by rank is made of. */
export interface Ranking {
  readonly name: string;
  /** Smaller goes first. `taken`: how many jobs of its lane the plan has taken already. Not NaN. */
  readonly rank: (job: Candidate, snapshot: Snapshot, taken: number) => number;
  readonly outranks?: (job: JobFacts, other: JobFacts, nowMs: number) => boolean;
}

/** The lane whose head has the smallest rank goes first; of equal ones, that of the job enqueued first. Keeps no state. */
export function ranked({ name, rank, outranks }: Ranking): Order {
  return {
    name,
    ...(outranks === undefined ? {} : { outranks }),
    open: (snapshot, _state, heads) => openRanked(rank, snapshot, heads),
  };
}

interface Entry {
  readonly lane: Lane;
  readonly head: Candidate;
  readonly rank: number;
  readonly taken: number;
}

function before(a: Entry, b: Entry): boolean {
  if (a.rank !== b.rank) return a.rank < b.rank;
  return a.head.seq !== b.head.seq ? a.head.seq < b.head.seq : compareText(a.head.id, b.head.id) < 0;
}

function openRanked(rank: Ranking['rank'], snapshot: Snapshot, heads: Heads): OpenOrder {
  const entryOf = (lane: Lane, taken: number): Entry | undefined => {
    const head = heads.of(lane);
    return head === undefined ? undefined : { lane, head, taken, rank: rank(head, snapshot, taken) };
  };
  const heap = createHeap(
    snapshot.lanes.flatMap((lane) => entryOf(lane, 0) ?? []),
    before,
  );
  const moved = (lane: Lane, more: number): void => {
    const top = heap.peek();
    // another job than its head went: the lane stays where it is, its entry is made anew when it comes up
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

/** Strictly by the order of enqueuing, over all keys. */
export function fifo(): Order {
  return ranked({ name: 'fifo', rank: ({ seq }) => seq, outranks: () => false });
}

/** One job of each key in turn, the longest waiting first: what a failed policy falls back to. Keeps no state, so it can't fail. */
export function turns(): Order {
  return ranked({ name: 'turns', rank: (_job, _snapshot, taken) => taken });
}
