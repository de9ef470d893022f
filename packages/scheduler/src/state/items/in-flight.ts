import type { JobFacts, Settlement } from '@pgqueue/core';
import type { ItemFacts, SettledBatch, TickState } from '@pgqueue/postgres';
import { frontOf, spacing } from './scan-start.ts';
import type { Flying, Item, ItemMade } from './item.ts';
import { heldBy, itemOf, Items, leftOf } from './item.ts';

/**
 * What every work item is. The leader is the only one that makes work items, so it knows them; each tick's snapshot says which are
 * still there, and who holds them. Only after a change of leader must it ask what they are.
 */
export interface Ledger {
  /**
   * Brings it to a snapshot of all items from `from` on, and of {@link Ledger.before}. `settlements`: whether those will be asked for. `unknown`: positions of items that it knows
   * nothing of, see {@link Ledger.learn}; `parts`: where the parts of batches would be that were before `from`, and are no more.
   */
  readonly see: (
    items: TickState['items'],
    how: { readonly settlements: boolean; readonly from: number },
  ) => { readonly unknown: readonly number[]; readonly parts: readonly number[] };
  /** What unknown items are. Those of which nothing is known even so have no job any more: they are not asked for again. */
  readonly learn: (
    facts: readonly ItemFacts[],
    seen: { readonly items: TickState['items']; readonly unknown: readonly number[] },
  ) => void;
  /** This leader wrote an item. */
  readonly wrote: (item: ItemMade, position: number) => Item;
  /** Of the items that were to be recalled, those of `back` are no more: their jobs wait again. Returns them; the others are stuck. */
  readonly tookBack: (asked: readonly string[], back: ReadonlySet<string>) => readonly JobFacts[];
  readonly flying: () => Flying;
  /** What is in flight when these jobs have ended; undefined: it is all the same. Not where settlements are asked for, which tell how. */
  readonly without: (
    ids: ReadonlySet<string>,
  ) => { readonly flying: Flying; readonly confirm: () => void } | undefined;
  /** No item before this position is there any more but for {@link Ledger.before}; 0 before it has been told of any. */
  readonly from: () => number;
  /** No batch is before this position. */
  readonly firstBatch: () => number;
  /** Items before a position. */
  readonly before: (position: number) => readonly number[];
  /** Whether it knows an item of that position, or that it has no job. */
  readonly knows: (position: number) => boolean;
  /** Ended attempts of a snapshot, after {@link Ledger.see}; those of items that it never knew are left out. */
  readonly settled: (
    batches: readonly SettledBatch[],
    whole: boolean,
    nowMs: number,
  ) => readonly Settlement[];
  /** Batches that were taken into account and are still there: they go with the next write. */
  readonly unsaved: () => readonly number[];
  readonly saved: (batches: readonly number[]) => void;
  readonly reset: () => void;
}

/** Items that ended are remembered until their settlement was read: at most so many. */
const endedMax = 50_000;

/** Items without a job are remembered, so that they are asked for once: so many of them. */
const orphansMax = 10_000;

/** Above so many, the sizes of bundles that ended are forgotten. */
const bundlesMax = 10_000;

export function createLedger(): Ledger {
  const items = new Items();
  const ended = new Map<number, Item>();
  /** When each ended: a server that crashed draws their numbers again. */
  const counted = new Map<number, number>();
  let orphans: ReadonlySet<number> = new Set();
  const bundles = new Map<string, number>();
  /** Where most of them begin (a server that forgot which ones it drew draws them again), and the one behind the highest. */
  const span = { from: 0, end: 0 };
  const add = (item: Item): Item => {
    const { position, bundle, jobs } = item;
    items.set(item);
    [span.from, span.end] = [Math.min(span.from, position), Math.max(span.end, position + 1)];
    if (bundle !== null) bundles.set(bundle, (bundles.get(bundle) ?? 0) + jobs.length);
    return item;
  };

  const see: Ledger['see'] = (groups, { settlements, from }) => {
    const [unknown, parts]: [number[], number[]] = [[], []];
    const next = new Map<number, Item>();
    for (const { node, positions } of groups) {
      for (const position of positions) {
        const item = items.get(position);
        if (item === undefined) {
          if (!orphans.has(position)) unknown.push(position);
        } else next.set(position, heldBy(item, node));
      }
    }
    for (const [position, item] of items) {
      if (next.has(position)) continue;
      if (position < from) parts.push(...partsOf(position, item.jobs.length));
      if (settlements) ended.set(position, item);
    }
    items.replace(next);
    const seen = groups.flatMap(({ positions }) => positions);
    span.from = unknown.reduce((least, position) => Math.min(least, position), frontOf(seen, span.end));
    if (bundles.size > bundlesMax) forget(bundles, [...items.flying.items, ...ended.values()]);
    return { unknown, parts };
  };

  return {
    see,
    learn: (facts, seen) => {
      const nodes = nodesOf(seen.items);
      movedOut(ended, new Set(facts.map(({ id }) => id)));
      for (const [position, jobs] of Map.groupBy(facts, (fact) => fact.position)) {
        const made = madeOf(jobs);
        if (made !== undefined) add(itemOf(made, position, nodes.get(position) ?? null));
      }
      orphans = new Set(
        [...orphans, ...seen.unknown].filter((position) => !items.has(position)).slice(-orphansMax),
      );
    },
    wrote: (made, position) => add(itemOf(made, position, null)),
    tookBack: (asked, back) => items.takeBack(asked, back),
    flying: () => items.flying,
    without: (ids) => items.without(ids),
    firstBatch: () => items.firstBatch ?? span.end,
    from: () => span.from,
    before: (position) => [...items.positions].filter((known) => known < position),
    knows: (position) => items.has(position) || orphans.has(position),
    settled: (batches, whole, nowMs) => {
      const fresh = batches.filter(({ n, atMs }) => counted.get(n) !== atMs);
      if (whole) forgetOthers(counted, batches);
      for (const { n, atMs } of fresh) counted.set(n, atMs);
      return toldBy(fresh, { items, ended, bundles, whole, nowMs });
    },
    unsaved: () => [...counted.keys()],
    saved: (batches) => {
      for (const n of batches) counted.delete(n);
    },
    reset: () => {
      orphans = new Set();
      items.replace(new Map());
      Object.assign(span, { from: 0, end: 0 });
      for (const known of [ended, counted, bundles]) known.clear();
    },
  };
}

