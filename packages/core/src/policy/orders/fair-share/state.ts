import type { Json } from '../../../job/job.ts';
import type { Written } from '../../policy.ts';
import type { Runtimes } from '../ranking/runtimes.ts';
import { asRecord, noRuntimes, restoreRuntimes } from '../ranking/runtimes.ts';
import type { Over, PoolCharge } from './over.ts';
import { restoreOver, used } from './over.ts';
import type { Decay, Shares } from './saved.ts';
import { charged, restoreShares } from './saved.ts';

/** State of fair share. Plain JSON. */
export type FairShareState = {
  /** Unit of costs. A saved state in another unit, or with another number of levels, is not restored. */
  readonly unit: 'jobs' | 'cost' | 'time';
  readonly levels: number;
  /** Shares by the name of their pool. */
  readonly pools: { readonly [pool: string]: Shares | null };
  readonly runtimes: Runtimes;
  /** Charges of the last plan, until it is known which of its jobs were written. */
  readonly unsure: readonly Unsure[];
  /** Set when the order shares with other installations. */
  readonly over?: Over;
};

export type Unsure = {
  readonly id: string;
  readonly pool: string;
  readonly path: readonly string[];
  readonly amounts: readonly number[];
};

export function noState({ unit, levels }: Pick<FairShareState, 'unit' | 'levels'>): FairShareState {
  return { unit, levels, pools: {}, runtimes: noRuntimes, unsure: [] };
}

/** Returns the valid parts of a state that another leader saved. */
export function restoreState(saved: Json, like: FairShareState): FairShareState {
  const { unit, levels, pools, runtimes, unsure, over } = asRecord(saved);
  const known = { ...like, runtimes: restoreRuntimes(runtimes) };
  if (unit !== like.unit || levels !== like.levels || typeof pools !== 'object' || pools === null)
    return known;
  const restored = Object.entries(pools).map(
    ([pool, shares]) => [pool, restoreShares(shares, levels)] as const,
  );
  return {
    ...known,
    pools: Object.fromEntries(restored),
    unsure: Array.isArray(unsure) ? unsure.filter(isUnsure) : [],
    ...(like.over === undefined ? {} : { over: restoreOver(over) }),
  };
}

function isUnsure(value: unknown): value is Unsure {
  const { id, pool, path, amounts } = asRecord(value);
  return typeof id === 'string' && typeof pool === 'string' && Array.isArray(path) && Array.isArray(amounts);
}

/** Adds charges to the shares of their pools. */
export function withCharges(
  pools: FairShareState['pools'],
  charges: readonly PoolCharge[],
  decay: Decay,
): FairShareState['pools'] {
  if (charges.length === 0) return pools;
  const changed = new Map(Object.entries(pools));
  for (const [pool, own] of Map.groupBy(charges, ({ pool: name }) => name)) {
    changed.set(pool, charged(changed.get(pool) ?? null, own, { decay }));
  }
  return Object.fromEntries(changed);
}

/** Takes back the charges of jobs that were not written, and counts those that were as use of this installation. */
export function afterWrite(
  state: FairShareState,
  { ids, atMs }: Written,
  halfLifeMs: number | null,
): FairShareState {
  if (state.unsure.length === 0) return state;
  const lost = state.unsure.filter(({ id }) => !ids.has(id));
  const back = lost.map((charge) => ({ ...charge, amounts: charge.amounts.map((amount) => -amount) }));
  const { over } = state;
  const written = over === undefined ? [] : state.unsure.filter(({ id }) => ids.has(id));
  return {
    ...state,
    pools: withCharges(state.pools, back, { nowMs: atMs, halfLifeMs }),
    unsure: [],
    ...(over === undefined ? {} : { over: used(over, written) }),
  };
}
