import type { InstallationStatus, RouterStatus } from '@pgqueue/router';
import type { Column } from './fit.ts';
import { fitted, wrapped } from './fit.ts';
import { age, oneLine } from './format.ts';
import { limitsText } from './limits-text.ts';
import type { Cell } from './table.ts';
import { about } from './top.ts';

/** Width of a usual terminal. */
const width = 80;

const columns: readonly Column[] = [
  { head: 'installation', cut: true },
  { head: 'no', right: true },
  { head: 'state' },
  { head: 'waiting', right: true },
  { head: 'ready', right: true },
  { head: 'running', right: true },
  { head: 'dead', right: true },
  { head: 'oldest', right: true },
  { head: 'done/s', right: true },
  { head: 'slots', right: true },
];

/**
 * Formats the status of several installations: a line each, their sum, shared limits, then those that are down and the warnings. No
 * line is wider than 80 places: a long name is cut, a long message goes on in the next line.
 */
export function routerStatusText({ installations, totals, nodes, limits }: RouterStatus): string {
  const rows = installations.map((one): readonly Cell[] => [
    one.installation,
    one.number,
    stateOf(one),
    ...(one.status === null ? [] : cells(one.status.totals, one.status.nodes)),
  ]);
  const answered = installations.filter(({ status }) => status !== null).length;
  const state = answered === installations.length ? '' : `${answered} of ${installations.length}`;
  const sum = installations.length > 1 ? [['all', '', state, ...cells(totals, nodes)]] : [];
  // an error names its installation
  const down = installations.flatMap(({ error }) =>
    error === null ? [] : wrapped('DOWN  ', oneLine(error), width),
  );
  const warnings = installations.flatMap(({ installation, status }) =>
    (status?.warnings ?? []).flatMap(({ message }) =>
      wrapped('WARN  ', `${installation}: ${oneLine(message)}`, width),
    ),
  );
  const shared = limits.length === 0 ? [] : ['', ...limitsText(limits, width)];
  return [...fitted(columns, [...rows, ...sum], width), ...shared, ...down, ...warnings].join('\n');
}

function stateOf({ state, status }: InstallationStatus): string {
  if (status === null) return 'down';
  return state === 'draining' ? 'drains' : state;
}

function cells(totals: RouterStatus['totals'], nodes: RouterStatus['nodes']): readonly Cell[] {
  const counted = (count: number): string => about(count, totals.exact, short);
  return [
    counted(totals.pending + totals.delayed),
    short(totals.ready),
    short(totals.running),
    counted(totals.dead),
    age(totals.oldestMs),
    totals.donePerSecond < 1_000 ? totals.donePerSecond.toFixed(1) : short(totals.donePerSecond),
    `${short(nodes.slotsInUse)}/${short(nodes.slots)}`,
  ];
}

const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 });

/** Formats a number in up to five places: `9999`, and from 10,000 on `12.3K`. */
function short(count: number): string {
  return count < 10_000 ? String(Math.round(count)) : compact.format(count);
}
