import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { packAll, run } from '../packed/tarballs.ts';
import { useDatabase } from '../support/database.ts';
import { until } from '../support/until.ts';
import { writeProject } from './project.ts';

const folder = mkdtempSync(join(tmpdir(), 'pgqueue-next-'));
const project = join(folder, 'project');
const operator = { authorization: 'Bearer s3cret-of-otto' };

const database = useDatabase();
let server: ChildProcess;
let url: string;

beforeAll(async () => {
  writeProject(project, await packAll(folder));
  await run('npm', ['install', '--no-audit', '--no-fund', '--prefer-offline', '--loglevel=error'], project);
  const env = { DATABASE_URL: database.url, NEXT_TELEMETRY_DISABLED: '1', NODE_ENV: 'production' };
  await run('node_modules/.bin/next', ['build'], project, env);
  const port = await freePort();
  const next = join(project, 'node_modules/next/dist/bin/next');
  server = spawn(process.execPath, [next, 'start', '--hostname', '127.0.0.1', '--port', String(port)], {
    cwd: project,
    env: { ...process.env, ...env },
    stdio: 'inherit',
  });
  url = `http://127.0.0.1:${port}`;
  await until(
    'Next to answer',
    () =>
      fetch(url).then(
        ({ ok }) => ok,
        () => false,
      ),
    60_000,
  );
}, 900_000);

afterAll(async () => {
  if (server?.exitCode === null) {
    server.kill();
    await once(server, 'exit');
  }
  rmSync(folder, { recursive: true, force: true });
});

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  return port;
}

describe('the guide’s route handler in a Next application that is built and started', () => {
  test('asks who it is', async () => {
    expect((await fetch(`${url}/admin/queue/api/queues`)).status).toBe(401);
    expect((await fetch(`${url}/admin/queue`)).status).toBe(401);
  });

  test('answers with the page, under its policy, and with what the page is made of', async () => {
    const response = await fetch(`${url}/admin/queue`, { headers: operator });
    expect(response.headers.get('content-type')).toContain('text/html');
    expect(response.headers.get('content-security-policy')).toContain("script-src 'self'");
    const html = await response.text();
    const base = new URL(/<base href="([^"]+)"/.exec(html)?.[1] ?? '', `${url}/admin/queue`);
    const script = await fetch(new URL(/<script[^>]* src="([^"]+)"/.exec(html)?.[1] ?? '', base), {
      headers: operator,
    });
    expect(script.status).toBe(200);
    expect(script.headers.get('content-type')).toContain('javascript');
    expect((await script.text()).length).toBeGreaterThan(100_000);
  });

  test('tells, and does', async () => {
    const api = `${url}/admin/queue/api`;
    const session = await fetch(`${api}/session`, { headers: operator });
    const { csrf } = (await session.json()) as { readonly csrf: string };
    const cookie = session.headers.get('set-cookie')?.split(';')[0] ?? '';
    const act = (headers: Readonly<Record<string, string>>): Promise<Response> =>
      fetch(`${api}/actions/queue`, {
        method: 'POST',
        headers: { ...operator, 'content-type': 'application/json', ...headers },
        body: JSON.stringify({ queue: 'mail', settings: { paused: true } }),
      });
    expect((await act({})).status).toBe(403);
    expect((await act({ origin: url, cookie, 'x-pgqueue-csrf': csrf })).status).toBe(200);
    const queues = await fetch(`${api}/queues`, { headers: operator });
    expect(await queues.json()).toMatchObject({ queues: [{ queue: 'mail', settings: { paused: true } }] });
  });

  test('sends events as they come', async () => {
    const leaving = new AbortController();
    const { body } = await fetch(`${url}/admin/queue/api/live`, {
      headers: operator,
      signal: leaving.signal,
    });
    const reader = body?.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    while (!text.includes('event: snapshot')) {
      const part = await reader?.read();
      if (part?.done !== false) break;
      text += part.value;
    }
    expect(text).toContain('event: snapshot');
    leaving.abort();
  });
});

test('an application that bundles pgqueue builds, runs a queue, and is told what the bundle can not do', async () => {
  const response = await fetch(`${url}/hello`, { method: 'POST' });
  expect(await response.json()).toEqual({ result: 4, apart: 'configuration' });
});
