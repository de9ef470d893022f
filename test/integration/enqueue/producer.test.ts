import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { PgQueueEvent } from '@pgqueue/core';
import { defineTask } from '@pgqueue/core';
import type { Executor } from '@pgqueue/postgres';
import { createProducer } from '@pgqueue/producer';
import type { Producer, ProducerOptions } from '@pgqueue/producer';
import pg from 'pg';
import { beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { useDatabase } from '../../support/database.ts';
import { until } from '../../support/until.ts';

const hello = defineTask({
  name: 'hello',
  payload: z.object({ n: z.number() }),
  key: ({ n }) => n.toFixed(0),
});
const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

const own = useDatabase();
const { database, reset, sql } = own;

beforeEach(reset);

async function withProducer(
  options: ProducerOptions,
  use: (producer: Producer, events: readonly PgQueueEvent[]) => Promise<void>,
): Promise<void> {
  const events: PgQueueEvent[] = [];
  const producer = createProducer({ observe: (event) => events.push(event), ...options });
  try {
    await use(producer, events);
  } finally {
    await producer.close();
  }
}

const waiting = async (): Promise<number> =>
  (await sql('select count(*)::integer as n from pgqueue.queue'))[0].n;

/** Fails every statement: what is refused before any I/O never gets here. */
const noDatabase: Executor = { query: () => Promise.reject(new Error('a statement was sent')) };

describe('is checked before any I/O', () => {
  test('all problems of one job at once', async () => {
    await withProducer({}, async (producer) => {
      const wrong = producer
        .with(noDatabase)
        // @ts-expect-error: the payload of another task
        .enqueue(hello, { n: 'one' }, { queue: '', priority: 0.5, delay: '1s', runAfter: new Date() });
      await expect(wrong).rejects.toMatchObject({
        code: 'invalid_job',
        data: {
          problems: [
            expect.stringContaining('n: '),
            expect.stringContaining("key or attributes can't be derived"),
            expect.stringContaining('queue must'),
            expect.stringContaining('priority must'),
            'give runAfter or delay, not both',
          ],
        },
      });
    });
  });

  test('a batch names its jobs by index', async () => {
    await withProducer({}, async (producer) => {
      const jobs = [
        hello.job({ n: 1 }),
        hello.job({ n: Number.NaN }),
        hello.job({ n: 3 }, { key: 'k'.repeat(201) }),
      ];
      await expect(producer.with(noDatabase).enqueueMany(jobs)).rejects.toMatchObject({
        code: 'invalid_job',
        message: expect.stringMatching(/^jobs\[1\]: .*n: .*\njobs\[2\]: .*key must be/),
        data: { index: 1, jobs: [{ index: 1, task: 'hello' }, { index: 2 }] },
      });
    });
  });

  test('a batch has bounds', async () => {
    await withProducer({}, async (producer) => {
      const enqueuer = producer.with(noDatabase);
      const job = hello.job({ n: 1 });
      await expect(enqueuer.enqueueMany(Array.from({ length: 50_001 }, () => job))).rejects.toThrow(
        '50001 jobs in one batch',
      );
      // the second has half as many characters, each of two bytes
      for (const payload of ['x'.repeat(262_000), 'é'.repeat(131_000)]) {
        const big = { ...job, payload, check: () => Promise.resolve([]) };
        await expect(enqueuer.enqueueMany(Array.from({ length: 300 }, () => big))).rejects.toThrow(
          /bytes of payloads in one batch/,
        );
      }
    });
  });
});

test('a schema that is missing is refused once and clearly, in and outside a transaction', async () => {
  await withProducer({ pool: database.pool, schema: 'nowhere' }, async (producer) => {
    const refused = { code: 'schema_version', message: expect.stringContaining('pgqueue migrate') };
    await expect(producer.enqueue(hello, { n: 1 })).rejects.toMatchObject(refused);
    await expect(producer.with(database.pool).enqueue(hello, { n: 1 })).rejects.toMatchObject(refused);
  });
});

test('the schema is looked at once, not at each enqueue', async () => {
  const texts: string[] = [];
  const counting: Executor = {
    query: (text, values) => {
      texts.push(text);
      return database.query(text, values);
    },
  };
  await withProducer({ schema: 'pgqueue' }, async (producer) => {
    for (let n = 0; n < 3; n += 1) await producer.with(counting).enqueue(hello, { n });
  });
  expect(texts.filter((text) => text.includes('migration'))).toHaveLength(1);
  expect(texts.filter((text) => text.includes('installation'))).toHaveLength(1);
  expect(texts).toHaveLength(5);
});

test('without a database of its own it enqueues in transactions only', async () => {
  await withProducer({}, async (producer) => {
    await expect(producer.enqueue(hello, { n: 1 })).rejects.toMatchObject({ code: 'configuration' });
    expect((await producer.with(database.pool).enqueue(hello, { n: 1 })).outcome).toBe('enqueued');
  });
});

describe('trace context', () => {
  const traces = async (): Promise<readonly unknown[]> =>
    (await sql('select trace from pgqueue.queue order by seq')).map(({ trace }) => trace);

  test('is taken from the running code, unless the job brings one', async () => {
    let n = 0;
    const trace = (): { readonly traceparent: string; readonly baggage: string } => {
      n += 1;
      return { traceparent: traceparent.replace('01', String(n).padStart(2, '0')), baggage: 'secret' };
    };
    await withProducer({ pool: database.pool, trace }, async (producer) => {
      await producer.enqueueMany([hello.job({ n: 1 }), hello.job({ n: 2 }, { trace: { traceparent } })]);
      await producer.enqueue(hello, { n: 3 });
    });
    expect(n).toBe(2);
    expect(await traces()).toEqual([
      { traceparent: traceparent.replace('01', '01') },
      { traceparent },
      { traceparent: traceparent.replace('01', '02') },
    ]);
  });

  test.each([
    [
      'throws',
      () => {
        throw new Error('no exporter');
      },
    ],
    ['has none', () => ({})],
    ['has nonsense', () => ({ traceparent: 'x' })],
  ])('is left out where the source %s', async (_name, trace) => {
    await withProducer({ pool: database.pool, trace }, async (producer) => {
      await producer.enqueue(hello, { n: 1 });
    });
    expect(await traces()).toEqual([null]);
  });
});

describe('after a transient error', () => {
  test('a broken connection: it is repeated', async () => {
    await withProducer({ connectionString: own.url, applicationName: 'doomed' }, async (producer, events) => {
      await producer.enqueue(hello, { n: 1 });
      const blocker = await database.pool.connect();
      try {
        await blocker.query('begin');
        await blocker.query('lock table pgqueue.queue in share mode');
        const enqueuing = producer.enqueue(hello, { n: 2 });
        await until('the enqueue to wait', async () => {
          const ended = await sql(
            `select pg_terminate_backend(pid) from pg_stat_activity
             where application_name = 'doomed' and wait_event_type = 'Lock'`,
          );
          return ended.length > 0;
        });
        await until('the error', () => events.some(({ type }) => type === 'database.error'));
        await blocker.query('commit');
        expect((await enqueuing).outcome).toBe('enqueued');
      } finally {
        blocker.release();
      }
      expect(await waiting()).toBe(2);
    });
  });

  test.each([
    ['inserted', {}],
    ['with a unique key', { uniqueKey: 'u' }],
  ])(
    'a lost reply: the job is not enqueued again, although it has ended meanwhile (%s)',
    async (_name, options) => {
      const pool = new pg.Pool({ connectionString: own.url, max: 2 });
      const real = pool.query.bind(pool) as (text: string, values: unknown[]) => Promise<pg.QueryResult>;
      let lost = 0;
      const query = async (text: string, values: unknown[]): Promise<pg.QueryResult> => {
        const result = await real(text, values);
        if (!text.includes('enqueue_unique') && !text.includes('insert into')) return result;
        lost += 1;
        if (lost > 1) return result;
        await sql('select pgqueue.cancel(array(select id from pgqueue.queue))');
        throw new Error('Connection terminated unexpectedly');
      };
      Object.assign(pool, { query });
      await withProducer({ pool, notify: false }, async (producer) => {
        expect((await producer.enqueue(hello, { n: 1 }, options)).outcome).toBe('repeated');
      });
      await pool.end();
      expect(lost).toBe(2);
      expect(await sql('select status from pgqueue.job')).toEqual([{ status: 'cancelled' }]);
    },
  );

  // the server of the tests has English only
  const german = (error: unknown): never => {
    const found = error as pg.DatabaseError;
    if (found.code === '23505')
      found.message = `doppelter Schlüsselwert verletzt Unique-Constraint »${found.constraint}«`;
    throw found;
  };
  test.each([
    ['English', undefined],
    ['German', german],
  ])(
    'a statement that is sent twice, by a pool of its own mind: the job is there once, and told so (%s)',
    async (_language, failed) => {
      const pool = new pg.Pool({ connectionString: own.url, max: 2 });
      const real = pool.query.bind(pool) as (text: string, values: unknown[]) => Promise<pg.QueryResult>;
      const query = async (text: string, values: unknown[]): Promise<pg.QueryResult> => {
        if (text.includes('insert into')) await real(text, values);
        return real(text, values).catch(failed);
      };
      Object.assign(pool, { query });
      await withProducer({ pool, notify: false }, async (producer) => {
        expect((await producer.enqueue(hello, { n: 1 })).outcome).toBe('repeated');
      });
      await pool.end();
      expect(await waiting()).toBe(1);
    },
  );

  test('an error that is not transient is not repeated', async () => {
    await withProducer({ pool: database.pool }, async (producer, events) => {
      const forged = {
        ...hello.job({ n: 1 }),
        check: () => Promise.resolve([]),
        payload: Array(300_000).fill(1),
      };
      await expect(producer.enqueueMany([forged])).rejects.toMatchObject({ code: 'invalid_job' });
      expect(events).toEqual([]);
    });
  });
});

test('it tells what was enqueued, by task; an observer that throws does no harm', async () => {
  await withProducer({ pool: database.pool }, async (producer, events) => {
    const other = defineTask({ name: 'other', payload: z.object({}) });
    await producer.enqueueMany([hello.job({ n: 1 }), other.job({}), hello.job({ n: 2 }, { uniqueKey: 'u' })]);
    await producer.enqueue(hello, { n: 2 }, { uniqueKey: 'u' });
    expect(events).toEqual([
      { type: 'enqueued', queue: 'default', task: 'hello', count: 2 },
      { type: 'enqueued', queue: 'default', task: 'other', count: 1 },
    ]);
  });
  const observe = (): never => {
    throw new Error('observer');
  };
  await withProducer({ pool: database.pool, observe }, async (producer) => {
    expect((await producer.enqueue(hello, { n: 1 })).outcome).toBe('enqueued');
  });
});

test('close waits for what is under way, may come twice, and ends enqueuing', async () => {
  const producer = createProducer({ connectionString: own.url });
  const enqueuing = producer.enqueue(hello, { n: 1 });
  await until('it to be sent', async () => (await waiting()) === 1);
  await Promise.all([producer.close(), producer.close()]);
  expect((await enqueuing).outcome).toBe('enqueued');
  await producer.close();
  await expect(producer.enqueue(hello, { n: 2 })).rejects.toThrow('this producer was closed');
  await expect(producer.with(database.pool).enqueue(hello, { n: 2 })).rejects.toThrow('closed');
  expect(await waiting()).toBe(1);
});

test('a program that ends without closing its producer is not kept alive by idle connections', async () => {
  const program = `
    import { createProducer } from '@pgqueue/producer';
    const producer = createProducer({ connectionString: process.argv[1] });
    console.log((await producer.enqueueByName('hello', { n: 1 })).outcome);
    setTimeout(() => console.log('kept alive'), 20_000).unref(); // runs only if something else keeps it alive`;
  const flags = ['--conditions=@pgqueue/source', '--input-type=module', '--eval'];
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, program, own.url]);
  expect(stdout).toBe('enqueued\n');
});
