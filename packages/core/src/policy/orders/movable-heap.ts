/** What can stand in a {@link MovableHeap}: it knows where, or -1. In one heap at a time. */
export interface Movable {
  at: number;
}

/** A binary heap, the first by `before` on top, whose items may change while they are in it. */
export interface MovableHeap<Item extends Movable> {
  readonly peek: () => Item | undefined;
  /** Puts it where it belongs by now, whether or not it was in the heap. */
  readonly put: (item: Item) => void;
  /** Nothing happens where it is in no heap. */
  readonly remove: (item: Item) => void;
}

/** Owns `items` from now on. */
export function createMovableHeap<Item extends Movable>(
  items: Item[],
  before: (a: Item, b: Item) => boolean,
): MovableHeap<Item> {
  const set = (item: Item, at: number): void => {
    items[at] = item;
    item.at = at;
  };
  const sink = (item: Item, start: number): void => {
    let at = start;
    for (;;) {
      let child = 2 * at + 1;
      let smaller = items[child];
      if (smaller === undefined) break;
      const right = items[child + 1];
      if (right !== undefined && before(right, smaller)) [child, smaller] = [child + 1, right];
      if (!before(smaller, item)) break;
      set(smaller, at);
      at = child;
    }
    set(item, at);
  };
  /** Up as far as it goes, else down. */
  const settle = (item: Item, start: number): void => {
    let at = start;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = items[parent];
      if (above === undefined || !before(item, above)) break;
      set(above, at);
      at = parent;
    }
    sink(item, at);
  };
  items.forEach((item, at) => {
    item.at = at;
  });
  for (let at = (items.length >> 1) - 1; at >= 0; at -= 1) {
    const item = items[at];
    if (item !== undefined) sink(item, at);
  }
  return {
    peek: () => items[0],
    put: (item) => settle(item, item.at < 0 ? items.length : item.at),
    remove: (item) => {
      const { at } = item;
      const last = items.pop();
      item.at = -1;
      if (last !== undefined && last !== item) settle(last, at);
    },
  };
}
