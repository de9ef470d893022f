import type { JobContext } from '@pgqueue/core';
import { defineTask, giveUp, implement } from '@pgqueue/core';
import { encrypted } from '@pgqueue/postgres';
import { createScheduler } from '@pgqueue/scheduler';
import sodium from 'sodium-native';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import { useActors } from '../../support/encryption/actors.ts';
import { codecOf } from '../../support/encryption/keys.ts';
import { openWorkerBench, until } from '../../support/worker-bench.ts';

const bench = opened(openWorkerBench);

const { closing, operating, producing } = useActors(bench, {
  codec: codecOf(['a']),
  operator: { actor: { name: 'ada', via: 'cli' } },
});

const task = defineTask({ name: 'greet', payload: z.object({ n: z.int(), fails: z.boolean().optional() }) });

test('a rotation under load loses nothing: readers first, then writers, then the older key goes', async () => {
  const scheduler = createScheduler({ connectionString: bench.test.url });
  closing({ close: () => scheduler.stop() });
  await scheduler.start();
  const ran = new Map<string, number>();
  const handler = implement(task, ({ n }, { job }: JobContext) => {
    ran.set(job.id, (ran.get(job.id) ?? 0) + 1);
    return n;
  });
  const ids: string[] = [];
  let producer = producing(codecOf(['a']));
  const load = new AbortController();
  const loading = (async () => {
    while (!load.signal.aborted) {
      const made = await producer.enqueueMany(Array.from({ length: 50 }, (_, n) => task.job({ n })));
      for (const { id } of made) ids.push(id);
      // no more than a busy machine runs
      await until('jobs to run', () => load.signal.aborted || ids.length - ran.size < 500);
    }
  })();
  const more = (count: number): Promise<unknown> => {
    const goal = ids.length + count;
    return until('more jobs', () => ids.length >= goal && ran.size > goal / 2);
  };
  const first = await bench.worker([handler], { codec: codecOf(['a']) });
  await more(200);
  const second = await bench.worker([handler], { codec: codecOf(['a', 'b']) });
  await first.stop();
  producer = producing(codecOf(['b', 'a']));
  await more(200);
  const third = await bench.worker([handler], { codec: codecOf(['b', 'a']) });
  await second.stop();
  await more(200);
  // another cipher: read by every worker, with libsodium or without
  producer = producing(codecOf(['b', 'a'], { sodium }));
  const before = ids.length;
  await until('the third to run some of them', () => ran.size > before + 100);
  const fourth = await bench.worker([handler], { codec: codecOf(['b', 'a'], { sodium }) });
  await third.stop();
  await more(200);
  load.abort();
  await loading;
  await until('every job to run', () => ran.size === ids.length);
  // its settlement comes after it
  await until(
    'none to wait',
    async () => (await bench.sql('select from pgqueue.queue limit 1')).length === 0,
  );
  expect(await bench.sql('select from pgqueue.dead_letter')).toEqual([]);
  expect(new Set(ran.values())).toEqual(new Set([1]));
  for (const after of [producing(codecOf(['b', 'a'])), producing(codecOf(['b', 'a'], { sodium }))]) {
    expect(await after.result(ids[7] ?? '')).toBe(7);
    expect(await after.result(ids.at(-1) ?? '')).toBe(49);
  }
  const ciphers = `select distinct left(payload ->> '$enc', 1) as payload, left(result ->> '$enc', 1) as result from pgqueue.history`;
  expect(await bench.sql(ciphers)).toEqual(
    expect.arrayContaining([
      { payload: '2', result: '1' },
      { payload: '2', result: '2' },
    ]),
  );
  for (const worker of [first, second, third, fourth]) expect(worker.of('codec.key_missing')).toEqual([]);
});

