/** Options of {@link shareReading}. */
export interface ShareOptions {
  /** Shortest time for which a reading is given again, in milliseconds. Default 1000. */
  readonly everyMs?: number;
  /**
   * Largest share of the time spent reading. At 0.01, the default, a reading that took 50 ms is repeated
   * after 5 s.
   */
  readonly share?: number;
  /**
   * Longest time for which a reading is given again, in milliseconds, however long it took. Default 60000.
   */
  readonly mostMs?: number;
}

/**
 * Shares one reading among many callers, such as tabs or scrapes. A caller waits for a reading that is under
 * way, or gets the last one while it is recent. A reading that fails rejects for its callers, and is made
 * again for the next one.
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
