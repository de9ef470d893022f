import type { Gate, Judged } from '../gate.ts';
import type { AskGroup, Kind, LaneKinds, Names, Standing, Telling } from './kinds.ts';
import { kindsOf, onlyKind } from './kinds.ts';
import type { Candidate, Lane } from '../snapshot.ts';

/**
 * Remembers from one plan to the next which waiting jobs are alike, and where they wait. Most lanes stay the
 * same: a plan looks only at those that have changed, and asks about each kind once, however many lanes it
 * waits in. The memory follows from jobs and gates alone, so a plan depends on its snapshot and state only. A
 * plan can be aborted anywhere: of a half-done update, only what was found out about each list of jobs is kept. So a
 * first plan that is too long for its time goes on where it was, however often it is aborted.
 */
export interface KindMemory {
  /** Begins a plan. `telling`: indexes of the gates whose groups count in it. */
  readonly begin: (lanes: readonly Lane[], telling: readonly number[], ask: AskGroup) => KindsOfPlan;
}

export interface KindsOfPlan {
  /** Number of this plan. */
  readonly plan: number;
  /** Kinds that are the only one of some lane. */
  readonly kinds: ReadonlySet<Kind>;
  /** Lanes with several kinds, or with jobs whose kind could not be told. */
  readonly mixed: ReadonlySet<Standing>;
  /** Lanes by their index in the snapshot. */
  readonly stands: readonly Standing[];
  readonly of: (lane: Lane) => LaneKinds | undefined;
  /** Records the verdict that holds a whole kind. Undefined: its jobs may go. */
  readonly judge: (kind: Kind, judged: Judged | undefined) => void;
  /**
   * Returns the kinds that can't go, once all kinds are judged. The map is never changed. It is the same as
   * in the last plan when no verdict differs.
   */
  readonly closed: () => ReadonlyMap<Kind, Judged>;
}

/** Lower bound of the limit on remembered groups and kinds, including those without waiting jobs. */
const namesMin = 50_000;
/** Limit before a first update is done. */
const namesUndone = 1_000_000;

interface KindState {
  readonly telling: readonly number[];
  readonly names: Names;
  readonly byJobs: WeakMap<readonly Candidate[], LaneKinds>;
  readonly kinds: Set<Kind>;
  readonly mixed: Set<Standing>;
  readonly stands: Standing[];
  /** Kinds that could not go in the last plan that returned them, which has the number `closedIn`. */
  closed: ReadonlyMap<Kind, Judged>;
  closedIn: number;
  /** Lanes of the last plan. */
  lanes: readonly Lane[];
  /** Limit on remembered groups and kinds. Above it, the memory starts empty. */
  namesMax: number;
}

/** Creates the memory of a policy's kinds. Null: no gate tells groups. */
export function createKinds(gates: readonly Gate[]): KindMemory | null {
  if (gates.every(({ groups }) => groups === undefined)) return null;
  const ofLane = new Set(gates.flatMap(({ groups }, at) => (groups?.lane === true ? [at] : [])));
  let plan = 0;
  let memory: KindState | undefined;
  let done = false;
  return {
    begin: (lanes, telling, ask) => {
      plan += 1;
      const before = memory;
      const kept = done && before !== undefined && serves(before, telling);
      done = false;
      const now = kept ? before : emptied(before, telling);
      memory = now;
      const byLane = telling.filter((gate) => ofLane.has(gate));
      const byJob = telling.filter((gate) => !ofLane.has(gate));
      update(now, lanes, { byLane, byJob, ask });
      if (!kept) now.namesMax = Math.max(namesMin, 4 * sizeOf(now.names));
      done = true;
      const { byJobs, kinds, mixed, stands } = now;
      return { plan, kinds, mixed, stands, of: ({ jobs }) => byJobs.get(jobs), ...judging(now, plan) };
    },
  };
}

function empty(telling: readonly number[]): KindState {
  return {
    telling,
    names: { groups: [], kinds: new Map() },
    byJobs: new WeakMap(),
    kinds: new Set(),
    mixed: new Set(),
    stands: [],
    closed: new Map(),
    closedIn: -1,
    lanes: [],
    namesMax: namesUndone,
  };
}

