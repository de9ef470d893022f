/** In place of a `seq`: there is no job. It ranks behind all, and -1 will not do: moved jobs have numbers below 0. */
export const noSeq: number = Infinity;

/** Rank of the children of one share, in columns by their number: there may be thousands that only wait. */
export interface Standings {
  /** Ranks first: shares with fewer jobs in flight than they are guaranteed. */
  readonly needy: boolean[];
  /** Ranks second: the smallest start tag. */
  readonly tags: number[];
  /** Ranks third: the job that would go, by `seq`. */
  readonly seqs: number[];
  /** Position of each share in its heap. -1: the share is in none. A share is in one heap at most. */
  readonly at: number[];
}

/** Creates one row for each name. */
export function createStandings(names: readonly string[]): Standings {
  return {
    needy: names.map(() => false),
    tags: names.map(() => 0),
    seqs: names.map(() => noSeq),
    at: names.map(() => -1),
  };
}

/** Appends one row. */
export function addStanding({ needy, tags, seqs, at }: Standings): void {
  needy.push(false);
  tags.push(0);
  seqs.push(noSeq);
  at.push(-1);
}

/** A binary heap of the numbers in {@link Standings}, whose rows may change while they are in the heap. */
export interface Line {
  readonly first: () => number | undefined;
  /** Moves a share to its place by the current rank. Adds it if it is not in the heap. */
  readonly put: (id: number) => void;
  /** Removes a share. Does nothing if the share is in no heap. */
  readonly remove: (id: number) => void;
}

/**
 * Creates a heap that owns `ids` from now on. `tie(a, b)` decides between two shares of equal rank: true if
 * `a` goes first.
 */
export function createLine(
  ids: number[],
  { needy, tags, seqs, at }: Standings,
  tie: (a: number, b: number) => boolean,
): Line {
  const before = (a: number, b: number): boolean => {
    if (needy[a] !== needy[b]) return needy[a] === true;
    const tagA = tags[a] ?? 0;
    const tagB = tags[b] ?? 0;
    if (tagA !== tagB) return tagA < tagB;
    const seqA = seqs[a] ?? 0;
    const seqB = seqs[b] ?? 0;
    return seqA !== seqB ? seqA < seqB : tie(a, b);
  };
  const set = (id: number, place: number): void => {
    ids[place] = id;
    at[id] = place;
  };
  const sink = (id: number, from: number): void => {
    let place = from;
    for (;;) {
      let below = 2 * place + 1;
      let smaller = ids[below];
      if (smaller === undefined) break;
      const right = ids[below + 1];
      if (right !== undefined && before(right, smaller)) [below, smaller] = [below + 1, right];
      if (!before(smaller, id)) break;
      set(smaller, place);
      place = below;
    }
    set(id, place);
  };
  /** Moves an id up as far as it goes, else down. */
  const settle = (id: number, from: number): void => {
    let place = from;
    while (place > 0) {
      const up = (place - 1) >> 1;
      const above = ids[up];
      if (above === undefined || !before(id, above)) break;
      set(above, place);
      place = up;
    }
    sink(id, place);
  };
  for (let place = ids.length - 1; place >= 0; place -= 1) sink(ids[place] ?? 0, place);
  return {
    first: () => ids[0],
    put: (id) => {
      const place = at[id] ?? -1;
      settle(id, place < 0 ? ids.length : place);
    },
    remove: (id) => {
      const place = at[id] ?? -1;
      if (place < 0) return;
      const last = ids.pop();
      at[id] = -1;
      if (last !== undefined && last !== id) settle(last, place);
    },
  };
}
