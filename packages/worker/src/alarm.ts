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
