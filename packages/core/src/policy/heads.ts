import type { Heads } from './order.ts';
import type { Candidate, Lane } from './snapshot.ts';

/** Where each lane stands during one plan. */
export interface MovingHeads extends Heads {
  readonly take: (lane: Lane, job: Candidate) => void;
  /** Leaves the head out of this plan. */
  readonly pass: (lane: Lane) => void;
  /** Leaves the rest of the lane out of this plan. */
  readonly close: (lane: Lane) => void;
  /** The head and what is behind it. */
  readonly rest: (lane: Lane) => readonly Candidate[];
  readonly left: (lane: Lane) => number;
  /** Lanes of which something went, or was left out: of all others everything is left. */
  readonly touched: () => Iterable<Lane>;
  /** Whether the head stands for jobs that wait and are not known: all that were known of the lane went. */
  readonly unknown: (lane: Lane) => boolean;
}

export function createHeads(): MovingHeads {
  const places = new Map<Lane, number>();
  // jobs that went from behind the head: the others of a bundle
  const gone = new Set<Candidate>();
  const goneFrom = new Set<Lane>();
  // the last job that went, of lanes of which more wait: what comes next is taken to be like it, as long as no lane's turn depends on it
  const last = new Map<Lane, Candidate>();
  const known = (lane: Lane): Candidate | undefined => {
    // an order looks at every lane before the first job goes
    if (places.size === 0 && gone.size === 0) return lane.jobs[0];
    let place = places.get(lane) ?? 0;
    let job = lane.jobs[place];
    if (job === undefined || gone.size === 0) return job;
    while (job !== undefined && gone.has(job)) {
      place += 1;
      job = lane.jobs[place];
    }
    places.set(lane, place);
    return job;
  };
  const of = (lane: Lane): Candidate | undefined => known(lane) ?? last.get(lane);
  const pass = (lane: Lane): void => {
    if (known(lane) !== undefined) places.set(lane, (places.get(lane) ?? 0) + 1);
  };
  const rest = (lane: Lane): readonly Candidate[] => {
    const jobs = lane.jobs.slice(places.get(lane) ?? 0);
    return gone.size === 0 ? jobs : jobs.filter((job) => !gone.has(job));
  };
  return {
    of,
    pass,
    take: (lane, job) => {
      if (known(lane) === job) pass(lane);
      else {
        gone.add(job);
        goneFrom.add(lane);
      }
      if (lane.more && known(lane) === undefined) last.set(lane, job);
    },
    close: (lane) => {
      places.set(lane, lane.jobs.length);
      last.delete(lane);
    },
    unknown: (lane) => known(lane) === undefined && last.has(lane),
    rest,
    touched: () => (gone.size === 0 ? places.keys() : new Set([...places.keys(), ...goneFrom])),
    left: (lane) => (gone.size === 0 ? lane.jobs.length - (places.get(lane) ?? 0) : rest(lane).length),
  };
}
