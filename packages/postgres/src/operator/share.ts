/** How often a reading that many ask for is made. */
export interface ShareOptions {
  /** A reading is given again for so long. Default 1000. */
  readonly everyMs?: number;
  /** So much of the time is spent reading at most: what took 50 ms is made again after 5 s at 0.01, the default. */
  readonly share?: number;
  /** However long one takes, it is made again after so long. Default 60000. */
  readonly mostMs?: number;
}

/**
 * One reading for all who ask, be they many tabs or scrapes: who asks while one is under way waits for that, and who asks soon after one
 * gets the same. One that fails is told to those who waited for it, and made again for the next.
 */
export function shareReading<Reading>(
  read: () => Promise<Reading>,
  { everyMs = 1_000, share = 0.01, mostMs = 60_000 }: ShareOptions = {},
): () => Promise<Reading> {
  let last: Promise<Reading> | undefined;
  let until = Infinity;
  const make = async (): Promise<Reading> => {
    const startedAt = performance.now();
    try {
      const reading = await read();
      const now = performance.now();
      until = now + Math.min(mostMs, Math.max(everyMs, (now - startedAt) / share));
      return reading;
    } catch (error) {
      last = undefined;
      throw error;
    }
  };
  return () => {
    if (last === undefined || performance.now() >= until) {
      until = Infinity;
      last = make();
    }
    return last;
  };
}
