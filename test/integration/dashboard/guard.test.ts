import { createDashboard, serveDashboard } from '@pgqueue/dashboard';
import type { Dashboard, JobPage, JobsPage, Redact } from '@pgqueue/dashboard';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Browser, DashboardBench } from './support.ts';
import { browse, byHeader, openDashboardBench, origin } from './support.ts';

let bench: DashboardBench;
let dashboard: Dashboard;
let operator: Browser;

beforeAll(async () => {
  bench = await openDashboardBench('dashboard_guard_test');
  dashboard = bench.dashboard({ hosts: ['queue.example'] });
  operator = browse(dashboard, 'otto:operator');
});
afterAll(() => bench.close());

const settings = { queue: 'mail', settings: { paused: true } };
const code = (answer: {
  readonly body: { readonly error?: { readonly code: string } };
}): string | undefined => answer.body.error?.code;

describe('an action', () => {
  test('is done with token, cookie and origin', async () => {
    expect((await operator.post('/api/actions/queue', settings)).status).toBe(200);
  });

  test.each([
    ['no token', { 'x-pgqueue-csrf': '' }, 'csrf'],
    ['another token', { 'x-pgqueue-csrf': 'A'.repeat(43) }, 'csrf'],
    ['no cookie', { cookie: '' }, 'csrf'],
    ["a cookie of the attacker's", { cookie: `pgqueue_csrf=${'a'.repeat(24)}` }, 'csrf'],
    ['another origin', { origin: 'https://evil.example' }, 'origin'],
    ['another port', { origin: 'https://queue.example:8443' }, 'origin'],
    ['the origin of a sandbox', { origin: 'null' }, 'origin'],
    ['no origin', { origin: '' }, 'origin'],
    ['another site', { 'sec-fetch-site': 'cross-site' }, 'origin'],
    ['a site beside it', { 'sec-fetch-site': 'same-site' }, 'origin'],
    ["a form's body", { 'content-type': 'text/plain' }, 'media_type'],
    ['the token of another user', { 'x-user': 'olga:operator' }, 'csrf'],
    ['a viewer', { 'x-user': 'vera:viewer' }, 'forbidden'],
    ['nobody', { 'x-user': '' }, 'unauthenticated'],
  ])('is refused with %s', async (_, headers, wanted) => {
    expect(code(await operator.post('/api/actions/queue', settings, headers))).toBe(wanted);
  });

  test.each([
    ['no JSON', '{', 'bad_request'],
    ['too much of it', JSON.stringify({ queue: 'x'.repeat(300_000) }), 'too_large'],
  ])('is refused with %s', async (_, body, wanted) => {
    expect(code(await operator.post('/api/actions/queue', body))).toBe(wanted);
  });

  test('that a proxy passed on without its host says what the proxy must do', async () => {
    const proxied = browse(bench.dashboard(), 'otto:operator');
    const { body } = await proxied.post('/api/actions/queue', settings, { host: '127.0.0.1:3456' });
    expect(body).toMatchObject({
      error: {
        code: 'origin',
        message: expect.stringMatching(
          /Origin names queue\.example, and Host says 127\.0\.0\.1:3456\. If a proxy .* pass on the header Host$/,
        ),
      },
    });
    const sandbox = await proxied.post('/api/actions/queue', settings, { origin: 'null' });
    expect(JSON.stringify(sandbox.body)).not.toContain('proxy');
  });

  test('a cookie is for this site alone', async () => {
    const { headers } = await operator.fetch('/api/session');
    expect(headers.get('set-cookie')).toMatch(
      /^pgqueue_csrf=[\w-]{24}; Path=\/; HttpOnly; SameSite=Strict; Secure$/,
    );
  });

  test('two processes with one secret know each other’s tokens, others do not', async () => {
    const csrfSecret = 'x'.repeat(32);
    const [one, two, three] = [
      bench.dashboard({ csrfSecret }),
      bench.dashboard({ csrfSecret }),
      bench.dashboard(),
    ];
    const session = await browse(one, 'otto:operator').fetch('/api/session');
    const cookie = session.headers.get('set-cookie')?.split(';')[0] ?? '';
    const { csrf } = (await session.json()) as { csrf: string };
    const headers = { cookie, 'x-pgqueue-csrf': csrf };
    expect((await browse(two, 'otto:operator').post('/api/actions/queue', settings, headers)).status).toBe(
      200,
    );
    expect(code(await browse(three, 'otto:operator').post('/api/actions/queue', settings, headers))).toBe(
      'csrf',
    );
  });
});

