import { defineTask, implement } from '@pgqueue/core';
import { serveDashboard } from '@pgqueue/dashboard';
import type { Dashboard } from '@pgqueue/dashboard';
import { Validator } from '@seriousme/openapi-schema-validator';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { ApiAnswer, Program } from './program.ts';
import { program, validatorOf } from './program.ts';
import type { Claimed, DashboardBench } from './support.ts';
import { openDashboardBench, until } from './support.ts';

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
const idsOf = ({ body }: ApiAnswer): readonly string[] =>
  (body as { jobs: readonly { id: string }[] }).jobs.map(({ id }) => id);
const outcomesOf = ({ body }: ApiAnswer): readonly string[] =>
  (body as { jobs: readonly { outcome: string }[] }).jobs.map(({ outcome }) => outcome);
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

  test('says so where a queue takes no more jobs of a key', async () => {
    await bench.sql(`insert into $schema.queue_config (queue, key_pending) values ('full', 1)`);
    const job = { task: 'hello', queue: 'full', key: 'a' };
    expect((await api.post('/jobs', job)).status).toBe(202);
    expect(await api.post('/jobs', job)).toMatchObject({ status: 429, body: { code: 'too_many_pending' } });
  });
});

describe('Idempotency-Key', () => {
  const jobs = { jobs: [{ task: 'hello', payload: { n: 1 } }, { task: 'hello', payload: { n: 2 } }] };
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

  test('of another user, or another key, is another request', async () => {
    const other = program(dashboard, 'crm:producer');
    const ids = [await keyed(jobs, 'k'), await keyed(jobs, 'k', other), await keyed(jobs, 'l')].flatMap(idsOf);
    expect([new Set(ids).size, await countJobs()]).toEqual([6, 6]);
  });

  test('with another body is refused while a job of the first is unfinished', async () => {
    await keyed(jobs, 'k');
    const [longer, other] = [{ jobs: [...jobs.jobs, { task: 'hello' }] }, { task: 'hello' }];
    for (const body of [longer, other, { jobs: jobs.jobs.slice(0, 1) }])
      expect(await keyed(body, 'k')).toMatchObject({ status: 422, body: { code: 'idempotency_key' } });
    expect(await countJobs()).toBe(2);
    await runAll();
    expect(await keyed(other, 'k')).toMatchObject({ status: 202 });
  });

  test('makes concurrent requests take turns: one is stored, whatever their bodies', async () => {
    const same = await Promise.all(Array.from({ length: 8 }, () => keyed(jobs, 'same')));
    expect(new Set(same.flatMap(idsOf)).size).toBe(2);
    expect(same.map((one) => outcomesOf(one)[0]).filter((one) => one === 'enqueued')).toHaveLength(1);
    const bodies = Array.from({ length: 8 }, (_, n) => ({ task: 'hello', payload: { n } }));
    const other = await Promise.all(bodies.map((body) => keyed(body, 'different')));
    expect(other.map(({ status }) => status).sort()).toEqual([202, ...Array.from({ length: 7 }, () => 422)]);
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

describe('GET /jobs/{id}/result', () => {
  const enqueue = async (body: object = { task: 'hello' }): Promise<string> =>
    idsOf(await api.post('/jobs', body))[0] ?? '';
  const result = (id: string, timeout?: number): Promise<ApiAnswer> =>
    api.get(`/jobs/${id}/result${timeout === undefined ? '' : `?timeout=${timeout}`}`);

  test('tells of every state', async () => {
    const id = await enqueue();
    expect(await result(id.toUpperCase())).toMatchObject({ status: 202, body: { id, status: 'pending' } });
    const [claimed] = await bench.claim('w', 1);
    expect(await result(id, 0.01)).toMatchObject({ status: 202, body: { id, status: 'running' } });
    if (claimed !== undefined) await finish(claimed, { words: 6 });
    expect(await result(id)).toMatchObject({
      status: 200,
      body: { id, status: 'done', result: { words: 6 }, error: null },
    });
    const later = await enqueue({ task: 'hello', delay: '1h' });
    expect(await result(later)).toMatchObject({ status: 202, body: { status: 'delayed' } });
    await bench.sql('select from $schema.cancel(array[$1::uuid])', [later]);
    expect(await result(later)).toMatchObject({
      status: 200,
      body: { status: 'cancelled', result: null, error: null },
    });
    const dying = await enqueue();
    const [dead] = await bench.claim('w', 1);
    await bench.sql(
      `select from $schema.settle(array[$1::uuid], array[$2::uuid], array['dead'], array[0::float8], array['{"message": "no disk", "stack": "at secret.ts"}'])`,
      [dead?.id, dead?.token],
    );
    expect((await result(dying)).body).toEqual({
      id: dying,
      status: 'dead',
      result: null,
      error: { reason: 'gave_up', message: 'no disk' },
    });
    expect(await result(missing)).toMatchObject({ status: 404, body: { code: 'not_found' } });
  });

  test('of a job that is done and has none, or one that was lost, says so', async () => {
    const [none, lost] = [await enqueue(), await enqueue()];
    for (const job of await bench.claim('w', 10))
      await finish(job, job.id === none ? null : { pgqueue_error: 'it was too large' });
    expect((await result(none)).body).toMatchObject({ status: 'done', result: null, error: null });
    expect((await result(lost)).body).toMatchObject({
      status: 'done',
      result: null,
      error: { reason: 'result_lost', message: 'it was too large' },
    });
  });

  test('waits until the job has ended', async () => {
    const id = await enqueue();
    const waited = result(id, 60);
    await runAll('there');
    expect(await waited).toMatchObject({ status: 200, body: { status: 'done', result: 'there' } });
  });

  test('has a bound on waits at a time; a client that goes away, and a stop, end theirs', async () => {
    const own = bench.dashboard({ api: { waitsMax: 1 } });
    const server = await serveDashboard(own, { port: 0 });
    const id = await enqueue();
    const at = `${server.url}api/v1/jobs/${id}/result`;
    const ask = (timeout: number, signal: AbortSignal | null = null): Promise<Response> =>
      fetch(`${at}?timeout=${timeout}`, { headers: { 'x-user': 'shop:producer' }, signal });
    const client = new AbortController();
    const gone = ask(60, client.signal).catch((error: unknown) => (error as Error).name);
    const busy = async (): Promise<boolean> => (await ask(0)).status === 503;
    await until('somebody waits', busy);
    const refused = await ask(0);
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1']);
    client.abort();
    expect(await gone).toBe('AbortError');
    await until('its wait to end', async () => (await ask(0)).status === 202);
    const last = ask(60);
    await until('somebody waits again', busy);
    const stopped = server.close();
    const answer = await last;
    expect([answer.status, await answer.json()]).toEqual([503, expect.objectContaining({ code: 'closed' })]);
    await stopped;
  });

  test.each(['?timeout=61', '?timeout=-1', '?timeout=1e1', '?timeout=', '?timeout=x', '?timeout=1&timeout=1', '?t=1'])(
    'refuses %s',
    async (query) => {
      expect(await api.get(`/jobs/${missing}/result${query}`)).toMatchObject({
        status: 400,
        body: { code: 'bad_request' },
      });
    },
  );
});

describe('signals', () => {
  test('of a flow get their value once', async () => {
    const [row] = await bench.sql<{ id: string }>('select flow_id as id from $schema.start_flow($1::jsonb)', [
      JSON.stringify({ name: 'order', steps: [{ name: 'paid / in full', kind: 'signal' }] }),
    ]);
    const path = `/flows/${row?.id}/signals/${encodeURIComponent('paid / in full')}`;
    const give = async (value: unknown): Promise<unknown> => (await api.post(path, { value })).body;
    expect([await give({ by: 'card' }), await give('late')]).toEqual([
      { outcome: 'signalled' },
      { outcome: 'repeated' },
    ]);
    const [stored] = await bench.sql('select result from $schema.flow_result where flow = $1::uuid', [row?.id]);
    expect(stored).toEqual({ result: { by: 'card' } });
    expect(await api.post(`/flows/${missing}/signals/paid`, { value: 1 })).toMatchObject({
      status: 404,
      body: { code: 'not_found' },
    });
  });

  test('of a job are kept for its handler', async () => {
    const [id] = idsOf(await api.post('/jobs', { task: 'hello' }));
    const give = (job: string | undefined): Promise<ApiAnswer> =>
      api.post(`/jobs/${job}/signals/approved`, { value: true });
    expect((await give(id)).body).toEqual({ outcome: 'signalled' });
    expect((await give(id)).body).toEqual({ outcome: 'repeated' });
    expect(await give(missing)).toMatchObject({ status: 404, body: { code: 'not_found' } });
  });

  test.each([
    ['no value', `/jobs/${missing}/signals/a`, {}, 'bad_request'],
    ['something beside the value', `/jobs/${missing}/signals/a`, { value: 1, other: 1 }, 'bad_request'],
    ['no id', '/flows/x/signals/a', { value: 1 }, 'invalid_flow'],
    ['a long name', `/flows/${missing}/signals/${'x'.repeat(201)}`, { value: 1 }, 'invalid_flow'],
    ['a large value', `/flows/${missing}/signals/a`, { value: 'x'.repeat(262_145) }, 'invalid_flow'],
  ])('with %s are refused', async (_, path, body, code) => {
    expect(await api.post(path, body)).toMatchObject({ status: 400, body: { code } });
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
        { task: 'send-email', payload: { to: 'ada@example.org' }, key: 'k', retry: { maxTries: 9 }, payloadVersion: 2 },
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

describe('the document', () => {
  test('is OpenAPI 3.1, for the path at which the dashboard is mounted', async () => {
    const mounted = program(bench.dashboard({ api: true, basePath: '/admin/queue' }), 'shop:producer');
    const document = await mounted.document();
    const { valid, errors } = await new Validator().validate({ ...structuredClone(document) });
    expect({ valid, errors }).toEqual({ valid: true, errors: undefined });
    expect([document.openapi, document.servers]).toEqual(['3.1.1', [{ url: '/admin/queue/api/v1' }]]);
    const ids = Object.values(document.paths).flatMap((methods) =>
      Object.values(methods).map(({ operationId }) => operationId),
    );
    expect(ids.toSorted()).toEqual(['document', 'enqueue', 'result', 'signalFlow', 'signalJob']);
    expect((await mounted.post('/jobs', { task: 'hello' })).status).toBe(202);
  });

  test.each<[string, unknown]>([
    ['a job', { task: 'a' }],
    ['jobs', { jobs: [{ task: 'a' }, { task: 'b', key: '' }] }],
    ['a time with an offset', { task: 'a', runAfter: '2099-01-01T00:00:00.5+02:00' }],
    ['a time without a zone', { task: 'a', runAfter: '2099-01-01T00:00:00' }],
    ['a day', { task: 'a', expiresAt: '2099-01-01' }],
    ['a number as a time', { task: 'a', runAfter: 1 }],
    ['a month that is none', { task: 'a', runAfter: '2099-13-01T00:00:00Z' }],
    ['a delay in words', { task: 'a', delay: '10 minutes' }],
    ['a delay', { task: 'a', delay: '1.5m' }],
    ['a negative delay', { task: 'a', delay: -1 }],
    ['a large priority', { task: 'a', priority: 2_147_483_648 }],
    ['a priority with a part', { task: 'a', priority: 0.5 }],
    ['attributes', { task: 'a', attributes: { a: 1, b: null } }],
    ['nested attributes', { task: 'a', attributes: { a: {} } }],
    ['a list of attributes', { task: 'a', attributes: [] }],
    ['a retry', { task: 'a', retry: { maxTries: 1, factor: 1.5, max: '1d' } }],
    ['a retry without tries', { task: 'a', retry: { maxTries: 0 } }],
    ['an unknown backoff', { task: 'a', retry: { backoff: 'none' } }],
    ['a unique key', { task: 'a', uniqueKey: { key: 'k', onConflict: 'supersede' } }],
    ['an unknown conflict', { task: 'a', uniqueKey: { key: 'k', onConflict: 'skip' } }],
    ['an id', { task: 'a', id: missing }],
    ['an id that is none', { task: 'a', id: 'x' }],
    ['a long queue', { task: 'a', queue: 'q'.repeat(101) }],
    ['an empty queue', { task: 'a', queue: '' }],
    ['null for an option', { task: 'a', queue: null }],
    ['an unknown member', { task: 'a', colour: 1 }],
    ['no task', { payload: {} }],
    ['a number as a task', { task: 1 }],
    ['no jobs', { jobs: [] }],
    ['jobs that are none', { jobs: [1] }],
    ['something beside jobs', { jobs: [{ task: 'a' }], task: 'b' }],
    ['a list', [{ task: 'a' }]],
    ['null', null],
    ['a version', { task: 'a', payloadVersion: 2 }],
    ['a version that is none', { task: 'a', payloadVersion: 0 }],
    ['a payload of null', { task: 'a', payload: null }],
  ])('and the server agree about %s', async (_, body) => {
    const { components } = await api.document();
    const announced = validatorOf({ components }, { $ref: '#/components/schemas/Enqueue' }).problems(body);
    const { status } = await api.post('/jobs', body);
    expect({ status, announced }).toMatchObject(
      announced.length === 0 ? { status: 202 } : { status: 400 },
    );
  });
});
