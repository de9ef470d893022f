import type { InFlight } from '@pgqueue/core';
import type { TickRead } from '@pgqueue/postgres';
import type { Load } from './depth.ts';
import type { Memory } from './memory.ts';
import { loadOf } from './tick.ts';

/** A snapshot that was not read: the last one, without the jobs that are said to have ended since. */
export interface Supposed {
  readonly read: TickRead;
  readonly load: Load;
  readonly inFlight: readonly InFlight[];
  /** What must hold when the plan is written, or nothing is. */
  readonly supposed: { readonly ended: readonly string[]; readonly config: string };
  /** It was written, so it was so. */
  readonly confirm: () => void;
}

/** What is known of nodes and settings may be so old. */
const lookMaxMs = 200;
/** With more of them, a look costs less than it spares. */
const endedMax = 64;
const inFlightMax = 1_000;

/**
 * Where a slot became free and a job of a known key waits for it, most of the time until that is dispatched would go into asking what is in
 * flight. So the plan is made from what was known, and what a hint said, which proves nothing: the statement that writes the plan
 * checks it. Undefined: a look is needed.
 */
export function suppose(memory: Memory, ended: readonly string[], startedAt: number): Supposed | undefined {
  const { lastLook, ledger, feeds } = memory;
  if (feeds || lastLook === undefined || startedAt > lastLook.atMs + lookMaxMs) return undefined;
  if (ended.length === 0 || ended.length > endedMax) return undefined;
  const left = ledger.without(new Set(ended));
  if (left === undefined || left.inFlight.length > inFlightMax) return undefined;
  const { inFlight, confirm } = left;
  const { read, config, atMs } = lastLook;
  // never ahead of the database's clock: the answer was under way for a while
  const now = read.state.now + (startedAt - atMs);
  const supposed: TickRead = {
    ...read,
    state: { ...read.state, now, settled: [], expiredLeases: false, lostNodes: false },
    enqueuers: null,
    config: null,
    due: null,
    rows: [],
    questions: [],
  };
  return {
    read: supposed,
    load: loadOf(supposed, inFlight),
    inFlight,
    supposed: { ended, config },
    confirm,
  };
}
