import type { ReactNode } from 'react';
import type { Count } from '../../../src/contract.ts';
import { exact, short } from '../format/numbers.ts';

/** Formats a count that may have stopped early (`1,000+`) or be an estimate (`≈ 1.2M`). */
export function countText({ count, kind }: Count, shown: (value: number) => string = short): string {
  if (kind === 'about') return `≈ ${shown(count)}`;
  return `${shown(count)}${kind === 'at_least' ? '+' : ''}`;
}

export function CountOf({ of }: { readonly of: Count }): ReactNode {
  return <span title={countText(of, exact)}>{countText(of)}</span>;
}

/** Adds counts; the sum is as exact as the least exact of them. */
export function sum(...counts: readonly Count[]): Count {
  const kinds = new Set(counts.map(({ kind }) => kind));
  return {
    count: counts.reduce((total, { count }) => total + count, 0),
    kind: kinds.has('about') ? 'about' : kinds.has('at_least') ? 'at_least' : 'exact',
  };
}
