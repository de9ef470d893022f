import type { ClosedLane } from '../plan.ts';
import type { Judged } from '../gate.ts';
import type { Candidate, JobFacts, Lane } from '../snapshot.ts';
import { own } from '../snapshot.ts';

/** The jobs of one group of one gate (see {@link Gate.groups}). */
export interface Group {
  /** Number of the last plan in which the gate is known to hold the group. */
  heldIn: number;
  /** Number of the last plan that asked about the group at its beginning. */
  askedIn: number;
  /** Set when the gate's verdict was `hold_lane`. */
  wholeLane: boolean;
}

/** Jobs of one queue that the same nodes can run, and that are alike to every gate that tells groups. */
export interface Kind {
  readonly name: string;
  readonly queue: string;
  /**
   * Groups by index of the gate. Null: the gate admits the jobs in any case; undefined: it tells no groups.
   */
  readonly groups: readonly (Group | null | undefined)[];
  /** Set when a gate could not tell the group. The jobs are then judged one by one. */
  readonly alone: boolean;
  /** Lanes in which only jobs of this kind wait. */
  readonly stands: Set<Standing>;
  /** One of the lanes in `stands`. */
  first: Standing | undefined;
  /** Number of jobs in the lanes of `stands`. */
  jobs: number;
  /** Verdict of the plan with the number `judgedIn`. Undefined: the jobs may go. */
  judged: Judged | undefined;
  judgedIn: number;
}

/** A lane of the snapshot, with its index there. */
export interface Standing {
  lane: Lane;
  readonly slot: number;
  readonly own: LaneKinds;
  /** Number of the last plan that found some kind of its jobs open. */
  openIn: number;
}

/** Kinds of a lane's jobs. Made once for each list of jobs. Only `closed` changes later. */
export interface LaneKinds {
  readonly jobs: readonly Candidate[];
  /** Kind of each job. Null: all jobs are of one kind. */
  readonly of: readonly Kind[] | null;
  readonly kinds: readonly Kind[];
  /** First job of each kind (`firsts`), and the number of its jobs, including hidden ones (`counts`). */
  readonly firsts: readonly Candidate[];
  readonly counts: readonly number[];
  /** The lane as it was held last, for reuse: most lanes stay the same from plan to plan. */
  closed: { readonly lane: ClosedLane; readonly judged: readonly Judged[] } | null;
}

/** Returns the name of a job's group, or null. Undefined: the gate failed, or must not be asked. */
export type AskGroup = (gate: number, job: JobFacts) => string | null | undefined;

/** Gates that tell kinds apart. */
export interface Telling {
  /** Indexes of these gates: `byLane` look at a job's queue and key only, `byJob` at more. */
  readonly byLane: readonly number[];
  readonly byJob: readonly number[];
  readonly ask: AskGroup;
}

/** Known groups and kinds, by name. */
export interface Names {
  /** By index of the gate. */
  readonly groups: Map<string, Group>[];
  readonly kinds: Map<string, Kind>;
}

/** Returns the kinds of a lane's jobs. `before`: kinds of the same lane before its jobs changed. */
export function kindsOf(
  { queue, jobs, unseen }: Lane,
  before: LaneKinds | undefined,
  asking: Telling & { readonly names: Names },
): LaneKinds {
  const [first] = jobs;
  const tell = createTell(queue, first, asking);
  if (first !== undefined && asking.byJob.length === 0 && jobs.every((job) => isLike(job, first)))
    return { jobs, of: null, kinds: [tell(first)], firsts: [first], counts: [jobs.length], closed: null };
  const places = new Map<Kind, number>();
  const of: Kind[] = [];
  const [kinds, firsts, counts]: [Kind[], Candidate[], number[]] = [[], [], []];
  const known = knownFrom(before);
  for (const job of jobs) {
    const kind = known(job) ?? tell(job);
    of.push(kind);
    let place = places.get(kind);
    if (place === undefined) {
      places.set(kind, (place = kinds.push(kind) - 1));
      firsts.push(job);
      counts.push(0);
    }
    counts[place] = (counts[place] ?? 0) + 1 + (unseen === undefined ? 0 : (own(unseen, job.id) ?? 0));
  }
  return { jobs, of: kinds.length === 1 ? null : of, kinds, firsts, counts, closed: null };
}

/** Returns the kind that all jobs of a lane have. Undefined: there are several, or it could not be told. */
export function onlyKind({ kinds }: LaneKinds): Kind | undefined {
  const [kind] = kinds;
  return kinds.length === 1 && kind?.alone === false ? kind : undefined;
}

function isLike(job: Candidate, other: Candidate): boolean {
  return job.task === other.task && job.version === other.version;
}

/** Number of old jobs that are searched for each new one when the two lists of a lane are compared. */
const aheadMax = 8;

/**
 * Returns a function that finds the kinds of jobs of the old list. It must be asked in the order of the lane.
 */
function knownFrom(before: LaneKinds | undefined): (job: Candidate) => Kind | undefined {
  if (before === undefined) return () => undefined;
  const { jobs, of, kinds } = before;
  let at = 0;
  return (job) => {
    for (let place = at; place < at + aheadMax && place < jobs.length; place += 1) {
      if (jobs[place] !== job) continue;
      at = place + 1;
      return of === null ? kinds[0] : of[place];
    }
    return undefined;
  };
}

function createTell(
  queue: string,
  first: Candidate | undefined,
  { byLane, byJob, ask, names }: Telling & { readonly names: Names },
): (job: Candidate) => Kind {
  const ofLane = first === undefined ? [] : byLane.map((gate) => ask(gate, first));
  return (job) => {
    const said = [...ofLane, ...byJob.map((gate) => ask(gate, job))];
    const name = nameOf(queue, job, said);
    if (name === undefined) return newKind({ name: '', queue, groups: [], alone: true });
    const known = names.kinds.get(name);
    if (known !== undefined) return known;
    const groups: (Group | null)[] = [];
    [...byLane, ...byJob].forEach((gate, at) => {
      groups[gate] = groupCalled(names.groups, gate, said[at] ?? null);
    });
    const made = newKind({ name, queue, groups, alone: false });
    names.kinds.set(name, made);
    return made;
  };
}

/** Returns a name that is unique for the kind. Undefined: a gate could not tell the group. */
function nameOf(
  queue: string,
  { task, version }: Candidate,
  said: readonly (string | null | undefined)[],
): string | undefined {
  let name = `${queue.length}:${queue}`;
  for (const group of said) {
    if (group === undefined) return undefined;
    name += group === null ? '-' : `${group.length}:${group}`;
  }
  return `${name} ${version} ${task}`;
}

function newKind(kind: Pick<Kind, 'name' | 'queue' | 'groups' | 'alone'>): Kind {
  return { ...kind, stands: new Set(), first: undefined, jobs: 0, judged: undefined, judgedIn: -1 };
}

function groupCalled(groups: Names['groups'], gate: number, name: string | null): Group | null {
  if (name === null) return null;
  const own = (groups[gate] ??= new Map<string, Group>());
  const known = own.get(name);
  if (known !== undefined) return known;
  const made: Group = { heldIn: -1, askedIn: -1, wholeLane: false };
  own.set(name, made);
  return made;
}
