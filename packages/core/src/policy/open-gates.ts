import type { Json } from '../job/job.ts';
import type { Gate, OpenGate, Verdict } from './gate.ts';
import type { PolicyFault } from './plan.ts';
import type { Hold, PolicyState } from './policy.ts';
import type { Candidate, Lane, Snapshot } from './snapshot.ts';

/** The gates of a policy during one plan, with what fails in them caught. */
export interface OpenGates {
  readonly open: readonly OpenGate[];
  /** The first that holds it. */
  readonly judge: (
    job: Candidate,
    lane: Lane,
    member: boolean,
  ) => { readonly verdict: Verdict; readonly gate: string };
  readonly take: (job: Candidate, lane: Lane, member: boolean) => void;
  /** Of every gate that holds it. */
  readonly why: (job: Candidate, lane: Lane) => readonly Hold[];
  /** After the plan, by name. */
  readonly states: () => PolicyState;
}

interface Entry {
  readonly gate: Gate;
  readonly open: OpenGate;
  broken: boolean;
}

const admitted = { verdict: 'admit', gate: '' } as const;

export function openGates(
  gates: readonly Gate[],
  snapshot: Snapshot,
  { state, faults }: { readonly state: PolicyState; readonly faults: PolicyFault[] },
): OpenGates {
  const reported = new Set<string>();
  const fail = ({ name }: Gate, error: unknown): void => {
    if (reported.has(name)) return;
    reported.add(name);
    faults.push({ part: name, error });
  };
  const entries = gates.map((gate): Entry => {
    try {
      const open = gate.open(snapshot, state[gate.name] ?? gate.initial ?? null);
      return { gate, open, broken: false };
    } catch (error) {
      fail(gate, error);
      return { gate, open: gate.onError === 'hold' ? closed : none, broken: true };
    }
  });
  /** What a gate says; where it fails, what its `onError` says. */
  const ask = (entry: Entry, job: Candidate, lane: Lane, member: boolean): Verdict => {
    try {
      return entry.open.admits(job, lane, member);
    } catch (error) {
      fail(entry.gate, error);
      return entry.gate.onError === 'hold' ? 'hold' : 'admit';
    }
  };
  return {
    open: entries.map(({ open }) => open),
    judge: (job, lane, member) => {
      for (const entry of entries) {
        const verdict = ask(entry, job, lane, member);
        if (verdict !== 'admit') return { verdict, gate: entry.gate.name };
      }
      return admitted;
    },
    take: (job, lane, member) => {
      for (const entry of entries) {
        try {
          entry.open.take?.(job, lane, member);
        } catch (error) {
          fail(entry.gate, error);
          entry.broken = true;
        }
      }
    },
    why: (job, lane) =>
      entries.flatMap((entry) => {
        if (ask(entry, job, lane, false) === 'admit') return [];
        return [{ gate: entry.gate.name, ...reason(entry, job, lane) }];
      }),
    states: () => statesOf(entries, fail),
  };
}

function reason({ open }: Entry, job: Candidate, lane: Lane): Omit<Hold, 'gate'> {
  try {
    return open.why(job, lane);
  } catch (error) {
    return {
      message: `it failed: ${error instanceof Error ? error.message : String(error)}`,
      untilMs: null,
    };
  }
}

function statesOf(entries: readonly Entry[], fail: (gate: Gate, error: unknown) => void): PolicyState {
  const states: Record<string, Json> = {};
  for (const { gate, open, broken } of entries) {
    // the state of a gate that failed half-way stays as it was
    if (broken) continue;
    try {
      const state = open.state?.();
      if (state !== undefined) states[gate.name] = state;
    } catch (error) {
      fail(gate, error);
    }
  }
  return states;
}

/** Stands in for a gate that can't be opened: one that may be left out, and a limit, which may not. */
const none: OpenGate = { admits: () => 'admit', why: () => ({ message: '', untilMs: null }) };
const closed: OpenGate = {
  admits: () => 'hold_lane',
  why: () => ({ message: 'it failed: see the status of the scheduler', untilMs: null }),
};
