import pLimit from 'p-limit';
import { Problem } from '../problem.ts';

/** Limits the number of concurrent calls; further calls wait in line. */
export type Turnstile = <Result>(work: () => Promise<Result>) => Promise<Result>;

/** Creates a turnstile. Its calls reject with `busy` if the line is full or the wait too long. */
export function createTurnstile({
  atOnce,
  waitingMax,
  waitMs,
}: {
  readonly atOnce: number;
  readonly waitingMax: number;
  readonly waitMs: number;
}): Turnstile {
  const limit = pLimit(atOnce);
  /** Calls waiting. Excludes those that timed out: p-limit still runs them, and they do nothing. */
  let waiting = 0;

  const inLine: Turnstile = (work) => {
    const patience = Promise.withResolvers<never>();
    let gone = false;
    const timer = setTimeout(() => {
      gone = true;
      waiting -= 1;
      patience.reject(tooMany());
    }, waitMs);
    waiting += 1;
    const turn = limit(() => {
      if (gone) return patience.promise;
      clearTimeout(timer);
      waiting -= 1;
      return work();
    });
    return Promise.race([turn, patience.promise]);
  };

  return async (work) => {
    if (limit.activeCount < atOnce) return limit(work);
    if (waiting >= waitingMax) throw tooMany();
    return inLine(work);
  };
}

function tooMany(): Problem {
  return new Problem('busy', 'too many requests are under way at once: try again in a second');
}
