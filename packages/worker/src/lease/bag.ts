/** Item of a bag; it is in one bag at a time. */
export interface Bagged {
  /** Index in the bag, kept by the bag. */
  place: number;
}

/**
 * Unordered collection of objects that come and go all the time. A Set replaces its table every few changes,
 * and the former table points to the new one. Once one table is in old space, no minor collection frees a
 * later one, nor the objects in it. In a drain that was every job.
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

  /** Iterates over the items of this moment. */
  [Symbol.iterator](): IterableIterator<Item> {
    return [...this.#items].values();
  }
}
