import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { createDashboard } from '@pgqueue/dashboard';
import type { Dashboard, DashboardOptions, Found } from '@pgqueue/dashboard';
import type { Installation } from '@pgqueue/router';
import { afterEach, describe, expect, test } from 'vitest';
import { insertJob, nth, useSeveral } from '../installations/support.ts';
import { byHeader } from './support.ts';

const { several } = useSeveral(3);
const open: (() => unknown)[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((close) => close()));
});

const nowhere = 'postgres://somebody:hunter2-secret@127.0.0.1:1/nowhere';

/** An installation as the list has it, with changes. */
function listed(index: number, changes: Partial<Installation> = {}): Installation {
  return { ...nth(several.installations, index), ...changes };
}

function dashboardOf(options: Partial<DashboardOptions> = {}): Dashboard {
  const { installations } = several;
  const made = createDashboard({ installations, auth: byHeader, databaseRoles: false, ...options });
  open.push(() => made.close());
  return made;
}

interface Asked {
  readonly user?: string;
  readonly init?: {
    readonly method: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly body?: string;
  };
}

/** Answer to a request; its body is of the type that the path has by the contract. */
interface Answer {
  readonly status: number;
  readonly headers: Headers;
  // oxlint-disable-next-line typescript/no-explicit-any -- of whatever path was asked
  readonly body: any;
}

async function ask(dashboard: Dashboard, path: string, given: Asked = {}): Promise<Answer> {
  const { user = 'vera:viewer', init } = given;
  const headers = { host: 'localhost', 'x-user': user, ...init?.headers };
  const response = await dashboard.fetch(new Request(`http://localhost${path}`, { ...init, headers }));
  const text = await response.text();
  const isJson = response.headers.get('content-type')?.startsWith('application/json') === true;
  return {
    status: response.status,
    headers: response.headers,
    body: isJson ? JSON.parse(text) : text,
  };
}

describe('over all', () => {
  test('a row for each and sums of those that answer; one that is down is told, and no password', async () => {
    await insertJob(nth(several.databases, 0), { key: 'a' });
    await insertJob(nth(several.databases, 0), { key: 'b' });
    await insertJob(nth(several.databases, 1), { key: 'c' });
    const installations = [
      listed(2, { connectionString: nowhere }),
      listed(0),
      listed(1, { state: 'draining' }),
    ];
    const dashboard = dashboardOf({ installations });
    await dashboard.check();
    const { status, body } = await ask(dashboard, '/api/installations');
    expect(status).toBe(200);
    expect(body).toMatchObject({
      actor: { name: 'vera', role: 'viewer' },
      installations: [
        {
          installation: 'one',
          number: 1,
          state: 'active',
          error: null,
          now: {
            leader: null,
            depths: { pending: { count: 2, kind: 'exact' } },
            workers: { slots: 0 },
            donePerSecond: 0,
            warnings: [{ kind: 'no_leader' }, { kind: 'no_capable_node' }],
          },
        },
        { installation: 'two', number: 2, state: 'draining', now: { depths: { pending: { count: 1 } } } },
        { installation: 'three', number: 3, now: null, error: 'the database does not answer: try again' },
      ],
      totals: { answered: 2, depths: { pending: { count: 3, kind: 'exact' } }, warnings: 4 },
    });
    expect(JSON.stringify(body)).not.toContain('hunter2');
  });

  test('one that hangs holds the others up for three seconds at most', async () => {
    const silent = createServer((socket) => open.push(() => socket.destroy())).listen(0, '127.0.0.1');
    await once(silent, 'listening');
    open.push(() => silent.close());
    const { port } = silent.address() as AddressInfo;
    const hung = listed(1, { connectionString: `postgres://x@127.0.0.1:${port}/x` });
    const dashboard = dashboardOf({ installations: [listed(0), hung] });
    const { body } = await ask(dashboard, '/api/installations');
    expect(body.installations).toMatchObject([{ error: null }, { error: 'it does not answer within 3 s' }]);
  });

  test('jobs are found where they are, whatever their ids say', async () => {
    const [first, second] = await Promise.all([
      insertJob(nth(several.databases, 0)),
      insertJob(nth(several.databases, 2), { id: '0198a3c2-0000-7000-8000-000000000001' }),
    ]);
    const dashboard = dashboardOf();
    const find = async (id: string): Promise<Found> => (await ask(dashboard, `/api/find/${id}`)).body;
    expect(await find(first)).toEqual({ found: { installation: 'one', kind: 'job' }, unreachable: [] });
    expect(await find(second.toUpperCase())).toMatchObject({ found: { installation: 'three', kind: 'job' } });
    const [started] = await nth(several.databases, 1).query<{ readonly flow_id: string }>(
      'select flow_id from pgqueue.start_flow($1::jsonb)',
      [JSON.stringify({ name: 'f', steps: [{ name: 'ok', kind: 'signal' }] })],
    );
    expect(await find(started?.flow_id ?? '')).toMatchObject({
      found: { installation: 'two', kind: 'flow' },
    });
    expect(await find('0198a3c2-0000-7000-8000-000000000002')).toEqual({ found: null, unreachable: [] });
    expect((await ask(dashboard, '/api/find/x')).status).toBe(400);
  });

  test('rights and headers are those of every page', async () => {
    const dashboard = dashboardOf({ basePath: '/admin/queue' });
    for (const path of ['/admin/queue/api/installations', '/admin/queue/i/one/api/queues', '/admin/queue/'])
      expect((await ask(dashboard, path, { user: '' })).status).toBe(401);
    expect((await ask(dashboard, '/admin/queue/api/installations', { user: 'p:producer' })).status).toBe(403);
    const { headers } = await ask(dashboard, '/admin/queue/api/installations');
    expect(headers.get('content-security-policy')).toContain("default-src 'none'");
    expect((await ask(dashboard, '/admin/queue/api/queues')).status).toBe(404);
    const init = { method: 'POST', headers: { 'sec-fetch-site': 'same-origin' } };
    expect((await ask(dashboard, '/admin/queue/api/installations', { init })).status).toBe(403);
    const foreign = createDashboard({ installations: several.installations });
    open.push(() => foreign.close());
    expect((await ask(foreign, '/api/installations')).body).toMatchObject({ error: { code: 'host' } });
  });
});

