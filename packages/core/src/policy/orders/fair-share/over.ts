import type { Prepared } from '../../snapshot.ts';
import type { Charge, Decay } from './saved.ts';
import { decayOf } from './saved.ts';

/**
 * Recent use of shares, as amounts on each level (cost divided by weight), by the JSON text of pool and path:
 * `["default","mail","acme"]`. Amounts decay with the half-life of the order.
 */
export type Uses = { readonly [share: string]: readonly number[] };

/** Knowledge of a fair share over several installations. Plain JSON. */
export type Over = {
  /** Use here, as of `ownMs`. */
  readonly own: Uses;
  readonly ownMs: number;
  /** Use here since then. */
  readonly since: Uses;
  /** Use in the others that the shares here are charged with, as of `othersMs`. */
  readonly others: Uses;
  readonly othersMs: number;
  /** Time of the answer that `others` is from. */
  readonly answerMs: number;
};

/** Charge of a pool. */
export interface PoolCharge extends Charge {
  readonly pool: string;
}

export const noOver: Over = { own: {}, ownMs: 0, since: {}, others: {}, othersMs: 0, answerMs: 0 };

/** Most shares whose use is told; the others are the least used. */
const toldMax = 1_000;
/** A share whose use has decayed to this part of the greatest one is forgotten. */
const least = 1e-4;

/** Adds charges to the use here. */
export function used(over: Over, charges: readonly PoolCharge[]): Over {
  if (charges.length === 0) return over;
  const added = charges.map(({ pool, path, amounts }) => [JSON.stringify([pool, ...path]), amounts] as const);
  return { ...over, since: Object.fromEntries(sumsOf([...Object.entries(over.since), ...added])) };
}

/** Returns the use here after decay, the most used shares only. */
export function usesNow({ own, ownMs, since }: Over, decay: Decay): Uses {
  const before = aged(own, decayOf(ownMs, decay));
  const sums = sumsOf([...Object.entries(before), ...Object.entries(since)]);
  const sorted = [...sums].toSorted(([, a], [, b]) => sizeOf(b) - sizeOf(a)).slice(0, toldMax);
  const smallest = least * sizeOf(sorted[0]?.[1]);
  return Object.fromEntries(sorted.filter(([, amounts]) => sizeOf(amounts) > smallest));
}

/** Returns the sum of the uses that several installations have told, each decayed by its factor. */
export function sumOfUses(told: readonly { readonly uses: unknown; readonly left: number }[]): Uses {
  return Object.fromEntries(
    sumsOf(told.flatMap(({ uses, left }) => Object.entries(aged(restoreUses(uses), left)))),
  );
}

function sumsOf(
  uses: Iterable<readonly [string, readonly number[]]>,
): ReadonlyMap<string, readonly number[]> {
  const sums = new Map<string, readonly number[]>();
  for (const [share, amounts] of uses) {
    const sum = sums.get(share);
    sums.set(share, sum === undefined ? amounts : amounts.map((amount, level) => amount + (sum[level] ?? 0)));
  }
  return sums;
}

/**
 * Takes an answer about the others, once: returns the charges by which their use differs from what the shares are
 * charged with. No answer, or an old one, charges nothing: what was charged decays. An installation whose order has
 * another number of levels is not charged for.
 */
export function heard(
  over: Over,
  answer: Prepared | undefined,
  { decay, levels }: { readonly decay: Decay; readonly levels: number },
): { readonly over: Over; readonly charges: readonly PoolCharge[] } {
  const { nowMs, halfLifeMs } = decay;
  const news = answer !== undefined && answer.atMs > over.answerMs ? answer : undefined;
  // without answers, what is used in a half-life counts as if it had been used at its end
  if (news === undefined && nowMs - over.ownMs <= (halfLifeMs ?? Infinity)) return { over, charges: [] };
  const own = { ...over, own: usesNow(over, decay), ownMs: nowMs, since: {} };
  if (news === undefined) return { over: own, charges: [] };
  const before = aged(over.others, decayOf(over.othersMs, decay));
  const others = aged(restoreUses(news.value), decayOf(news.atMs, decay));
  const shares = [...new Set([...Object.keys(before), ...Object.keys(others)])].toSorted();
  const charges = shares.flatMap((share): PoolCharge[] => {
    const charged = before[share] ?? [];
    const amounts = (others[share] ?? charged.map(() => 0)).map(
      (amount, level) => amount - (charged[level] ?? 0),
    );
    const [pool, ...path] = JSON.parse(share) as readonly [string, ...string[]];
    const counts =
      path.length === levels &&
      amounts.some((amount, level) => Math.abs(amount) > 1e-9 * Math.abs(charged[level] ?? 0));
    return counts ? [{ pool, path, amounts }] : [];
  });
  return { over: { ...own, others, othersMs: nowMs, answerMs: news.atMs }, charges };
}

/** Returns the valid parts of a saved state. */
export function restoreOver(saved: unknown): Over {
  const { own, ownMs, since, others, othersMs, answerMs } = { ...noOver, ...Object(saved) } as Over;
  if (![ownMs, othersMs, answerMs].every(Number.isFinite)) return noOver;
  return {
    own: restoreUses(own),
    ownMs,
    since: restoreUses(since),
    others: restoreUses(others),
    othersMs,
    answerMs,
  };
}

function restoreUses(value: unknown): Uses {
  return Object.fromEntries(
    Object.entries(Object(value) as Readonly<Record<string, unknown>>).filter(
      (entry): entry is [string, readonly number[]] => isUse(...entry),
    ),
  );
}

function isUse(share: string, amounts: unknown): boolean {
  if (!Array.isArray(amounts) || !amounts.every((amount) => Number.isFinite(amount))) return false;
  try {
    const names: unknown = JSON.parse(share);
    return (
      Array.isArray(names) &&
      names.length === amounts.length + 1 &&
      names.every((name) => typeof name === 'string')
    );
  } catch {
    return false;
  }
}

function aged(uses: Uses, left: number): Uses {
  if (left === 1) return uses;
  return Object.fromEntries(
    Object.entries(uses).map(([share, amounts]) => [share, amounts.map((amount) => amount * left)]),
  );
}

/** Use on the last level, by which shares are compared; what was given back after it had decayed counts as none. */
function sizeOf(amounts: readonly number[] | undefined): number {
  return Math.max(0, amounts?.at(-1) ?? 0);
}
