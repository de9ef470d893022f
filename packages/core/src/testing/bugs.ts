import fc from 'fast-check';
import type { Gate, OpenGate } from '../policy/gate.ts';
import type { Snapshot } from '../policy/snapshot.ts';

/** Puts a bug into a gate. */
export type Change = (gate: Gate) => Gate;

export const asItIs: Change = (gate) => gate;

/** A property of gates, checked after `change` was applied to them. */
export type Check = (change: Change) => { readonly failed: boolean; readonly report: string };

/** Checks a property with a fixed seed. Only an unexpected failure is shrunk. */
export function verdict<Drawn>(
  property: fc.IPropertyWithHooks<Drawn>,
  change: Change,
  numRuns = 60,
): ReturnType<Check> {
  const details = fc.check(property, {
    seed: 20_261_121,
    numRuns,
    endOnFailure: change !== asItIs,
  });
  // a bug that makes a plan fail proves nothing
  const failed = details.failed && (details.errorInstance as Error).name === 'AssertionError';
  return { failed, report: fc.defaultReportMessage(details) ?? 'holds' };
}

/** Puts the bug into the gate of that name only. */
export function within(name: string, change: Change): Change {
  return (gate) => (gate.name === name ? change(gate) : gate);
}

/** Puts a bug into open gates. */
export function opened(change: (open: OpenGate, snapshot: Snapshot) => OpenGate): Change {
  return (gate) => ({ ...gate, open: (snapshot, state) => change(gate.open(snapshot, state), snapshot) });
}

/** Puts a bug into the snapshot that a gate sees. */
export function seeing(change: (snapshot: Snapshot) => Snapshot): Change {
  return (gate) => ({ ...gate, open: (snapshot, state) => gate.open(change(snapshot), state) });
}
