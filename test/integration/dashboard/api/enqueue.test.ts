import { defineTask, implement } from '@pgqueue/core';
import type { Dashboard } from '@pgqueue/dashboard';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { ApiAnswer, Program } from './program.ts';
import { idsOf, outcomesOf, program } from './program.ts';
import type { Claimed, DashboardBench } from '../support.ts';
import { openDashboardBench } from '../support.ts';

let bench: DashboardBench;
let dashboard: Dashboard;
let api: Program;

beforeAll(async () => {
  bench = await openDashboardBench('dashboard_api_test');
  dashboard = bench.dashboard({ api: true });
  api = program(dashboard, 'shop:producer');
});
beforeEach(async () => {
  for (const table of ['work_queue', 'queue', 'history', 'dead_letter', 'node', 'flow', 'queue_config'])
    await bench.sql(`delete from $schema.${table}`);
});
afterAll(() => bench.close());

const missing = '00000000-0000-7000-8000-000000000000';
const countJobs = async (): Promise<number> =>
  (await bench.sql<{ n: number }>('select count(*)::integer as n from $schema.queue'))[0]?.n ?? -1;
const finish = ({ id, token }: Claimed, result: unknown = { ok: true }): Promise<unknown> =>
  bench.sql('select $schema.ack($1::uuid, $2::uuid, $3)', [id, token, JSON.stringify(result)]);
const runAll = async (result?: unknown): Promise<void> => {
  for (const job of await bench.claim('w', 10)) await finish(job, result);
};

