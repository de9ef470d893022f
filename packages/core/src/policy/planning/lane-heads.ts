import type { Heads } from '../order.ts';
import type { Candidate, Lane } from '../snapshot.ts';
import { own } from '../snapshot.ts';

/** Position of each lane during one plan. */
export interface MovingHeads extends Heads {
  readonly take: (lane: Lane, job: Candidate) => void;
  /** Passes over the head of the lane in this plan. */
  readonly pass: (lane: Lane) => void;
  /** Leaves the rest of the lane out of this plan. */
  readonly close: (lane: Lane) => void;
  /** Passes over jobs from the head on, while `leaves` returns true for the job and its index in the lane. */
  readonly skip: (lane: Lane, leaves: (job: Candidate, place: number) => boolean) => void;
  /** Index of the head in its lane. */
  readonly place: (lane: Lane) => number;
  /** The head and the jobs behind it. */
  readonly rest: (lane: Lane) => readonly Candidate[];
  readonly left: (lane: Lane) => number;
  /** Lanes of which a job went or was passed over. All jobs of other lanes are left. */
  readonly touched: () => Iterable<Lane>;
  /** Reports whether the head stands for hidden jobs: all shown jobs of the lane, or of a kind, went. */
  readonly unknown: (lane: Lane) => boolean;
  /** Gives up the hidden jobs, which can't go. The next shown job becomes the head. */
  readonly settle: (lane: Lane) => void;
}

/** State of the lanes during one plan. */
interface Places {
  /** Index of the head, for lanes that are not at their first job. */
  readonly at: Map<Lane, number>;
  /** Jobs that went from behind the head, as further members of a bundle. */
  readonly gone: Set<Candidate>;
  readonly goneFrom: Set<Lane>;
  /**
   * Last job that went, for lanes with hidden jobs. The hidden job that follows is assumed to be like it, as
   * long as no lane's turn depends on that.
   */
  readonly last: Map<Lane, Candidate>;
}

/** Creates the heads of all lanes. `open`: the lanes of which something may go; all others have no head. */
export function createHeads(all: readonly Lane[], open: readonly Lane[] = all): MovingHeads {
  const places: Places = { at: new Map(), gone: new Set(), goneFrom: new Set(), last: new Map() };
  const { at, gone, goneFrom, last } = places;
  // an order that goes through the open lanes only never asks about another lane
  let listed = open.length === all.length;
  let isOpen: ReadonlySet<Lane> | undefined;
  const of = (lane: Lane): Candidate | undefined =>
    listed || (isOpen ??= new Set(open)).has(lane) ? (last.get(lane) ?? known(places, lane)) : undefined;
  const pass = (lane: Lane): void => {
    if (known(places, lane) !== undefined) at.set(lane, (at.get(lane) ?? 0) + 1);
  };
  const rest = (lane: Lane): readonly Candidate[] => {
    const jobs = lane.jobs.slice(at.get(lane) ?? 0);
    return gone.size === 0 ? jobs : jobs.filter((job) => !gone.has(job));
  };
  return {
    of,
    lanes: () => {
      listed = true;
      return open;
    },
    pass,
    take: (lane, job) => {
      if (known(places, lane) === job) pass(lane);
      else {
        gone.add(job);
        goneFrom.add(lane);
      }
      const missing =
        lane.unseen === undefined
          ? lane.more && known(places, lane) === undefined
          : own(lane.unseen, job.id) !== undefined;
      if (missing) last.set(lane, job);
    },
    close: (lane) => {
      at.set(lane, lane.jobs.length);
      last.delete(lane);
    },
    skip: (lane, leaves) => {
      let place = at.get(lane) ?? 0;
      for (; place < lane.jobs.length; place += 1) {
        const job = lane.jobs[place];
        if (job !== undefined && !gone.has(job) && !leaves(job, place)) break;
      }
      at.set(lane, place);
    },
    place: (lane) => {
      known(places, lane);
      return at.get(lane) ?? 0;
    },
    unknown: (lane) => last.has(lane),
    settle: (lane) => void last.delete(lane),
    rest,
    touched: () => (gone.size === 0 ? at.keys() : new Set([...at.keys(), ...goneFrom])),
    left: (lane) => (gone.size === 0 ? lane.jobs.length - (at.get(lane) ?? 0) : rest(lane).length),
  };
}

/** Returns the first shown job of a lane that has not gone. */
function known({ at, gone }: Places, lane: Lane): Candidate | undefined {
  // fast path: an order looks at every lane before the first job goes
  if (at.size === 0 && gone.size === 0) return lane.jobs[0];
  let place = at.get(lane) ?? 0;
  let job = lane.jobs[place];
  if (job === undefined || gone.size === 0) return job;
  while (job !== undefined && gone.has(job)) {
    place += 1;
    job = lane.jobs[place];
  }
  at.set(lane, place);
  return job;
}
