import type { InFlight, JobFacts } from '@pgqueue/core';
import { freezeAll } from '../../freeze.ts';

/** A work item. Never changed but for what is made of it when somebody asks: who keeps one sees it as it was. */
export interface Item {
  readonly position: number;
  /** In their order: one, or those of a batch. */
  readonly jobs: readonly JobFacts[];
  /** It was made for several jobs, each of which is a handler call of its own. */
  readonly batch: boolean;
  readonly pool: string;
  /** Who has leased it. */
  readonly node: string | null;
  readonly dispatchedMs: number;
  readonly bundle: string | null;
  /** Jobs of it that were to be recalled, and could not be. */
  readonly stuck: ReadonlySet<string>;
  /** The jobs as policies see them; undefined: nobody has asked yet. */
  inFlight: readonly InFlight[] | undefined;
}

/** What is known of an item when it is made. */
export type ItemMade = Pick<Item, 'jobs' | 'pool' | 'dispatchedMs' | 'bundle'>;

/**
 * What was in flight at one moment, which never changes. Of thousands of jobs hardly anything is asked: how many there are, and by work item who
 * holds them. They are made into objects of their own for a policy that looks at them.
 */
export interface Flying {
  readonly items: readonly Item[];
  /** Jobs. */
  readonly count: number;
  readonly jobs: () => readonly InFlight[];
}

const none: ReadonlySet<string> = new Set();

/** `position`: its place; `node`: who has leased it. */
export function itemOf(made: ItemMade, position: number, node: string | null): Item {
  const { jobs, pool, dispatchedMs, bundle } = made;
  const batch = jobs.length > 1 && bundle === null;
  return { position, jobs, batch, pool, node, dispatchedMs, bundle, stuck: none, inFlight: undefined };
}

/** The same in other hands. */
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
  const { id, queue, key, task, version, priority, seq, createdMs, expiresMs, attributes, tries } = job;
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
    ...(batch ? { row: position } : {}),
    ...(stuck.has(id) ? { stuck: true } : {}),
  });
}

/** Work items by their positions. */
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

  /** In the order in which they were added. */
  get flying(): Flying {
    return (this.#flying ??= createFlying([...this.#byPosition.values()]));
  }

  /** In the place of what was there. An item without jobs is none. */
  set(item: Item): void {
    this.#flying = undefined;
    if (item.jobs.length === 0) this.#byPosition.delete(item.position);
    else this.#byPosition.set(item.position, item);
  }

  /** These are all that there are. */
  replace(items: Map<number, Item>): void {
    this.#flying = undefined;
    this.#byPosition = items;
  }

  /** The lowest position of a batch; undefined: there is none. */
  get firstBatch(): number | undefined {
    let first: number | undefined;
    for (const [position, { jobs }] of this.#byPosition) {
      if (jobs.length > 1 && (first === undefined || position < first)) first = position;
    }
    return first;
  }

  /** Those without the jobs of these ids; undefined: there are none of them. */
  without(ids: ReadonlySet<string>):
    | {
        readonly flying: Flying;
        /** They are gone from here, too. */
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

  /** Takes out the jobs of `back`; the others of `asked` are stuck. Returns those that were taken out. */
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

/** The same item where none of its jobs is among these. */
export function leftOf(item: Item, ids: ReadonlySet<string>): Item {
  const jobs = item.jobs.filter(({ id }) => !ids.has(id));
  return jobs.length === item.jobs.length ? item : { ...item, jobs, inFlight: undefined };
}
