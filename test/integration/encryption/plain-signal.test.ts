import { defineTask, implement } from '@pgqueue/core';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import { useActors } from '../../support/encryption/actors.ts';
import { codecOf } from '../../support/encryption/keys.ts';
import { openFlowBench } from '../../support/flows/flow-bench.ts';

const bench = opened(openFlowBench);

const { operating, producing } = useActors(bench, { codec: codecOf(['a']) });

const task = defineTask({ name: 'approved', payload: z.object({}), retry: { maxTries: 1 } });
const schema = z.object({ by: z.string() });

test.each([false, true])(
  'a job that died of a plain signal takes another after a redrive, and keeps those that it could read; errors encrypted: %s',
  async (errors) => {
    const codec = codecOf(['a'], { errors });
    const handler = implement(task, async (_, ctx) => {
      const one = await ctx.waitForSignal('one', { schema });
      const two = await ctx.waitForSignal('two', { schema });
      return `${one.by} and ${two.by}`;
    });
    await bench.start([handler], { codec });
    const producer = producing(codec);
    const { id } = await producer.enqueue(task, {});
    await producer.signalJob(id, 'one', { by: 'ada' });
    await bench.suspended(id);
    await operating().jobs.signal(id, 'two', { by: 'sql' });
    expect(await bench.endOf(id)).toBe('dead');
    const { dead } = operating(codec);
    expect(await dead.redrive({ ids: [id] })).toMatchObject({ done: 1 });
    expect(await producer.signalJob(id, 'one', { by: 'eve' })).toBe('repeated');
    expect(await producer.signalJob(id, 'two', { by: 'bob' })).toBe('signalled');
    expect(await producer.result(id)).toBe('ada and bob');
  },
);

test('a job that died of something else keeps its plain signals', async () => {
  const codec = codecOf(['a'], { plain: 'accept' });
  let fails = true;
  const handler = implement(task, async (_, ctx) => {
    const { by } = await ctx.waitForSignal('ok', { schema });
    if (fails) throw new Error('no');
    return by;
  });
  await bench.start([handler], { codec });
  const producer = producing(codec);
  const { id } = await producer.enqueue(task, {});
  await operating().jobs.signal(id, 'ok', { by: 'sql' });
  expect(await bench.endOf(id)).toBe('dead');
  fails = false;
  expect(await operating(codec).dead.redrive({ ids: [id] })).toMatchObject({ done: 1 });
  expect(await producer.result(id)).toBe('sql');
});
