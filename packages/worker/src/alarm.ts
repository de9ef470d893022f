/** A timer that holds 24.8 days at most: longer ones are set again. */
const longestMs = 2_147_000_000;

export interface Alarm {
  /** Rings this long from now, instead of when it would have. */
  readonly set: (ms: number) => void;
  readonly clear: () => void;
}

export function createAlarm(ring: () => void): Alarm {
  let timer: NodeJS.Timeout | undefined;
  const set = (ms: number): void => {
    clearTimeout(timer);
    timer = setTimeout(
      () => (ms > longestMs ? set(ms - longestMs) : ring()),
      Math.min(longestMs, Math.max(0, ms)),
    );
  };
  return { set, clear: () => clearTimeout(timer) };
}

/** Resolves when the promise has settled, or after `ms`; true: it settled in time. */
export async function within(ms: number, promise: Promise<unknown>): Promise<boolean> {
  const late = Promise.withResolvers<false>();
  const timer = setTimeout(() => late.resolve(false), ms);
  const settled = promise.then(
    () => true as const,
    () => true as const,
  );
  try {
    return await Promise.race([settled, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
