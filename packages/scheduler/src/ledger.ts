import type { InFlight, Settlement } from '@pgqueue/core';
import type { ItemFacts, SettledBatch, TickState } from '@pgqueue/postgres';
import { frontOf } from './front.ts';

/**
 * What every work item is. The leader is the only one that makes work items, so it knows them; each tick's snapshot says which are
 * still there, and who holds them. Only after a change of leader must it ask what they are.
 */
export interface Ledger {
  /** Brings it to a snapshot. `settlements`: whether those will be asked for. Returns the positions of items that it knows nothing of: see {@link Ledger.learn}. */
  readonly see: (items: TickState['items'], settlements: boolean) => readonly number[];
  /** What unknown items are. Those of which nothing is known even so have no job any more: they are not asked for again. */
  readonly learn: (
    facts: readonly ItemFacts[],
    seen: { readonly items: TickState['items']; readonly unknown: readonly number[] },
  ) => void;
  /** This leader wrote an item. */
  readonly wrote: (item: Omit<InFlight, 'state' | 'node'>, position: number) => void;
  /** Of the items that were to be recalled, those of `back` are no more: their jobs wait again. Returns them; the others are stuck. */
  readonly tookBack: (asked: readonly string[], back: ReadonlySet<string>) => readonly InFlight[];
  readonly inFlight: () => readonly InFlight[];
  /** What is in flight when these jobs have ended; undefined: it is all the same. Not where settlements are asked for, which tell how. */
  readonly without: (
    ids: ReadonlySet<string>,
  ) => { readonly inFlight: readonly InFlight[]; readonly confirm: () => void } | undefined;
  /** No item before this position is there any more but for {@link Ledger.before}; 0 before it has been told of any. */
  readonly from: () => number;
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
  let items = new Map<number, InFlight>();
  const ended = new Map<number, InFlight>();
  const counted = new Set<number>();
  let orphans: ReadonlySet<number> = new Set();
  const bundles = new Map<string, number>();
  /** Where most of them begin (a server that forgot which ones it drew draws them again), and the one behind the highest. */
  const span = { from: 0, end: 0 };
  const add = (position: number, item: InFlight): void => {
    items.set(position, item);
    [span.from, span.end] = [Math.min(span.from, position), Math.max(span.end, position + 1)];
    if (item.bundle !== null) bundles.set(item.bundle, (bundles.get(item.bundle) ?? 0) + 1);
  };

  const see: Ledger['see'] = (groups, settlements) => {
    const unknown: number[] = [];
    const next = new Map<number, InFlight>();
    for (const { node, positions } of groups) {
      for (const position of positions) {
        const item = items.get(position);
        if (item === undefined) {
          if (!orphans.has(position)) unknown.push(position);
        } else next.set(position, item.node === node ? item : held(item, node));
      }
    }
    if (settlements) for (const [position, item] of items) if (!next.has(position)) ended.set(position, item);
    items = next;
    const seen = groups.flatMap(({ positions }) => positions);
    span.from = unknown.reduce((least, position) => Math.min(least, position), frontOf(seen, span.end));
    if (bundles.size > bundlesMax) forget(bundles, [...items.values(), ...ended.values()]);
    return unknown;
  };

  return {
    see,
    learn: (facts, seen) => {
      const nodes = nodesOf(seen.items);
      for (const { position, dispatchedMs, ...item } of facts) {
        const node = nodes.get(position) ?? null;
        add(position, held({ ...item, dispatchedMs: dispatchedMs ?? 0, state: 'ready', node: null }, node));
      }
      orphans = new Set(
        [...orphans, ...seen.unknown].filter((position) => !items.has(position)).slice(-orphansMax),
      );
    },
    wrote: (item, position) => add(position, { ...item, state: 'ready', node: null }),
    tookBack: (asked, back) => takeBack(items, asked, back),
    inFlight: () => [...items.values()],
    without: (ids) => without(items, ids),
    from: () => span.from,
    before: (position) => [...items.keys()].filter((known) => known < position),
    knows: (position) => items.has(position) || orphans.has(position),
    settled: (batches, whole, nowMs) => {
      const fresh = batches.filter(({ n }) => !counted.has(n));
      for (const { n } of fresh) counted.add(n);
      return toldBy(fresh, { items, ended, bundles, whole, nowMs });
    },
    unsaved: () => [...counted],
    saved: (batches) => {
      for (const n of batches) counted.delete(n);
    },
    reset: () => {
      orphans = new Set();
      items = new Map();
      Object.assign(span, { from: 0, end: 0 });
      for (const known of [ended, counted, bundles]) known.clear();
    },
  };
}

function nodesOf(groups: TickState['items']): ReadonlyMap<number, string | null> {
  return new Map(
    groups.flatMap(({ node, positions }) => positions.map((position) => [position, node] as const)),
  );
}

function without(items: Map<number, InFlight>, ids: ReadonlySet<string>): ReturnType<Ledger['without']> {
  const gone: number[] = [];
  const inFlight: InFlight[] = [];
  for (const [position, item] of items) {
    if (ids.has(item.id)) gone.push(position);
    else inFlight.push(item);
  }
  if (gone.length === 0) return undefined;
  const confirm = (): void => {
    for (const position of gone) items.delete(position);
  };
  return { inFlight, confirm };
}

function takeBack(
  items: Map<number, InFlight>,
  asked: readonly string[],
  back: ReadonlySet<string>,
): readonly InFlight[] {
  const ids = new Set(asked);
  const gone: InFlight[] = [];
  for (const [position, item] of items) {
    if (!ids.has(item.id)) continue;
    if (back.has(item.id)) {
      items.delete(position);
      gone.push(item);
    } else items.set(position, { ...item, stuck: true });
  }
  return gone;
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
    readonly items: ReadonlyMap<number, InFlight>;
    readonly ended: Map<number, InFlight>;
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
    for (const job of ended.values()) found.push({ job, outcome: 'cancelled', busyMs: 0, endedMs: nowMs });
    ended.clear();
  }
  for (const position of ended.keys()) {
    if (ended.size <= endedMax) break;
    ended.delete(position);
  }
  return found;
}

function held(item: InFlight, node: string | null): InFlight {
  return { ...item, node, state: node === null ? 'ready' : 'running', stuck: false };
}

function settlementsOf(
  { positions, verdicts, busyMs, atMs }: SettledBatch,
  told: {
    readonly find: (position: number) => InFlight | undefined;
    readonly bundles: ReadonlyMap<string, number>;
    readonly found: Settlement[];
  },
): void {
  positions.forEach((position, index) => {
    const job = told.find(position);
    const outcome = verdicts[index];
    if (job === undefined || outcome === undefined) return;
    // each job of a bundle was leased for as long as the one call ran that took them all
    const together = job.bundle === null ? 1 : (told.bundles.get(job.bundle) ?? 1);
    told.found.push({ job, outcome, busyMs: Math.max(0, busyMs[index] ?? 0) / together, endedMs: atMs });
  });
}

/** Leaves out bundles of which nothing is known any more. */
function forget(bundles: Map<string, number>, items: readonly InFlight[]): void {
  const known = new Set(items.map(({ bundle }) => bundle));
  for (const bundle of bundles.keys()) if (!known.has(bundle)) bundles.delete(bundle);
}