test('dead jobs are rewrapped under the first key, in slices, and run without the older key', async () => {
  const older = codecOf(['a'], { errors: true });
  const both = codecOf(['b', 'a'], { errors: true, plain: 'accept' });
  const failing = implement(task, async ({ n }, ctx) => {
    await ctx.checkpoint({ at: n });
    return giveUp(new Error(`failed ${n}`));
  });
  const worker = await bench.worker([failing], { codec: codecOf(['a'], { errors: true, plain: 'accept' }) });
  const made = await producing(older).enqueueMany(Array.from({ length: 5 }, (_, n) => task.job({ n })));
  const plain = await bench.producer.enqueue(task, { n: 5 });
  await bench.dispatch();
  const ids = [...made.map(({ id }) => id), plain.id];
  for (const id of ids) await until('it to be dead', async () => (await bench.job(id)).status === 'dead');
  const [cut] = ids;
  const cutOff = `update pgqueue.dead_letter set payload = jsonb_build_object('$enc', left(payload ->> '$enc', -4)) where id = $1`;
  await bench.sql(cutOff, [cut]);
  const seen: unknown[] = [];
  const result = await operating(both).dead.rewrap(
    { all: true },
    { chunk: 2, onProgress: ({ seen: of }) => void seen.push(of) },
  );
  expect(result).toEqual({
    total: 6,
    done: 5,
    current: 0,
    unreadable: 1,
    problems: [expect.stringMatching(/^the payload of job .* can't be decrypted/)],
  });
  expect(seen).toEqual([2, 4, 6]);
  expect(await operating(both).dead.rewrap({ ids: ids.slice(1) })).toMatchObject({
    done: 0,
    current: 5,
    unreadable: 0,
  });
  const newer = codecOf(['b'], { errors: true });
  const listed = await operating(newer).dead.list();
  expect(listed.items.map(({ lastError }) => lastError?.message)).toEqual(
    expect.arrayContaining(['failed 1', 'failed 2', 'failed 3', 'failed 4']),
  );
  const [note] = await bench.sql(
    `select action, result from pgqueue.audit where action = 'dead.rewrap' order by n limit 1`,
  );
  expect(note).toEqual({ action: 'dead.rewrap', result: { total: 6, done: 5, current: 0, unreadable: 1 } });
  await worker.stop();
  const found: unknown[] = [];
  await bench.worker([implement(task, ({ n }, { job }) => (found.push(job.checkpoint), n))], {
    codec: newer,
  });
  await operating(newer).dead.redrive({ ids: ids.slice(1) });
  await bench.dispatch();
  const producer = producing(newer);
  expect(await Promise.all(ids.slice(1).map((id) => producer.result(id)))).toEqual([1, 2, 3, 4, 5]);
  expect(found).toEqual(expect.arrayContaining([1, 2, 3, 4, 5].map((at) => ({ at }))));
  await expect(operating().dead.rewrap({ all: true })).rejects.toThrow('this operator has no codec');
});

test('a rewrap without the key of a job leaves it as it is, and names the key', async () => {
  const worker = await bench.worker([implement(task, () => giveUp())], { codec: codecOf(['a']) });
  const { id } = await producing(codecOf(['a'])).enqueue(task, { n: 1 });
  await bench.dispatch();
  await until('it to be dead', async () => (await bench.job(id)).status === 'dead');
  await worker.stop();
  expect(await operating(codecOf(['b'])).dead.rewrap({ all: true })).toMatchObject({
    done: 0,
    unreadable: 1,
    problems: [expect.stringContaining('is encrypted under the key "a", which this process does not have')],
  });
  const wrong = encrypted({ keys: [{ id: 'a', key: Buffer.alloc(32, 'wrong') }], plain: 'refuse' });
  expect(await operating(wrong).dead.rewrap({ all: true })).toMatchObject({
    current: 0,
    unreadable: 1,
    problems: [expect.stringContaining('this process has another key under this id')],
  });
  expect((await operating(codecOf(['a'])).jobs.get(id))?.payload).toEqual({ n: 1 });
});
