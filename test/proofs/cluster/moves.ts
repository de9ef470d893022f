// Moves of keys, at random, while everything else happens. A move that fails is repeated until it is through.
import { setTimeout as delay } from 'node:timers/promises';
import { PgQueueError } from '@pgqueue/core';
import type { Installation, Router } from '@pgqueue/router';

export interface Moves {
  /** Moves that are through. */
  readonly done: () => number;
  /** Moves that were repeated, by the code of the error. */
  readonly again: ReadonlyMap<string, number>;
  /** Jobs that were handed over. */
  readonly jobs: () => number;
  /** Longest time for which neither home began a job of a key, in milliseconds. */
  readonly pausedMs: () => number;
  /** Begins no more moves. Resolves when those under way are through; to those that are not. */
  readonly stop: () => Promise<readonly string[]>;
}

export interface MovesOptions {
  readonly router: Router;
  readonly installations: readonly Installation[];
  readonly keys: readonly string[];
  /** Keys that are enqueued to at present: every other move is of one of them. */
  readonly busy: () => readonly string[];
  readonly random: () => number;
  /** Milliseconds between two moves, on average. */
  readonly everyMs: number;
  readonly atOnce: number;
}

/** Longest time for a move once nothing disturbs it. */
const lateMs = 120_000;

export function startMoves(options: MovesOptions): Moves {
  const { router, installations, keys, busy, random, everyMs, atOnce } = options;
  const again = new Map<string, number>();
  const moving = new Map<string, Promise<void>>();
  const late: string[] = [];
  let [done, jobs, pausedMs] = [0, 0, 0];
  let endsAt = Infinity;
  const stopping = new AbortController();

  const move = async (key: string, to: Installation): Promise<void> => {
    for (;;) {
      try {
        const moved = await router.operator.keys.move(key, { to: to.name });
        done += 1;
        jobs += moved.jobs;
        pausedMs = Math.max(pausedMs, moved.pausedMs ?? 0);
        return;
      } catch (error) {
        const code = error instanceof PgQueueError ? error.code : String(error);
        again.set(code, (again.get(code) ?? 0) + 1);
        // it is there already: an earlier try has ended, and its answer was lost
        if (code === 'configuration' && router.homeOf(key).name === to.name) return;
        if (performance.now() > endsAt) {
          late.push(`${key} does not come to ${to.name}: ${String(error)}`);
          return;
        }
        await delay(200);
      }
    }
  };

  const run = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      await delay(everyMs * 2 * random());
      const some = random() < 0.5 ? busy() : keys;
      const key = some[Math.floor(random() * some.length)];
      const to = installations[Math.floor(random() * installations.length)];
      const idle = key !== undefined && to !== undefined && !moving.has(key) && moving.size < atOnce;
      if (!idle || router.homeOf(key).name === to.name) continue;
      moving.set(
        key,
        move(key, to).finally(() => moving.delete(key)),
      );
    }
  };
  const running = run();
  return {
    done: () => done,
    again,
    jobs: () => jobs,
    pausedMs: () => pausedMs,
    stop: async () => {
      stopping.abort();
      endsAt = performance.now() + lateMs;
      await running;
      await Promise.all(moving.values());
      return late;
    },
  };
}
