import type { Gate } from '../gate.ts';
import type { Judged } from '../gate.ts';
import type { ClosedLane } from '../plan.ts';
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

/** Jobs of one lane that the same nodes can run, and that are alike to every gate which tells groups. */
export interface Kind {
  /** By the number of the gate. Null: it does not concern them; undefined: not known yet, or the gate tells no groups. */
  readonly groups: (Group | null | undefined)[];
  /** What they are could not be told: they are asked about one by one. */
  readonly alone: boolean;
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
  /** Those that a gate tells apart, by their groups' names. */
  readonly byName: ReadonlyMap<string, Kind>;
  /** As it was held last: most stay so from plan to plan. */
  closed: { readonly lane: ClosedLane; readonly judged: readonly Judged[] } | null;
}

/** What a gate says of a job: the name of its group, or null; undefined: it failed, or is not to be asked. */
export type AskGroup = (gate: number, job: JobFacts) => string | null | undefined;

/**
 * Knows from one plan to the next which waiting jobs are alike, since most lanes stay as they are: a plan looks at those that have
 * changed. It follows from jobs and gates alone, so a plan depends on its snapshot and state as before. A plan can be broken off
 * anywhere: what is half done is never kept.
 */
export interface KindMemory {
  /** Begins a plan. */
  readonly begin: (lanes: readonly Lane[], ask: AskGroup) => KindsOfPlan;
}

export interface KindsOfPlan {
  /** The number of this plan. */
  readonly plan: number;
  /** Of the lanes, in their order. */
  readonly lanes: readonly LaneKinds[];
  readonly of: (lane: Lane) => LaneKinds | undefined;
  /** The group of a kind to which the job belongs; null: the gate does not concern it; undefined: it can't be told. */
  readonly groupOf: (kind: Kind, gate: number, job: Candidate) => Group | null | undefined;
}

/** Groups that are remembered at least, whether or not jobs of them still wait. */
const groupsMin = 50_000;

interface Memory {
  readonly groups: readonly Map<string, Group>[];
  readonly byJobs: WeakMap<readonly Candidate[], LaneKinds>;
  readonly lanes: readonly Lane[];
  readonly kinds: readonly LaneKinds[];
  /** With more of them it begins anew. */
  readonly groupsMax: number;
}

/** Null: none of the gates tells groups. */
export function createKinds(gates: readonly Gate[]): KindMemory | null {
  if (gates.every(({ groups }) => groups === undefined)) return null;
  const telling = gates.flatMap(({ groups }, at) =>
    groups === undefined || groups.lane === true ? [] : [at],
  );
  const empty = (groupsMax: number): Memory => ({
    groups: gates.map(() => new Map<string, Group>()),
    byJobs: new WeakMap(),
    lanes: [],
    kinds: [],
    groupsMax,
  });
  let plan = 0;
  let memory = empty(groupsMin);
  return {
    begin: (lanes, ask) => {
      plan += 1;
      if (sizeOf(memory) > memory.groupsMax) memory = empty(groupsMin);
      const kinds = lookAt(lanes, memory, { telling, ask });
      const groupsMax =
        memory.lanes.length === 0 ? Math.max(groupsMin, 4 * sizeOf(memory)) : memory.groupsMax;
      memory = { ...memory, lanes, kinds, groupsMax };
      const { byJobs, groups } = memory;
      return {
        plan,
        lanes: kinds,
        of: ({ jobs }) => byJobs.get(jobs),
        groupOf: (kind, gate, job) => {
          const known = kind.groups[gate];
          if (known !== undefined || kind.alone) return known;
          const name = ask(gate, job);
          if (name === undefined) return undefined;
          return (kind.groups[gate] = groupCalled(groups, gate, name));
        },
      };
    },
  };
}

function sizeOf({ groups }: Memory): number {
  let size = 0;
  for (const own of groups) size += own.size;
  return size;
}

function groupCalled(groups: Memory['groups'], gate: number, name: string | null): Group | null {
  if (name === null) return null;
  const known = groups[gate]?.get(name);
  if (known !== undefined) return known;
  const made: Group = { heldIn: -1, askedIn: -1, wholeLane: false };
  groups[gate]?.set(name, made);
  return made;
}

interface Telling {
  /** The gates that tell jobs of one lane apart. */
  readonly telling: readonly number[];
  readonly ask: AskGroup;
}

