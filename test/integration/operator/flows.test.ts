import { createOperator } from '@pgqueue/postgres';
import type { FlowsOperator } from '@pgqueue/postgres';
import { waitingText } from '@pgqueue/postgres/internal';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { useDatabase } from '../../support/database.ts';
import { assertSound, flowsOf } from '../../support/flows/flow-seed.ts';

const own = useDatabase();
const { operator, reset, sql } = own;
const { start, startSite, advance, jobsOf, end } = flowsOf(own);
let flows: FlowsOperator;
const missing = '00000000-0000-7000-8000-000000000000';
const age = (ms: number): string => `${ms} ms`;

beforeEach(async () => {
  ({ flows } = operator);
  await reset();
});
afterEach(async () => {
  await assertSound(operator);
});

describe('list', () => {
  test('pages go from new to old, with progress and filters', async () => {
    const ids: string[] = [];
    for (const key of ['acme', 'acme', '', 'other']) ids.push(await startSite({ key }));
    const [first = '', second = '', third = '', fourth = ''] = ids;
    await end([...(await jobsOf(first, 0))]);
    await flows.cancel(second);
    await advance();
    const page = await flows.list({ limit: 3 });
    expect(page.items.map(({ id }) => id)).toEqual([fourth, third, second]);
    expect(page.next).toBe(second);
    const rest = await flows.list({ limit: 3, after: second });
    expect(rest).toMatchObject({ items: [{ id: first }], next: null });
    expect(rest.items[0]).toEqual({
      id: first,
      name: 'count-site',
      key: 'acme',
      uniqueKey: null,
      state: 'open',
      reason: null,
      created: expect.any(Date),
      ageMs: expect.any(Number),
      deadline: null,
      stopping: null,
      ended: null,
      waiter: null,
      progress: { steps: 5, stepsEnded: 1, added: 6, done: 4, dead: 0, other: 0 },
    });
    const idsOf = async (filter: Parameters<typeof flows.list>[0]): Promise<readonly string[]> =>
      (await flows.list(filter)).items.map(({ id }) => id);
    expect(await idsOf({ state: 'cancelled' })).toEqual([second]);
    expect(await idsOf({ state: 'open', name: 'count-site' })).toEqual([fourth, third, first]);
    expect(await idsOf({ key: 'acme' })).toEqual([second, first]);
    expect(await idsOf({ key: '' })).toEqual([third]);
    expect(await idsOf({ name: 'another' })).toEqual([]);
    expect(await idsOf({ state: 'done', key: 'acme' })).toEqual([]);
  });

  test('filters by name and by key are served by indexes', async () => {
    const plan = async (where: string): Promise<string> =>
      JSON.stringify(
        await sql(`explain select f.id from pgqueue.flow f where ${where} order by f.id desc limit 51`),
      );
    await sql(
      `insert into pgqueue.flow (id, name, key) select gen_random_uuid(), 'n' || g % 50, 'k' || g % 50 from generate_series(1, 2000) g`,
    );
    await sql('analyze pgqueue.flow');
    expect(await plan(`f.name = 'n1' and f.name <> ''`)).toContain('flow_name');
    expect(await plan(`f.key = 'k1' and f.key <> ''`)).toContain('flow_key');
    expect(await plan(`f.state = 'open'`)).toContain('flow_open');
    await sql('delete from pgqueue.flow');
  });

  test.each([
    { state: 'asleep' },
    { nmae: 'a' },
    { name: 7 },
    { key: ['a', 'b'] },
    { name: 'a\u0000' },
    { limit: 0 },
    { after: 'x' },
    null,
  ])('%j is refused', async (options) => {
    await expect(flows.list(options as never)).rejects.toMatchObject({ code: 'configuration' });
  });
});

