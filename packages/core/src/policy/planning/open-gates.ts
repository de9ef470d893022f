import type { Judged } from '../gate.ts';
import type { Json } from '../../job/job.ts';
import type { Gate, OpenGate, Verdict } from '../gate.ts';
import { unlimited } from '../gates/lib/unlimited.ts';
import type { AskGroup, Group, Kind } from './kinds.ts';
import type { KindMemory, KindsOfPlan } from './kind-memory.ts';
import type { PolicyFault } from '../plan.ts';
import type { Hold, Watch } from '../policy.ts';
import type { PolicyState } from '../plan.ts';
import type { Candidate, Lane, Snapshot } from '../snapshot.ts';

/** The gates of a policy during one plan, with what fails in them caught. */
export interface OpenGates {
  /** The first that holds it. `kind`: its own, where gates tell groups; then those that are known to be held are not asked about. */
  readonly judge: (job: Candidate, lane: Lane, member: boolean, kind?: Kind) => Judged;
  /** Which jobs are alike to the gates; null: none of them says. */
  readonly kinds: KindsOfPlan | null;
  /** When the plan begins: why nothing of a kind can go; undefined: it may. */
  readonly closes: (lane: Lane, kind: Kind, first: Candidate) => Judged | undefined;
  /** Why nothing of a kind can go any more, as far as is known without asking. */
  readonly closed: (kind: Kind) => Judged | undefined;
  readonly take: (job: Candidate, lane: Lane, member: boolean) => void;
  /** Of every gate that holds it. */
  readonly why: (job: Candidate, lane: Lane) => readonly Hold[];
  /** The earliest of {@link OpenGate.nextMs}. */
  readonly nextMs: () => number | null;
  readonly unread: () => readonly Lane[];
  /** After the plan, by name. */
  readonly states: () => PolicyState;
}

interface Entry {
  readonly gate: Gate;
  /** Its number. */
  readonly at: number;
  readonly open: OpenGate;
  /** What it says of a group that it holds. */
  readonly holds: Judged;
  readonly holdsLane: Judged;
  /** It failed while it was opened, or told of a job that goes: what it would say from then on may be wrong. */
  broken: boolean;
}

interface Opening {
  readonly snapshot: Snapshot;
  readonly state: PolicyState;
  readonly faults: PolicyFault[];
  readonly watch?: Watch | undefined;
  /** Where jobs of one kind are judged together. */
  readonly kinds?: KindMemory | null;
}

const admitted = { verdict: 'admit', gate: '' } as const;
const verdicts: ReadonlySet<unknown> = new Set<Verdict>(['admit', 'hold', 'hold_lane']);

/** Opens the gates for one plan. What fails is added to `faults`, and treated as each gate's `onError` says. */
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
  readonly entries: readonly Entry[];
  readonly asking: Asking;
  readonly kinds: KindsOfPlan | null;
}

function judging(all: Judging): Pick<OpenGates, 'judge' | 'why' | 'closes' | 'closed'> {
  const { entries, asking, kinds } = all;
  // what one that is asked about every job would say goes before what those behind it say
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

interface Asked {
  readonly job: Candidate;
  readonly lane: Lane;
  readonly member: boolean;
}

/** What a gate says; where it fails, what its `onError` says. */
function ask({ asking }: Pick<Judging, 'asking'>, entry: Entry, { job, lane, member }: Asked): Verdict {
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

/** The first gate that holds a kind when the plan begins: each is asked about each group once. */
function firstHeld(
  all: Judging,
  leading: readonly Entry[],
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

/** A gate holds a job, and so its whole group: not where it only failed on that job, or holds a lane for reasons that are not the group's. */
function note(
  { gate }: Entry,
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

/** Of a job that a gate fails on nothing is known; that is told when it is asked whether the job may go. */
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

/** What is asked of gates when the plan is made. */
function conclusions(
  entries: readonly Entry[],
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
): Entry {
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

type Said = Pick<Entry, 'holds' | 'holdsLane'>;

const said = new WeakMap<Gate, Said>();

/** The same objects in each plan: who keeps one can compare it with the next. */
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
  // a promise that fails with nobody there would end the process
  if (verdict instanceof Promise) verdict.catch(() => {});
  const kind = verdict instanceof Promise ? 'a promise' : typeof verdict;
  return new Error(`admits() must say admit, hold or hold_lane, not ${kind}`);
}

function isLane(lane: Lane | undefined): boolean {
  return typeof lane?.queue === 'string' && typeof lane.key === 'string';
}

/** Calls gates: says which one is being asked, and catches what they throw. */
interface Asking {
  /** False: it is not asked, because it did not come back from this before. */
  readonly begin: (gate: Gate, job: Candidate | null) => boolean;
  readonly end: () => void;
  /** Whether what was begun last failed, or was not to be asked. */
  readonly failed: () => boolean;
  readonly fail: (gate: Gate, error: unknown) => void;
  /** Undefined: it failed. */
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
