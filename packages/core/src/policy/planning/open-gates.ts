import type { Judged } from '../gate.ts';
import type { Json } from '../../job/job.ts';
import type { Gate, OpenGate, Verdict } from '../gate.ts';
import { unlimited } from '../gates/state/unlimited.ts';
import type { AskGroup, Group, Kind } from './kinds.ts';
import type { KindMemory, KindsOfPlan } from './kind-memory.ts';
import type { PolicyFault } from '../plan.ts';
import type { Hold, Watch } from '../policy.ts';
import type { PolicyState } from '../plan.ts';
import type { Candidate, Lane, Snapshot } from '../snapshot.ts';

/** Gates of a policy during one plan. Their errors are caught. */
export interface OpenGates {
  /**
   * Returns the verdict of the first gate that holds the job. `kind`: the job's kind, when gates tell groups.
   * A gate that is known to hold the kind's group is not asked again.
   */
  readonly judge: (job: Candidate, lane: Lane, member: boolean, kind?: Kind) => Judged;
  /** Kinds of jobs that are alike to the gates. Null: no gate tells groups. */
  readonly kinds: KindsOfPlan | null;
  /**
   * Returns, when the plan begins, the verdict that holds a whole kind. Undefined: jobs of the kind may go.
   */
  readonly closes: (lane: Lane, kind: Kind, first: Candidate) => Judged | undefined;
  /** Returns the verdict that is known to hold a whole kind. Asks no gate. */
  readonly closed: (kind: Kind) => Judged | undefined;
  readonly take: (job: Candidate, lane: Lane, member: boolean) => void;
  /** Returns the holds of all gates that hold the job. */
  readonly why: (job: Candidate, lane: Lane) => readonly Hold[];
  /** Earliest {@link OpenGate.nextMs} of all gates. */
  readonly nextMs: () => number | null;
  readonly unread: () => readonly Lane[];
  /** States after the plan, by the gate's name. */
  readonly states: () => PolicyState;
}

interface GateEntry {
  readonly gate: Gate;
  /** Index of the gate. */
  readonly at: number;
  readonly open: OpenGate;
  /** Verdict on a group that the gate holds. */
  readonly holds: Judged;
  readonly holdsLane: Judged;
  /** Set when the gate failed in `open` or `take`: its later answers may be wrong. */
  broken: boolean;
}

interface Opening {
  readonly snapshot: Snapshot;
  readonly state: PolicyState;
  readonly faults: PolicyFault[];
  readonly watch?: Watch | undefined;
  /** Memory of kinds, when jobs of one kind are judged together. */
  readonly kinds?: KindMemory | null;
}

const admitted = { verdict: 'admit', gate: '' } as const;
const verdicts: ReadonlySet<unknown> = new Set<Verdict>(['admit', 'hold', 'hold_lane']);

/** Opens the gates for one plan. Failures are added to `faults`, and treated by each gate's `onError`. */
export function openGates(
  gates: readonly Gate[],
  snapshot: Snapshot,
  options: Omit<Opening, 'snapshot'>,
): OpenGates {
  const asking = startAsking(options);
  const entries = gates.map((gate, at) => openOne({ gate, at }, { ...options, snapshot }, asking));
  const telling = entries.flatMap(({ gate, open, at }) =>
    gate.groups !== undefined && open !== unlimited ? [at] : [],
  );
  const tells = telling.length > 0;
  const kinds =
    (tells ? options.kinds?.begin(snapshot.lanes, telling, askGroups(gates, asking)) : null) ?? null;
  return {
    kinds,
    ...judging({ entries, asking, kinds }),
    take: (job, lane, member) => {
      for (const entry of entries) {
        if (entry.open.take === undefined || entry.broken) continue;
        const told = asking.attempt(entry.gate, job, () => {
          entry.open.take?.(job, lane, member);
          return true;
        });
        if (told === undefined) entry.broken = true;
      }
    },
    ...conclusions(entries, asking),
  };
}

interface Judging {
  readonly entries: readonly GateEntry[];
  readonly asking: Asking;
  readonly kinds: KindsOfPlan | null;
}

