// Keys move round and round under load, by movers that end at random, while jobs fail, are snoozed, delayed and cancelled.
import { defineTask, implement, snooze } from '@pgqueue/core';
import type { RouterWorker } from '@pgqueue/router';
import { createRouter } from '@pgqueue/router';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { until } from '../../support/until.ts';
import { nth, useRunning, useSeveral } from './support.ts';

const task = defineTask({
  name: 'hello',
  payload: z.object({ n: z.number() }),
  retry: { maxTries: 50, backoff: 'fixed', base: '5ms' },
});
const { several, router } = useSeveral(3);
const { running, schedule } = useRunning(several);
const keys = ['a', 'b', 'c'];
const total = 3_000;

/** Draws the same numbers in each run. */
function drawing(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

test('each job ends once, wherever it is', async () => {
  const draw = drawing(7);
  const done = new Map<number, number>();
  const failed = new Set<number>();
  await schedule(1, 2, 3);
  const handler = implement(task, async ({ n }) => {
    if (n % 5 === 0 && !failed.has(n)) {
      failed.add(n);
      if (n % 10 === 0) throw new Error('once');
      return snooze('5ms');
    }
    await new Promise((resolve) => setTimeout(resolve, n % 3));
    done.set(n, (done.get(n) ?? 0) + 1);
    return undefined;
  });
  const worker: RouterWorker = router.worker({ tasks: [handler], concurrency: 10 });
  running.push(worker);
  await worker.start();

  const over = new AbortController();
  let ended = 0;
  let stopped = 0;
  const mover = async (): Promise<void> => {
    const own = createRouter({ installations: several.installations });
    while (!over.signal.aborted) {
      const key = nth(keys, Math.floor(draw() * keys.length));
      const to = 1 + Math.floor(draw() * 3);
      const stop = new AbortController();
      const timer = setTimeout(() => stop.abort(), draw() < 0.5 ? draw() * 60 : 5_000);
      try {
        await own.operator.keys.move(key, { to, signal: stop.signal });
        ended += 1;
      } catch {
        stopped += 1; // it is there, on its way elsewhere, or was stopped: another move goes on with it
      } finally {
        clearTimeout(timer);
      }
    }
    await own.close();
  };
  const movers = Promise.all([mover(), mover(), mover()]);
  const moved = async (): Promise<void> => {
    over.abort();
    await movers;
  };
  running.push({ stop: moved });
  const ids: string[] = [];
  for (let n = 0; n < total; n += 20) {
    const jobs = Array.from({ length: 20 }, (_, more) => {
      const delay = more % 7 === 0 ? ({ delay: '30ms' } as const) : {};
      return task.job({ n: n + more }, { key: nth(keys, more % keys.length), ...delay });
    });
    ids.push(...(await router.producer.enqueueMany(jobs)).map(({ id }) => id));
  }
  const cancelled = new Set<number>();
  const asked = [total - 1, total - 2, total - 3];
  for (const [index, { verdict }] of (
    await router.operator.jobs.cancel(asked.map((n) => nth(ids, n)))
  ).entries())
    if (verdict === 'cancelled') cancelled.add(nth(asked, index));
  await until('most have run', () => done.size > total / 2);
  await moved();
  // whatever was left on its way is brought to its end
  for (const key of keys) {
    for (const to of [1, 2, 3]) await router.operator.keys.move(key, { to }).catch(() => {});
  }
  await until('all have run', () => done.size >= total - cancelled.size);
  const waiting = async (): Promise<number> =>
    (
      await Promise.all(several.databases.map((database) => database.query('select from pgqueue.queue', [])))
    ).flat().length;
  await until('none is left', async () => (await waiting()) === 0);
  await worker.stop();
  const rowsOf = several.databases.map((database) =>
    database.query<{ readonly id: string; readonly outcome: string }>(
      'select id::text, outcome from pgqueue.history union all select id::text, reason from pgqueue.dead_letter',
      [],
    ),
  );
  const rows = (await Promise.all(rowsOf)).flat();
  expect({
    twice: [...done].filter(([, times]) => times > 1),
    ends: rows.length,
    ids: new Set(rows.map(({ id }) => id)).size,
    outcomes: [...new Set(rows.map(({ outcome }) => outcome))].toSorted(),
  }).toEqual({
    twice: [],
    ends: total,
    ids: total,
    outcomes: cancelled.size > 0 ? ['cancelled', 'done'] : ['done'],
  });
  expect(ended).toBeGreaterThan(3);
  expect(stopped).toBeGreaterThan(3);
}, 600_000);
