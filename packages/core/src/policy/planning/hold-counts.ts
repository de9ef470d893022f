import type { MovingHeads } from './lane-heads.ts';
import type { ClosedLanes, HeldCounts, Holds } from '../plan.ts';
import { noneClosed } from '../plan.ts';
import type { Candidate, Lane } from '../snapshot.ts';
import { compareText, laneName } from '../snapshot.ts';

/** Counts the jobs that a plan holds, by queue and reason. */
export interface HoldCounts {
  /** Counts one job. `more`: hidden jobs of its kind, which are held too. */
  readonly job: (job: Candidate, reason: string, more?: number) => void;
  readonly count: (queue: string, reason: string, jobs: number) => void;
  /** Sets the lanes that are held from the beginning. Their jobs are counted by {@link HoldCounts.count}. */
  readonly closed: (lanes: ClosedLanes) => void;
  readonly lane: (lane: Lane, reason: string, jobs: number) => void;
  /**
   * Counts the jobs of these lanes that were neither counted before nor dispatched. A queue for which
   * `reasonOf` returns undefined is left out.
   */
  readonly rest: (
    all: readonly Lane[],
    heads: MovingHeads,
    reasonOf: (queue: string) => string | undefined,
  ) => void;
  readonly counts: () => HeldCounts;
  readonly holds: () => Holds;
}

export function countHeld(): HoldCounts {
  const counts = new Map<string, Map<string, number>>();
  const reasons = new Map<string, string>();
  const lanes = new Map<string, string>();
  let closed = noneClosed;
  const add = (queue: string, reason: string, jobs: number): void => {
    if (jobs === 0) return;
    const own = counts.get(queue) ?? new Map<string, number>();
    counts.set(queue, own.set(reason, (own.get(reason) ?? 0) + jobs));
  };
  return {
    job: ({ id, queue }, reason, more = 0) => {
      reasons.set(id, reason);
      add(queue, reason, 1 + more);
    },
    count: add,
    closed: (own) => {
      closed = own;
    },
    lane: (lane, reason, jobs) => {
      // without a free slot every lane is held, so the reason of a single lane tells nothing
      if (reason !== 'no_free_slot') lanes.set(laneName(lane), reason);
      add(lane.queue, reason, jobs);
    },
    rest: (all, heads, reasonOf) => {
      const jobs = new Map<string, number>();
      let [queue, sum] = ['', 0];
      const close = (): void => {
        if (sum > 0) jobs.set(queue, (jobs.get(queue) ?? 0) + sum);
      };
      // index loop: an iterator of a frozen list allocates an object per step
      for (let at = 0; at < all.length; at += 1) {
        const lane = all[at];
        if (lane === undefined) continue;
        if (lane.queue !== queue) {
          close();
          [queue, sum] = [lane.queue, 0];
        }
        sum += lane.jobs.length;
      }
      close();
      for (const lane of heads.touched()) {
        const went = lane.jobs.length - heads.left(lane);
        jobs.set(lane.queue, (jobs.get(lane.queue) ?? 0) - went);
      }
      for (const [name, left] of jobs) {
        const reason = reasonOf(name);
        if (reason !== undefined) add(name, reason, left);
      }
    },
    counts: () => byName(counts, (own) => byName(own, (count) => count)),
    holds: () => ({ jobs: reasons, lanes, closed }),
  };
}

/** Lists the reasons of all held jobs and lanes. */
export function reasonsOf({ jobs, lanes, closed }: Holds): {
  readonly reasons: ReadonlyMap<string, string>;
  readonly laneReasons: ReadonlyMap<string, string>;
} {
  const [reasons, laneReasons] = [new Map(jobs), new Map(lanes)];
  for (const { lane, gate, reasonOf } of closed.all()) {
    if (gate !== null) laneReasons.set(laneName(lane), gate);
    else lane.jobs.forEach(({ id }, place) => reasons.set(id, reasonOf(place)));
  }
  return { reasons, laneReasons };
}

function byName<Value, Result>(
  values: ReadonlyMap<string, Value>,
  of: (value: Value) => Result,
): Readonly<Record<string, Result>> {
  return Object.fromEntries(
    [...values].toSorted(([a], [b]) => compareText(a, b)).map(([name, value]) => [name, of(value)] as const),
  );
}
