import type { FaultMaker } from '../fault.ts';
import type { Arena } from './arena.ts';
import { networkFaults } from './network.ts';
import { clockFaults, schedulerFaults, workerFaults } from './processes.ts';
import { serverFaults } from './server.ts';

/**
 * Faults that a run only has if asked for by name. A wrong clock of the database excuses too many violations
 * of other kinds.
 */
const asked: ReadonlySet<string> = new Set(['database-clock']);

/**
 * Returns the makers of faults that this arena allows. `kinds`: their names, or `all` for those that need not
 * be asked for by name. @throws on an unknown name
 */
export function makersOf(arena: Arena, kinds: readonly string[]): readonly FaultMaker[] {
  const makers = [
    ...workerFaults(arena),
    ...schedulerFaults(arena),
    ...clockFaults(arena),
    ...serverFaults(arena),
    ...networkFaults(arena),
  ];
  const unknown = kinds.filter((name) => name !== 'all' && makers.every(({ kind }) => kind !== name));
  if (unknown.length > 0) {
    throw new Error(`no fault ${unknown.join(', ')}: ${makers.map(({ kind }) => kind).join(', ')}`);
  }
  const wanted = makers.filter(
    ({ kind }) => kinds.includes(kind) || (kinds.includes('all') && !asked.has(kind)),
  );
  for (const { kind, missing } of wanted)
    if (missing !== undefined) console.warn(`left out: ${kind}: ${missing}`);
  return wanted.filter(({ missing }) => missing === undefined);
}
