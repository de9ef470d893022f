import type { FaultMaker } from '../fault.ts';
import type { Arena } from './arena.ts';
import { networkFaults } from './network.ts';
import { clockFaults, schedulerFaults, workerFaults } from './processes.ts';
import { serverFaults } from './server.ts';

/** Those that every run has. A wrong clock of the database must be asked for: it excuses too much of what else would be a violation. */
const asked: ReadonlySet<string> = new Set(['database-clock']);

/** What can be done to this arena. `kinds`: by name, of which `all` stands for every one that need not be asked for. @throws on an unknown one */
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