/** Returns a state without lanes. It knows the kinds of an update that was aborted. */
function emptied(before: KindState | undefined, telling: readonly number[]): KindState {
  if (before === undefined || !serves(before, telling)) return empty(telling);
  const { byJobs, names } = before;
  for (const kind of before.kinds) {
    kind.stands.clear();
    [kind.first, kind.jobs] = [undefined, 0];
  }
  return { ...empty(telling), byJobs, names };
}

function judging(memory: KindState, plan: number): Pick<KindsOfPlan, 'judge' | 'closed'> {
  const { kinds, closedIn } = memory;
  let [closed, other] = [0, false];
  return {
    judge: (kind, judged) => {
      if (judged !== undefined) closed += 1;
      if (kind.judgedIn !== closedIn || kind.judged !== judged) other = true;
      [kind.judged, kind.judgedIn] = [judged, plan];
    },
    closed: () => {
      if (other || closed !== memory.closed.size) {
        const now = new Map<Kind, Judged>();
        for (const kind of kinds) if (kind.judged !== undefined) now.set(kind, kind.judged);
        memory.closed = now;
      }
      memory.closedIn = plan;
      return memory.closed;
    },
  };
}

function serves({ telling: before, names, namesMax }: KindState, telling: readonly number[]): boolean {
  const same = before.length === telling.length && before.every((gate, at) => gate === telling[at]);
  return same && sizeOf(names) <= namesMax;
}

function sizeOf({ groups, kinds }: Names): number {
  let size = kinds.size;
  for (const own of groups) size += (own as typeof own | undefined)?.size ?? 0;
  return size;
}

/** Updates the memory for the lanes that have changed. */
function update(memory: KindState, lanes: readonly Lane[], telling: Telling): void {
  const { stands, lanes: before } = memory;
  // index loop: an iterator of a frozen list allocates an object per step
  for (let slot = 0; slot < lanes.length; slot += 1) {
    const lane = lanes[slot];
    if (lane === undefined || before[slot] === lane) continue;
    const was = stands[slot];
    if (was !== undefined && was.own.jobs === lane.jobs) was.lane = lane;
    else {
      if (was !== undefined) leave(memory, was);
      stands[slot] = enter(memory, { lane, slot, own: find(memory, lane, { was, telling }) });
    }
  }
  for (let slot = lanes.length; slot < stands.length; slot += 1) {
    const gone = stands[slot];
    if (gone !== undefined) leave(memory, gone);
  }
  stands.length = lanes.length;
  // a copy, since the caller may change the list
  memory.lanes = lanes.slice();
}

function find(
  { byJobs, names }: KindState,
  lane: Lane,
  { was, telling }: { readonly was: Standing | undefined; readonly telling: Telling },
): LaneKinds {
  const known = byJobs.get(lane.jobs);
  // what a gate could not tell, since it failed or was left out for a while, is asked anew
  if (known?.kinds.every(({ alone }) => !alone) === true) return known;
  const same = was?.lane.key === lane.key && was.lane.queue === lane.queue;
  const found = kindsOf(lane, same ? was.own : undefined, { ...telling, names });
  byJobs.set(lane.jobs, found);
  return found;
}

function enter({ kinds, mixed }: KindState, at: Omit<Standing, 'openIn'>): Standing {
  const standing: Standing = { ...at, openIn: -1 };
  const kind = onlyKind(standing.own);
  if (kind === undefined) {
    mixed.add(standing);
    return standing;
  }
  // first, because what is in `kinds` is emptied when this is aborted
  kinds.add(kind);
  kind.stands.add(standing);
  kind.first ??= standing;
  kind.jobs += standing.own.counts[0] ?? 0;
  return standing;
}

function leave({ kinds, mixed, names }: KindState, standing: Standing): void {
  mixed.delete(standing);
  const kind = onlyKind(standing.own);
  if (kind === undefined) return;
  kind.stands.delete(standing);
  kind.jobs -= standing.own.counts[0] ?? 0;
  if (kind.first !== standing) return;
  [kind.first] = kind.stands;
  if (kind.first !== undefined) return;
  kinds.delete(kind);
  // a lane that returns with an old list of jobs may bring its kind back, next to a newer kind of that name
  if (names.kinds.get(kind.name) === kind) names.kinds.delete(kind.name);
}