describe('a request', () => {
  test('to a foreign host name is refused', async () => {
    for (const path of ['/api/session', '/']) {
      const response = await operator.fetch(path, { headers: { host: 'evil.example' } });
      expect({ path, status: response.status }).toEqual({ path, status: 403 });
    }
    expect((await operator.fetch('/api/session', { headers: { host: 'QUEUE.example:8080' } })).status).toBe(
      200,
    );
  });

  test('gets headers that let nothing in', async () => {
    const { headers } = await operator.fetch('/api/queues');
    expect(Object.fromEntries(headers)).toMatchObject({
      'content-type': 'application/json',
      'content-security-policy':
        "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cache-control': 'no-store',
      'x-frame-options': 'DENY',
    });
  });

  test('for what there is not is told so, as JSON', async () => {
    expect(await operator.get('/api/nothing')).toMatchObject({
      status: 404,
      body: { error: { code: 'not_found', problems: null } },
    });
    expect(await operator.post('/nothing', {})).toMatchObject({ status: 405 });
    expect(await operator.get('/api/jobs/x')).toMatchObject({ status: 400 });
    expect(await operator.get('/api/jobs/00000000-0000-7000-8000-000000000000')).toMatchObject({
      status: 404,
    });
  });

  test.each([
    'jobs?limit=0',
    'jobs?limit=201',
    'jobs?after=x',
    'jobs?status=odd',
    'jobs?queue=a&queue=b',
    'jobs?since=yesterday',
    'jobs?quue=mail',
    'jobs?field=a',
    'jobs?queue=%00',
    'keys?after=x',
    'keys?window=day',
    'dead?after=1',
    'dead?group=x',
    'audit?after=x',
    'overview?window=year',
  ])('%s is refused with what is wrong', async (path) => {
    const answer = await operator.get(`/api/${path}`);
    expect(answer).toMatchObject({
      status: 400,
      body: { error: { code: 'bad_request', problems: [expect.any(String)] } },
    });
  });
});

describe('the auth hook', () => {
  const answerOf = async (auth: Parameters<typeof createDashboard>[0]['auth']): Promise<Response> => {
    const own = bench.dashboard(auth === undefined ? {} : { auth });
    return own.fetch(new Request(`${origin}/api/session`));
  };

  test('may answer itself', async () => {
    const response = await answerOf(() => Response.redirect('https://login.example/'));
    expect([response.status, response.headers.get('location')]).toEqual([302, 'https://login.example/']);
  });

  test('that knows nobody, or fails, lets nobody in', async () => {
    const failing = (): never => {
      throw new Error('secret detail');
    };
    const statuses = [];
    for (const auth of [
      () => null,
      failing,
      () => ({ name: 'x', role: 'admin' as never }),
      () => ({ name: '', role: 'operator' as const }),
    ]) {
      const response = await answerOf(auth);
      statuses.push(response.status);
      expect(await response.text()).not.toContain('secret detail');
    }
    expect(statuses).toEqual([401, 500, 500, 500]);
  });

  test('the database itself refuses what a role may not', async () => {
    const missing = bench.dashboard({ databaseRoles: { viewer: 'nobody_such', operator: 'nobody_other' } });
    expect(await browse(missing, 'vera:viewer').get('/api/queues')).toMatchObject({
      status: 503,
      body: { error: { code: 'database', message: expect.stringContaining('migrate --roles') } },
    });
    const swapped = bench.dashboard({
      databaseRoles: { viewer: `${bench.schema}_viewer`, operator: `${bench.schema}_viewer` },
    });
    const [id] = await bench.insert();
    expect(await browse(swapped, 'otto:operator').get(`/api/jobs/${id}`)).toMatchObject({
      status: 403,
      body: { error: { code: 'forbidden' } },
    });
  });
});

describe('without an auth hook', () => {
  const local = (): Dashboard => createDashboard({ connectionString: bench.url, schema: bench.schema });
  const ask = async (headers: Readonly<Record<string, string>>, remoteAddress?: string): Promise<number> => {
    const own = local();
    const request = new Request('http://localhost/api/session', { headers });
    const { status } = await own.fetch(request, { remoteAddress });
    await own.close();
    return status;
  };

  test.each([
    ['from this machine', { host: 'localhost:3456' }, '127.0.0.1', 200],
    ['by IPv6', { host: '[::1]:3456' }, '::1', 200],
    ['mapped', { host: '127.0.0.1' }, '::ffff:127.0.0.1', 200],
    ['from another', { host: 'localhost' }, '10.0.0.7', 403],
    ['from nobody knows where', { host: 'localhost' }, undefined, 403],
    ['by a name that leads here', { host: 'evil.example' }, '127.0.0.1', 403],
    [
      'through a proxy on this machine',
      { host: 'localhost', 'x-forwarded-for': '203.0.113.9' },
      '127.0.0.1',
      403,
    ],
    [
      'through one that says it otherwise',
      { host: 'localhost', forwarded: 'for=203.0.113.9;proto=https' },
      '127.0.0.1',
      403,
    ],
    ['through one for this machine', { host: 'localhost', 'x-forwarded-for': '::1' }, '127.0.0.1', 403],
    ...['via', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip'].map(
      (name): [string, Readonly<Record<string, string>>, string, number] => [
        `with the header ${name}`,
        { host: 'localhost', [name]: 'localhost' },
        '127.0.0.1',
        403,
      ],
    ),
  ])('a request %s', async (_, headers, remote, wanted) => {
    expect(await ask(headers, remote)).toBe(wanted);
  });

  test('nothing but loopback is listened on', async () => {
    const own = local();
    await expect(serveDashboard(own, { host: '0.0.0.0', port: 0 })).rejects.toMatchObject({
      code: 'configuration',
      message: expect.stringContaining('auth'),
    });
    await own.close();
  });
});