describe('show', () => {
  test('a flow with its steps, needs and numbers', async () => {
    const id = await startSite({ key: 'acme', unique_key: 'site-7' });
    const [one = '', two = ''] = await jobsOf(id, 0);
    await end([one]);
    await end([two], 'dead');
    const shown = await flows.show(id);
    expect(shown).toMatchObject({
      id,
      name: 'count-site',
      key: 'acme',
      uniqueKey: 'site-7',
      state: 'open',
      created: expect.any(Date),
      ended: null,
      progress: { steps: 5, stepsEnded: 0, added: 6, done: 1, dead: 1, other: 0 },
    });
    expect(shown.steps.map(({ name, layer, state }) => [name, layer, state])).toEqual([
      ['pages', 0, 'open'],
      ['sum', 1, 'blocked'],
      ['ok', 2, 'blocked'],
      ['late', 2, 'blocked'],
      ['publish', 3, 'blocked'],
    ]);
    expect(shown.steps[0]).toEqual({
      step: 0,
      name: 'pages',
      kind: 'jobs',
      state: 'open',
      outcome: null,
      needs: [],
      wants: 'all',
      layer: 0,
      added: 4,
      done: 1,
      dead: 1,
      other: 0,
      stopAfter: null,
      stopping: false,
      signalled: false,
      delayMs: null,
      due: null,
      opened: expect.any(Date),
      ended: null,
    });
    expect(shown.steps[4]).toMatchObject({
      wants: 'any',
      needs: [
        { step: 2, name: 'ok', condition: 'done' },
        { step: 3, name: 'late', condition: 'done' },
      ],
    });
    await end(await jobsOf(id, 0));
    await end(await jobsOf(id, 1));
    const later = await flows.show(id);
    expect(later.steps[0]).toMatchObject({ state: 'ended', outcome: 'failed', ended: expect.any(Date) });
    expect(later.steps[3]).toMatchObject({ state: 'open', delayMs: 3_600_000, due: expect.any(Date) });
  });

  test('ten thousand steps with a hundred thousand needs take one statement', async () => {
    const id = await start({
      steps: Array.from({ length: 10_000 }, (_, n) => ({
        name: `s${n}`,
        kind: 'signal' as const,
        needs: Array.from({ length: Math.min(n, 10) }, (_, i): [number] => [n - 1 - i]),
      })),
    });
    const said: string[] = [];
    const counting = createOperator({
      pool: new Proxy(own.database.pool, {
        get: (pool, name) => {
          const value: unknown = Reflect.get(pool, name);
          if (name !== 'query') return typeof value === 'function' ? value.bind(pool) : value;
          return (text: string, values?: unknown[]) => {
            said.push(text);
            return pool.query(text, values);
          };
        },
      }),
    });
    await counting.check();
    await counting.flows.list();
    said.length = 0;
    const { steps, progress } = await counting.flows.show(id);
    expect(said).toHaveLength(1);
    expect(progress.steps).toBe(10_000);
    expect(steps.at(-1)).toMatchObject({ name: 's9999', layer: 9_999, needs: { length: 10 } });
    expect((await counting.flows.list()).items[0]?.progress.steps).toBe(10_000);
    const explained = await counting.flows.explain(id);
    expect(explained.steps).toHaveLength(10_000);
    await flows.cancel(id);
    await advance();
  });
});

describe('explain', () => {
  test('tells for each step what it waits for', async () => {
    const id = await startSite();
    const told = async (): Promise<Readonly<Record<string, string>>> => {
      const { steps } = await flows.explain(id);
      return Object.fromEntries(steps.map((step) => [step.step, waitingText(step, age)]));
    };
    await advance();
    expect(await told()).toEqual({
      pages: '4 of 4 left',
      sum: 'waits for pages: 4 of 4 left',
      ok: 'waits for sum: blocked',
      late: 'waits for sum: blocked',
      publish: 'waits for any of ok: not signalled; late: 3600000 ms from its opening on',
    });
    const [one = '', ...others] = await jobsOf(id, 0);
    await end([one], 'dead');
    expect((await told())['sum']).toBe('waits for pages: 3 of 4 left, 1 dead');
    await end(others);
    await flows.signal(id, 'ok', 1);
    expect((await told())['publish']).toContain('ok: signalled');
    await end(await jobsOf(id, 1));
    const after = await told();
    expect(after).toEqual({ publish: '1 of 1 left' });
    await sql(`update pgqueue.scheduler_lease set expires = '-infinity'`);
    expect(await flows.explain(id)).toMatchObject({ leader: null, flow: { id } });
  });

  test('a step that will be skipped as things stand', async () => {
    const id = await start({
      steps: [
        { name: 'a', jobs: 2 },
        { name: 'b', kind: 'signal' },
        { name: 'all', jobs: 1, needs: [[0], [1]] },
        { name: 'any', jobs: 1, needs: [[0], [1]], wants: 'any' },
        { name: 'only', jobs: 1, needs: [[0]], wants: 'any' },
      ],
    });
    const [one = ''] = await jobsOf(id, 0);
    await end([one], 'dead');
    const { steps } = await flows.explain(id);
    expect(steps.map(({ step, skips }) => [step, skips])).toEqual([
      ['a', false],
      ['b', false],
      ['all', true],
      ['any', false],
      ['only', true],
    ]);
    expect(steps.map((step) => waitingText(step, age))[2]).toBe(
      'waits for a: 1 of 2 left, 1 dead; b: not signalled; as it stands, all will be skipped',
    );
  });
});

