import { defineTask, fanOut, implement, implementBatch } from '@pgqueue/core';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import { useActors } from '../../support/encryption/actors.ts';
import { codecOf } from '../../support/encryption/keys.ts';
import { openWorkerBench } from '../../support/worker-bench.ts';

const bench = opened(openWorkerBench);

const codec = codecOf(['a']);
const { producing } = useActors(bench, { codec });
const task = defineTask({ name: 'greet', payload: z.looseObject({}) });
/** Shorter than a result may be, and longer once it is encoded. */
const long = 'x'.repeat(900_000);

test('without a schema a result that is too long once it is encoded is lost with a note, and the job is done', async () => {
  await bench.worker([implement(task, () => long)], { codec });
  const producer = producing();
  const { id } = await producer.enqueue(task, {});
  await bench.dispatch();
  await expect(producer.result(id)).rejects.toMatchObject({
    code: 'result_lost',
    message: expect.stringContaining('once it is encoded') as string,
  });
});

test('with a schema it fails the attempt, and its transaction does not commit', async () => {
  const strict = (name: string) =>
    defineTask({ name, payload: z.looseObject({}), result: z.string(), retry: { maxTries: 1 } });
  const writing = async (client: { readonly query: (text: string) => Promise<unknown> }) => {
    await client.query('insert into public.written values (1)');
    return long;
  };
  await bench.sql('create table public.written (n int); grant all on public.written to public');
  const handlers = [
    implement(strict('returned'), () => long),
    implement(strict('transaction'), (_, ctx) => ctx.transaction(writing)),
    implement(strict('fan out'), () => fanOut([task.job({})], long)),
    implementBatch(strict('bundle'), (jobs) => jobs.map(() => long)),
    implementBatch(strict('bundle in a transaction'), (jobs, ctx) =>
      ctx.transaction(async (client) => {
        const one = await writing(client);
        return jobs.map(() => one);
      }),
    ),
  ];
  const worker = await bench.worker(handlers, { codec });
  const producer = producing();
  const made = await producer.enqueueMany(handlers.map((handler) => handler.task.job({})));
  await bench.dispatch();
  for (const { id } of made)
    await expect(producer.result(id)).rejects.toThrow(/dead .*more than 1048576 bytes once it is encoded/);
  expect(await bench.sql('select from public.written')).toEqual([]);
  expect(await bench.sql('select from pgqueue.queue')).toEqual([]);
  await expect.poll(() => worker.of('job.settled')).toHaveLength(handlers.length);
  for (const { error } of worker.of('job.settled')) expect(error).toMatchObject({ name: 'ResultError' });
});
