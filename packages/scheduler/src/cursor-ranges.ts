import type { TickInput } from '@pgqueue/postgres';
import { lastPlace } from '@pgqueue/postgres';

const firstPlace = [-2_147_483_648, -1] as const;

/** How far a lane has gone at one priority. */
export interface Reached {
  /** All that were known up to this seq went. */
  at: number;
  /** Nothing will be committed any more up to this one. */
  floor: number;
}

export type Ranges = TickInput['ranges'][string][string];

/** Behind each place, up to the next priority; before it, what was changed. */
export function rangesOf(reached: ReadonlyMap<number, Reached>, late: boolean): Ranges {
  const ranges: Ranges[number][] = [];
  let from: readonly [number, number] = firstPlace;
  for (const [priority, { at, floor }] of [...reached].toSorted(([a], [b]) => a - b)) {
    const seq = late ? floor : at;
    // up to the priority before, and not to this one's beginning: see walk_lanes
    if (priority > firstPlace[0]) ranges.push([...from, priority - 1, lastPlace[1], false]);
    ranges.push([priority, -1, priority, seq, true]);
    from = [priority, seq];
  }
  ranges.push([...from, ...lastPlace, false]);
  return ranges;
}

/** Where all up to the `seq` of one priority is known, and enough: what comes before it, and what was changed. */
export function rangesBefore(priority: number, seq: number): Ranges {
  const before: Ranges = priority > firstPlace[0] ? [[...firstPlace, priority - 1, lastPlace[1], false]] : [];
  return [...before, [priority, -1, priority, seq, true]];
}
