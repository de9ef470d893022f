// Rights, origins and bodies of requests to the HTTP API.
import { request } from 'node:http';
import { createDashboard, serveDashboard } from '@pgqueue/dashboard';
import type { Dashboard, User } from '@pgqueue/dashboard';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { hostileTexts, marker, nested } from '../../../support/hostile.ts';
import type { Program } from './program.ts';
import { program } from './program.ts';
import type { DashboardBench } from '../support.ts';
import { browse, openDashboardBench, origin } from '../support.ts';

let bench: DashboardBench;
let dashboard: Dashboard;
let api: Program;
const logged: unknown[] = [];

beforeAll(async () => {
  bench = await openDashboardBench('dashboard_api_guard_test');
  const log = (...all: unknown[]): void => void logged.push(all);
  const logger = { debug: log, info: log, warn: log, error: log };
  dashboard = bench.dashboard({ api: true, hosts: ['queue.example'], logger });
  api = program(dashboard, 'shop:producer');
});
beforeEach(() => bench.sql('delete from $schema.queue'));
afterAll(() => bench.close());

const job = { task: 'hello' };
const id = '00000000-0000-7000-8000-000000000001';
const stored = async (): Promise<number> =>
  (await bench.sql<{ n: number }>('select count(*)::integer as n from $schema.queue'))[0]?.n ?? -1;

