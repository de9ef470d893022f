import { Problem } from '../problem.ts';

/** Lets so many through at a time; others wait in line. */
export type Turnstile = <Result>(work: () => Promise<Result>) => Promise<Result>;

/** @throws {Problem} `busy` where too many wait, or one has waited for too long */
export function createTurnstile({
  atOnce,
  waitingMax,
  waitMs,
}: {
  readonly atOnce: number;
  readonly waitingMax: number;
  readonly waitMs: number;
}): Turnstile {
  let inside = 0;
  const waiting = new Set<() => void>();
  const enter = async (): Promise<void> => {
    if (inside < atOnce) {
      inside += 1;
      return;
    }
    if (waiting.size >= waitingMax) throw tooMany();
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => {
        waiting.delete(go);
        reject(tooMany());
      }, waitMs);
      const go = (): void => {
        clearTimeout(timer);
        resolve();
      };
      waiting.add(go);
    });
  };
  const leave = (): void => {
    const [next] = waiting;
    if (next === undefined) inside -= 1;
    else {
      // its place is handed on
      waiting.delete(next);
      next();
    }
  };
  return async (work) => {
    await enter();
    try {
      return await work();
    } finally {
      leave();
    }
  };
}

function tooMany(): Problem {
  return new Problem('busy', 'too much is asked of the database at once: try again in a second');
}
