import { randomUUID } from 'node:crypto';
import type { Flow, PgQueueEvent } from '@pgqueue/core';
import { defineTask, flow, implement, signal, timer } from '@pgqueue/core';
import type { Executor } from '@pgqueue/postgres';
import type { Producer, ProducerOptions } from '@pgqueue/producer';
import { advanceFlows, createFlowWaits, lead } from '@pgqueue/postgres/internal';
import { createProducer } from '@pgqueue/producer';
import { createScheduler } from '@pgqueue/scheduler';
import { createWorker } from '@pgqueue/worker';
import { beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { startCutProxy } from '../../support/cut-proxy.ts';
import { useDatabase } from '../../support/database.ts';
import { emptying, flowTables } from '../../support/empty.ts';
import { listed } from '../../support/isolated/listed.ts';
import { until } from '../../support/until.ts';

const fetchPage = defineTask({ name: 'fetch-page', payload: z.object({ url: z.string() }) });
const sumUp = defineTask({ name: 'sum-up', payload: z.object({}), needs: { pages: fetchPage } });
const approval = signal(z.object({ by: z.string() }));
const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
const pages = ['a', 'b"\\', 'ü🦆'].map((url) => fetchPage.job({ url }));
const counting = flow('count-site')
  .step('pages', pages)
  .step('sum', sumUp.job({}), { needs: { pages: 'ended' } })
  .step('ok', approval, { needs: ['sum'] })
  .step('late', timer('3d'), { needs: ['sum'] })
  .step('publish', fetchPage.job({ url: 'x' }), { needs: ['ok', 'late'], wants: 'any' });

const own = useDatabase();
const { database, sql, reset } = own;

beforeEach(async () => {
  await reset();
  await sql(emptying(flowTables));
});

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

const flows = () =>
  sql(
    'select id, name, key, unique_key, state, trace, round(extract(epoch from deadline - created) / 86400)::integer as days from pgqueue.flow',
  );
const waiting = () => sql('select flow, step, payload, key, trace from pgqueue.queue order by seq');

/** Fails every statement: a flow that is refused before any I/O never gets here. */
const noDatabase: Executor = { query: () => Promise.reject(new Error('a statement was sent')) };

describe('producer.start', () => {
  test('stores the flow, and enqueues the jobs of the steps that need no other', async () => {
    await withProducer({ pool: database.pool }, async (producer, events) => {
      const run = await producer.start(counting, { key: 'acme', uniqueKey: 'site-7', deadline: '7d' });
      expect(run.outcome).toBe('started');
      expect(await flows()).toMatchObject([
        {
          id: run.id,
          name: 'count-site',
          key: 'acme',
          unique_key: 'site-7',
          state: 'open',
          trace: null,
          days: 7,
        },
      ]);
      expect(await waiting()).toEqual(
        ['a', 'b"\\', 'ü🦆'].map((url) => ({
          flow: run.id,
          step: 0,
          payload: { url },
          key: 'acme',
          trace: null,
        })),
      );
      expect(
        await sql('select name, kind, state, wants, open_needs, added from pgqueue.flow_step order by step'),
      ).toEqual([
        { name: 'pages', kind: 'jobs', state: 'open', wants: 'all', open_needs: 0, added: 3 },
        { name: 'sum', kind: 'jobs', state: 'blocked', wants: 'all', open_needs: 1, added: 1 },
        { name: 'ok', kind: 'signal', state: 'blocked', wants: 'all', open_needs: 1, added: 0 },
        { name: 'late', kind: 'timer', state: 'blocked', wants: 'all', open_needs: 1, added: 0 },
        { name: 'publish', kind: 'jobs', state: 'blocked', wants: 'any', open_needs: 2, added: 1 },
      ]);
      expect(events).toEqual([{ type: 'enqueued', count: 3, queue: 'default', task: 'fetch-page' }]);
      expect(await producer.start(counting, { uniqueKey: 'site-7' })).toMatchObject({
        id: run.id,
        outcome: 'kept',
      });
      expect(await producer.start(counting, { id: run.id })).toMatchObject({
        id: run.id,
        outcome: 'repeated',
      });
      expect(await waiting()).toHaveLength(3);
    });
  });

  test('within a transaction commits and rolls back with it', async () => {
    await withProducer({ pool: database.pool }, async (producer) => {
      const failing = database.transaction(async (client) => {
        await producer.with(client).start(counting);
        throw new Error('mine');
      });
      await expect(failing).rejects.toThrow('mine');
      expect(await flows()).toEqual([]);
      const run = await database.transaction((client) => producer.with(client).start(counting));
      expect(await flows()).toMatchObject([{ id: run.id }]);
      expect(await waiting()).toHaveLength(3);
    });
  });

  test('carries a trace context, for the flow and for its jobs', async () => {
    await withProducer({ pool: database.pool, trace: () => ({ traceparent }) }, async (producer) => {
      const other = { traceparent: traceparent.replace('01', '02') };
      const { id } = await producer.start(
        flow('traced').step('a', [pages[0] ?? [], fetchPage.job({ url: 'b' }, { trace: other })].flat()),
      );
      expect((await flows())[0]?.['trace']).toEqual({ traceparent });
      expect((await waiting()).map(({ trace }) => trace as unknown)).toEqual([
        { traceparent, flow: id, step: 'a' },
        other,
      ]);
    });
  });

  test('whose reply was lost is repeated: the flow is there once', async () => {
    const proxy = await startCutProxy(own.url);
    await withProducer({ connectionString: proxy.url, notify: false }, async (producer, events) => {
      proxy.cutReplyOf('start_flow');
      const { id, outcome } = await producer.start(counting);
      expect([proxy.cuts(), outcome]).toEqual([1, 'repeated']);
      expect(await flows()).toMatchObject([{ id }]);
      expect(await waiting()).toHaveLength(3);
      expect(events.map(({ type }) => type)).toContain('database.error');
    });
    await proxy.close();
  });

  test('refuses an invalid flow before any statement', async () => {
    await withProducer({}, async (producer) => {
      const starter = producer.with(noDatabase);
      await expect(starter.start(flow('empty'))).rejects.toMatchObject({ code: 'invalid_flow' });
      await expect(starter.signal('x', 'ok', 5)).rejects.toMatchObject({ code: 'invalid_flow' });
      await expect(producer.start(counting)).rejects.toMatchObject({ code: 'configuration' });
      await expect(starter.enqueueMany([sumUp.job({})])).rejects.toThrow('make it a step of a flow');
    });
  });

  test('takes flows of 100,000 jobs and of 10,000 steps', async () => {
    await withProducer({ pool: database.pool, notify: false }, async (producer) => {
      const page = fetchPage.job({ url: 'x' });
      await producer.start(
        flow('wide').step(
          'a',
          Array.from({ length: 100_000 }, () => page),
        ),
      );
      expect(await sql('select count(*)::integer as n from pgqueue.queue')).toEqual([{ n: 100_000 }]);
      let chain: Flow = flow('chain');
      for (let n = 0; n < 10_000; n += 1)
        chain = chain.step(`s${n}`, page, { needs: n === 0 ? [] : [`s${n - 1}`] });
      await producer.start(chain);
      expect(
        await sql(`select count(*)::integer as n from pgqueue.flow_step where state = 'blocked'`),
      ).toEqual([{ n: 9_999 }]);
    });
  });
});

describe('producer.signal', () => {
  test('gives the value once, also before the step is open', async () => {
    await withProducer({ pool: database.pool }, async (producer) => {
      const { id } = await producer.start(counting);
      await expect(producer.signal(id, 'ok', { by: 5 } as never, approval)).rejects.toMatchObject({
        code: 'invalid_flow',
      });
      expect(await producer.signal(id, 'ok', { by: 'ada' }, approval)).toBe('signalled');
      expect(await producer.signal(id, 'ok', { by: 'bob' }, approval)).toBe('repeated');
      expect(await sql('select result from pgqueue.flow_result')).toEqual([{ result: { by: 'ada' } }]);
      await expect(producer.signal(id, 'pages', 5)).rejects.toMatchObject({ code: 'not_found' });
      await expect(producer.signal(crypto.randomUUID(), 'ok', 5)).rejects.toMatchObject({
        code: 'not_found',
      });
      await sql(`update pgqueue.flow set state = 'cancelled', ended = now()`);
      await sql('delete from pgqueue.flow_result');
      expect(await producer.signal(id, 'ok', { by: 'bob' })).toBe('ended');
    });
  });

  test('within a transaction is rolled back with it', async () => {
    await withProducer({ pool: database.pool }, async (producer) => {
      const { id } = await producer.start(counting);
      const failing = database.transaction(async (client) => {
        await producer.with(client).signal(id, 'ok', null);
        throw new Error('mine');
      });
      await expect(failing).rejects.toThrow('mine');
      expect(await producer.signal(id, 'ok', undefined)).toBe('signalled');
      expect(await sql('select result from pgqueue.flow_result')).toEqual([{ result: null }]);
    });
  });
});

test.each([
  ['two steps of one name', ['a', 'b', 'a'].map((name) => ({ name })), 'two steps of a flow have one name'],
  ['a need twice', [{ name: 'a' }, { name: 'b', needs: [[0], [0, 'failed']] }], 'each once'],
  ['a step that needs itself', [{ name: 'a', needs: [[0]] }], 'steps that come before it'],
  [
    'a step that needs none of the list',
    [{ name: 'a' }, { name: 'b', needs: [[7]] }],
    'steps that come before it',
  ],
  [
    'a need without a number',
    [{ name: 'a' }, { name: 'b', needs: [[null, 'done']] }],
    'steps that come before it',
  ],
  ['a need of nothing', [{ name: 'a' }, { name: 'b', needs: [[]] }], 'steps that come before it'],
  [
    'a condition that is none',
    [{ name: 'a' }, { name: 'b', needs: [[0, 'later']] }],
    'flow_step_feeds_whole',
  ],
  [
    'more than 100,000 needs',
    Array.from({ length: 500 }, (_, n) => ({
      name: `${n}`,
      needs: Array.from({ length: n }, (_, k) => [k]),
    })),
    'up to 100,000 jobs and 100,000 needs',
  ],
])('start_flow refuses %s', async (_name, steps, message) => {
  await expect(
    sql('select pgqueue.start_flow($1::jsonb)', [JSON.stringify({ name: 'f', steps })]),
  ).rejects.toThrow(message);
  expect(await sql('select from pgqueue.flow')).toEqual([]);
});

test.each([
  ['flow', `name = ''`, 'flow_name_check'],
  ['flow', `key = repeat('k', 201)`, 'flow_key_check'],
  ['flow', `unique_key = repeat('🦆', 500), name = repeat('🦆', 200)`, 'flow_unique_key_check'],
  ['flow', `unique_key = ''`, 'flow_unique_key_check'],
  ['flow', `state = 'over', ended = now()`, 'flow_state_check'],
  ['flow', `reason = repeat('r', 2001)`, 'flow_reason_check'],
  ['flow', `deadline = 'infinity'`, 'flow_deadline_check'],
  ['flow', `trace = '[]'`, 'flow_trace_check'],
  ['flow', `state = 'done'`, 'flow_ended_whole'],
  ['flow', `ended = now()`, 'flow_ended_whole'],
  ['flow_step', `step = -1`, 'flow_step_step_check'],
  ['flow_step', `name = repeat('n', 201)`, 'flow_step_name_check'],
  ['flow_step', `kind = 'task'`, 'flow_step_kind_check'],
  ['flow_step', `state = 'running'`, 'flow_step_state_check'],
  ['flow_step', `state = 'ended', ended = now(), outcome = 'dead'`, 'flow_step_outcome_check'],
  ['flow_step', `wants = 'some'`, 'flow_step_wants_check'],
  ['flow_step', `stop_after = 0`, 'flow_step_stop_after_check'],
  ['flow_step', `outcome = 'done'`, 'flow_step_ended_whole'],
  ['flow_step', `state = 'ended', outcome = 'done'`, 'flow_step_ended_whole'],
  ['flow_step', `kind = 'timer'`, 'flow_step_timer_whole'],
  ['flow_step', `state = 'ended', outcome = 'done', ended = now(), due = now()`, 'flow_step_over'],
  ['flow_step', `feeds = '{1}'`, 'flow_step_feeds_whole'],
  ['flow_step', `feeds = '{1}', conditions = '{later}'`, 'flow_step_feeds_whole'],
])('a row of %s can not have %s', async (table, change, constraint) => {
  await sql('select pgqueue.start_flow($1::jsonb)', [
    JSON.stringify({ name: 'f', steps: [{ name: 'a', jobs: [{ task: 't' }] }] }),
  ]);
  await expect(sql(`update pgqueue.${table} set ${change}`)).rejects.toMatchObject({
    code: '23514',
    table,
    constraint,
  });
});

test('jobs that are released later have their ids from the start', async () => {
  const steps = [
    { name: 'a', jobs: [{ task: 't' }] },
    {
      name: 'b',
      needs: [[0]],
      jobs: [
        { task: 't', payload: { none: null } },
        { task: 't', id: crypto.randomUUID() },
      ],
    },
  ];
  await sql('select pgqueue.start_flow($1::jsonb)', [JSON.stringify({ name: 'f', steps })]);
  const [row] = await sql('select to_jsonb(jobs[1]) as jobs from pgqueue.flow_step where jobs is not null');
  expect(row?.['jobs']).toEqual([
    { task: 't', payload: { none: null }, id: expect.stringMatching(/^[0-9a-f-]{36}$/) as string },
    steps[1]?.jobs[1],
  ]);
});

describe('run.ended', () => {
  test('resolves when leader and workers have brought the flow to its end', async () => {
    const ran: string[] = [];
    const scheduler = createScheduler({ connectionString: own.url });
    const worker = createWorker({
      connectionString: own.url,
      tasks: [
        implement(fetchPage, ({ url }) => void ran.push(url)),
        implement(sumUp, () => void ran.push('sum')),
      ],
    });
    await Promise.all([scheduler.start(), worker.start()]);
    const id = randomUUID();
    await withProducer({ connectionString: own.url }, async (producer) => {
      const run = await producer.start(counting, { id });
      await expect(run.ended({ timeout: 0 })).rejects.toMatchObject({ code: 'result_timeout' });
      await expect.poll(() => ran).toContain('sum');
      await producer.signal(run.id, 'ok', { by: 'ada' }, approval);
      expect(await run.ended({ timeout: '60s' })).toEqual({ outcome: 'done', reason: null });
      expect(ran.toSorted()).toEqual(['a', 'b"\\', 'sum', 'x', 'ü🦆']);
      expect(ran.at(-1)).toBe('x');
    });
    await withProducer({ connectionString: own.url }, async (producer) => {
      const again = producer.flow(id.toUpperCase()); // as another process would, which knows no more
      expect(await again.ended()).toEqual({ outcome: 'done', reason: null });
      expect(await listed(again.results('ok'))).toEqual([
        { job: null, outcome: 'done', result: { by: 'ada' } },
      ]);
      await expect(listed(again.results('nobody'))).rejects.toMatchObject({ code: 'not_found' });
    });
    await Promise.all([scheduler.stop(), worker.stop()]);
  });

  test('is told by a hint of the leader', async () => {
    const hour = 3_600_000;
    let looks = 0;
    const waits = createFlowWaits({
      database,
      connectionString: own.url,
      applicationName: 'flow waits',
      observe: () => {},
      verify: () => {
        looks += 1;
        return Promise.resolve();
      },
      pause: { minMs: hour, maxMs: hour },
    });
    const { epoch } = await lead(database, 'leader', 60_000);
    /** Starts flows without jobs, awaits them, and ends them once that many looks have found them open. */
    const ends = async (count: number, before: number) => {
      const ids = Array.from({ length: count }, (): string => randomUUID());
      for (const id of ids) {
        const row = { id, name: 'empty', steps: [{ name: 'none' }] };
        await sql('select pgqueue.start_flow($1::jsonb)', [JSON.stringify(row)]);
      }
      const from = looks;
      const waited = ids.map((id) => waits.wait(id, 24 * hour));
      await until('the looks', () => looks >= from + before);
      await advanceFlows(database, { leader: 'leader', epoch }, { from: 0, max: 500, walk: null });
      return Promise.all(waited);
    };
    const ended = { kind: 'ended', state: { state: 'done' } };
    // the second look: the listener is connected
    expect(await ends(1, 2)).toMatchObject([ended]);
    // more than 64 are told without their ids
    expect(await ends(65, 1)).toMatchObject(Array.from({ length: 65 }, () => ended));
    await waits.stop(new Error('stopped'));
  });

  test('tells a flow that was cancelled, one that is gone, and a producer that is closed', async () => {
    const producer = createProducer({ pool: database.pool });
    const [one, other] = [await producer.start(counting), await producer.start(counting)];
    await sql(
      `update pgqueue.flow set state = 'cancelled', reason = 'no more', ended = now() where id = $1`,
      [one.id],
    );
    expect(await one.ended()).toEqual({ outcome: 'cancelled', reason: 'no more' });
    await sql('delete from pgqueue.flow where id = $1', [one.id]);
    await expect(one.ended()).rejects.toMatchObject({ code: 'not_found' });
    await expect(other.ended({ timeout: '5 s' as never })).rejects.toMatchObject({ code: 'configuration' });
    const awaited = other.ended();
    awaited.catch(() => {}); // it rejects before anybody looks
    await producer.close();
    await expect(awaited).rejects.toMatchObject({ code: 'closed' });
    await expect(producer.start(counting)).rejects.toThrow('this producer was closed');
  });
});
