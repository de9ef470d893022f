/** How the shares of one level of one share stand to each other, by their numbers: columns, since there may be thousands that only wait. */
export interface Standings {
  /** Those that have fewer jobs in flight than they are guaranteed go first. */
  readonly needy: boolean[];
  /** Then by their start tags. */
  readonly tags: number[];
  /** Then by the job that would go, the one enqueued first. */
  readonly seqs: number[];
  /** Where each stands in its heap; -1: in none. A share is in one of them at a time. */
  readonly at: number[];
}

/** As many as there are names. */
export function createStandings(names: readonly string[]): Standings {
  return {
    needy: names.map(() => false),
    tags: names.map(() => 0),
    seqs: names.map(() => -1),
    at: names.map(() => -1),
  };
}

/** One more. */
export function addStanding({ needy, tags, seqs, at }: Standings): void {
  needy.push(false);
  tags.push(0);
  seqs.push(-1);
  at.push(-1);
}

/** A binary heap of numbers in {@link Standings}, which may change while they are in it. */
export interface Line {
  readonly first: () => number | undefined;
  /** Puts it where it belongs by now, whether or not it stood in line. */
  readonly put: (id: number) => void;
  /** Nothing happens where it stands in no line. */
  readonly remove: (id: number) => void;
}

/** Owns `ids` from now on. Of two that are alike in everything else, `tie` says whether the first goes first. */
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
  /** Up as far as it goes, else down. */
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
