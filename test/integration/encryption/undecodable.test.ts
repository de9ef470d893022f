import type { Codec, JobContext, PgQueueError } from '@pgqueue/core';
import { defineTask, giveUp, implement, implementBatch } from '@pgqueue/core';
import { encrypted } from '@pgqueue/postgres';
import { createPuller } from '@pgqueue/worker';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import { useActors } from '../../support/encryption/actors.ts';
import { codecOf } from '../../support/encryption/keys.ts';
import { promoteAll } from '../../support/dispatch-all.ts';
import type { TestWorker } from '../../support/worker-bench.ts';
import { openWorkerBench, until } from '../../support/worker-bench.ts';

const bench = opened(openWorkerBench);

const codec = codecOf(['new', 'old']);
const { closing, operating, producing } = useActors(bench, { codec, producer: { notify: false } });
const task = defineTask({
  name: 'greet',
  payload: z.looseObject({ secret: z.string() }),
  retry: { maxTries: 3, base: 1, jitter: 0 },
});

const stored = (): Promise<readonly Record<string, unknown>[]> =>
  bench.sql('select payload from pgqueue.queue');
const ended = (id: string, status = 'done'): Promise<unknown> =>
  until(`job ${id} to be ${status}`, async () => (await bench.job(id)).status === status);

