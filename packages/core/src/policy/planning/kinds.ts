import type { ClosedLane } from '../plan.ts';
import type { Judged } from '../gate.ts';
import type { Candidate, JobFacts, Lane } from '../snapshot.ts';
import { own } from '../snapshot.ts';

/** The jobs of one group of one gate. */
export interface Group {
  /** The number of the plan in which the gate holds it, as far as is known. */
  heldIn: number;
  /** The number of the plan that asked about it when it began. */
  askedIn: number;
  /** Whether it is the rest of a lane, too, that is held. */
  wholeLane: boolean;
}

/** Jobs of one queue that the same nodes can run, and that are alike to every gate which tells groups. */
export interface Kind {
  readonly name: string;
  readonly queue: string;
  /** By the number of the gate. Null: it does not concern them; undefined: the gate tells no groups. */
  readonly groups: readonly (Group | null | undefined)[];
  /** What they are could not be told: they are asked about one by one. */
  readonly alone: boolean;
  /** Lanes in which nothing else waits. */
  readonly stands: Set<Standing>;
  /** One of those. */
  first: Standing | undefined;
  /** How many wait in those. */
  jobs: number;
  /** What was said of it in the plan of that number; undefined: it may go. */
  judged: Judged | undefined;
  judgedIn: number;
}

/** A lane of the snapshot. */
export interface Standing {
  lane: Lane;
  readonly slot: number;
  readonly own: LaneKinds;
  /** The number of the last plan that found something of it open. */
  openIn: number;
}

/** Which jobs of a lane are alike. Made once for each list of jobs, and never changed. */
export interface LaneKinds {
  readonly jobs: readonly Candidate[];
  /** Of each job; null: there is one kind only. */
  readonly of: readonly Kind[] | null;
  readonly kinds: readonly Kind[];
  /** Of each kind: its first job, and how many there are, those that are not shown among them. */
  readonly firsts: readonly Candidate[];
  readonly counts: readonly number[];
  /** As it was held last: most stay so from plan to plan. */
  closed: { readonly lane: ClosedLane; readonly judged: readonly Judged[] } | null;
}

/** What a gate says of a job: the name of its group, or null; undefined: it failed, or is not to be asked. */
export type AskGroup = (gate: number, job: JobFacts) => string | null | undefined;

/** What tells kinds apart. */
export interface Telling {
  /** The gates that are asked, by their numbers: those that look at a job's queue and key only, and the others. */
  readonly byLane: readonly number[];
  readonly byJob: readonly number[];
  readonly ask: AskGroup;
}

/** What is known of groups and kinds, by their names. */
export interface Names {
  /** By the number of the gate. */
  readonly groups: Map<string, Group>[];
  readonly kinds: Map<string, Kind>;
}

/** `before`: what was found in the lane's jobs before they changed. */
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

/** That of all jobs of a lane; undefined: there are several, or it could not be told. */
export function onlyKind({ kinds }: LaneKinds): Kind | undefined {
  const [kind] = kinds;
  return kinds.length === 1 && kind?.alone === false ? kind : undefined;
}

function isLike(job: Candidate, other: Candidate): boolean {
  return job.task === other.task && job.version === other.version;
}

/** So far the lists of a lane's jobs before and after are compared for where they meet again. */
const aheadMax = 8;

/** Finds jobs that were in the list before, asked in their order. */
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

/** Undefined: some gate could not say. */
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
