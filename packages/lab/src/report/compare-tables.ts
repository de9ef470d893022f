import type { Comparison } from '../simulation/compare.ts';
import type { Table } from './table.ts';
import { sayLane, sayMs, sayShare } from './format.ts';

/** Most keys that are listed. */
const keysMax = 25;

/** Returns the table of the keys under both policies. */
export function laneDifferenceTable(
  { base, lanes }: Comparison,
  named: { readonly base: string; readonly other: string },
): Table {
  const shown = lanes.slice(0, keysMax);
  return {
    title: 'Keys under both',
    heads: [
      'key',
      `p50 ${named.base}`,
      `p50 ${named.other}`,
      `p95 ${named.base}`,
      `p95 ${named.other}`,
      `share of its entitlement ${named.base}`,
      `share of its entitlement ${named.other}`,
    ],
    rows: shown.map((lane) => [
      sayLane(lane, { alone: base.queues.length === 1 }),
      sayMs(lane.base?.waits.p50Ms ?? null),
      sayMs(lane.other?.waits.p50Ms ?? null),
      sayMs(lane.base?.waits.p95Ms ?? null),
      sayMs(lane.other?.waits.p95Ms ?? null),
      sayShare(lane.base?.served.ratio ?? null),
      sayShare(lane.other?.served.ratio ?? null),
    ]),
    note: 'Those whose p95 of waits changes most.',
  };
}
