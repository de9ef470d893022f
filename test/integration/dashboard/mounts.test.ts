import { once } from 'node:events';
import type { Server } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { serve } from '@hono/node-server';
import { createDashboard, serveDashboard, toNodeHandler } from '@pgqueue/dashboard';
import type { Dashboard, Queues, Session } from '@pgqueue/dashboard';
import express from 'express';
import fastify from 'fastify';
import { Hono } from 'hono';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { DashboardBench } from './support.ts';
import { byHeader, openDashboardBench } from './support.ts';

let bench: DashboardBench;

beforeAll(async () => {
  bench = await openDashboardBench('dashboard_mounts_test');
});
afterAll(() => bench.close());

const user = { 'x-user': 'otto:operator' };

interface Mounted {
  readonly url: string;
  readonly close: () => Promise<void>;
}

async function listening(server: Server): Promise<Mounted> {
  if (!server.listening) await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

const frameworks: Readonly<Record<string, (dashboard: Dashboard) => Promise<Mounted>>> = {
  'Express, which takes the path off': async (dashboard) => {
    const app = express();
    app.use(dashboard.basePath, toNodeHandler(dashboard));
    app.get('/', (_, response) => void response.send('the app'));
    return listening(app.listen(0, '127.0.0.1'));
  },
  'Express behind a router': async (dashboard) => {
    const app = express();
    const router = express.Router();
    router.use('/queue', toNodeHandler(dashboard));
    app.use('/admin', router);
    return listening(app.listen(0, '127.0.0.1'));
  },
  'Fastify, which keeps it': async (dashboard) => {
    // events are open for as long as somebody looks
    const app = fastify({ forceCloseConnections: true });
    const handle = toNodeHandler(dashboard);
    await app.register((queue, _, registered) => {
      // before a body would be read: that is the dashboard's to do
      queue.addHook('onRequest', (request, reply, next) => {
        reply.hijack();
        handle(request.raw, reply.raw);
        next();
      });
      queue.all(`${dashboard.basePath}/*`, () => {});
      registered();
    });
    const url = await app.listen({ port: 0, host: '127.0.0.1' });
    return { url, close: () => app.close() };
  },
  Hono: async (dashboard) => {
    const app = new Hono();
    app.all(`${dashboard.basePath}/*`, (c) => dashboard.fetch(c.req.raw, c.env));
    return listening(serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }) as Server);
  },
  'Hono, mounted': async (dashboard) => {
    const app = new Hono();
    app.mount(dashboard.basePath, (request: Request, env: object) => dashboard.fetch(request, env));
    return listening(serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }) as Server);
  },
  // what Next's app router does with app/admin/queue/[[...path]]/route.ts: one function a method, called with a web request
  'the contract of route handlers in Next': async (dashboard) => {
    const handler = (request: Request, _context: { readonly params: Promise<object> }): Promise<Response> =>
      dashboard.fetch(request);
    const route: Readonly<Record<string, typeof handler>> = { GET: handler, HEAD: handler, POST: handler };
    const app = new Hono();
    app.all('*', (c) => {
      const handle = route[c.req.method];
      if (handle === undefined) return new Response(null, { status: 405 });
      return handle(c.req.raw, { params: Promise.resolve({ path: [] }) });
    });
    return listening(serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }) as Server);
  },
};

async function firstEvent(url: string): Promise<string> {
  const leaving = new AbortController();
  const response = await fetch(url, { headers: user, signal: leaving.signal });
  const reader = response.body?.getReader();
  if (reader === undefined) throw new Error('no body');
  let text = '';
  while (!text.includes('event: snapshot')) {
    const { value, done } = await reader.read();
    if (done) break;
    text += new TextDecoder().decode(value);
  }
  leaving.abort();
  return text;
}

describe.each(Object.entries(frameworks))('mounted in %s', (_, mount) => {
  test('pages, actions and events work', async () => {
    const dashboard = createDashboard({
      connectionString: bench.url,
      schema: bench.schema,
      basePath: '/admin/queue',
      auth: byHeader,
      liveEveryMs: 200,
    });
    const { url, close } = await mount(dashboard);
    const base = `${url}/admin/queue`;
    const session = await fetch(`${base}/api/session`, { headers: user });
    const { csrf, actor } = (await session.json()) as Session;
    expect(actor).toEqual({ name: 'otto', role: 'operator' });
    const cookie = session.headers.get('set-cookie')?.split(';')[0] ?? '';
    expect(session.headers.get('set-cookie')).toContain('Path=/admin/queue;');
    const headers = {
      ...user,
      cookie,
      'x-pgqueue-csrf': csrf,
      origin: url,
      'content-type': 'application/json',
    };
    const settings = { concurrency: 3, paused: true };
    const done = await fetch(`${base}/api/actions/queue`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ queue: 'mail', settings }),
    });
    expect([done.status, await done.json()]).toEqual([
      200,
      expect.objectContaining({ undo: expect.any(Object) }),
    ]);
    const { queues } = (await (await fetch(`${base}/api/queues`, { headers: user })).json()) as Queues;
    expect(queues.find(({ queue }) => queue === 'mail')?.settings).toMatchObject(settings);
    expect((await fetch(`${base}/api/queues`)).status).toBe(401);
    expect(await firstEvent(`${base}/api/live`)).toContain('event: snapshot');
    await dashboard.close();
    await close();
  });
});

describe('on its own', () => {
  test('it says where, and answers this machine without an auth hook', async () => {
    const dashboard = createDashboard({ connectionString: bench.url, schema: bench.schema });
    const server = await serveDashboard(dashboard, { port: 0 });
    expect(server.url).toBe(`http://127.0.0.1:${server.port}/`);
    const session = (await (await fetch(`${server.url}api/session`)).json()) as Session;
    expect(session.actor).toEqual({ name: 'local', role: 'operator' });
    await expect(serveDashboard(dashboard, { port: server.port })).rejects.toMatchObject({
      code: 'configuration',
    });
    await server.close();
  });

  test('a pool that was given stays open, and its roles are its own', async () => {
    const { pool } = bench.database;
    const dashboard = createDashboard({ pool, schema: bench.schema, auth: byHeader });
    const handler = createServer(toNodeHandler(dashboard)).listen(0, '127.0.0.1');
    const { url, close } = await listening(handler);
    expect((await fetch(`${url}/api/queues`, { headers: { 'x-user': 'vera:viewer' } })).status).toBe(200);
    await close();
    await dashboard.close();
    const users = await Promise.all(
      Array.from(
        { length: 4 },
        async () => (await pool.query<{ name: string }>('select current_user as name')).rows[0]?.name,
      ),
    );
    expect(new Set(users)).toEqual(new Set(['postgres']));
  });
});
