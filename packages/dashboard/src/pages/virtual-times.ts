import type { SavedState } from '@pgqueue/postgres/internal/dashboard';
import type { VirtualTime } from '../contract.ts';

const shownMax = 200;
const entriesMax = 100_000;

/**
 * Extracts virtual times from the saved state of fair orders, where it has the known form:
 * `{ pools: { pool: { names, ahead, below } } }`.
 */
export function virtualTimesOf(states: readonly SavedState[]): readonly VirtualTime[] {
  const times: VirtualTime[] = [];
  for (const { state } of states) {
    const { pools } = asRecord(state);
    for (const [pool, shares] of Object.entries(asRecord(pools))) collect(times, { pool, shares, path: [] });
  }
  return times;
}

/** Returns the 200 smallest virtual times, ascending. */
export function shownVirtualTimes(states: readonly SavedState[]): readonly VirtualTime[] {
  return virtualTimesOf(states)
    .toSorted((a, b) => a.time - b.time)
    .slice(0, shownMax);
}

/** Returns virtual times by pool and path, as JSON text, and the pools that have any. */
export function virtualTimesIn(states: readonly SavedState[]): {
  readonly times: Readonly<Record<string, number>>;
  readonly pools: ReadonlySet<string>;
} {
  const all = virtualTimesOf(states);
  return {
    times: Object.fromEntries(all.map(({ pool, path, time }) => [JSON.stringify([pool, ...path]), time])),
    pools: new Set(all.map(({ pool }) => pool)),
  };
}

function collect(
  times: VirtualTime[],
  {
    pool,
    shares,
    path,
  }: { readonly pool: string; readonly shares: unknown; readonly path: readonly string[] },
): void {
  const { names, ahead, below } = asRecord(shares);
  if (!Array.isArray(names) || !Array.isArray(ahead)) return;
  for (const [column, name] of names.entries()) {
    const time: unknown = ahead[column];
    if (typeof name !== 'string' || typeof time !== 'number' || times.length >= entriesMax) continue;
    const own = [...path, name];
    times.push({ pool, path: own, time });
    if (Array.isArray(below) && own.length < 8) collect(times, { pool, shares: below[column], path: own });
  }
}

function asRecord(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {};
}
