import type { PgQueueEvent } from '@pgqueue/core';
import { concurrency, policy, turns } from '@pgqueue/core';
import { afterEach, expect, test } from 'vitest';
import { startCutProxy } from '../../support/cut-proxy.ts';
import { opened } from '../../support/database.ts';
import { openBench, until } from './support.ts';

const bench = opened(openBench);
afterEach(() => bench.clear());

const limited = policy({
  gates: [concurrency({ name: 'of_key', by: ({ key }) => key, limit: 2 })],
  order: turns(),
});

test('a batch whose reply is lost ends the reign; the next one counts what was written', async () => {
  const proxy = await startCutProxy(bench.test.url);
  const node = await bench.node({ slots: 50 });
  const scheduler = await bench.scheduler({
    connectionString: proxy.url,
    listen: false,
    policy: limited,
    leaseMs: 30_000,
  });
  await until('it leads', () => scheduler.leads);
  const epoch = scheduler.epoch ?? 0;
  proxy.cutReplyOf('.dispatch(');
  await bench.enqueue({ count: 10, key: 'a' });
  await until('the cut', () => proxy.cuts() === 1);
  expect(await bench.count('work_queue')).toBe(2);
  await until('another reign', () => (scheduler.epoch ?? 0) > epoch);
  for (let done = 0; done < 10; done += 2) {
    await until('two more', async () => (await bench.count('work_queue')) === 2);
    expect(await bench.count('work_queue')).toBe(2);
    await node.done(await node.claim(10));
  }
  await until('all to be done', async () => (await bench.count('history')) === 10);
  await scheduler.stop();
  await proxy.close();
});

test('a resignation that gets no answer is repeated: the next reign does not wait for the lease to run out', async () => {
  const proxy = await startCutProxy(bench.test.url);
  await bench.node({ slots: 50 });
  const scheduler = await bench.scheduler({
    connectionString: proxy.url,
    listen: false,
    policy: limited,
    // longer than the test may take
    leaseMs: 60_000,
  });
  await until('it leads', () => scheduler.leads);
  const epoch = scheduler.epoch ?? 0;
  await bench.database.query('alter function pgqueue.resign rename to resign_later', []);
  proxy.cutReplyOf('.dispatch(');
  await bench.enqueue({ count: 1, key: 'a' });
  await until('three resignations in vain', () => resignations(scheduler.events) >= 3);
  expect(scheduler.leads).toBe(false);
  await bench.database.query('alter function pgqueue.resign_later rename to resign', []);
  await until('another reign', () => (scheduler.epoch ?? 0) > epoch);
  await scheduler.stop();
  await proxy.close();
});

test('while nobody can lead, it is tried again within half a second, however long the outage and the lease', async () => {
  await bench.database.query('alter function pgqueue.lead rename to lead_later', []);
  try {
    const scheduler = await bench.scheduler({ listen: false, leaseMs: 60_000 });
    const pauses = (): readonly (number | undefined)[] =>
      scheduler.events.flatMap((event) =>
        event.type === 'database.error' && event.during === 'lead' ? [event.retryMs] : [],
      );
    await until('six tries in vain', () => pauses().length >= 6);
    for (const pause of pauses()) expect(pause).toBeLessThanOrEqual(500);
  } finally {
    await bench.database.query('alter function pgqueue.lead_later rename to lead', []);
  }
});

function resignations(events: readonly PgQueueEvent[]): number {
  return events.filter((event) => event.type === 'database.error' && event.during === 'resign').length;
}

test('a batch that the database refuses is planned anew in the same reign', async () => {
  await bench.node({ slots: 50 });
  await bench.database.query(
    `create function pgqueue.refuse() returns trigger language plpgsql as $$ begin raise exception 'not now'; end $$`,
    [],
  );
  await bench.database.query(
    `create trigger refuse before insert on pgqueue.work_queue for each statement execute function pgqueue.refuse()`,
    [],
  );
  const scheduler = await bench.scheduler({ policy: limited });
  await until('it leads', () => scheduler.leads);
  const epoch = scheduler.epoch ?? 0;
  await bench.enqueue({ count: 3, key: 'a' });
  await until('the refusal', () => scheduler.events.some(({ type }) => type === 'database.error'));
  await bench.database.query('drop trigger refuse on pgqueue.work_queue', []);
  await until('both', async () => (await bench.count('work_queue')) === 2);
  expect(scheduler.epoch).toBe(epoch);
  await bench.database.query('drop function pgqueue.refuse()', []);
});
