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
  const sink = (start: number): void => {
    const item = items[start];
    if (item === undefined) return;
    let at = start;
    for (;;) {
      let child = 2 * at + 1;
      let smaller = items[child];
      const right = items[child + 1];
      if (smaller === undefined) break;
      if (right !== undefined && before(right, smaller)) [child, smaller] = [child + 1, right];
      if (!before(smaller, item)) break;
      items[at] = smaller;
      at = child;
    }
    items[at] = item;
  };
  const rise = (start: number): void => {
    const item = items[start];
    if (item === undefined) return;
    let at = start;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = items[parent];
      if (above === undefined || !before(item, above)) break;
      items[at] = above;
      at = parent;
    }
    items[at] = item;
  };
  for (let at = (items.length >> 1) - 1; at >= 0; at -= 1) sink(at);
  const pop = (): Item | undefined => {
    const top = items[0];
    const last = items.pop();
    if (last !== undefined && items.length > 0) {
      items[0] = last;
      sink(0);
    }
    return top;
  };
  return {
    peek: () => items[0],
    pop,
    push: (item) => {
      items.push(item);
      rise(items.length - 1);
    },
    replace: (item) => {
      if (items.length === 0) return;
      items[0] = item;
      sink(0);
    },
    size: () => items.length,
  };
}