describe('the redact hook', () => {
  const payload = { card: '4000-1234', note: 'hello' };

  test('changes what operators see, and what can be looked for', async () => {
    const [id = ''] = await bench.insert({ payload });
    const own = browse(
      bench.dashboard({
        redact: (document, { kind, task }) =>
          kind === 'payload' && task === 'hello' ? { ...(document as object), card: '…' } : document,
      }),
      'otto:operator',
    );
    const { body } = await own.get<JobPage>(`/api/jobs/${id}`);
    expect(body.documents?.payload).toEqual({ card: '…', note: 'hello' });
    const found = async (query: string): Promise<number> =>
      (await own.get<JobsPage>(`/api/jobs?${query}`)).body.items.length;
    expect(await found('field=note&value=hello')).toBe(1);
    expect(await found('field=card&value=4000-1234')).toBe(0);
    expect((await own.get('/api/jobs/count?field=card&value=4000-1234')).body).toEqual({
      count: 0,
      kind: 'exact',
    });
    const preview = {
      over: 'jobs',
      filter: { field: 'card', value: '4000-1234' },
      action: { kind: 'cancel' },
    };
    expect((await own.post('/api/bulk/preview', preview)).body).toMatchObject({
      jobs: { count: 0 },
      sample: [],
    });
  });

  test('tells by no place in a page, and by no count, of jobs that it hides', async () => {
    const own = browse(
      bench.dashboard({
        redact: (document, { kind, task }) =>
          kind === 'payload' && task === 'hello' ? { ...(document as object), card: '…' } : document,
      }),
      'otto:operator',
    );
    const ask = async (after = ''): Promise<JobsPage> =>
      (await own.get<JobsPage>(`/api/jobs?field=card&value=4000-1234&limit=1${after}`)).body;
    const counted = async (): Promise<unknown> =>
      (await own.get('/api/jobs/count?field=card&value=4000-1234')).body;
    const hide = (count: number): Promise<unknown> => bench.insert({ payload }, count);
    await hide(2);
    expect(await ask()).toEqual({ items: [], next: null, lookedBackTo: null });
    const [first = ''] = await bench.insert({ payload, task: 'open' });
    await hide(450);
    const [last = ''] = await bench.insert({ payload, task: 'open' });
    await hide(1);
    const page = await ask();
    expect([page.items.map(({ id }) => id), page.next]).toEqual([[last], last]);
    const next = await ask(`&after=${last}`);
    expect([next.items.map(({ id }) => id), next.next]).toEqual([[first], null]);
    expect(await counted()).toEqual({ count: 2, kind: 'exact' });
  });

  test.each([
    [
      'throws',
      (): never => {
        throw new Error('4000-1234');
      },
    ],
    ['is late', (): unknown => Promise.resolve({})],
  ])('that %s hides the document', async (_, redact) => {
    const [id = ''] = await bench.insert({ payload });
    const { body } = await browse(bench.dashboard({ redact }), 'otto:operator').get<JobPage>(
      `/api/jobs/${id}`,
    );
    expect(JSON.stringify(body.documents)).not.toContain('4000');
    expect(body.redacted).toEqual(['payload']);
  });

  test.each([
    ['itself', (document: unknown): unknown => document, []],
    ['a copy', ({ card, ...rest }: typeof payload): unknown => ({ ...rest, card }), []],
    ['less', ({ note }: typeof payload): unknown => ({ note }), ['payload']],
    [
      'what it was given, changed',
      (document: typeof payload): unknown => Object.assign(document, { card: '…' }),
      ['payload'],
    ],
    ['nothing', (): unknown => undefined, ['payload']],
  ])('that answers with %s: what it changed is said', async (_, redact, changed) => {
    const [id = ''] = await bench.insert({ payload });
    const own = browse(bench.dashboard({ redact: redact as Redact }), 'otto:operator');
    const { body } = await own.get<JobPage>(`/api/jobs/${id}`);
    expect(body.redacted).toEqual(changed);
  });
});

test('options that are wrong are told all at once', () => {
  const odd = {
    connectionString: bench.url,
    schema: 'x y',
    basePath: 'queue',
    traceUrl: 'javascript:{traceId}',
    auth: byHeader,
    csrfSecret: 'short',
    hots: [],
  };
  expect(() => createDashboard(odd as never)).toThrow(/schema.*basePath.*traceUrl.*csrfSecret|hots/s);
});
