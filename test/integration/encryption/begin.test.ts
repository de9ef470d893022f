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

const accepting = codecOf(['a'], { plain: 'accept', errors: true });
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
const [unreadQuery = ''] = /with plain_error as[^;]+/.exec(guide) ?? [];
const [keysQuery = ''] = /with value \(place, stored\) as[^;]+/.exec(guide) ?? [];

/** The answers of the guide's query of keys, for one of them. */
async function under(id: string): Promise<Readonly<Record<string, number>>> {
  const rows = await bench.sql(keysQuery);
  return Object.fromEntries(
    rows.filter(({ key }) => key === id).map(({ place, values }) => [String(place), Number(values)]),
  );
}

/** The answers of the guide's queries: of what jobs read, and of what they do not. */
async function plain(): Promise<Readonly<Record<string, number>>> {
  const rows = [...(await bench.sql(query)), ...(await bench.sql(unreadQuery))];
  return Object.fromEntries(
    rows.map(({ plain, readable, count }) => [String(plain ?? readable), Number(count)]),
  );
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
  'jobs with a plain error': 0,
  'ended jobs': 0,
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
    'jobs with a plain error': 1,
    'ended jobs': 1,
  };
  expect(await plain()).toEqual(found);
  const before = await operating().jobs.get(id);
  expect(before?.errors).toMatchObject([{ kind: 'error', message: 'no', try: 1 }]);
  expect(await operating(codecOf(['a'])).dead.rewrap({ ids: [id] })).toMatchObject({
    done: 0,
    unreadable: 1,
  });
  expect(await operating(accepting).dead.rewrap({ ids: [id] })).toMatchObject({ done: 1 });
  expect(await plain()).toEqual({ ...found, 'dead jobs': 0, 'jobs with a plain error': 0 });
  expect((await operating(accepting).jobs.get(id))?.errors).toMatchObject(before?.errors ?? []);
  await schedules.remove('daily');
});

test("the guide's query of keys finds every place with a value, also where nothing else has the older key", async () => {
  await fill(accepting);
  expect(await under('a')).toEqual({
    jobs: 1,
    'jobs of later steps': 1,
    'results and signals of flows': 2,
    'dead jobs': 2,
    'ended jobs': 2,
  });
  await bench.clear();
  const keeps = implement(dies, async (_, ctx) => {
    await ctx.checkpoint({});
    return giveUp('no');
  });
  await bench.start([implement(first, () => 1), keeps], { codec: codecOf(['a', 'b']) });
  const producer = producing(codecOf(['b', 'a']));
  const { id } = await producer.enqueue(dies, {});
  const run = await producer.start(flow('g').step('first', first.job({})));
  expect(await bench.endOf(id)).toBe('dead');
  expect(await bench.flowEnd(run.id)).toBe('done');
  await bench.sql('delete from pgqueue.history');
  expect(await under('a')).toEqual({ 'dead jobs': 1, 'results and signals of flows': 1 });
  await operating(codecOf(['b', 'a'])).dead.rewrap({ ids: [id] });
  expect(await under('a')).toEqual({ 'results and signals of flows': 1 });
});

test('a rewrap encrypts plain errors as those of a new attempt are', async () => {
  const id = await fill(undefined);
  const kinds = ['error', 'invalid', 'crash'];
  const errors = kinds.map((kind) => ({ kind, message: 'canary', node: 'n', try: 1, at: 'then' }));
  await bench.sql('update pgqueue.dead_letter set errors = $1', [JSON.stringify(errors)]);
  const left = async (): Promise<readonly string[]> => {
    const [row] = await bench.sql('select errors from pgqueue.dead_letter');
    const stored = row?.['errors'] as readonly { readonly kind: string; readonly message: string }[];
    expect(stored).toMatchObject(kinds.map((kind) => ({ kind, node: 'n', try: 1, at: 'then' })));
    return stored.filter(({ message }) => message === 'canary').map(({ kind }) => kind);
  };
  await operating(codecOf(['a'], { errors: true })).dead.rewrap({ ids: [id] });
  expect(await left()).toEqual(kinds);
  await operating(codecOf(['a'], { plain: 'accept' })).dead.rewrap({ ids: [id] });
  expect(await left()).toEqual(['error', 'crash']);
  expect(await operating(accepting).dead.rewrap({ ids: [id] })).toMatchObject({ done: 1 });
  expect(await left()).toEqual(['crash']);
  expect(await operating(accepting).dead.rewrap({ ids: [id] })).toMatchObject({ done: 0, current: 1 });
  expect((await operating(accepting).jobs.get(id))?.errors).toEqual(errors);
});
