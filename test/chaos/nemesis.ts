// Makes the planned faults, each with what it takes for itself, and writes down what it did.
import { setTimeout as delay } from 'node:timers/promises';
import type { Fault, FaultMaker } from './fault.ts';
import type { PlannedFault } from './plan.ts';
import type { Write } from './record.ts';
import { chances } from './workload.ts';

export interface NemesisOptions {
  readonly seed: number;
  readonly plan: readonly PlannedFault[];
  readonly makers: readonly FaultMaker[];
  readonly write: Write;
  /** No fault begins later than so long after now. */
  readonly ms: number;
}

const stepMaxMs = 300_000;

/** Resolves to how many were made, when all are healed. @throws when a fault could not be healed in time */
export async function runNemesis({ seed, plan, makers, write, ms }: NemesisOptions): Promise<number> {
  const began = performance.now();
  const busy = new Set<string>();
  const under = new Set<Promise<void>>();
  let made = 0;
  let wholly = false;
  let lateMs = 0;
  for (const planned of plan) {
    const maker = makers.find(({ kind }) => kind === planned.kind);
    if (maker === undefined) continue;
    await delay(Math.max(0, began + lateMs + planned.atMs - performance.now()));
    const blocked = (): boolean =>
      planned.alone || wholly ? under.size > 0 : maker.takes.some((what) => busy.has(what));
    while (blocked()) await Promise.race(under);
    // the rest comes later by as much: what had to wait must not come all at once
    lateMs = performance.now() - began - planned.atMs;
    if (performance.now() - began > ms) break;
    wholly = planned.alone;
    for (const what of maker.takes) busy.add(what);
    const fault = maker.make(chances(seed, 'fault', planned.n));
    const running = one({ fault, planned, spoils: maker.spoils ?? [], write })
      .then((there) => {
        if (there) made += 1;
      })
      .finally(() => {
        for (const what of maker.takes) busy.delete(what);
        under.delete(running);
      });
    under.add(running);
  }
  await Promise.all(under);
  return made;
}

interface One {
  readonly fault: Fault;
  readonly planned: PlannedFault;
  readonly spoils: readonly string[];
  readonly write: Write;
}

async function one({ fault, planned, spoils, write }: One): Promise<boolean> {
  const { kind, target } = fault;
  const known = { type: 'fault', n: planned.n, kind, ...(target === undefined ? {} : { target }) } as const;
  write({ ...known, phase: 'start', spoils });
  let there = true;
  try {
    await bounded(`${kind} to be made`, fault.start());
    write({ ...known, phase: 'made' });
    await delay(planned.lastsMs);
  } catch (error) {
    there = false;
    write({ ...known, phase: 'failed', why: String(error) });
  }
  write({ ...known, phase: 'heal' });
  await bounded(`${kind} to heal`, fault.heal());
  write({ ...known, phase: 'healed' });
  return there;
}

async function bounded(what: string, work: Promise<void> | void): Promise<void> {
  const over = new AbortController();
  const late = delay(stepMaxMs, undefined, { signal: over.signal }).then(
    () => {
      throw new Error(`waited ${stepMaxMs} ms in vain for ${what}`);
    },
    () => {},
  );
  try {
    await Promise.race([work, late]);
  } finally {
    over.abort();
  }
}
