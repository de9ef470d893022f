import type { InFlight, JobFacts } from '@pgqueue/core';
import { freezeAll } from '../../freeze.ts';

/**
 * A work item. Immutable except for the cached `inFlight`, so a caller that keeps an item sees it as it was.
 */
export interface Item {
  readonly position: number;
  /** One job, or the jobs of a batch or bundle in their order. */
  readonly jobs: readonly JobFacts[];
  /** True if the item was made for several jobs, each with a handler call of its own. */
  readonly batch: boolean;
  readonly pool: string;
  /** Node that holds the lease; null: ready. */
  readonly node: string | null;
  readonly dispatchedMs: number;
  readonly bundle: string | null;
  /** Jobs of the item that were to be recalled but could not be. */
  readonly stuck: ReadonlySet<string>;
  /** Cached view of the jobs for policies; undefined until first requested. */
  inFlight: readonly InFlight[] | undefined;
}

/** Facts of an item when it is created. */
export type ItemMade = Pick<Item, 'jobs' | 'pool' | 'dispatchedMs' | 'bundle'>;

/**
 * Immutable list of everything in flight at one moment. Most ticks need only the number of jobs and each
 * item's node, so the per-job objects are created only when a policy reads them.
 */
export interface Flying {
  readonly items: readonly Item[];
  /** Number of jobs. */
  readonly count: number;
  readonly jobs: () => readonly InFlight[];
}

const none: ReadonlySet<string> = new Set();

/** Creates an item. `node`: holder of the lease. */
export function itemOf(made: ItemMade, position: number, node: string | null): Item {
  const { jobs, pool, dispatchedMs, bundle } = made;
  const batch = jobs.length > 1 && bundle === null;
  return { position, jobs, batch, pool, node, dispatchedMs, bundle, stuck: none, inFlight: undefined };
}

/** Returns the item as held by `node`. */
export function heldBy(item: Item, node: string | null): Item {
  return item.node === node ? item : { ...item, node, stuck: none, inFlight: undefined };
}

export function createFlying(items: readonly Item[]): Flying {
  let count = 0;
  for (const { jobs } of items) count += jobs.length;
  let made: readonly InFlight[] | undefined;
  return { items, count, jobs: () => (made ??= Object.freeze(items.flatMap(jobsOf))) };
}

function jobsOf(item: Item): readonly InFlight[] {
  return (item.inFlight ??= item.jobs.map((job) => toInFlight(item, job)));
}

function toInFlight(item: Item, job: JobFacts): InFlight {
  const { position, batch, pool, node, dispatchedMs, bundle, stuck } = item;
  const { id, queue, key, task, version, priority, seq, createdMs, expiresMs, attributes, tries, flow } = job;
  freezeAll(attributes);
  return Object.freeze({
    id,
    queue,
    key,
    task,
    version,
    priority,
    seq,
    createdMs,
    expiresMs,
    attributes,
    tries,
    pool,
    state: node === null ? 'ready' : 'running',
    node,
    dispatchedMs,
    bundle,
    ...(flow === undefined ? {} : { flow }),
    ...(batch ? { row: position } : {}),
    ...(stuck.has(id) ? { stuck: true } : {}),
  });
}

/** Work items by position. */
export class Items {
  #byPosition = new Map<number, Item>();
  #flying: Flying | undefined;

  get(position: number): Item | undefined {
    return this.#byPosition.get(position);
  }

  has(position: number): boolean {
    return this.#byPosition.has(position);
  }

  get positions(): Iterable<number> {
    return this.#byPosition.keys();
  }

  [Symbol.iterator](): Iterator<readonly [number, Item]> {
    return this.#byPosition.entries();
  }

  /** Items in insertion order. */
  get flying(): Flying {
    return (this.#flying ??= createFlying([...this.#byPosition.values()]));
  }

  /** Adds or replaces an item. An item without jobs is removed. */
  set(item: Item): void {
    this.#flying = undefined;
    if (item.jobs.length === 0) this.#byPosition.delete(item.position);
    else this.#byPosition.set(item.position, item);
  }

  /** Replaces all items. */
  replace(items: Map<number, Item>): void {
    this.#flying = undefined;
    this.#byPosition = items;
  }

  /** Returns the items without the given jobs; undefined: none of the jobs is in flight. */
  without(ids: ReadonlySet<string>):
    | {
        readonly flying: Flying;
        /** Removes the jobs from this collection, too. */
        readonly confirm: () => void;
      }
    | undefined {
    const { items, count } = this.flying;
    const left = createFlying(items.map((item) => leftOf(item, ids)).filter(({ jobs }) => jobs.length > 0));
    if (left.count === count) return undefined;
    const confirm = (): void => {
      for (const item of this.#byPosition.values()) {
        const own = leftOf(item, ids);
        if (own !== item) this.set(own);
      }
    };
    return { flying: left, confirm };
  }

  /** Removes the jobs of `back`; the others of `asked` become stuck. Returns the removed jobs. */
  takeBack(asked: readonly string[], back: ReadonlySet<string>): readonly JobFacts[] {
    const ids = new Set(asked);
    const gone: JobFacts[] = [];
    for (const item of this.#byPosition.values()) {
      const own = item.jobs.filter(({ id }) => ids.has(id));
      if (own.length === 0) continue;
      gone.push(...own.filter(({ id }) => back.has(id)));
      const stuck = new Set([...item.stuck, ...own.map(({ id }) => id)]);
      this.set({ ...leftOf(item, back), stuck, inFlight: undefined });
    }
    return gone;
  }
}

/** Returns the item without the given jobs; the same object if it has none of them. */
export function leftOf(item: Item, ids: ReadonlySet<string>): Item {
  const jobs = item.jobs.filter(({ id }) => !ids.has(id));
  return jobs.length === item.jobs.length ? item : { ...item, jobs, inFlight: undefined };
}
