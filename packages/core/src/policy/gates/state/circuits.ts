import { unreachable } from '../../../errors.ts';
import type { Json } from '../../../job/job.ts';
import type { AttemptEnd, InFlight, Settlement } from '../../snapshot.ts';
import { compareText, own } from '../../snapshot.ts';
import { backstepMs } from './buckets.ts';

/**
 * Counts of one tenth of the window: its number since the Unix epoch, the attempts that ended, and how many
 * failed.
 */
export type Tenth = readonly [tenth: number, ended: number, failed: number];

/** When and why a circuit opened. */
type OpenCircuit = {
  readonly openedMs: number;
  /** Time from which a probe may go, in Unix milliseconds. */
  readonly untilMs: number;
  readonly ended: number;
  readonly failed: number;
};

/** State of the circuit of one value. */
export type Circuit =
  | { readonly kind: 'closed'; readonly tenths: readonly Tenth[] }
  | ({ readonly kind: 'open' } & OpenCircuit)
  | ({
      readonly kind: 'probing';
      /** Id of the job that goes as the probe. */
      readonly probe: string;
      /** The probe is known to have been written. */
      readonly sent: boolean;
      /** Time since which the probe is neither in flight nor settled. Null: no such time. */
      readonly goneMs: number | null;
    } & OpenCircuit);

/** Circuits by value. */
export type Circuits = Readonly<Record<string, Circuit>>;

export interface CircuitRules {
  readonly errorRate: number;
  readonly minimum: number;
  readonly windowMs: number;
  readonly openMs: number;
}

/** Facts of a snapshot that circuits need: the time, and the attempts and work items of jobs with a value. */
export interface CircuitsSeen {
  readonly nowMs: number;
  readonly settled: readonly { readonly value: string; readonly settlement: Settlement }[];
  /** Called only if a circuit is not closed. */
  readonly inFlight: () => readonly { readonly value: string; readonly item: InFlight }[];
}

const tenths = 10;
/** Most values that are stored. Beyond that, the values that were active last are kept. */
const valuesMax = 10_000;

/**
 * Brings circuits up to date with a snapshot. The same object is returned if nothing changed. The order of
 * the settlements and of the work items makes no difference.
 */
export function advance(before: Circuits, rules: CircuitRules, seen: CircuitsSeen): Circuits {
  const ended = Map.groupBy(seen.settled, ({ value }) => value);
  const inFlight = new Map<string, InFlight[]>();
  if (Object.values(before).some(({ kind }) => kind !== 'closed')) {
    for (const { value, item } of seen.inFlight())
      inFlight.set(value, [...(inFlight.get(value) ?? []), item]);
  }
  const after = new Map<string, Circuit>();
  let changed = false;
  for (const value of new Set([...Object.keys(before), ...ended.keys()])) {
    const was = own(before, value);
    const settled = (ended.get(value) ?? []).map(({ settlement }) => settlement);
    const circuit = next(was ?? none, rules, {
      settled,
      items: inFlight.get(value) ?? [],
      nowMs: seen.nowMs,
    });
    changed ||= circuit !== (was ?? none);
    if (circuit !== none) after.set(value, circuit);
  }
  return changed ? Object.fromEntries(bounded(after, rules)) : before;
}

const none: Circuit = { kind: 'closed', tenths: [] };

interface Seen {
  readonly settled: readonly Settlement[];
  readonly items: readonly InFlight[];
  readonly nowMs: number;
}

function next(circuit: Circuit, rules: CircuitRules, seen: Seen): Circuit {
  switch (circuit.kind) {
    case 'closed':
      return count(circuit, rules, seen);
    case 'open':
      return awaitProbe(circuit, rules, seen);
    case 'probing':
      return judgeProbe(circuit, rules, seen);
    default:
      return unreachable(circuit);
  }
}

function count(
  circuit: Circuit & { kind: 'closed' },
  rules: CircuitRules,
  { settled, nowMs }: Seen,
): Circuit {
  const widthMs = rules.windowMs / tenths;
  const current = Math.floor(nowMs / widthMs);
  const inWindow = (tenth: number): boolean => Math.abs(current - tenth) < tenths;
  const kept = circuit.tenths.filter(([tenth]) => inWindow(tenth));
  const counts = new Map(kept.map((tenth) => [tenth[0], tenth] as const));
  let [moved, failedNow] = [kept.length < circuit.tenths.length, false];
  for (const { outcome, endedMs } of settled) {
    const failed = failedBy(outcome);
    const tenth = Math.min(current, Math.floor(endedMs / widthMs));
    if (failed === undefined || !inWindow(tenth)) continue;
    const [, ended, errors] = counts.get(tenth) ?? [tenth, 0, 0];
    counts.set(tenth, [tenth, ended + 1, errors + (failed ? 1 : 0)]);
    moved = true;
    failedNow ||= failed;
  }
  if (!moved) return circuit;
  const all = [...counts.values()].toSorted(([a], [b]) => a - b);
  const ended = all.reduce((sum, [, count]) => sum + count, 0);
  const failed = all.reduce((sum, [, , count]) => sum + count, 0);
  if (failedNow && ended >= rules.minimum && failed / ended >= rules.errorRate) {
    return { kind: 'open', openedMs: nowMs, untilMs: nowMs + rules.openMs, ended, failed };
  }
  return all.length === 0 ? none : { kind: 'closed', tenths: all };
}

