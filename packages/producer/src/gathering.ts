// not the global: a user's test may fake it, and wait for an enqueue
import { setImmediate } from 'node:timers';

/** Bounds of what goes together. */
export interface GatheringOptions<Item> {
  /** Most calls at a time. */
  readonly callsMax: number;
  /** Most items of one call. */
  readonly countMax: number;
  /** Largest sum of sizes of one call; one item alone may be larger. */
  readonly sizeMax: number;
  readonly sizeOf: (item: Item) => number;
}

interface Waiting<Item, Answer> {
  readonly item: Item;
  readonly resolve: (answer: Answer | Promise<Answer>) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Sends items together that come in one turn of the event loop, or while calls are under way: with one statement and one
 * commit for all of them. Nothing waits while a call is free. If a call of several fails, each of its items is sent alone, so
 * that only those fail that are to blame: a failed call must leave nothing behind, or be safe to repeat.
 * @param send resolves to an answer for each item, in their order
 */
export function gathering<Item, Answer>(
  send: (items: readonly Item[]) => Promise<readonly Answer[]>,
  { callsMax, countMax, sizeMax, sizeOf }: GatheringOptions<Item>,
): (item: Item) => Promise<Answer> {
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
    const sendOne = async (item: Item): Promise<Answer> => (await send([item]))[0] as Answer;
    try {
      const answers = await send(taken.map(({ item }) => item));
      for (const [index, { resolve }] of taken.entries()) resolve(answers[index] as Answer);
    } catch (error) {
      for (const { item, resolve, reject } of taken) {
        if (taken.length === 1) reject(error);
        else resolve(sendOne(item));
      }
    }
  };

  const next = (): void => {
    if (calls === callsMax) return;
    calls += 1;
    setImmediate(() => void flush());
  };

  const flush = async (): Promise<void> => {
    if (waiting.length > 0) await sendAll(take());
    calls -= 1;
    if (waiting.length > 0) next();
  };

  return (item) =>
    new Promise((resolve, reject) => {
      waiting.push({ item, resolve, reject });
      next();
    });
}
