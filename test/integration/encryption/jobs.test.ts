import type { JobContext, NewJob } from '@pgqueue/core';
import { defineTask, implement, implementBatch } from '@pgqueue/core';
import { createProducer } from '@pgqueue/producer';
import type { Producer } from '@pgqueue/producer';
import pg from 'pg';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import { useActors } from '../../support/encryption/actors.ts';
import { codecOf } from '../../support/encryption/keys.ts';
import { promoteAll } from '../../support/dispatch-all.ts';
import { openWorkerBench, until } from '../../support/worker-bench.ts';

const bench = opened(openWorkerBench);

const codec = codecOf(['new', 'old']);
const { closing, operating, producing } = useActors(bench, { codec, producer: { notify: false } });
const task = defineTask({
  name: 'greet',
  payload: z.looseObject({ secret: z.string() }),
  retry: { maxTries: 3, base: 1, jitter: 0 },
});

const stored = async (): Promise<readonly Record<string, unknown>[]> =>
  bench.sql('select id::text, payload, payload::text like $1 as leaks from pgqueue.queue order by seq', [
    '%canary%',
  ]);
const ended = (id: string, status = 'done'): Promise<unknown> =>
  until(`job ${id} to be ${status}`, async () => (await bench.job(id)).status === status);
const envelope = {
  $enc: expect.stringMatching(/^1:new:[\w-]{6}:[\w+/]+={0,2}$/) as string,
};

