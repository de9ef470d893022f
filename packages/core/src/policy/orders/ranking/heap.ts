/** A binary heap. The first item by `before` is on top. */
export interface Heap<Item> {
  readonly peek: () => Item | undefined;
  readonly pop: () => Item | undefined;
  readonly push: (item: Item) => void;
  /** Replaces the top by `item`. */
  readonly replace: (item: Item) => void;
  readonly size: () => number;
}

/** Creates a heap that owns `items` from now on. */
export function createHeap<Item>(items: Item[], before: (a: Item, b: Item) => boolean): Heap<Item> {
  return new BinaryHeap(items, before);
}

/** A class, since a plan makes thousands: one object each, and no closures. */
class BinaryHeap<Item> implements Heap<Item> {
  readonly #items: Item[];
  readonly #before: (a: Item, b: Item) => boolean;

  constructor(items: Item[], before: (a: Item, b: Item) => boolean) {
    [this.#items, this.#before] = [items, before];
    for (let at = (items.length >> 1) - 1; at >= 0; at -= 1) this.#sink(at);
  }

  peek(): Item | undefined {
    return this.#items[0];
  }

  pop(): Item | undefined {
    const items = this.#items;
    const top = items[0];
    const last = items.pop();
    if (last !== undefined && items.length > 0) {
      items[0] = last;
      this.#sink(0);
    }
    return top;
  }

  push(item: Item): void {
    this.#items.push(item);
    this.#rise(this.#items.length - 1);
  }

  replace(item: Item): void {
    if (this.#items.length === 0) return;
    this.#items[0] = item;
    this.#sink(0);
  }

  size(): number {
    return this.#items.length;
  }

  #sink(start: number): void {
    const items = this.#items;
    const item = items[start];
    if (item === undefined) return;
    let at = start;
    for (;;) {
      let child = 2 * at + 1;
      let smaller = items[child];
      const right = items[child + 1];
      if (smaller === undefined) break;
      if (right !== undefined && this.#before(right, smaller)) [child, smaller] = [child + 1, right];
      if (!this.#before(smaller, item)) break;
      items[at] = smaller;
      at = child;
    }
    items[at] = item;
  }

  #rise(start: number): void {
    const items = this.#items;
    const item = items[start];
    if (item === undefined) return;
    let at = start;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = items[parent];
      if (above === undefined || !this.#before(item, above)) break;
      items[at] = above;
      at = parent;
    }
    items[at] = item;
  }
}
