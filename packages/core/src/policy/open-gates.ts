import type { Json } from '../job/job.ts';
import type { Gate, OpenGate, Verdict } from './gate.ts';
import type { PolicyFault } from './plan.ts';
import type { Hold, PolicyState, Watch } from './policy.ts';
import type { Candidate, Lane, Snapshot } from './snapshot.ts';

/** The gates of a policy during one plan, with what fails in them caught. */
export interface OpenGates {
  /** The first that holds it. */
  readonly judge: (
    job: Candidate,
    lane: Lane,
    member: boolean,
  ) => { readonly verdict: Verdict; readonly gate: string };
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
  readonly open: OpenGate;
  /** It failed while it was opened, or told of a job that goes: what it would say from then on may be wrong. */
  broken: boolean;
}

interface Opening {
  readonly snapshot: Snapshot;
  readonly state: PolicyState;
  readonly faults: PolicyFault[];
  readonly watch?: Watch | undefined;
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
  const entries = gates.map((gate) => openOne(gate, { ...options, snapshot }, asking));
  /** What a gate says; where it fails, what its `onError` says. */
  const ask = (entry: Entry, job: Candidate, lane: Lane, member: boolean): Verdict => {
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
  };
  return {
    judge: (job, lane, member) => {
      for (const entry of entries) {
        const verdict = ask(entry, job, lane, member);
        if (verdict === 'admit') continue;
        asking.end();
        return { verdict, gate: entry.gate.name };
      }
      asking.end();
      return admitted;
    },
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
    why: (job, lane) =>
      entries.flatMap((entry) => {
        if (ask(entry, job, lane, false) === 'admit') return [];
        return [
          {
            gate: entry.gate.name,
            ...(asking.attempt(entry.gate, job, () => entry.open.why(job, lane)) ?? failed),
          },
        ];
      }),
    ...conclusions(entries, asking),
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

function openOne(gate: Gate, { snapshot, state }: Opening, asking: Asking): Entry {
  const open = asking.attempt(gate, null, () => {
    const opened = gate.open(snapshot, state[gate.name] ?? gate.initial ?? null);
    if (typeof opened?.admits !== 'function') throw new Error('open() returned nothing that has admits()');
    return opened;
  });
  if (open !== undefined) return { gate, open, broken: false };
  return { gate, open: { admits: () => 'hold', why: () => failed }, broken: true };
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
  readonly fail: (gate: Gate, error: unknown) => void;
  /** Undefined: it failed. */
  readonly attempt: <Value>(gate: Gate, job: Candidate | null, run: () => Value) => Value | undefined;
}

function startAsking({ faults, watch }: Pick<Opening, 'faults' | 'watch'>): Asking {
  const reported = new Set<string>();
  const outside = watch?.part ?? '';
  const begin: Asking['begin'] = ({ name }, job) => {
    if (watch === undefined) return true;
    if (watch.avoids(name, job?.id ?? null)) return false;
    [watch.part, watch.job] = [name, job?.id ?? null];
    return true;
  };
  const end = (): void => {
    if (watch !== undefined) [watch.part, watch.job] = [outside, null];
  };
  const fail: Asking['fail'] = ({ name, onError }, error) => {
    if (reported.has(name)) return;
    reported.add(name);
    faults.push({ part: name, error, instead: onError === 'hold' ? 'held' : 'ignored' });
  };
  return {
    begin,
    end,
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
