import { columnsOf } from '../ranking/columns.ts';

/**
 * Use of the shares of one level, in columns. Plain JSON, and small: shares that are idle and not ahead are
 * left out, and each name stands once.
 */
export type Shares = {
  readonly names: readonly string[];
  /** Lead of each share over the virtual time, which is 0 here: cost divided by weight. */
  readonly ahead: readonly number[];
  /**
   * Level below each share. A null entry: no share is ahead there. Null as a whole: there is no level below.
   */
  readonly below: readonly (Shares | null)[] | null;
  /** Time when `ahead` last decayed, in Unix milliseconds. Null: it does not decay. */
  readonly atMs: number | null;
  /** The share that was served last had just arrived. */
  readonly arrival: boolean;
};

/** Cost charged to a share on every level. */
export interface Charge {
  /** Names of the shares, from the first level to the last. */
  readonly path: readonly string[];
  /** Amount on each level: cost divided by weight. Below 0: the cost is given back. */
  readonly amounts: readonly number[];
}

export interface Decay {
  readonly nowMs: number;
  readonly halfLifeMs: number | null;
}

/** Returns the factor by which an `ahead` of time `atMs` has decayed. */
export function decayOf(atMs: number | null, { nowMs, halfLifeMs }: Decay): number {
  if (halfLifeMs === null || atMs === null) return 1;
  return 0.5 ** (Math.max(0, nowMs - atMs) / halfLifeMs);
}

/** Returns the lead of each share after decay. */
export function aheadNow({ ahead, atMs }: Shares, decay: Decay): readonly number[] {
  const left = decayOf(atMs, decay);
  return left === 1 ? ahead : ahead.map((value) => (value > 0 ? value * left : value));
}

/**
 * Adds charges to shares. A negative charge for a share that is not stored is dropped, since such a share is
 * not ahead.
 */
export function charged(
  shares: Shares | null,
  charges: readonly Charge[],
  { decay, level = 0 }: { readonly decay: Decay; readonly level?: number },
): Shares | null {
  if (charges.length === 0) return shares;
  const before = shares?.names ?? [];
  const remembered = columnsOf(before);
  const ahead = shares === null ? [] : [...aheadNow(shares, decay)];
  const last = charges.every(({ path }) => path.length === level + 1);
  const below: (Shares | null)[] | null = last
    ? null
    : before.map((_, column) => shares?.below?.[column] ?? null);
  const added: string[] = [];
  for (const [name, all] of Map.groupBy(charges, ({ path }) => path[level] ?? '')) {
    const known = remembered.get(name);
    const own = known === undefined ? all.filter(({ amounts }) => (amounts[level] ?? 0) > 0) : all;
    if (own.length === 0) continue;
    const column = known ?? before.length + added.push(name) - 1;
    for (const { amounts } of own) ahead[column] = (ahead[column] ?? 0) + (amounts[level] ?? 0);
    if (below !== null) below[column] = charged(below[column] ?? null, own, { decay, level: level + 1 });
  }
  const names = added.length === 0 ? before : [...before, ...added];
  if (names.length === 0) return shares;
  const atMs = decay.halfLifeMs === null ? null : decay.nowMs;
  return { names, ahead, below, atMs, arrival: shares?.arrival === true };
}

/** Returns the valid parts of saved shares. Null: none is valid. */
export function restoreShares(saved: unknown, levels: number): Shares | null {
  if (typeof saved !== 'object' || saved === null || levels === 0) return null;
  const { names, ahead, below, atMs, arrival }: Readonly<Record<string, unknown>> = { ...saved };
  if (!isColumn(names, (name) => typeof name === 'string')) return null;
  if (!isColumn(ahead, (value) => Number.isFinite(value)) || ahead.length !== names.length) return null;
  return {
    names: names as readonly string[],
    ahead: ahead as readonly number[],
    below:
      levels === 1
        ? null
        : names.map((_, index) => restoreShares(Array.isArray(below) ? below[index] : null, levels - 1)),
    atMs: typeof atMs === 'number' ? atMs : null,
    arrival: arrival === true,
  };
}

function isColumn(value: unknown, is: (entry: unknown) => boolean): value is readonly unknown[] {
  return Array.isArray(value) && value.every(is);
}
