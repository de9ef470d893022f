import type { Codec } from '@pgqueue/core';
import { defineTask, flow, giveUp, implement, signal } from '@pgqueue/core';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import { useActors } from '../../support/encryption/actors.ts';
import { codecOf } from '../../support/encryption/keys.ts';
import { openFlowBench } from '../../support/flows/flow-bench.ts';
import { until } from '../../support/until.ts';

const bench = opened(openFlowBench);

const accepting = codecOf(['a'], { plain: 'accept' });
const { operating, producing } = useActors(bench, { codec: accepting });

const first = defineTask({ name: 'first', payload: z.object({}), result: z.int() });
const last = defineTask({ name: 'last', payload: z.object({}) });
const dies = defineTask({ name: 'dies', payload: z.object({}) });
const handlers = [implement(first, () => 1), implement(last, () => {}), implement(dies, () => giveUp('no'))];
const steps = flow('f')
  .step('first', first.job({}))
  .step('ok', signal(z.null()))
  .step('never', signal(z.null()))
  .step('last', last.job({}), { needs: ['first', 'ok', 'never'] });

const guide = readFileSync(new URL('../../../docs/guides/encryption.md', import.meta.url), 'utf8');
const [query = ''] = /select 'jobs' as plain[^;]+/.exec(guide) ?? [];

/** The answer of the guide's query. */
async function plain(): Promise<Readonly<Record<string, number>>> {
  const rows = await bench.sql(query);
  return Object.fromEntries(rows.map(({ plain, count }) => [String(plain), Number(count)]));
}

/** Leaves a waiting job, a dead one, and a flow with a later step, a result and the value of a signal. */
async function fill(codec: Codec | undefined): Promise<string> {
  const worker = await bench.start(handlers, codec === undefined ? {} : { codec });
  const producer = codec === undefined ? bench.producer : producing(codec);
  await producer.enqueue(last, {}, { delay: '1d' });
  const { id } = await producer.enqueue(dies, {});
  const run = await producer.start(steps);
  await producer.signal(run.id, 'ok', null);
  expect(await bench.endOf(id)).toBe('dead');
  await until(
    'a result',
    async () => (await bench.sql(`select from pgqueue.flow_result where task = 'first'`)).length > 0,
  );
  await worker.stop();
  return id;
}

const none = {
  jobs: 0,
  'jobs of later steps': 0,
  'results and signals of flows': 0,
  'dead jobs': 0,
  schedules: 0,
};

test("the guide's query counts no encrypted value", async () => {
  expect(await plain()).toEqual(none);
  await fill(accepting);
  expect(await plain()).toEqual(none);
});

test("the guide's query counts every plain value that a job may read", async () => {
  const id = await fill(undefined);
  const { schedules } = operating();
  await schedules.set({ name: 'daily', cron: '@daily', job: last.job({}) });
  const found = {
    jobs: 1,
    'jobs of later steps': 1,
    'results and signals of flows': 2,
    'dead jobs': 1,
    schedules: 1,
  };
  expect(await plain()).toEqual(found);
  expect(await operating(codecOf(['a'])).dead.rewrap({ ids: [id] })).toMatchObject({
    done: 0,
    unreadable: 1,
  });
  expect(await operating(accepting).dead.rewrap({ ids: [id] })).toMatchObject({ done: 1 });
  expect(await plain()).toEqual({ ...found, 'dead jobs': 0 });
  await schedules.remove('daily');
});