function judging(all: Judging): Pick<OpenGates, 'judge' | 'why' | 'closes' | 'closed'> {
  const { entries, asking, kinds } = all;
  // a gate that is asked about every job decides before the gates behind it do
  const ungrouped = entries.findIndex(({ gate, open }) => gate.groups === undefined && open !== unlimited);
  const leading = (ungrouped < 0 ? entries : entries.slice(0, ungrouped)).filter(
    ({ open }) => open !== unlimited,
  );
  const plan = kinds?.plan ?? -1;
  return {
    judge: (job, lane, member, kind) => {
      for (let at = 0; at < entries.length; at += 1) {
        const entry = entries[at];
        if (entry === undefined || entry.open === unlimited) continue;
        const group = member ? undefined : kind?.groups[at];
        if (group === null) continue;
        if (group?.heldIn === plan) return group.wholeLane ? entry.holdsLane : entry.holds;
        const verdict = ask(all, entry, { job, lane, member });
        if (verdict === 'admit') continue;
        if (group !== undefined) note(entry, group, { verdict, plan, failed: asking.failed() });
        asking.end();
        return verdict === 'hold' ? entry.holds : entry.holdsLane;
      }
      asking.end();
      return admitted;
    },
    closes: (lane, kind, job) => firstHeld(all, leading, { kind, job, lane }),
    closed: (kind) => {
      for (const entry of leading) {
        const group = kind.groups[entry.at];
        if (group?.heldIn === plan) return group.wholeLane ? entry.holdsLane : entry.holds;
      }
      return undefined;
    },
    why: (job, lane) =>
      entries.flatMap((entry) => {
        if (ask(all, entry, { job, lane, member: false }) === 'admit') return [];
        return [
          {
            gate: entry.gate.name,
            ...(asking.attempt(entry.gate, job, () => entry.open.why(job, lane)) ?? failed),
          },
        ];
      }),
  };
}

interface GateQuestion {
  readonly job: Candidate;
  readonly lane: Lane;
  readonly member: boolean;
}

/** Returns a gate's verdict. When the gate fails, its `onError` decides. */
function ask(
  { asking }: Pick<Judging, 'asking'>,
  entry: GateEntry,
  { job, lane, member }: GateQuestion,
): Verdict {
  const { gate, open } = entry;
  const otherwise = gate.onError === 'hold' ? 'hold' : 'admit';
  if (entry.broken) return otherwise === 'hold' ? 'hold_lane' : otherwise;
  if (!asking.begin(gate, job)) return otherwise;
  try {
    const verdict = open.admits(job, lane, member);
    if (!verdicts.has(verdict)) throw oddVerdict(verdict);
    return verdict;
  } catch (error) {
    asking.fail(gate, error);
    return otherwise;
  }
}

/**
 * Returns the verdict of the first gate that holds a kind when the plan begins. Each gate is asked about each
 * group once.
 */
function firstHeld(
  all: Judging,
  leading: readonly GateEntry[],
  { kind, job, lane }: { readonly kind: Kind; readonly job: Candidate; readonly lane: Lane },
): Judged | undefined {
  const { kinds, asking } = all;
  if (kinds === null || kind.alone) return undefined;
  const { plan } = kinds;
  for (const entry of leading) {
    const group = kind.groups[entry.at];
    if (group === undefined) return undefined;
    if (group === null) continue;
    if (group.heldIn !== plan && group.askedIn !== plan) {
      group.askedIn = plan;
      const verdict = ask(all, entry, { job, lane, member: false });
      if (verdict !== 'admit') note(entry, group, { verdict, plan, failed: asking.failed() });
      asking.end();
    }
    if (group.heldIn === plan) return group.wholeLane ? entry.holdsLane : entry.holds;
  }
  return undefined;
}

/**
 * Records that a gate holds a job's whole group. Not recorded when the gate only failed on that job, or when
 * it holds the lane and its groups are not made of lanes.
 */
function note(
  { gate }: GateEntry,
  group: Group,
  {
    verdict,
    plan,
    failed: byFailure,
  }: { readonly verdict: Verdict; readonly plan: number; readonly failed: boolean },
): void {
  const wholeLane = verdict === 'hold_lane';
  if (byFailure || (wholeLane && gate.groups?.lane !== true)) return;
  group.wholeLane = wholeLane;
  group.heldIn = plan;
}

/**
 * Returns a function that asks gates for the groups of jobs. An error leaves the group unknown, and is
 * reported when the gate is asked whether the job may go.
 */
function askGroups(gates: readonly Gate[], asking: Asking): AskGroup {
  return (at, job) => {
    const gate = gates[at];
    if (gate?.groups === undefined || !asking.begin(gate, job)) return undefined;
    try {
      const name: unknown = gate.groups.of(job);
      return typeof name === 'string' || name === null ? name : undefined;
    } catch {
      return undefined;
    } finally {
      asking.end();
    }
  };
}

