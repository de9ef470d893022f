import fc from 'fast-check';
import type { Gate, OpenGate } from '../policy/gate.ts';
import type { Snapshot } from '../policy/snapshot.ts';

/** What a bug makes of a gate. */
export type Change = (gate: Gate) => Gate;

export const asItIs: Change = (gate) => gate;

/** A property of gates, to be checked of them as they are, and of what a bug makes of them. */
export type Check = (change: Change) => { readonly failed: boolean; readonly report: string };

/** Runs a property with a fixed seed. Only a failure that comes unexpected is made smaller. */
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

/** A bug of one gate. */
export function within(name: string, change: Change): Change {
  return (gate) => (gate.name === name ? change(gate) : gate);
}

/** A bug of an open gate. */
export function opened(change: (open: OpenGate, snapshot: Snapshot) => OpenGate): Change {
  return (gate) => ({ ...gate, open: (snapshot, state) => change(gate.open(snapshot, state), snapshot) });
}

/** A bug in what a gate sees. */
export function seeing(change: (snapshot: Snapshot) => Snapshot): Change {
  return (gate) => ({ ...gate, open: (snapshot, state) => gate.open(change(snapshot), state) });
}