describe('every way to enqueue', () => {
  const one = { secret: 'canary' };
  const ways: Readonly<Record<string, (producer: Producer) => Promise<readonly { readonly id: string }[]>>> =
    {
      enqueue: async (producer) => [await producer.enqueue(task, one)],
      'with an id': async (producer) => {
        const id = '0193A4D2-7C1E-7B44-9D3A-5F0C2E8B6A71';
        await producer.enqueue(task, one, { id });
        const again = await producer.enqueue(task, { secret: 'canary 2' }, { id });
        expect(again).toEqual({ id: id.toLowerCase(), outcome: 'repeated' });
        return [again];
      },
      enqueueByName: async (producer) => [await producer.enqueueByName('greet', one)],
      many: (producer) => producer.enqueueMany(Array.from({ length: 20 }, () => task.job(one))),
      'many by COPY': (producer) => producer.enqueueMany(Array.from({ length: 3_000 }, () => task.job(one))),
      keep: async (producer) => {
        const first = await producer.enqueue(task, one, { uniqueKey: 'a' });
        const second = await producer.enqueue(task, { secret: 'canary 2' }, { uniqueKey: 'a' });
        expect(second).toEqual({ id: first.id, outcome: 'kept' });
        return [second];
      },
      'in a transaction': async (producer) => {
        const client = new pg.Client({ connectionString: bench.test.url });
        await client.connect();
        try {
          await client.query('begin');
          const enqueued = await producer.with(client).enqueue(task, one);
          await client.query('commit');
          return [enqueued];
        } finally {
          await client.end();
        }
      },
    };

  test.each(Object.entries(ways))('%s', async (_way, enqueue) => {
    const enqueued = await enqueue(producing());
    for (const row of await stored()) expect(row).toMatchObject({ leaks: false, payload: envelope });
    const seen: unknown[] = [];
    await bench.worker([implement(task, (payload) => void seen.push(payload))], { codec, concurrency: 100 });
    while ((await bench.dispatch()) > 0);
    await ended(enqueued.at(-1)?.id ?? '');
    await until('all to be done', () => seen.length === enqueued.length);
    expect(new Set(seen.map((payload) => JSON.stringify(payload)))).toEqual(new Set([JSON.stringify(one)]));
  });

  test.each(['replace', 'debounce'] as const)(
    '%s: a payload that takes over a waiting job is bound to that one',
    async (onConflict) => {
      const producer = producing();
      const outcome = onConflict === 'replace' ? 'replaced' : 'debounced';
      const uniqueKey = { key: 'a', onConflict };
      const first = await producer.enqueue(task, { secret: 'canary 1' }, { uniqueKey });
      const second = await producer.enqueue(task, { secret: 'canary 2' }, { uniqueKey });
      expect([first.outcome, second]).toEqual(['enqueued', { id: first.id, outcome }]);
      const client = new pg.Client({ connectionString: bench.test.url });
      await client.connect();
      await client.query('begin');
      const third = await producer
        .with(client)
        .enqueueMany([
          task.job({ secret: 'canary 3' }, { uniqueKey }),
          task.job({ secret: 'canary 4' }, { uniqueKey }),
          task.job({ secret: 'canary 5' }, { uniqueKey: { key: 'b', onConflict } }),
          task.job({ secret: 'canary 6' }, { uniqueKey: { key: 'b', onConflict } }),
        ]);
      await client.query('commit');
      await client.end();
      expect(third.map((enqueued) => enqueued.outcome)).toEqual([outcome, outcome, 'enqueued', outcome]);
      expect(third[0]?.id).toBe(first.id);
      const seen = new Map<string, unknown>();
      await bench.worker([implement(task, ({ secret }, { job }) => void seen.set(job.id, secret))], {
        codec,
      });
      await bench.dispatch();
      await ended(first.id);
      await ended(third[3]?.id ?? '');
      expect(Object.fromEntries(seen)).toEqual({ [first.id]: 'canary 4', [third[3]?.id ?? '']: 'canary 6' });
    },
  );

  test('a batch in which jobs of one unique key take each other over', async () => {
    const producer = producing();
    const of = (secret: string, onConflict: 'keep' | 'replace' | 'supersede', key = 'a'): NewJob =>
      task.job({ secret }, { uniqueKey: { key, onConflict } });
    const first = await producer.enqueue(task, { secret: 'canary 1' }, { uniqueKey: 'a' });
    const made = await producer.enqueueMany([
      of('canary 2', 'replace'),
      of('canary 3', 'supersede'),
      of('canary 4', 'keep', 'b'),
      of('canary 5', 'replace', 'b'),
      of('canary 6', 'keep', 'b'),
    ]);
    expect(made.map(({ outcome }) => outcome)).toEqual([
      'replaced',
      'superseded',
      'enqueued',
      'replaced',
      'kept',
    ]);
    const seen = new Map<string, unknown>();
    await bench.worker([implement(task, ({ secret }, { job }) => void seen.set(job.id, secret))], { codec });
    await bench.dispatch();
    const [, superseding, kept] = made;
    await ended(superseding?.id ?? '');
    await ended(kept?.id ?? '');
    expect(Object.fromEntries(seen)).toEqual({
      [superseding?.id ?? '']: 'canary 3',
      [kept?.id ?? '']: 'canary 5',
    });
    expect((await bench.job(first.id)).status).toBe('cancelled');
  });

  test('producers that replace one job at the same time leave a payload that can be read', async () => {
    const producers = Array.from({ length: 4 }, () => producing());
    const uniqueKey = { key: 'a', onConflict: 'replace' } as const;
    const { id } = await bench.producer.enqueue(task, { secret: 'canary' }, { uniqueKey });
    await Promise.all(
      producers.flatMap((producer, n) =>
        Array.from({ length: 10 }, () =>
          producer.enqueueMany(
            ['a', 'b'].map((key) =>
              task.job({ secret: `canary ${n}` }, { uniqueKey: { ...uniqueKey, key } }),
            ),
          ),
        ),
      ),
    );
    await bench.worker([implement(task, ({ secret }) => secret)], { codec });
    await bench.dispatch();
    expect(await producers[0]?.result(id)).toMatch(/^canary \d$/);
  });

  test('supersede: the new job has its own id', async () => {
    const producer = producing();
    const uniqueKey = { key: 'a', onConflict: 'supersede' } as const;
    await producer.enqueue(task, { secret: 'canary 1' }, { uniqueKey });
    const { id, outcome } = await producer.enqueue(task, { secret: 'canary 2' }, { uniqueKey });
    expect(outcome).toBe('superseded');
    const seen: unknown[] = [];
    await bench.worker([implement(task, ({ secret }) => void seen.push(secret))], { codec });
    await bench.dispatch();
    await ended(id);
    expect(seen).toEqual(['canary 2']);
  });

  test('a payload that is too long once it is encoded is refused before any I/O', async () => {
    const producer = createProducer({ connectionString: 'postgres://nobody@127.0.0.1:1/nowhere', codec });
    closing(producer);
    const long = { secret: 'x'.repeat(200_000) };
    await expect(producer.enqueue(task, long)).rejects.toMatchObject({
      code: 'invalid_job',
      message: expect.stringMatching(
        /payload has 266\d{3} bytes once it is encoded, more than 262144/,
      ) as string,
    });
    await expect(producer.enqueueMany([task.job({ secret: '' }), task.job(long)])).rejects.toThrow(
      /^jobs\[1\]: job of task/,
    );
  });
});