describe('POST /jobs', () => {
  test('takes one job with every option, as the producer does', async () => {
    const traceparent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;
    const answer = await api.post(
      '/jobs',
      {
        task: 'resize',
        payload: { url: 'https://img.example/1.png', list: [1, null, 'é'] },
        payloadVersion: 3,
        queue: 'images',
        key: 'tenant-7',
        priority: -5,
        attributes: { plan: 'pro', size: 2, hot: true, none: null },
        delay: '1h',
        expiresAt: '2099-01-31T12:00:00+02:00',
        timeout: 90_000,
        retry: { maxTries: 4, maxCrashes: 2, backoff: 'fixed', base: '2s', jitter: 0 },
        uniqueKey: { key: 'u', onConflict: 'debounce', maxWait: '2h' },
      },
      { traceparent },
    );
    expect([answer.status, outcomesOf(answer)]).toEqual([202, ['enqueued']]);
    const [row] = await bench.sql(
      `select id, task, queue, key, priority, attributes, payload, payload_version, max_tries, max_crashes, retry, unique_key, trace,
              extract(epoch from timeout)::integer as timeout, expires_at = '2099-01-31T10:00:00Z' as expires,
              run_after > clock_timestamp() + interval '50 min' as delayed from $schema.queue`,
    );
    expect(row).toEqual({
      id: idsOf(answer)[0],
      task: 'resize',
      queue: 'images',
      key: 'tenant-7',
      priority: -5,
      attributes: { plan: 'pro', size: 2, hot: true, none: null },
      payload: { url: 'https://img.example/1.png', list: [1, null, 'é'] },
      payload_version: 3,
      max_tries: 4,
      max_crashes: 2,
      retry: { kind: 'fixed', baseMs: 2_000, factor: 2, maxMs: 3_600_000, jitter: 0 },
      unique_key: 'u',
      trace: { traceparent },
      timeout: 90,
      expires: true,
      delayed: true,
    });
  });

  test('takes up to 1,000 jobs in their order, and no more', async () => {
    const jobs = (count: number): object => ({
      jobs: Array.from({ length: count }, (_, n) => ({ task: 'hello', payload: { n } })),
    });
    const answer = await api.post('/jobs', jobs(1_000));
    expect(new Set(outcomesOf(answer))).toEqual(new Set(['enqueued']));
    const rows = await bench.sql<{ id: string; n: number }>(
      `select id, (payload ->> 'n')::integer as n from $schema.queue order by seq`,
    );
    expect(rows.map(({ id }) => id)).toEqual(idsOf(answer));
    expect(rows.map(({ n }) => n)).toEqual(Array.from({ length: 1_000 }, (_, n) => n));
    expect(await api.post('/jobs', jobs(1_001))).toMatchObject({
      status: 400,
      body: { code: 'bad_request', detail: expect.stringContaining('more than 1000') },
    });
  });

  test('takes all jobs or none, and tells everything that is wrong by index', async () => {
    const answer = await api.post('/jobs', {
      jobs: [
        { task: 'hello' },
        { task: 'hello', priority: 'high', runAfter: 'tomorrow', qeue: 'x' },
        { task: '', payload: JSON.parse('{"__proto__": 1}') },
      ],
    });
    expect(answer).toMatchObject({ status: 400, body: { code: 'invalid_job' } });
    expect((answer.body as { problems: readonly string[] }).problems).toEqual([
      expect.stringMatching(/^jobs\[1\]: runAfter must be a time with its zone/),
      expect.stringMatching(/^jobs\[1\]: there is no qeue: did you mean queue/),
      expect.stringMatching(/^jobs\[1\]: priority must be a whole number/),
      expect.stringMatching(/^jobs\[2\]: payload must not have a key __proto__|^jobs\[2\]: payload/),
      expect.stringMatching(/^jobs\[2\]: task must be a text/),
    ]);
    expect(await countJobs()).toBe(0);
  });

  test('tells what became of unique keys, and repeats by ids', async () => {
    const job = { task: 'hello', uniqueKey: 'daily' };
    const first = await api.post('/jobs', job);
    const again = await api.post('/jobs', { ...job, uniqueKey: { key: 'daily', onConflict: 'replace' } });
    const own = { task: 'hello', id: '0190A000-0000-7000-8000-00000000000a' };
    const [one, two] = [await api.post('/jobs', own), await api.post('/jobs', own)];
    expect([...outcomesOf(first), ...outcomesOf(again), ...outcomesOf(one), ...outcomesOf(two)]).toEqual([
      'enqueued',
      'replaced',
      'enqueued',
      'repeated',
    ]);
    expect(idsOf(again)).toEqual(idsOf(first));
    expect(idsOf(two)).toEqual([own.id.toLowerCase()]);
  });

  test('says so when the dashboard stops', async () => {
    const own = bench.dashboard({ api: true });
    const stopped = program(own, 'shop:producer');
    expect((await stopped.post('/jobs', { task: 'hello' })).status).toBe(202);
    await own.close();
    expect(await stopped.post('/jobs', { task: 'hello' })).toMatchObject({
      status: 503,
      body: { code: 'closed' },
    });
  });

  test('says so where a queue takes no more jobs of a key', async () => {
    await bench.sql(`insert into $schema.queue_config (queue, key_pending) values ('full', 1)`);
    const job = { task: 'hello', queue: 'full', key: 'a' };
    expect((await api.post('/jobs', job)).status).toBe(202);
    expect(await api.post('/jobs', job)).toMatchObject({ status: 429, body: { code: 'too_many_pending' } });
  });
});