describe('a job that can not be decrypted', () => {
  test('waits, uncounted, while the key is missing, and runs once it is there', async () => {
    const producer = producing(codecOf(['newest']));
    const { id } = await producer.enqueue(task, { secret: 'canary' });
    const worker = await bench.worker([implement(task, () => {})], { codec });
    await bench.dispatch();
    await expect.poll(() => worker.of('codec.key_missing')).toHaveLength(1);
    expect(worker.of('codec.key_missing')).toEqual([
      {
        type: 'codec.key_missing',
        job: id,
        task: 'greet',
        error: expect.objectContaining({
          code: 'key_missing',
          data: expect.objectContaining({ key: 'newest' }) as object,
        }) as Error,
      },
    ]);
    await ended(id, 'delayed');
    expect(await bench.job(id)).toMatchObject({ tries: 0, crashes: 0, errors: [] });
    await worker.stop();
    await bench.worker([implement(task, ({ secret }) => secret)], { codec: codecOf(['new', 'newest']) });
    await promoteAll(bench.database);
    await bench.dispatch();
    expect(await producing(codecOf(['new', 'newest'])).result(id)).toBe('canary');
  });

  test('waits as well while another key has the id of its own', async () => {
    const producer = producing();
    const { id } = await producer.enqueue(task, { secret: 'canary' });
    const wrong = encrypted({ keys: [{ id: 'new', key: Buffer.alloc(32, 'wrong') }], plain: 'refuse' });
    const worker = await bench.worker([implement(task, () => {})], { codec: wrong });
    await bench.dispatch();
    await ended(id, 'delayed');
    expect(await bench.job(id)).toMatchObject({ tries: 0, crashes: 0, errors: [] });
    const message = expect.stringContaining('this process has another key under this id') as string;
    expect(worker.of('codec.key_missing').map(({ error }) => error)).toEqual([
      expect.objectContaining({ code: 'key_missing', message }) as Error,
    ]);
    await worker.stop();
    await bench.worker([implement(task, ({ secret }) => secret)], { codec });
    await promoteAll(bench.database);
    await bench.dispatch();
    expect(await producer.result(id)).toBe('canary');
  });

  test('is dead, with the reason, when its payload was changed, cut, moved or is plain', async () => {
    const producer = producing();
    const ids = (
      await producer.enqueueMany(['a', 'b', 'c', 'd', 'e'].map((secret) => task.job({ secret })))
    ).map(({ id }) => id);
    const [moved, cut, plain, retasked, fine] = ids;
    await bench.sql(
      `update pgqueue.queue q set payload = (select payload from pgqueue.queue where id = $2) where id = $1`,
      [moved, fine],
    );
    await bench.sql(
      `update pgqueue.queue set payload = payload || jsonb_build_object('$enc', left(payload ->> '$enc', -4)) where id = $1`,
      [cut],
    );
    await bench.sql(`update pgqueue.queue set payload = '{"secret": "made up"}' where id = $1`, [plain]);
    await bench.sql(`update pgqueue.queue set task = 'other' where id = $1`, [retasked]);
    const other = defineTask({ name: 'other', payload: z.looseObject({}) });
    const ran: string[] = [];
    const handlers = [task, other].map((of) =>
      implement(of, (_payload: unknown, { job }: JobContext) => void ran.push(job.id)),
    );
    await bench.worker(handlers, { codec });
    await bench.dispatch();
    await ended(fine ?? '');
    for (const id of [moved, cut, plain, retasked]) await ended(id ?? '', 'dead');
    expect(ran).toEqual([fine]);
    const reasons = await Promise.all(
      [moved, cut, plain].map(async (id) => (await bench.job(id ?? '')).lastError?.message),
    );
    expect(reasons).toEqual([
      expect.stringMatching(/^the payload of job .* can't be decrypted: it was changed, cut, or moved here/),
      expect.stringMatching(/it was changed, cut, or moved here/),
      expect.stringMatching(/it is not encrypted, and the codec has plain: 'refuse'/),
    ]);
  });

  test('redriven with its own payload, it runs', async () => {
    const producer = producing();
    const { id } = await producer.enqueue(task, { secret: 'canary' });
    const [{ payload } = {}] = await stored();
    await bench.sql(
      `update pgqueue.queue set payload = jsonb_build_object('$enc', left(payload ->> '$enc', -4))`,
    );
    await bench.worker([implement(task, ({ secret }) => secret)], { codec });
    await bench.dispatch();
    await ended(id, 'dead');
    await bench.sql('update pgqueue.dead_letter set payload = $1', [JSON.stringify(payload)]);
    expect(await operating(codec).dead.redrive({ ids: [id] })).toMatchObject({ done: 1 });
    await bench.dispatch();
    expect(await producer.result(id)).toBe('canary');
  });

  test('a lookalike of an encrypted payload is a payload as any other', async () => {
    const lookalike = { $enc: '1:new:AAAAAA:AAAA', secret: 'canary' };
    await bench.worker([implement(task, (payload) => payload)], { codec });
    const producer = producing();
    const { id } = await producer.enqueue(task, lookalike);
    await bench.dispatch();
    expect(await producer.result(id)).toEqual(lookalike);
  });

  test("with plain: 'accept', jobs from before run, and so do those of schedules", async () => {
    const { id } = await bench.producer.enqueue(task, { secret: 'plain' });
    const accepting = codecOf(['new'], { plain: 'accept' });
    await bench.worker([implement(task, ({ secret }) => secret)], { codec: accepting });
    const { schedules } = operating(accepting);
    await schedules.set({ name: 'daily', cron: '0 0 * * *', job: task.job({ secret: 'scheduled' }) });
    const scheduled = await schedules.runNow('daily');
    await bench.dispatch();
    const producer = producing(accepting);
    expect(await Promise.all([producer.result(id), producer.result(scheduled)])).toEqual([
      'plain',
      'scheduled',
    ]);
    await schedules.remove('daily');
    await expect(
      operating(codec).schedules.set({ name: 'daily', cron: '0 0 * * *', job: task.job({ secret: 'x' }) }),
    ).rejects.toThrow('the payloads of schedules are not encrypted');
  });
});

describe('without a codec', () => {
  const digest = defineTask({
    name: 'digest',
    payload: z.object({ to: z.string().default('everybody') }),
    checkpoint: z.object({ sent: z.int().default(0) }),
  });
  const lacks = expect.stringMatching(
    /^the \w+ of job \S+ \(task "\w+"\) is encrypted under the key "new", and this process has no codec: give it/,
  ) as string;
  const pauses = async (worker: TestWorker, id: string): Promise<void> => {
    await ended(id, 'delayed');
    await expect
      .poll(() => worker.of('codec.key_missing').map(({ error }) => error))
      .toEqual([expect.objectContaining({ code: 'key_missing', message: lacks }) as Error]);
  };

  test.each([
    ['a handler', (ran: unknown[]) => implement(digest, ({ to }) => void ran.push(to))],
    ['a handler of bundles', (ran: unknown[]) => implementBatch(digest, (jobs) => void ran.push(...jobs))],
  ])('%s never gets an encrypted job, which waits, uncounted, for a worker with one', async (_what, make) => {
    const ran: unknown[] = [];
    const without = await bench.worker([make(ran)]);
    const producer = producing();
    const { id } = await producer.enqueue(digest, { to: 'ada' });
    await bench.dispatch();
    await pauses(without, id);
    expect(await bench.job(id)).toMatchObject({ tries: 0, crashes: 0, errors: [] });
    await without.stop();
    await bench.worker([implement(digest, ({ to }) => to)], { codec });
    await promoteAll(bench.database);
    await bench.dispatch();
    expect(await producer.result(id)).toBe('ada');
    expect(ran).toEqual([]);
    await expect(bench.producer.result(id)).rejects.toMatchObject({ code: 'key_missing', message: lacks });
  });

  test('a job with an encrypted checkpoint waits, too', async () => {
    const { id } = await bench.producer.enqueue(digest, {});
    const checkpoint = codec.encode('{"sent":2}', { id, field: 'checkpoint', name: 'digest' });
    await bench.sql('update pgqueue.queue set checkpoint = $1', [checkpoint]);
    const without = await bench.worker([implement(digest, () => {})]);
    await bench.dispatch();
    await pauses(without, id);
    expect(await bench.job(id)).toMatchObject({ tries: 0, crashes: 0 });
  });

  test('a puller never gets an encrypted job, and gets others', async () => {
    const pull = createPuller({ connectionString: bench.test.url, tasks: ['digest'] });
    closing(pull);
    const locked = await producing().enqueue(digest, { to: 'ada' });
    const plain = await bench.producer.enqueue(digest, { to: 'bob' });
    await bench.dispatch();
    const jobs = await pull.claim({ max: 10, waitMs: 10_000 });
    expect(jobs.map(({ id }) => id)).toEqual([plain.id]);
    await ended(locked.id, 'delayed');
  });
});

describe('a puller', () => {
  test('gets decrypted jobs, and acknowledges with encrypted results', async () => {
    const pull = createPuller({
      connectionString: bench.test.url,
      tasks: ['greet'],
      codec: codecOf(['new'], { errors: true }),
    });
    closing(pull);
    const producer = producing();
    const made = await producer.enqueueMany(
      ['a', 'b'].map((secret) => task.job({ secret }, { retry: { maxTries: 1 } })),
    );
    await bench.dispatch();
    const jobs = await pull.claim({ max: 2, waitMs: 10_000 });
    expect(jobs.map(({ payload }) => payload)).toEqual([{ secret: 'a' }, { secret: 'b' }]);
    const [first, second] = jobs;
    if (first === undefined || second === undefined) throw new Error('no jobs');
    await pull.ack(first, 'canary');
    expect(await pull.nack(second, new Error('canary'))).toBe('dead');
    expect(await producer.result(made[0]?.id ?? '')).toBe('canary');
    for (const { id } of made) expect(JSON.stringify(await bench.job(id))).not.toContain('canary');
  });

  test('never gets a job that can not be decrypted', async () => {
    const seen: unknown[] = [];
    const pull = createPuller({
      connectionString: bench.test.url,
      tasks: ['greet'],
      codec,
      observe: (event) => seen.push(event.type),
    });
    closing(pull);
    const lacking = await producing(codecOf(['newest'])).enqueue(task, { secret: 'a' });
    const plain = await bench.producer.enqueue(task, { secret: 'b' });
    const fine = await producing().enqueue(task, { secret: 'c' });
    await bench.dispatch();
    const jobs = await pull.claim({ max: 10, waitMs: 10_000 });
    expect(jobs.map(({ id }) => id)).toEqual([fine.id]);
    await ended(lacking.id, 'delayed');
    await ended(plain.id, 'dead');
    expect(await bench.job(lacking.id)).toMatchObject({ tries: 0, crashes: 0 });
    expect((await bench.job(plain.id)).lastError?.message).toContain("plain: 'refuse'");
    expect(seen).toEqual(expect.arrayContaining(['codec.key_missing', 'job.settled']));
  });
});

test('a plain error is shown without its text where errors are encrypted and plain values refused, unless it is of the database', async () => {
  const own = codecOf(['new'], { errors: true });
  await bench.worker([implement(task, () => giveUp('canary'))], { codec: own });
  const { id } = await producing(own).enqueue(task, { secret: '' });
  await bench.dispatch();
  await expect(producing(own).result(id)).rejects.toThrow(/canary/);
  const made = { name: 'canary', message: 'canary', stack: 'canary', node: 'n', try: 1 };
  const shownBy = async (by: Codec, kind: string): Promise<readonly string[]> => {
    await bench.sql('update pgqueue.dead_letter set errors = $1', [JSON.stringify([{ ...made, kind }])]);
    const [dead] = (await operating(by).dead.list()).items;
    const job = await operating(by).jobs.get(id);
    expect([dead?.lastError, job?.lastError, job?.errors[0]]).toMatchObject(
      Array.from({ length: 3 }, () => ({ kind, node: 'n', try: 1 })),
    );
    const awaited = await producing(by)
      .result(id)
      .catch(({ message, data }: PgQueueError) => ({ message, data }));
    return [dead, job, awaited].map((seen) =>
      JSON.stringify(seen).includes('canary') ? 'told' : 'not told',
    );
  };
  expect(await shownBy(own, 'error')).toEqual(['not told', 'not told', 'not told']);
  expect(await shownBy(own, 'crash')).toEqual(['told', 'told', 'told']);
  for (const by of [codecOf(['new']), codecOf(['new'], { errors: true, plain: 'accept' })])
    expect(await shownBy(by, 'error')).toEqual(['told', 'told', 'told']);
});

test('what is stored in place of a result or an error that the database refuses is encrypted, too', async () => {
  const own = codecOf(['new'], { errors: true });
  const tables = ['history', 'dead_letter', 'queue'];
  for (const table of tables) {
    const column = table === 'history' ? 'result' : 'errors';
    const short = `check (length(${column}::text) < 2000) not valid`;
    await bench.sql(`alter table pgqueue.${table} add constraint short ${short}`);
  }
  const long = 'x'.repeat(3_000);
  const fails = defineTask({ name: 'fails', payload: z.looseObject({}) });
  await bench.worker([implement(task, () => long), implement(fails, () => giveUp(long))], { codec: own });
  const producer = producing(own);
  const [done, dead] = await producer.enqueueMany([task.job({ secret: '' }), fails.job({})]);
  await bench.dispatch();
  await expect(producer.result(done?.id ?? '')).rejects.toMatchObject({
    code: 'result_lost',
    message: expect.stringContaining("the result can't be stored") as string,
  });
  await expect(producer.result(dead?.id ?? '')).rejects.toThrow(/the error can't be stored/);
  for (const table of tables) await bench.sql(`alter table pgqueue.${table} drop constraint short`);
});
