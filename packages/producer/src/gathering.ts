// not the globals: a user's test may fake them, and wait for an enqueue
import { clearTimeout, setImmediate, setTimeout } from 'node:timers';

/** A call that has failed. */
export interface FailedCall {
  readonly error: unknown;
  /** True if it had several items, one of which may be to blame. */
  readonly several: boolean;
}

/** Parts of {@link gathering}. */
export interface GatheringParts<Item, Answer> {
  /** Sends several items with one call, once; resolves to an answer for each, in their order. */
  readonly send: (items: readonly Item[]) => Promise<readonly Answer[]>;
  /** Takes over an item whose call has failed. */
  readonly alone: (item: Item, failed: FailedCall) => Promise<Answer>;
  /** Most calls at a time. One that takes longer than `slowMs` does not count any more. */
  readonly callsMax: number;
  readonly slowMs: number;
  /** Most items of one call. */
  readonly countMax: number;
  /** Largest sum of sizes of one call; one item alone may be larger. */
  readonly sizeMax: number;
  readonly sizeOf: (item: Item) => number;
}

interface Waiting<Item, Answer> {
  readonly item: Item;
  readonly resolve: (answer: Answer | Promise<Answer>) => void;
}

/**
 * Sends items together that come in one turn of the event loop, or while calls are under way. Nothing waits while a call is
 * free.
 */
export function gathering<Item, Answer>({
  send,
  alone,
  callsMax,
  slowMs,
  countMax,
  sizeMax,
  sizeOf,
}: GatheringParts<Item, Answer>): (item: Item) => Promise<Answer> {
  const waiting: Waiting<Item, Answer>[] = [];
  let calls = 0;

  const take = (): readonly Waiting<Item, Answer>[] => {
    let [count, size] = [0, 0];
    for (const { item } of waiting.slice(0, countMax)) {
      size += sizeOf(item);
      if (count > 0 && size > sizeMax) break;
      count += 1;
    }
    return waiting.splice(0, count);
  };

  const sendAll = async (taken: readonly Waiting<Item, Answer>[]): Promise<void> => {
    try {
      const answers = await send(taken.map(({ item }) => item));
      for (const [index, { resolve }] of taken.entries()) resolve(answers[index] as Answer);
    } catch (error) {
      for (const { item, resolve } of taken) resolve(alone(item, { error, several: taken.length > 1 }));
    }
  };

  const next = (): void => {
    if (calls === callsMax) return;
    calls += 1;
    setImmediate(() => void flush());
  };

  const flush = async (): Promise<void> => {
    let counts = true;
    const end = (): void => {
      if (!counts) return;
      counts = false;
      calls -= 1;
      if (waiting.length > 0) next();
    };
    if (waiting.length === 0) return end(); // another call of this turn has taken all
    const slow = setTimeout(end, slowMs);
    await sendAll(take());
    clearTimeout(slow);
    end();
  };

  return (item) =>
    new Promise((resolve) => {
      waiting.push({ item, resolve });
      next();
    });
}