describe('the pages of one', () => {
  test.each([
    ['with the whole path', ''],
    ['where a framework has removed it', '/admin/queue'],
  ])('work below i/NAME, %s', async (_, removed) => {
    const dashboard = dashboardOf({ basePath: '/admin/queue' });
    const base = `${'/admin/queue'.slice(removed.length)}/i/two`;
    const user = 'otto:operator';
    const session = await ask(dashboard, `${base}/api/session`, { user });
    const cookie = session.headers.get('set-cookie') ?? '';
    expect(cookie).toContain('Path=/admin/queue/i/two;');
    const init = {
      method: 'POST',
      headers: {
        cookie: cookie.split(';')[0] ?? '',
        'x-pgqueue-csrf': session.body.csrf,
        'sec-fetch-site': 'same-origin',
        'content-type': 'application/json',
      },
      body: JSON.stringify({ queue: 'mail', settings: { paused: true } }),
    };
    expect((await ask(dashboard, `${base}/api/actions/queue`, { user, init })).status).toBe(200);
    const pausedIn = await Promise.all(
      ['one', 'two'].map(
        async (name) => (await ask(dashboard, `/admin/queue/i/${name}/api/queues`)).body.queues.length,
      ),
    );
    expect(pausedIn).toEqual([0, 1]);
  });

  test('have the HTTP API of their installation', async () => {
    const dashboard = dashboardOf({ api: true });
    const init = {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ task: 'hello' }),
    };
    const user = 'shop:producer';
    const { status, body } = await ask(dashboard, '/i/two/api/v1/jobs', { user, init });
    expect(status).toBe(202);
    const { id } = body.jobs[0];
    expect((await ask(dashboard, `/api/find/${id}`)).body.found).toEqual({
      installation: 'two',
      kind: 'job',
    });
    const { body: document } = await ask(dashboard, '/i/two/api/v1/openapi.json', { user });
    expect(document.servers).toEqual([{ url: '/i/two/api/v1' }]);
    expect((await ask(dashboard, '/api/v1/jobs', { user, init })).status).toBe(404);
  });

  test('of an installation that no list has are none; of one whose database is another, that is said', async () => {
    const { connectionString } = listed(1);
    const swapped = dashboardOf({ installations: [listed(0, { connectionString }), listed(2)] });
    const told = 'its database says number 2 (two)';
    expect((await ask(swapped, '/i/one/api/queues')).body).toMatchObject({
      error: { code: 'database', message: expect.stringContaining(told) },
    });
    expect((await ask(swapped, '/api/installations')).body.installations).toMatchObject([
      { error: expect.stringContaining(told) },
      { error: null },
    ]);
    await expect(swapped.check()).rejects.toMatchObject({
      code: 'configuration',
      message: expect.stringContaining(`installation one: the dashboard: ${told}`),
    });
    expect(await ask(swapped, '/i/four/api/queues')).toMatchObject({
      status: 404,
      body: { error: { message: 'there is no installation "four"' } },
    });
  });

  test('of a single installation show nothing of others', async () => {
    const { connectionString } = listed(0);
    const dashboard = createDashboard({ connectionString, auth: byHeader, databaseRoles: false });
    open.push(() => dashboard.close());
    for (const path of ['/api/installations', '/api/find/x'])
      expect((await ask(dashboard, path)).status).toBe(404);
  });
});

test('a check fails where none answers', async () => {
  const dashboard = dashboardOf({
    installations: several.installations.map((each) => ({ ...each, connectionString: nowhere })),
  });
  await expect(dashboard.check()).rejects.toThrow('ECONNREFUSED');
});

test.each([
  [{ installations: [] }, '1 to 1024 installations'],
  [{ connectionString: 'postgres://localhost/x' }, 'connectionString must be left out beside installations'],
])('%j is refused', (options, told) => {
  expect(() => dashboardOf(options)).toThrow(told);
});
