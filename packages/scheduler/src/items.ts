import type { InFlight } from '@pgqueue/core';

/** The jobs of one work item, in their order: one, or those of a batch. */
export type Item = readonly InFlight[];

/** Work items by their positions. */
export class Items {
  #byPosition = new Map<number, InFlight[]>();
  #jobs: readonly InFlight[] | undefined;

  get(position: number): InFlight[] | undefined {
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

  /** Every job that is in one, in the order in which they were added. */
  get jobs(): readonly InFlight[] {
    return (this.#jobs ??= [...this.#byPosition.values()].flat());
  }

  /** Adds a job to the item of that position. */
  add(position: number, job: InFlight): void {
    this.#jobs = undefined;
    const item = this.#byPosition.get(position);
    if (item === undefined) this.#byPosition.set(position, [job]);
    else item.push(job);
  }

  /** An item without jobs is none. */
  set(position: number, item: Item): void {
    this.#jobs = undefined;
    if (item.length === 0) this.#byPosition.delete(position);
    else this.#byPosition.set(position, [...item]);
  }

  /** These are all that there are. */
  replace(items: Map<number, InFlight[]>): void {
    this.#jobs = undefined;
    this.#byPosition = items;
  }

  /** The lowest position of a batch; undefined: there is none. */
  get firstBatch(): number | undefined {
    let first: number | undefined;
    for (const [position, item] of this.#byPosition) {
      if (item.length > 1 && (first === undefined || position < first)) first = position;
    }
    return first;
  }

  /** Those without the jobs of these ids; undefined: there are none of them. */
  without(ids: ReadonlySet<string>):
    | {
        readonly inFlight: readonly InFlight[];
        /** They are gone from here, too. */
        readonly confirm: () => void;
      }
    | undefined {
    const inFlight = this.jobs.filter(({ id }) => !ids.has(id));
    if (inFlight.length === this.jobs.length) return undefined;
    const confirm = (): void => {
      for (const [position, item] of this.#byPosition) {
        const left = item.filter(({ id }) => !ids.has(id));
        if (left.length < item.length) this.set(position, left);
      }
    };
    return { inFlight, confirm };
  }

  /** Takes out the jobs of `back`; the others of `asked` are stuck. Returns those that were taken out. */
  takeBack(asked: readonly string[], back: ReadonlySet<string>): readonly InFlight[] {
    const ids = new Set(asked);
    const gone: InFlight[] = [];
    for (const [position, item] of this.#byPosition) {
      if (!item.some(({ id }) => ids.has(id))) continue;
      gone.push(...item.filter(({ id }) => back.has(id)));
      const left = item.filter(({ id }) => !back.has(id));
      this.set(
        position,
        left.map((job) => (ids.has(job.id) ? { ...job, stuck: true } : job)),
      );
    }
    return gone;
  }
}