describe('a request', () => {
  test.each<[string, Record<string, string>, number, string | null]>([
    ['of a producer', {}, 202, null],
    ['of an operator', { 'x-user': 'otto:operator' }, 202, null],
    ['of a producer, from the same origin', { origin, 'sec-fetch-site': 'same-origin' }, 202, null],
    ['with a cookie and a token', { cookie: 'session=1', authorization: 'Bearer x' }, 202, null],
    ['with a cookie, from the same origin', { cookie: 'session=1', origin }, 202, null],
    ['of nobody', { 'x-user': '' }, 401, 'unauthenticated'],
    ['of a viewer', { 'x-user': 'vera:viewer' }, 403, 'forbidden'],
    ['with a cookie alone', { cookie: 'session=1' }, 403, 'origin'],
    [
      'with a cookie, of another origin',
      { cookie: 'session=1', origin: 'https://evil.example' },
      403,
      'origin',
    ],
    ['of another origin', { origin: 'https://evil.example' }, 403, 'origin'],
    ['of another port', { origin: 'https://queue.example:8443' }, 403, 'origin'],
    ['of a sandbox', { origin: 'null' }, 403, 'origin'],
    ['of another site', { 'sec-fetch-site': 'cross-site' }, 403, 'origin'],
    ['of a site beside it', { 'sec-fetch-site': 'same-site' }, 403, 'origin'],
    [
      'of another site with credentials that its browser keeps',
      { authorization: 'Basic eDp5', 'sec-fetch-site': 'cross-site' },
      403,
      'origin',
    ],
    ['to a foreign host name', { host: 'evil.example' }, 403, 'host'],
    ['with the body of a form', { 'content-type': 'text/plain' }, 415, 'media_type'],
    ['that says UTF-8', { 'content-type': 'application/json;charset="UTF-8"' }, 202, null],
    ['in another charset', { 'content-type': 'application/json; charset=iso-8859-1' }, 415, 'media_type'],
    ['that says it is large', { 'content-length': '8388609' }, 413, 'too_large'],
    ['that is compressed', { 'content-encoding': 'gzip' }, 415, 'media_type'],
  ])('%s', async (_, headers, status, code) => {
    const answer = await api.post('/jobs', job, headers);
    expect([answer.status, (answer.body as { code?: string }).code ?? null]).toEqual([status, code]);
    expect(await stored()).toBe(status === 202 ? 1 : 0);
  });

  test.each(['result?timeout=60', 'result'])('from another site can not make %s wait', async (path) => {
    const answer = await api.get(`/jobs/${id}/${path}`, { headers: { 'sec-fetch-site': 'cross-site' } });
    expect(answer).toMatchObject({ status: 403, body: { code: 'origin' } });
  });

  test('gets no headers that let other origins read, and is not kept', async () => {
    const response = await api.fetch('/jobs', {
      method: 'OPTIONS',
      headers: { origin: 'https://evil.example' },
    });
    expect(response.status).toBe(403);
    const { headers } = await api.post('/jobs', job);
    expect([...headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual([]);
    expect(Object.fromEntries(headers)).toMatchObject({
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      'cross-origin-resource-policy': 'same-origin',
    });
  });

  test('for what there is not is told so', async () => {
    expect(await api.get('/nothing')).toMatchObject({ status: 404, body: { code: 'not_found' } });
    expect(await api.post('/nothing', {})).toMatchObject({ status: 404 });
    const nobody = await program(dashboard, '').fetch('/jobs', { method: 'POST' });
    expect([nobody.status, nobody.headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
    const wrong = await api.fetch('/jobs', { method: 'DELETE' });
    expect([wrong.status, wrong.headers.get('content-type')]).toEqual([405, 'application/problem+json']);
    const read = await api.fetch(`/jobs/${id}/result`, { method: 'POST' });
    expect(read.status).toBe(405);
    expect([wrong, read].map(({ headers }) => headers.get('allow'))).toEqual(['POST', 'GET, HEAD']);
  });
});

describe('the role producer', () => {
  test('opens no page, reads nothing else and acts on nothing', async () => {
    const producer = browse(dashboard, 'shop:producer');
    for (const path of [
      '/',
      '/jobs',
      '/api/session',
      '/api/jobs',
      '/api/queues',
      '/api/live',
      '/api/bulk',
      '/assets/x.js',
    ]) {
      const { status } = await producer.fetch(path);
      expect({ path, status }).toEqual({ path, status: 403 });
    }
    const { cookie, token } = await sessionOf('otto:operator');
    const answer = await producer.fetch('/api/actions/queue', {
      method: 'POST',
      body: JSON.stringify({ queue: 'mail', settings: { paused: true } }),
      headers: { 'content-type': 'application/json', origin, cookie, 'x-pgqueue-csrf': token },
    });
    expect(answer.status).toBe(403);
    expect(await bench.sql('select from $schema.queue_config')).toEqual([]);
  });

  test('is what the database checks, also for operators', async () => {
    const swapped = (producer: string): Program =>
      program(
        bench.dashboard({
          api: true,
          databaseRoles: { viewer: `${bench.schema}_viewer`, operator: `${bench.schema}_operator`, producer },
        }),
        'otto:operator',
      );
    const asViewer = swapped(`${bench.schema}_viewer`);
    for (const answer of [
      await asViewer.post('/jobs', job),
      await asViewer.post('/jobs', job, { 'idempotency-key': 'k' }),
      await asViewer.get(`/jobs/${id}/result`),
      await asViewer.post(`/flows/${id}/signals/a`, { value: 1 }),
      await asViewer.post(`/jobs/${id}/signals/a`, { value: 1 }),
    ])
      expect(answer).toMatchObject({ status: 403, body: { code: 'forbidden' } });
    expect(await swapped('nobody_such').post('/jobs', job)).toMatchObject({
      status: 503,
      body: { code: 'database', detail: expect.stringContaining('migrate --roles') },
    });
    expect(await stored()).toBe(0);
  });

  async function sessionOf(user: string): Promise<{ readonly cookie: string; readonly token: string }> {
    const response = await browse(dashboard, user).fetch('/api/session');
    const { csrf } = (await response.json()) as { csrf: string };
    return { cookie: response.headers.get('set-cookie')?.split(';')[0] ?? '', token: csrf };
  }
});

test('the API is off unless it is asked for', async () => {
  for (const off of [bench.dashboard(), bench.dashboard({ api: false })]) {
    for (const path of ['/jobs', '/openapi.json']) {
      const response = await off.fetch(
        new Request(`${origin}/api/v1${path}`, { method: 'POST', headers: { 'x-user': 'otto:operator' } }),
      );
      expect([response.status, await response.json()]).toMatchObject([
        404,
        { detail: expect.stringContaining('--api') },
      ]);
    }
  }
});

test('an auth hook that answers itself, or fails, lets nobody in', async () => {
  const answerOf = async (auth: () => User | Response): Promise<readonly unknown[]> => {
    const own = bench.dashboard({ api: true, auth });
    const response = await own.fetch(
      new Request(`${origin}/api/v1/jobs`, {
        method: 'POST',
        body: JSON.stringify(job),
        headers: { 'content-type': 'application/json' },
      }),
    );
    return [response.status, response.headers.get('content-type')];
  };
  const failing = (): never => {
    throw new Error('secret');
  };
  const throwing = (thrown: unknown) => (): never => {
    throw thrown;
  };
  const type = 'application/problem+json';
  expect(await answerOf(() => Response.redirect('https://login.example/'))).toEqual([401, type]);
  expect(await answerOf(() => new Response('Sign in', { status: 401 }))).toEqual([401, type]);
  expect(await answerOf(failing)).toEqual([500, type]);
  expect(await answerOf(throwing('secret'))).toEqual([500, type]);
  expect(await answerOf(throwing(undefined))).toEqual([500, type]);
  expect(await answerOf(() => ({ name: 'x', role: 'admin' as never }))).toEqual([500, type]);
  expect(await stored()).toBe(0);
});

test('without an auth hook it answers this machine alone, and no page of another site', async () => {
  const own = createDashboard({ connectionString: bench.url, schema: bench.schema, api: true });
  const server = await serveDashboard(own, { port: 0 });
  const post = (headers: Readonly<Record<string, string>>): Promise<number> =>
    new Promise((resolve, reject) => {
      const sent = request(
        `${server.url}api/v1/jobs`,
        { method: 'POST', headers: { 'content-type': 'application/json', ...headers } },
        (answer) => resolve(answer.resume().statusCode ?? 0),
      );
      sent.on('error', reject).end(JSON.stringify(job));
    });
  expect([
    await post({}),
    await post({ origin: 'https://evil.example' }),
    await post({ host: 'evil.example' }),
    await post({ 'x-forwarded-for': '203.0.113.9' }),
    await post({ 'content-type': 'text/plain' }),
  ]).toEqual([202, 403, 403, 403, 415]);
  await server.close();
});

describe('a body', () => {
  /** A body of unknown length, which `sent` counts. */
  const endless = (sent: { bytes: number }): ReadableStream<Uint8Array> =>
    new ReadableStream({
      pull: (controller) => {
        sent.bytes += 65_536;
        controller.enqueue(new Uint8Array(65_536).fill(32));
      },
    });

  test('without an end is read to its limit, and no further', async () => {
    const sent = { bytes: 0 };
    const response = await api.fetch('/jobs', {
      method: 'POST',
      body: endless(sent),
      duplex: 'half',
      headers: { 'content-type': 'application/json' },
    });
    expect(response.status).toBe(413);
    expect(sent.bytes).toBeLessThan(9_000_000);
  });

  test('that breaks off is the end of its client, and no error of the database', async () => {
    logged.length = 0;
    const aborted = Object.assign(new Error('aborted'), { code: 'ECONNRESET' }); // as node:http has it
    const body = new ReadableStream({ pull: (controller) => controller.error(aborted) });
    const headers = { 'content-type': 'application/json' };
    const response = await api.fetch('/jobs', { method: 'POST', body, duplex: 'half', headers });
    expect(response.status).toBe(400);
    expect(logged).toEqual([]);
  });

  test('that a slow client sends, however many there are, keeps no others waiting', async () => {
    const body = JSON.stringify(job);
    const headers = { 'content-type': 'application/json', 'content-length': String(body.length) };
    const slow = Array.from({ length: 20 }, () => {
      const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
      const response = api.fetch('/jobs', { method: 'POST', body: readable, duplex: 'half', headers });
      return { writer: writable.getWriter(), response };
    });
    expect((await api.post('/jobs', job)).status).toBe(202);
    for (const { writer } of slow) {
      await writer.write(new TextEncoder().encode(body));
      await writer.close();
    }
    expect(await Promise.all(slow.map(async ({ response }) => (await response).status))).toEqual(
      slow.map(() => 202),
    );
  });

  test.each([
    ['no JSON', '{"task":', 'bad_request'],
    ['nothing', '', 'bad_request'],
    ['a payload of many levels', JSON.stringify({ task: 'a', payload: nested(501) }), 'invalid_job'],
    [
      'more levels than a stack has',
      `{"task":"a","payload":${'['.repeat(100_000)}${']'.repeat(100_000)}}`,
      'invalid_job',
    ],
    ['jobs of many levels', '['.repeat(100_000) + ']'.repeat(100_000), 'invalid_job'],
    ['a large payload', JSON.stringify({ task: 'a', payload: 'x'.repeat(262_144) }), 'invalid_job'],
    ['large attributes', JSON.stringify({ task: 'a', attributes: { a: 'x'.repeat(4_096) } }), 'invalid_job'],
    ['a prototype', '{"task":"a","payload":{"__proto__":{"admin":true}}}', 'invalid_job'],
    ['a prototype as an option', '{"task":"a","__proto__":{"queue":"x"}}', 'invalid_job'],
    ['a prototype beside jobs', '{"jobs":[{"task":"a"}],"__proto__":{}}', 'invalid_job'],
    ['a number that is none', '{"task":"a","priority":1e999}', 'bad_request'],
    ['a number that would be changed', '{"task": "a", "payload": {"n": 9007199254740993}}', 'bad_request'],
    ['a day that is not there', '{"task": "a", "runAfter": "2030-02-31T08:00:00Z"}', 'invalid_job'],
  ])('with %s is refused', async (_, body, code) => {
    for (const headers of [{}, { 'idempotency-key': 'k' }])
      expect(await api.post('/jobs', body, headers)).toMatchObject({ status: 400, body: { code } });
    expect(await stored()).toBe(0);
    expect(({} as { admin?: boolean }).admin).toBeUndefined();
  });
});

test('hostile names are stored as they are, or refused, and never a fault of the server', async () => {
  logged.length = 0;
  const odd: unknown[] = [];
  const note = (what: string, { status, body }: { status: number; body: unknown }): void => {
    if (status >= 500) odd.push([what, status, body]);
  };
  for (const text of hostileTexts) {
    for (const member of [
      'task',
      'queue',
      'key',
      'id',
      'runAfter',
      'delay',
      'uniqueKey',
      'timeout',
      'retry',
      'trace',
      text,
    ])
      note(member, await api.post('/jobs', { task: 'a', [member]: text }));
    note('attributes', await api.post('/jobs', { task: 'a', attributes: { [text]: text } }));
    note('payload', await api.post('/jobs', { task: 'a', payload: { [text]: text } }));
    const name = encodeURIComponent(text.toWellFormed());
    if (text === '') continue;
    note('step', await api.post(`/flows/${id}/signals/${name}`, { value: text }));
    note('signal', await api.post(`/jobs/${id}/signals/${name}`, { value: text }));
    note('flow', await api.post(`/flows/${name}/signals/a`, { value: 1 }));
    note('job', await api.get(`/jobs/${name}/result`));
    note('timeout', await api.get(`/jobs/${id}/result?timeout=${name}`));
    const header = text.replaceAll(/[^\x20-\x7e]/g, '?');
    note(
      'key',
      await api.post('/jobs', job, { 'idempotency-key': header, traceparent: header, tracestate: header }),
    );
  }
  expect(odd).toEqual([]);
  expect(JSON.stringify(logged)).not.toContain(marker);
  const tasks = await bench.sql<{ task: string }>(
    `select distinct task from $schema.queue where task <> 'a' and task <> 'hello'`,
  );
  expect(tasks.map(({ task }) => task).sort()).toEqual(
    hostileTexts
      .filter(
        (text) => text.length >= 1 && text.length <= 200 && !text.includes('\u0000') && text.isWellFormed(),
      )
      .toSorted(),
  );
});