/** Reports whether an attempt failed. Undefined: the outcome says nothing about failure. */
function failedBy(outcome: AttemptEnd): boolean | undefined {
  switch (outcome) {
    case 'done':
      return false;
    case 'retry':
    case 'dead':
    case 'crash':
      return true;
    case 'snooze':
    case 'cancelled':
    case 'recalled':
      return undefined;
    default:
      return unreachable(outcome);
  }
}

/**
 * Looks for the probe of an open circuit. A job dispatched after the circuit opened is its probe: a leader
 * that had no time to save the state sent it.
 */
function awaitProbe(
  circuit: Circuit & { kind: 'open' },
  { openMs }: CircuitRules,
  { items, nowMs }: Seen,
): Circuit {
  const [probe] = items
    .filter(({ dispatchedMs }) => dispatchedMs > circuit.openedMs)
    .toSorted((a, b) => a.dispatchedMs - b.dispatchedMs || compareText(a.id, b.id));
  if (probe !== undefined) return { ...circuit, kind: 'probing', probe: probe.id, sent: true, goneMs: null };
  // the clock was set back
  if (circuit.openedMs > nowMs + backstepMs) return { ...circuit, openedMs: nowMs, untilMs: nowMs + openMs };
  return circuit;
}

function judgeProbe(circuit: Circuit & { kind: 'probing' }, { openMs }: CircuitRules, seen: Seen): Circuit {
  const { settled, items, nowMs } = seen;
  const { ended, failed, probe } = circuit;
  const again: Circuit = { kind: 'open', openedMs: nowMs, untilMs: nowMs, ended, failed };
  const outcomes = settled.filter(({ job }) => job.id === probe).map(({ outcome }) => failedBy(outcome));
  if (outcomes.includes(true)) return { ...again, untilMs: nowMs + openMs };
  if (outcomes.includes(false)) return none;
  if (outcomes.length > 0) return again;
  if (items.some(({ id }) => id === probe)) {
    return circuit.sent && circuit.goneMs === null ? circuit : { ...circuit, sent: true, goneMs: null };
  }
  const goneMs = Math.min(circuit.goneMs ?? nowMs, nowMs);
  if (nowMs >= goneMs + openMs) return again;
  return goneMs === circuit.goneMs ? circuit : { ...circuit, goneMs };
}

function bounded(
  circuits: ReadonlyMap<string, Circuit>,
  { windowMs }: CircuitRules,
): Iterable<readonly [string, Circuit]> {
  if (circuits.size <= valuesMax) return circuits;
  const activeMs = (circuit: Circuit): number =>
    circuit.kind === 'closed' ? ((circuit.tenths.at(-1)?.[0] ?? 0) * windowMs) / tenths : circuit.untilMs;
  return [...circuits]
    .toSorted(([a, one], [b, other]) => activeMs(other) - activeMs(one) || compareText(a, b))
    .slice(0, valuesMax);
}

/** Makes a job the probe of an open circuit. Other circuits are returned as they are. */
export function sendProbe(circuit: Circuit, probe: string): Circuit {
  return circuit.kind === 'open'
    ? { ...circuit, kind: 'probing', probe, sent: false, goneMs: null }
    : circuit;
}

/** Confirms the probe if it is among the written jobs. If it is not, the circuit is open again. */
export function confirmProbe(circuit: Circuit, ids: ReadonlySet<string>): Circuit {
  if (circuit.kind !== 'probing' || circuit.sent) return circuit;
  if (ids.has(circuit.probe)) return { ...circuit, sent: true };
  const { openedMs, untilMs, ended, failed } = circuit;
  return { kind: 'open', openedMs, untilMs, ended, failed };
}

/**
 * Returns the circuits of a saved state. Entries that are no circuits are left out, and so count as closed.
 */
export function savedCircuits(saved: Json): Circuits {
  if (typeof saved !== 'object' || saved === null) return {};
  return Object.fromEntries(
    Object.entries(saved).flatMap(([value, circuit]) =>
      isCircuit(circuit) ? [[value, circuit] as const] : [],
    ),
  );
}

function isCircuit(value: unknown): value is Circuit {
  if (typeof value !== 'object' || value === null || !('kind' in value)) return false;
  const circuit = value as Readonly<Record<string, unknown>>;
  if (circuit['kind'] === 'closed')
    return Array.isArray(circuit['tenths']) && circuit['tenths'].every(isTenth);
  const numbers = ['openedMs', 'untilMs', 'ended', 'failed'].every(
    (name) => typeof circuit[name] === 'number',
  );
  return (
    numbers &&
    (circuit['kind'] === 'open' || (circuit['kind'] === 'probing' && typeof circuit['probe'] === 'string'))
  );
}

function isTenth(value: unknown): boolean {
  return Array.isArray(value) && value.length === 3 && value.every((part) => typeof part === 'number');
}