function lookAt(lanes: readonly Lane[], memory: Memory, asking: Telling): readonly LaneKinds[] {
  const { byJobs } = memory;
  if (
    memory.kinds.length === lanes.length &&
    lanes.every((lane, slot) => memory.kinds[slot]?.jobs === lane.jobs)
  )
    return memory.kinds;
  const kinds: LaneKinds[] = [];
  for (let slot = 0; slot < lanes.length; slot += 1) {
    const lane = lanes[slot];
    if (lane === undefined) continue;
    const before = memory.kinds[slot];
    if (before !== undefined && before.jobs === lane.jobs) {
      kinds.push(before);
      continue;
    }
    let found = byJobs.get(lane.jobs);
    if (found === undefined) {
      const was = memory.lanes[slot];
      const same = was?.key === lane.key && was.queue === lane.queue;
      found = kindsOf(lane, same ? before : undefined, { ...asking, memory });
      byJobs.set(lane.jobs, found);
    }
    kinds.push(found);
  }
  return kinds;
}

const noNames: ReadonlyMap<string, Kind> = new Map();

/** `before`: what was found in the lane's jobs before they changed. */
function kindsOf(
  lane: Lane,
  before: LaneKinds | undefined,
  asking: Telling & { readonly memory: Memory },
): LaneKinds {
  const { jobs, unseen } = lane;
  const [first] = jobs;
  if (first !== undefined && asking.telling.length === 0 && jobs.every((job) => isLike(job, first))) {
    const kind: Kind = { groups: [], alone: false };
    return {
      jobs,
      of: null,
      kinds: [kind],
      firsts: [first],
      counts: [jobs.length],
      byName: noNames,
      closed: null,
    };
  }
  const byName = new Map<string, Kind>();
  const places = new Map<Kind, number>();
  const of: Kind[] = [];
  const [kinds, firsts, counts]: [Kind[], Candidate[], number[]] = [[], [], []];
  const known = knownFrom(before);
  for (const job of jobs) {
    const kind = known(job) ?? tellKind(job, { byName, before, ...asking });
    of.push(kind);
    let place = places.get(kind);
    if (place === undefined) {
      places.set(kind, (place = kinds.push(kind) - 1));
      firsts.push(job);
      counts.push(0);
    }
    counts[place] = (counts[place] ?? 0) + 1 + (unseen === undefined ? 0 : (own(unseen, job.id) ?? 0));
  }
  for (const [name, kind] of before?.byName ?? noNames) if (places.has(kind)) byName.set(name, kind);
  return { jobs, of, kinds, firsts, counts, byName, closed: null };
}

function isLike(job: Candidate, other: Candidate): boolean {
  return job.task === other.task && job.version === other.version;
}

/** So far the lists of a lane's jobs before and after are compared for where they meet again. */
const aheadMax = 8;

/** Finds jobs that were in the list before, asked in their order. */
function knownFrom(before: LaneKinds | undefined): (job: Candidate) => Kind | undefined {
  if (before === undefined || before.of === null) return () => undefined;
  const { jobs, of } = before;
  let at = 0;
  return (job) => {
    for (let place = at; place < at + aheadMax && place < jobs.length; place += 1) {
      if (jobs[place] !== job) continue;
      at = place + 1;
      return of[place];
    }
    return undefined;
  };
}

function tellKind(
  job: Candidate,
  {
    telling,
    ask,
    memory,
    byName,
    before,
  }: Telling & {
    readonly memory: Memory;
    readonly byName: Map<string, Kind>;
    readonly before: LaneKinds | undefined;
  },
): Kind {
  const names: (string | null)[] = [];
  for (const gate of telling) {
    const name = ask(gate, job);
    if (name === undefined) return { groups: [], alone: true };
    names.push(name);
  }
  const { task, version } = job;
  const said = names.map((name) => (name === null ? '-' : `${name.length}:${name}`)).join('');
  const whole = `${said} ${version} ${task}`;
  const known = byName.get(whole) ?? before?.byName.get(whole);
  if (known !== undefined) return known;
  const groups: Kind['groups'] = [];
  telling.forEach((gate, at) => {
    groups[gate] = groupCalled(memory.groups, gate, names[at] ?? null);
  });
  const made: Kind = { groups, alone: false };
  byName.set(whole, made);
  return made;
}
