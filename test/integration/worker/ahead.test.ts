import { setImmediate } from 'node:timers/promises';
import { defineTask, implement } from '@pgqueue/core';
import { afterEach, expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import { dispatchAll } from '../../support/dispatch-all.ts';
import { openWorkerBench, until } from '../../support/worker-bench.ts';

const bench = opened(openWorkerBench);
afterEach(() => bench.clear());

const quick = defineTask({ name: 'quick', payload: z.object({}), timeout: '1h' });

const enqueue = async (count: number): Promise<void> => {
  await bench.producer.enqueueMany(Array.from({ length: count }, () => quick.job({})));
  await dispatchAll(bench.database, 'default', 20);
};
const countOf = async (sql: string): Promise<number> => Number((await bench.sql(sql))[0]?.['n']);
const leased = (node: string) =>
  countOf(`select count(*)::integer as n from pgqueue.work_item where lock_key = '${node}'`);
const done = () => countOf('select count(*)::integer as n from pgqueue.history');

test('jobs flow by the hundred; those behind one that takes long go to a node that is idle', async () => {
  const gate = Promise.withResolvers<void>();
  let ran = 0;
  let mostHeld = 0;
  const stuckAt = 1_000;
  const busy = implement(quick, async () => {
    ran += 1;
    if (ran === stuckAt) await gate.promise;
    else await setImmediate();
  });
  await enqueue(4_000);
  const first = await bench.worker([busy], { concurrency: 1, node: 'first' });
  await until('the long one', async () => {
    mostHeld = Math.max(mostHeld, await leased('first'));
    return ran === stuckAt;
  });
  // claimed ahead: more than the batch of its one slot
  expect(mostHeld).toBeGreaterThan(20);
  await until('the others to be given back', async () => (await leased('first')) === 1);
  const others = implement(quick, () => {});
  await bench.worker([others], { concurrency: 5, node: 'second' });
  await until('all others', async () => (await done()) === 3_999);
  expect(ran).toBe(stuckAt);
  gate.resolve();
  await until('the long one to end', async () => (await done()) === 4_000);
  await first.stop();
  const [sums] = await bench.sql(
    'select sum(tries)::integer as tries, sum(crashes)::integer as crashes from pgqueue.history',
  );
  expect(sums).toEqual({ tries: 0, crashes: 0 });
});

test('a stop gives back what waits for a slot, uncounted', async () => {
  let ran = 0;
  await enqueue(3_000);
  const worker = await bench.worker([implement(quick, () => void (ran += 1))], { concurrency: 1 });
  await until('it to be under way', () => ran > 500);
  await worker.stop();
  const settled = await done();
  expect(settled).toBe(ran);
  expect(
    await countOf('select count(*)::integer as n from pgqueue.work_queue where lock_key is not null'),
  ).toBe(0);
  expect(
    await countOf('select count(*)::integer as n from pgqueue.queue where tries = 0 and crashes = 0'),
  ).toBe(3_000 - settled);
});