/** Collects the answers of the gates at the end of a plan. */
function conclusions(
  entries: readonly GateEntry[],
  { attempt, fail }: Asking,
): Pick<OpenGates, 'nextMs' | 'unread' | 'states'> {
  return {
    nextMs: () => {
      const times = entries.map(({ gate, open }) => attempt(gate, null, () => open.nextMs?.()) ?? Infinity);
      const first = times.reduce((one, other) => (other < one ? other : one), Infinity);
      return Number.isFinite(first) ? first : null;
    },
    unread: () =>
      entries.flatMap(({ gate, open }) => attempt(gate, null, () => open.unread?.().filter(isLane)) ?? []),
    states: () => {
      const states: Record<string, Json> = {};
      for (const { gate, open, broken } of entries) {
        // the state of a gate that failed half-way stays as it was
        const state = broken ? undefined : attempt(gate, null, () => open.state?.());
        if (state !== undefined) states[gate.name] = state;
        for (const error of attempt(gate, null, () => open.faults?.()) ?? []) fail(gate, error);
      }
      return states;
    },
  };
}

function openOne(
  own: { readonly gate: Gate; readonly at: number },
  { snapshot, state }: Opening,
  asking: Asking,
): GateEntry {
  const { gate } = own;
  const open = asking.attempt(gate, null, () => {
    const opened = gate.open(snapshot, state[gate.name] ?? gate.initial ?? null);
    if (typeof opened?.admits !== 'function') throw new Error('open() returned nothing that has admits()');
    return opened;
  });
  const entry = { ...own, ...saidBy(gate) };
  if (open !== undefined) return { ...entry, open, broken: false };
  return { ...entry, open: { admits: () => 'hold', why: () => failed }, broken: true };
}

type Said = Pick<GateEntry, 'holds' | 'holdsLane'>;

const said = new WeakMap<Gate, Said>();

/**
 * Returns the verdict objects of a gate, the same ones in each plan, so that verdicts can be compared by
 * identity.
 */
function saidBy(gate: Gate): Said {
  const known = said.get(gate);
  if (known !== undefined) return known;
  const made: Said = {
    holds: { verdict: 'hold', gate: gate.name },
    holdsLane: { verdict: 'hold_lane', gate: gate.name },
  };
  said.set(gate, made);
  return made;
}

const failed: Omit<Hold, 'gate'> = { message: 'it failed: see the status of the scheduler', untilMs: null };

function oddVerdict(verdict: unknown): Error {
  // an unhandled rejection of this promise would end the process
  if (verdict instanceof Promise) verdict.catch(() => {});
  const kind = verdict instanceof Promise ? 'a promise' : typeof verdict;
  return new Error(`admits() must say admit, hold or hold_lane, not ${kind}`);
}

function isLane(lane: Lane | undefined): boolean {
  return typeof lane?.queue === 'string' && typeof lane.key === 'string';
}

/** Calls gates. Tells the watch which gate is asked, and catches errors. */
interface Asking {
  /** Starts a call. False: the gate must not be asked, because an earlier call did not return. */
  readonly begin: (gate: Gate, job: Candidate | null) => boolean;
  readonly end: () => void;
  /** Reports whether the last call failed, or was not made. */
  readonly failed: () => boolean;
  readonly fail: (gate: Gate, error: unknown) => void;
  /** Makes a call. Undefined: it failed, or was not made. */
  readonly attempt: <Value>(gate: Gate, job: Candidate | null, run: () => Value) => Value | undefined;
}

function startAsking({ faults, watch }: Pick<Opening, 'faults' | 'watch'>): Asking {
  const reported = new Set<string>();
  const outside = watch?.part ?? '';
  let lastFailed = false;
  const begin: Asking['begin'] = ({ name }, job) => {
    lastFailed = false;
    if (watch === undefined) return true;
    lastFailed = watch.avoids(name, job?.id ?? null);
    if (lastFailed) return false;
    [watch.part, watch.job] = [name, job?.id ?? null];
    return true;
  };
  const end = (): void => {
    if (watch !== undefined) [watch.part, watch.job] = [outside, null];
  };
  const fail: Asking['fail'] = ({ name, onError }, error) => {
    lastFailed = true;
    if (reported.has(name)) return;
    reported.add(name);
    faults.push({ part: name, error, instead: onError === 'hold' ? 'held' : 'ignored' });
  };
  return {
    begin,
    end,
    failed: () => lastFailed,
    fail,
    attempt: (gate, job, run) => {
      if (!begin(gate, job)) return undefined;
      try {
        return run();
      } catch (error) {
        fail(gate, error);
        return undefined;
      } finally {
        end();
      }
    },
  };
}