/** Batches that are not there any more: none else takes them away, so the server has forgotten them. */
function forgetOthers(counted: Map<number, number>, batches: readonly SettledBatch[]): void {
  const there = new Set(batches.map(({ n }) => n));
  for (const n of counted.keys()) if (!there.has(n)) counted.delete(n);
}

function nodesOf(groups: TickState['items']): ReadonlyMap<number, string | null> {
  return new Map(
    groups.flatMap(({ node, positions }) => positions.map((position) => [position, node] as const)),
  );
}

function madeOf(jobs: readonly ItemFacts[]): ItemMade | undefined {
  const [first] = jobs;
  if (first === undefined) return undefined;
  const { pool, bundle, dispatchedMs } = first;
  return { jobs, pool, bundle, dispatchedMs: dispatchedMs ?? 0 };
}

/** Where what a batch was taken apart into stands: the SQL function `take_apart`. Behind the place of a batch there may be one of a single job. */
function partsOf(position: number, size: number): readonly number[] {
  if (size === 1 && position % spacing === 0) return [];
  return Array.from({ length: 2 * size }, (_, n) => position + n + 1);
}

/** Jobs of batches that were taken apart have not ended: they have rows of their own. */
function movedOut(ended: Map<number, Item>, ids: ReadonlySet<string>): void {
  for (const [position, item] of ended) if (item.jobs.length > 1) ended.set(position, leftOf(item, ids));
}

function toldBy(
  batches: readonly SettledBatch[],
  {
    items,
    ended,
    bundles,
    whole,
    nowMs,
  }: {
    readonly items: Items;
    readonly ended: Map<number, Item>;
    readonly bundles: ReadonlyMap<string, number>;
    readonly whole: boolean;
    readonly nowMs: number;
  },
): readonly Settlement[] {
  const found: Settlement[] = [];
  for (const batch of batches) {
    settlementsOf(batch, { find: (position) => items.get(position) ?? ended.get(position), bundles, found });
    for (const position of batch.positions) ended.delete(position);
  }
  // all that ended by a settlement has been told: the rest was cancelled, or taken away, before it ran
  if (whole) {
    for (const { jobs } of ended.values())
      for (const job of jobs) found.push({ job, outcome: 'cancelled', busyMs: 0, endedMs: nowMs });
    ended.clear();
  }
  for (const position of ended.keys()) {
    if (ended.size <= endedMax) break;
    ended.delete(position);
  }
  return found;
}

function settlementsOf(
  { positions, verdicts, busyMs, atMs }: SettledBatch,
  told: {
    readonly find: (position: number) => Item | undefined;
    readonly bundles: ReadonlyMap<string, number>;
    readonly found: Settlement[];
  },
): void {
  // of a batch, its position stands there once for each of its jobs, in their order
  let [last, place] = [-1, 0];
  positions.forEach((position, index) => {
    [last, place] = [position, position === last ? place + 1 : 0];
    const item = told.find(position);
    const job = item?.jobs[place];
    const outcome = verdicts[index];
    if (item === undefined || job === undefined || outcome === undefined) return;
    // each job of a bundle was leased for as long as the one call ran that took them all
    const together = item.bundle === null ? 1 : (told.bundles.get(item.bundle) ?? 1);
    told.found.push({ job, outcome, busyMs: Math.max(0, busyMs[index] ?? 0) / together, endedMs: atMs });
  });
}

/** Leaves out bundles of which nothing is known any more. */
function forget(bundles: Map<string, number>, items: readonly Item[]): void {
  const known = new Set(items.map(({ bundle }) => bundle));
  for (const bundle of bundles.keys()) if (!known.has(bundle)) bundles.delete(bundle);
}
