import { defineTask, implement } from '@pgqueue/core';
import { createPuller } from '@pgqueue/worker';
import { afterEach, expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import { openWorkerBench, until } from '../../support/worker-bench.ts';

/**
 * Simulates the loss of an asynchronous failover: puts rows back as the new primary would have them. A node
 * asks which leases it holds after the first heartbeat that follows a failure; here its connections are
 * ended.
 */
const bench = opened(openWorkerBench);
afterEach(() => bench.clear());

const task = defineTask({ name: 'task', payload: z.object({}), timeout: '1h' });

/** Reads the rows of a job. Resolves to a function that restores them. */
async function remember(id: string): Promise<() => Promise<void>> {
  const tables = ['queue', 'work_queue'] as const;
  const rows = await Promise.all(
    tables.map(async (table) => {
      const [found] = await bench.sql(`select to_jsonb(t) as row from pgqueue.${table} t where id = $1`, [
        id,
      ]);
      return found?.['row'];
    }),
  );
  return async () => {
    await bench.sql('delete from pgqueue.history where id = $1', [id]);
    for (const [index, table] of tables.entries()) {
      await bench.sql(
        `insert into pgqueue.${table} overriding system value select * from jsonb_populate_record(null::pgqueue.${table}, $1)`,
        [JSON.stringify(rows[index])],
      );
    }
  };
}

/** Ends connections, as if the server went away: the next heartbeat and the LISTEN connection fail. */
async function breakConnections(): Promise<void> {
  await bench.sql(
    `select pg_terminate_backend(pid) from pg_stat_activity
     where datname = current_database() and application_name like 'pgqueue a%'`,
  );
}

test('a lease whose settlement was lost is given back by its node, and the job runs again at once', async () => {
  const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let runs = 0;
  const worker = await bench.worker([implement(task, () => gates[runs++]?.promise)], { node: 'a' });
  const { id } = await bench.producer.enqueue(task, {});
  await bench.dispatch();
  await until('it to run', () => runs === 1);
  const lost = await remember(id);
  gates[0]?.resolve();
  await until('it to be done', async () => (await bench.job(id)).status === 'done');
  await lost();
  expect(await bench.job(id)).toMatchObject({ status: 'running', node: 'a' });
  await breakConnections();
  await until('it to run again', () => runs === 2);
  await expect.poll(() => worker.of('node.forgot')).toEqual([{ type: 'node.forgot', node: 'a', jobs: 1 }]);
  expect(await bench.job(id)).toMatchObject({ tries: 0, crashes: 0 });
  gates[1]?.resolve();
  await until('it to be done again', async () => (await bench.job(id)).status === 'done');
});

test('what runs, what is being settled, and what can not be settled is not given back with it', async () => {
  const [gate, ends] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const ran: string[] = [];
  const named = (name: string) => defineTask({ name, payload: z.object({}), timeout: '1h' });
  const tasks = { long: named('long'), slow: named('slow'), refused: named('refused'), lost: named('lost') };
  const worker = await bench.worker(
    [
      implement(tasks.long, () => gate.promise),
      implement(tasks.slow, () => {
        ran.push('slow');
        return ends.promise;
      }),
      implement(tasks.refused, () => {
        ran.push('refused');
        throw new Error('no');
      }),
      implement(tasks.lost, () => void ran.push('lost')),
    ],
    { node: 'a' },
  );
  const enqueue = async (one: (typeof tasks)['long']): Promise<string> => {
    const { id } = await bench.producer.enqueue(one, {});
    return id;
  };
  await bench.sql(
    `create function pgqueue.refuse() returns trigger language plpgsql as $$ begin raise exception 'not today'; end $$`,
  );
  await bench.sql(
    `create trigger refuse before update on pgqueue.queue for each row when (old.task = 'refused') execute function pgqueue.refuse()`,
  );
  const locker = await bench.database.pool.connect();
  try {
    const ids = [await enqueue(tasks.long), await enqueue(tasks.refused)];
    await bench.dispatch();
    await until('the refusal', () => worker.of('database.error').some(({ during }) => during === 'settle'));
    // a settlement that was accepted, and is lost afterwards
    const lost = await enqueue(tasks.lost);
    await bench.dispatch();
    await until('it to be done', async () => (await bench.job(lost)).status === 'done');
    // one that waits for a lock
    const slow = await enqueue(tasks.slow);
    await bench.dispatch();
    await until('it to run', () => ran.includes('slow'));
    await locker.query('begin');
    await locker.query('select from pgqueue.queue where id = $1 for update', [slow]);
    ends.resolve();
    await bench.sql(
      `with job as (insert into pgqueue.queue (id, task) values ($1, 'lost') returning id)
       insert into pgqueue.work_queue (id, version, pool, task, lock_key, lock_token, lock_timeout, started)
       select id, 1, 'default', 'lost', 'a', gen_random_uuid(), now() + interval '1 hour', now() from job`,
      [lost],
    );
    await bench.sql('delete from pgqueue.history where id = $1', [lost]);
    await breakConnections();
    await until('it to run again', () => ran.filter((name) => name === 'lost').length === 2);
    await expect.poll(() => worker.of('node.forgot')).toEqual([{ type: 'node.forgot', node: 'a', jobs: 1 }]);
    await locker.query('commit');
    for (const id of ids) expect(await bench.job(id)).toMatchObject({ status: 'running', node: 'a' });
    gate.resolve();
    await until('the rest', async () => (await bench.job(slow)).status === 'done');
    expect(ran.toSorted()).toEqual(['lost', 'lost', 'refused', 'slow']);
  } finally {
    await locker.query('rollback');
    locker.release();
    await bench.sql('drop function pgqueue.refuse() cascade');
  }
});

test('a puller gives back what it does not hold, too', async () => {
  const puller = createPuller({
    connectionString: bench.test.url,
    node: 'a puller',
    tasks: [{ name: 'task' }],
    heartbeatMs: 200,
    lostAfterMs: 60_000,
  });
  try {
    const [kept, lost] = [await bench.producer.enqueue(task, {}), await bench.producer.enqueue(task, {})];
    await bench.dispatch();
    const jobs = await puller.claim({ max: 2 });
    const again = await remember(lost.id);
    await puller.ack(jobs.filter(({ id }) => id === lost.id));
    await again();
    await breakConnections();
    await until('it to be ready', async () => (await bench.job(lost.id)).status === 'ready');
    expect(await bench.job(kept.id)).toMatchObject({ status: 'running' });
    expect((await puller.ack(jobs.filter(({ id }) => id === kept.id))).stale).toEqual([]);
  } finally {
    await puller.close();
  }
});

test('a lease whose claim was lost is given up as soon as the connections have broken: the job runs elsewhere', async () => {
  const aborted: unknown[] = [];
  const hang = implement(task, (_payload, { signal }) => {
    return new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => {
        aborted.push((signal.reason as { readonly code: string }).code);
        resolve();
      });
    });
  });
  const worker = await bench.worker([hang], { node: 'a', heartbeatMs: 20_000, lostAfterMs: 60_000 });
  const { id } = await bench.producer.enqueue(task, {});
  await bench.dispatch();
  await until('it to run', async () => (await bench.job(id)).status === 'running');
  await bench.sql(
    `update pgqueue.work_queue set pool = 'elsewhere', lock_key = null, lock_token = null, lock_timeout = null, started = null`,
  );
  await breakConnections();
  await until('it to be told', () => aborted.length > 0);
  expect(aborted).toEqual(['lease_lost']);
  await expect
    .poll(() => worker.of('job.stale'))
    .toEqual([expect.objectContaining({ job: id, during: 'heartbeat' })]);
  expect(await bench.job(id)).toMatchObject({ status: 'ready', tries: 0, crashes: 0 });
});
