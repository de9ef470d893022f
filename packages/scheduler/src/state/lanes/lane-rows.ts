import { laneName } from '@pgqueue/core';
import type { LaneRow } from '@pgqueue/postgres/internal';

const grouped = new WeakMap<readonly LaneRow[], ReadonlyMap<string, readonly LaneRow[]>>();

/**
 * Groups rows by lane name. Several parts of a tick group the same list, so the result is cached. Rows of one
 * lane are mostly adjacent.
 */
export function rowsByLane(rows: readonly LaneRow[]): ReadonlyMap<string, readonly LaneRow[]> {
  const known = grouped.get(rows);
  if (known !== undefined) return known;
  const lanes = new Map<string, LaneRow[]>();
  let last: LaneRow | undefined;
  let own: LaneRow[] = [];
  for (const row of rows) {
    if (last === undefined || row.queue !== last.queue || row.key !== last.key) {
      const name = laneName(row);
      own = lanes.get(name) ?? [];
      lanes.set(name, own);
    }
    own.push(row);
    last = row;
  }
  grouped.set(rows, lanes);
  return lanes;
}
