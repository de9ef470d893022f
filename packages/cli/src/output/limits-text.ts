import type { LimitPart, LimitStatus } from '@pgqueue/router';
import type { Column } from './fit.ts';
import { fitted, wrapped } from './fit.ts';
import { age } from './format.ts';
import type { Output } from './output.ts';

const columns: readonly Column[] = [
  { head: 'shared limit', cut: true },
  { head: 'home', cut: true },
  { head: 'size' },
  { head: 'in flight', right: true },
];

/**
 * Formats shared limits under headings: home, size, jobs in flight, and the parts in the lines below. No line is wider
 * than `width`.
 */
export function limitsText(limits: readonly LimitStatus[], width: number): readonly string[] {
  const rows = limits.map((limit) => [limit.name, limit.home, sayLimit(limit), inFlightOf(limit)]);
  const [heads = '', ...lines] = fitted(columns, rows, width);
  return [
    heads,
    ...limits.flatMap(({ parts }, index) => {
      const told = parts.map((part) => `${part.installation} ${part.part}${said(part)}`);
      return [lines[index] ?? '', ...(told.length === 0 ? [] : wrapped('  parts: ', told.join(', '), width))];
    }),
  ];
}

/** Formats shared limits, a line for the part of each installation. */
export function partsText(limits: readonly LimitStatus[], output: Output): string {
  if (limits.length === 0) return 'no shared limits';
  const rows = limits.flatMap((limit) =>
    limit.parts.map((part) => [
      limit.name,
      limit.home,
      sayLimit(limit),
      part.installation,
      part.perSecond === null ? part.part : `${part.part}, ${rounded(part.perSecond)}/s`,
      part.reserved,
      part.inFlight,
      part.silentMs === 0 ? 'leased' : `silent for ${age(part.silentMs)}`,
    ]),
  );
  return output.table(
    ['shared limit', 'home', 'size', 'installation', 'part', 'reserved', 'in flight', 'state'],
    rows,
  );
}

function sayLimit({ size, perSecond }: LimitStatus): string {
  return perSecond === null ? String(size) : `${rounded(perSecond)}/s, burst ${size}`;
}

function inFlightOf({ kind, parts }: LimitStatus): number | null {
  return kind === 'rate' ? null : parts.reduce((sum, { inFlight }) => sum + (inFlight ?? 0), 0);
}

function said({ silentMs, reserved }: LimitPart): string {
  return silentMs > 0 && reserved > 0 ? ` (silent, keeps ${reserved})` : '';
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}
