import type { SavedState } from '@pgqueue/postgres/internal/dashboard';
import type { Lead } from '../contract.ts';

const shownMax = 200;
const entriesMax = 100_000;

/**
 * Extracts the leads of shares from the saved state of fair orders, where it has the known form:
 * `{ unit, pools: { pool: { names, ahead, below } } }`. Returns the 200 smallest, ascending.
 */
export function leadsOf(states: readonly Pick<SavedState, 'state'>[]): readonly Lead[] {
  const leads: Lead[] = [];
  for (const { state } of states) {
    const { unit, pools } = asRecord(state);
    for (const [pool, shares] of Object.entries(asRecord(pools))) {
      collect(leads, { pool, unit: isUnit(unit) ? unit : 'cost', shares, path: [] });
    }
  }
  return leads.toSorted((a, b) => a.lead - b.lead).slice(0, shownMax);
}

interface Level extends Pick<Lead, 'pool' | 'unit' | 'path'> {
  readonly shares: unknown;
}

/** A stored number is relative to a moving zero, and means something only beside those of its own level. */
function collect(leads: Lead[], { pool, unit, shares, path }: Level): void {
  const { names, ahead, below } = asRecord(shares);
  if (!Array.isArray(names) || !Array.isArray(ahead)) return;
  const least = ahead.reduce<number>(
    (min, one: unknown) => (typeof one === 'number' && one < min ? one : min),
    Infinity,
  );
  for (const [column, name] of names.entries()) {
    const own: unknown = ahead[column];
    if (typeof name !== 'string' || typeof own !== 'number' || leads.length >= entriesMax) continue;
    const inner = [...path, name];
    leads.push({ pool, path: inner, lead: own - least, unit });
    if (Array.isArray(below) && inner.length < 8)
      collect(leads, { pool, unit, shares: below[column], path: inner });
  }
}

function isUnit(value: unknown): value is Lead['unit'] {
  return value === 'jobs' || value === 'cost' || value === 'time';
}

function asRecord(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {};
}