describe('Idempotency-Key', () => {
  const jobs = {
    jobs: [
      { task: 'hello', payload: { n: 1 } },
      { task: 'hello', payload: { n: 2 } },
    ],
  };
  const keyed = (body: object, key: string, by = api): Promise<ApiAnswer> =>
    by.post('/jobs', body, { 'idempotency-key': key });

  test('a repeated request enqueues nothing, and has the same ids', async () => {
    const first = await keyed(jobs, 'order 1');
    const again = await keyed(jobs, 'order 1');
    expect([outcomesOf(first), outcomesOf(again)]).toEqual([
      ['enqueued', 'enqueued'],
      ['repeated', 'repeated'],
    ]);
    expect(idsOf(again)).toEqual(idsOf(first));
    expect(new Set(idsOf(first)).size).toBe(2);
    expect(idsOf(first).every((id) => /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab]/.test(id))).toBe(true);
    await runAll();
    expect(await countJobs()).toBe(0);
    const late = await keyed(jobs, 'order 1');
    expect([idsOf(late), outcomesOf(late), await countJobs()]).toEqual([
      idsOf(first),
      ['repeated', 'repeated'],
      0,
    ]);
  });

  test('that is not UTF-8 is refused: two of them would have one text, and one key', async () => {
    for (const byte of [0xe8, 0xe9]) {
      const body = Buffer.concat([
        Buffer.from('{"task":"hello","payload":{"name":"Ren'),
        Buffer.of(byte),
        Buffer.from('e"}}'),
      ]);
      const response = await api.fetch('/jobs', {
        method: 'POST',
        body,
        headers: { 'content-type': 'application/json', 'idempotency-key': 'latin-1' },
      });
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({ code: 'bad_request', detail: 'the body is not UTF-8' });
    }
  });

  test('of another user, or another key, is another request', async () => {
    const other = program(dashboard, 'crm:producer');
    const ids = [await keyed(jobs, 'k'), await keyed(jobs, 'k', other), await keyed(jobs, 'l')].flatMap(
      idsOf,
    );
    expect([new Set(ids).size, await countJobs()]).toEqual([6, 6]);
  });

  test('with another body is refused', async () => {
    await keyed(jobs, 'k');
    const [longer, other] = [{ jobs: [...jobs.jobs, { task: 'hello' }] }, { task: 'hello' }];
    for (const body of [longer, other, { jobs: jobs.jobs.slice(0, 1) }])
      expect(await keyed(body, 'k')).toMatchObject({ status: 422, body: { code: 'idempotency_key' } });
    expect(await countJobs()).toBe(2);
  });

  test.each(['history', 'dead_letter'])(
    'with another body is refused while the first is in %s',
    async (table) => {
      await keyed({ task: 'hello' }, 'k');
      const [job] = await bench.claim('w', 1);
      const end = `select from $schema.settle(array[$1::uuid], array[$2::uuid], array[$3], array[0::float8], array[$4])`;
      const [outcome, error] = table === 'history' ? ['done', null] : ['dead', '{"message": "no"}'];
      await bench.sql(end, [job?.id, job?.token, outcome, error]);
      expect(await countJobs()).toBe(0);
      const other = async (): Promise<number> => (await keyed({ task: 'hello', key: 'a' }, 'k')).status;
      expect(await other()).toBe(422);
      await bench.sql(`delete from $schema.${table}`);
      expect(await other()).toBe(202);
    },
  );

  test('makes concurrent requests take turns: one is stored, whatever their bodies', async () => {
    const same = await Promise.all(Array.from({ length: 8 }, () => keyed(jobs, 'same')));
    expect(new Set(same.flatMap(idsOf)).size).toBe(2);
    expect(same.map((one) => outcomesOf(one)[0]).filter((one) => one === 'enqueued')).toHaveLength(1);
    const bodies = Array.from({ length: 8 }, (_, n) => ({ task: 'hello', payload: { n } }));
    const other = await Promise.all(bodies.map((body) => keyed(body, 'different')));
    expect(other.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([
      202,
      ...Array.from({ length: 7 }, () => 422),
    ]);
    expect(await countJobs()).toBe(3);
  });

  test.each([
    ['an empty key', '', { task: 'hello' }],
    ['a long key', 'k'.repeat(201), { task: 'hello' }],
    ['ids beside it', 'k', { task: 'hello', id: missing }],
  ])('%s is refused', async (_, key, body) => {
    expect(await keyed(body, key)).toMatchObject({ status: 400, body: { code: 'bad_request' } });
    expect(await countJobs()).toBe(0);
  });
});

