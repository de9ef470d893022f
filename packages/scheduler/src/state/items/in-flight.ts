import type { JobFacts, Settlement } from '@pgqueue/core';
import type { ItemFacts, SettledBatch, TickState } from '@pgqueue/postgres/internal';
import { frontOf, spacing } from './scan-start.ts';
import type { Flying, Item, ItemMade } from './item.ts';
import { heldBy, itemOf, Items, leftOf } from './item.ts';

/**
 * Every work item in flight. Only the leader creates work items, so it knows them from its own writes. Each
 * tick's snapshot says which ones still exist and which node holds them. The facts must be read only after a
 * change of leader.
 */
export interface InFlightItems {
  /**
   * Updates the inFlight from a snapshot that contains all items from position `from` on, and the items of
   * {@link InFlightItems.before}. `settlements`: true if {@link InFlightItems.settled} will be called. Returns `unknown`:
   * positions of unknown items, to be passed to {@link InFlightItems.learn}; and `parts`: possible positions of the
   * parts of batches that were below `from` and are gone.
   */
  readonly see: (
    items: TickState['items'],
    how: { readonly settlements: boolean; readonly from: number },
  ) => { readonly unknown: readonly number[]; readonly parts: readonly number[] };
  /** Adds the facts of unknown items. An item without facts has no job left, and is not asked for again. */
  readonly learn: (
    facts: readonly ItemFacts[],
    seen: { readonly items: TickState['items']; readonly unknown: readonly number[] },
  ) => void;
  /** Adds an item that this leader wrote. */
  readonly wrote: (item: ItemMade, position: number) => Item;
  /**
   * Removes recalled jobs. `asked`: jobs that were to be recalled; `back`: the ones that were, whose jobs
   * wait again. Returns the removed jobs; the others count as stuck.
   */
  readonly tookBack: (asked: readonly string[], back: ReadonlySet<string>) => readonly JobFacts[];
  readonly flying: () => Flying;
  /**
   * Returns what is in flight without these ended jobs; undefined: none of them was in flight. Not for use
   * with settlements, which also tell how a job ended.
   */
  readonly without: (
    ids: ReadonlySet<string>,
  ) => { readonly flying: Flying; readonly confirm: () => void } | undefined;
  /**
   * Lowest position the next scan must read; older live items are returned by {@link InFlightItems.before}. 0 until
   * the first scan.
   */
  readonly from: () => number;
  /** Positions of the items below a position. */
  readonly before: (position: number) => readonly number[];
  /** Reports whether the item at a position is known, or known to have no job. */
  readonly knows: (position: number) => boolean;
  /**
   * Returns the ended attempts of a snapshot; call after {@link InFlightItems.see}. Attempts of items that were
   * never known are left out. `whole`: `batches` are all batches there are.
   */
  readonly settled: (
    batches: readonly SettledBatch[],
    whole: boolean,
    nowMs: number,
  ) => readonly Settlement[];
  /** Batches of settlements that were counted but still exist; the next write removes them. */
  readonly unsaved: () => readonly number[];
  readonly saved: (batches: readonly number[]) => void;
}

/** Most ended items remembered until their settlement is read. */
const endedMax = 50_000;

/** Most items without a job to remember, so that each is asked for once. */
const orphansMax = 10_000;

/** Number of bundles above which the sizes of ended bundles are dropped. */
const bundlesMax = 10_000;

export function createInFlightItems(): InFlightItems {
  const items = new Items();
  const ended = new Map<number, Item>();
  /** Counted batches and the time each ended, since a crashed server may reuse their numbers. */
  const counted = new Map<number, number>();
  let orphans: ReadonlySet<number> = new Set();
  const bundles = new Map<string, number>();
  /** Item scan start and one past the highest position. A crashed server may reuse lower positions. */
  const span = { from: 0, end: 0 };
  const add = (item: Item): Item => {
    const { position, bundle, jobs } = item;
    items.set(item);
    [span.from, span.end] = [Math.min(span.from, position), Math.max(span.end, position + 1)];
    if (bundle !== null) bundles.set(bundle, (bundles.get(bundle) ?? 0) + jobs.length);
    return item;
  };

  const see: InFlightItems['see'] = (groups, { settlements, from }) => {
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
  };
}

/**
 * Drops batches that no longer exist. Only this leader removes them, so the server has lost them in a crash.
 */
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

/**
 * Positions at which the SQL function `take_apart` may have put a batch's parts. A batch of one job at a
 * regular position has no parts.
 */
function partsOf(position: number, size: number): readonly number[] {
  if (size === 1 && position % spacing === 0) return [];
  return Array.from({ length: 2 * size }, (_, n) => position + n + 1);
}

/** Removes jobs of batches that were taken apart from the ended items: they have rows of their own. */
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
  // every settlement has been read, so the remaining items were cancelled or taken away before they ran
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
  { positions, sizes, verdicts, busyMs, atMs }: SettledBatch,
  told: {
    readonly find: (position: number) => Item | undefined;
    readonly bundles: ReadonlyMap<string, number>;
    readonly found: Settlement[];
  },
): void {
  let index = 0;
  positions.forEach((position, n) => {
    const item = told.find(position);
    const size = sizes?.[n] ?? 1;
    // each job of a bundle was leased for the duration of the one call that ran all of them
    const bundle = item?.bundle ?? null;
    const together = bundle === null ? 1 : (told.bundles.get(bundle) ?? 1);
    for (let place = 0; place < size; place += 1, index += 1) {
      const job = item?.jobs[place];
      const outcome = verdicts === null ? 'done' : verdicts[index];
      if (job === undefined || outcome === undefined) continue;
      told.found.push({ job, outcome, busyMs: Math.max(0, busyMs[index] ?? 0) / together, endedMs: atMs });
    }
  });
}

/** Drops bundles that no remaining item belongs to. */
function forget(bundles: Map<string, number>, items: readonly Item[]): void {
  const known = new Set(items.map(({ bundle }) => bundle));
  for (const bundle of bundles.keys()) if (!known.has(bundle)) bundles.delete(bundle);
}