describe('what a worker stores', () => {
  test('results, checkpoints and progress are encrypted, by each way to settle', async () => {
    const saw: unknown[] = [];
    const shown = Promise.withResolvers<void>();
    const looked = Promise.withResolvers<void>();
    const ways: Readonly<Record<string, (ctx: JobContext) => unknown>> = {
      returned: () => ({ out: 'canary' }),
      transaction: (ctx) => ctx.transaction(() => Promise.resolve({ out: 'canary' })),
      nothing: () => undefined,
      retried: async (ctx) => {
        saw.push(ctx.job.checkpoint);
        if (ctx.job.tries > 0) return { out: 'canary' };
        await ctx.checkpoint({ page: 'canary' });
        await ctx.progress({ at: 'canary' });
        shown.resolve();
        await looked.promise;
        throw new Error('again');
      },
    };
    const result = z.looseObject({});
    const handlers = Object.entries(ways).map(([name, run]) =>
      implement(
        defineTask({
          name,
          payload: z.looseObject({}),
          retry: { base: 1, jitter: 0 },
          ...(name === 'nothing' ? {} : { result }),
        }),
        (_, ctx) => run(ctx) as never,
      ),
    );
    const every = codecOf(['new', 'old'], { progress: true });
    await bench.worker(handlers, { codec: every });
    const producer = producing();
    const enqueued = await Promise.all(Object.keys(ways).map((name) => producer.enqueueByName(name)));
    await bench.dispatch();
    await shown.promise;
    const retried = enqueued.at(-1)?.id ?? '';
    const [running] = await bench.sql(
      `select w.progress, q.checkpoint from pgqueue.work_queue w join pgqueue.queue q on q.id = w.id where q.id = $1`,
      [retried],
    );
    expect(running).toEqual({ progress: envelope, checkpoint: envelope });
    expect(await operating(every).jobs.get(retried)).toMatchObject({
      progress: { at: 'canary' },
      checkpoint: { page: 'canary' },
    });
    looked.resolve();
    await until('the retry', async () => {
      await promoteAll(bench.database);
      await bench.dispatch();
      return (await bench.job(retried)).status === 'done';
    });
    expect(saw).toEqual([null, { page: 'canary' }]);
    const results = await Promise.all(enqueued.map(({ id }) => producer.result(id)));
    expect(results).toEqual([{ out: 'canary' }, { out: 'canary' }, null, { out: 'canary' }]);
    for (const { id } of enqueued) expect(JSON.stringify(await bench.job(id))).not.toContain('canary');
    expect(await operating(codec).jobs.get(retried)).toMatchObject({
      payload: {},
      result: { out: 'canary' },
    });
  });

  test('the problems of a payload or a result, which quote it, are encrypted in any case', async () => {
    const quoting = z.custom<{ readonly secret: string }>((value) => value === 1, { error: 'not canary' });
    const strict = defineTask({ name: 'greet', payload: quoting });
    const checked = defineTask({
      name: 'checked',
      payload: z.looseObject({}),
      result: quoting,
      retry: { maxTries: 1 },
    });
    const worker = await bench.worker(
      [implement(strict, () => {}), implement(checked, () => ({ secret: '' }))],
      { codec },
    );
    const producer = producing();
    const ids = [await producer.enqueue(task, { secret: '' }), await producer.enqueue(checked, {})].map(
      ({ id }) => id,
    );
    await bench.dispatch();
    for (const id of ids) {
      await ended(id, 'dead');
      const { errors } = await bench.job(id);
      expect(errors).toMatchObject([{ ...envelope, message: 'encrypted under the key "new"', try: 1 }]);
      expect((await operating(codec).jobs.get(id))?.lastError?.message).toContain('canary');
      await expect(producer.result(id)).rejects.toThrow(/is dead .*canary/);
    }
    expect(worker.of('job.invalid')).toHaveLength(1);
  });

  test('errors are readable, unless the option says otherwise', async () => {
    const producer = producing();
    for (const errors of [false, true]) {
      const own = codecOf(['new'], { errors });
      const worker = await bench.worker(
        [
          implement(task, () => {
            throw Object.assign(new TypeError('canary', { cause: new Error('canary') }), { code: 'E_X' });
          }),
        ],
        { codec: own },
      );
      const { id } = await producer.enqueue(task, { secret: '' }, { retry: { maxTries: 1 } });
      await bench.dispatch();
      await ended(id, 'dead');
      await expect.poll(() => worker.of('job.settled')).toHaveLength(1);
      const text = JSON.stringify([await bench.job(id), await operating().dead.list()]);
      expect(text.includes('canary')).toBe(!errors);
      const [{ error } = {}] = worker.of('job.settled');
      expect(error).toMatchObject({ name: 'TypeError', code: 'E_X' });
      expect(`${(error as Error).message}${(error as Error).stack}`.includes('canary')).toBe(!errors);
      expect((await operating(own).dead.list()).items[0]?.lastError).toMatchObject({
        name: 'TypeError',
        message: 'canary',
        kind: 'error',
        try: 1,
        cause: { message: 'canary' },
      });
      await expect(producing(own).result(id)).rejects.toThrow(/canary/);
      await bench.clear();
    }
  });

  test('a bundle: payloads, results, progress and checkpoints of each job are its own', async () => {
    const every = codecOf(['new'], { progress: true });
    const bundled = implementBatch(task, async (jobs, ctx) => {
      await ctx.progress('canary');
      for (const job of jobs) await ctx.checkpoint(job, { of: job.id });
      return jobs.map(({ payload }) => `canary ${payload.secret}`);
    });
    await bench.worker([bundled], { codec: every });
    const producer = producing(every);
    const made = await producer.enqueueMany(['a', 'b', 'c'].map((secret) => task.job({ secret })));
    await bench.dispatch();
    const results = await Promise.all(made.map(({ id }) => producer.result(id)));
    expect(results).toEqual(['canary a', 'canary b', 'canary c']);
  });
});