describe('results', () => {
  test('by page, with what is not done, and the value of a signal', async () => {
    const id = await startSite();
    const jobs = await jobsOf(id, 0);
    const [dead = '', ...done] = jobs;
    await end([dead], 'dead');
    await end(done, 'done', { words: 3 });
    const first = await flows.results(id, 'pages', { limit: 3 });
    expect(first.items).toEqual([
      { job: dead, outcome: 'dead', result: null },
      { job: jobs[1], outcome: 'done', result: { words: 3 } },
      { job: jobs[2], outcome: 'done', result: { words: 3 } },
    ]);
    const rest = await flows.results(id, 'pages', { limit: 3, after: first.next ?? '' });
    expect(rest).toEqual({ items: [{ job: jobs[3], outcome: 'done', result: { words: 3 } }], next: null });
    expect(await flows.results(id, 'sum')).toEqual({ items: [], next: null });
    await flows.signal(id, 'ok', { by: 'ada' });
    expect(await flows.results(id, 'ok')).toEqual({
      items: [{ job: null, outcome: 'done', result: { by: 'ada' } }],
      next: null,
    });
  });
});

describe('jobs of flows', () => {
  test('a job tells its flow and step, wherever it stands, and lists are filtered by them', async () => {
    const id = await startSite();
    const other = await startSite();
    const pages = await jobsOf(id, 0);
    const [done = '', dead = '', running = '', waiting = ''] = pages;
    await end([done]);
    await end([dead], 'dead');
    await own.run('n', [running]);
    for (const job of pages) expect(await operator.jobs.get(job)).toMatchObject({ flow: id, step: 'pages' });
    const list = async (filter: Parameters<typeof operator.jobs.list>[0]): Promise<readonly string[]> =>
      (await operator.jobs.list(filter)).items.map((job) => {
        expect([job.flow, job.step]).toEqual([filter?.flow, 'pages']);
        return job.id;
      });
    expect(await list({ flow: id })).toEqual(pages.toReversed());
    expect(await list({ flow: id, step: 'pages', status: 'dead' })).toEqual([dead]);
    expect(await list({ flow: id, step: 'pages', status: 'done' })).toEqual([done]);
    expect(await list({ flow: id, status: 'running' })).toEqual([running]);
    expect(await list({ flow: id, status: 'pending' })).toEqual([waiting]);
    expect(await list({ flow: id, step: 'sum' })).toEqual([]);
    expect(await list({ flow: id, step: 'nonsense' })).toEqual([]);
    const page = await operator.jobs.list({ flow: id, limit: 2 });
    expect(page.next).toBe(running);
    expect(await list({ flow: id, limit: 2, after: running })).toEqual([dead, done]);
    expect(await list({ flow: other })).toHaveLength(4);
    expect(await operator.explain(waiting, { waitMs: 0 })).toMatchObject({
      job: { flow: id, step: 'pages' },
    });
    const plain = await own.insert();
    expect(await operator.jobs.get(plain)).toMatchObject({ flow: null, step: null });
    await expect(operator.jobs.list({ flow: 'x' })).rejects.toMatchObject({ code: 'configuration' });
    await expect(operator.jobs.list({ step: 'pages' })).rejects.toThrow('give the flow, too');
    // a job that waits in a blocked step has no row yet
    await expect(operator.explain(missing, { waitMs: 0 })).rejects.toThrow(
      'step of a flow that is still blocked',
    );
  });

  test('status tells the open flows', async () => {
    const none = { done5m: 0, failed5m: 0, cancelled5m: 0, more5m: false };
    expect((await operator.status()).flows).toEqual({ open: 0, more: false, oldestMs: null, ...none });
    await startSite();
    await startSite();
    await sql(
      `update pgqueue.flow set created = now() - interval '1 hour' where id = (select min(id::text)::uuid from pgqueue.flow)`,
    );
    const { flows: open } = await operator.top();
    expect(open).toEqual({ open: 2, more: false, oldestMs: expect.any(Number), ...none });
    expect(open.oldestMs).toBeGreaterThanOrEqual(3_600_000);
  });
});
