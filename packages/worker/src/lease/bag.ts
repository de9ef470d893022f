/** What can be in a bag, in one at a time. */
export interface Bagged {
  /** Where it stands there; kept by the bag. */
  place: number;
}

/**
 * Objects that come and go all the time, in no order. A Set makes a new table every few times, to which the former one points: once one of them is
 * old, no collection of young objects frees a later one, nor what was in it. In a drain that was every job.
 */
export class Bag<Item extends Bagged> {
  readonly #items: Item[] = [];

  get size(): number {
    return this.#items.length;
  }

  add(item: Item): void {
    item.place = this.#items.length;
    this.#items.push(item);
  }

  delete(item: Item): void {
    if (this.#items[item.place] !== item) return;
    const last = this.#items.pop();
    if (last === undefined || last === item) return;
    this.#items[item.place] = last;
    last.place = item.place;
  }

  /** Those that are in it at this moment. */
  [Symbol.iterator](): IterableIterator<Item> {
    return [...this.#items].values();
  }
}