describe('with tasks', () => {
  const email = defineTask({
    name: 'send-email',
    version: 2,
    payload: z.object({ to: z.email(), copies: z.int().optional() }),
    queue: 'mail',
    key: ({ to }) => to.split('@')[1] ?? '',
    retry: { maxTries: 5, base: '3s' },
  });
  const hello = defineTask({ name: 'hello', payload: z.object({}) });
  const checkedBy = (): Program =>
    program(bench.dashboard({ api: { tasks: [email, implement(hello, () => null)] } }), 'shop:producer');

  test('their defaults apply, and options override them', async () => {
    const answer = await checkedBy().post('/jobs', {
      jobs: [
        { task: 'send-email', payload: { to: 'ada@example.org' } },
        {
          task: 'send-email',
          payload: { to: 'ada@example.org' },
          key: 'k',
          retry: { maxTries: 9 },
          payloadVersion: 2,
        },
        { task: 'hello' },
      ],
    });
    expect(answer.status).toBe(202);
    expect(
      await bench.sql(
        `select queue, key, payload_version as version, max_tries as tries, retry ->> 'baseMs' as base from $schema.queue order by seq`,
      ),
    ).toEqual([
      { queue: 'mail', key: 'example.org', version: 2, tries: 5, base: '3000' },
      { queue: 'mail', key: 'k', version: 2, tries: 9, base: '3000' },
      { queue: 'default', key: '', version: 1, tries: 20, base: null },
    ]);
  });

  test('a payload that does not fit, another version and an unknown task are refused', async () => {
    const answer = await checkedBy().post('/jobs', {
      jobs: [
        { task: 'send-email', payload: { to: 'nobody' } },
        { task: 'send-email', payload: null },
        { task: 'hello', payloadVersion: 7, runAfter: 'x' },
        { task: 'unknown' },
      ],
    });
    expect(answer).toMatchObject({ status: 400, body: { code: 'invalid_job' } });
    const { problems } = answer.body as { problems: readonly string[] };
    expect(problems.map((problem) => problem.slice(0, 40))).toEqual([
      expect.stringContaining('jobs[0]: to: Invalid email'),
      expect.stringContaining('jobs[1]: '),
      expect.stringContaining('jobs[1]: key or attributes'),
      expect.stringContaining('jobs[2]: runAfter must be a time'),
      expect.stringContaining('jobs[2]: payloadVersion must be 1'),
      expect.stringContaining('jobs[3]: there is no such task here'),
    ]);
    expect(await countJobs()).toBe(0);
  });

  test('a body of twenty thousand mistakes gets a short answer', async () => {
    const words = defineTask({ name: 'words', payload: z.array(z.string()) });
    const dictionary = program(bench.dashboard({ api: { tasks: [words] } }), 'shop:producer');
    const strange = Object.fromEntries(Array.from({ length: 20_000 }, (_, n) => [`k${n}`, n]));
    const numbers = Array.from({ length: 20_000 }, (_, n) => n);
    const lengths = [];
    for (const body of [
      { task: 'words', payload: [], ...strange },
      { task: 'words', payload: [], retry: strange },
      { task: 'words', payload: [], uniqueKey: strange },
      { jobs: Array.from({ length: 10 }, () => ({ task: 'words', payload: numbers.slice(0, 2_000) })) },
      { task: 'words', payload: numbers },
      { task: 'w'.repeat(100_000) },
    ]) {
      const answer = await dictionary.post('/jobs', body);
      expect(answer).toMatchObject({ status: 400, body: { code: 'invalid_job' } });
      lengths.push(JSON.stringify(answer.body).length);
    }
    expect(Math.max(...lengths)).toBeLessThan(50_000);
  });

  test('the document names them', async () => {
    const { components } = await checkedBy().document();
    expect(components.schemas['Job']).toMatchObject({
      properties: { task: { enum: ['send-email', 'hello'] } },
    });
  });

  test('two of one name are a wrong configuration', () => {
    expect(() => bench.dashboard({ api: { tasks: [hello, implement(hello, () => null)] } })).toThrow(
      'api.tasks has two tasks named hello',
    );
  });
});
