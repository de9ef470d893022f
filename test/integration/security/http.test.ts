// The health checks answer whoever can reach the port: what they say is no secret, and no request takes the process down.
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { createScheduler } from '@pgqueue/scheduler';
import type { Scheduler } from '@pgqueue/scheduler';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { useDatabase } from '../../support/database.ts';
import { hostileTexts, marker, named } from '../../support/hostile.ts';
import { until } from '../../support/until.ts';

const password = 'canary-http-31d7';
const role = `canary_http_${process.pid}`;
const own = useDatabase();
let scheduler: Scheduler;
const lost: unknown[] = [];
const onLost = (error: unknown): void => void lost.push(error);

beforeAll(async () => {
  process.on('uncaughtException', onLost);
  // of its own, since this server may want passwords
  await asAdmin(`create role ${role} superuser login password '${password}'`);
  const url = new URL(own.url);
  [url.username, url.password] = [role, password];
  const health = { port: 0, host: '127.0.0.1' };
  scheduler = createScheduler({ connectionString: url.href, name: `s ${password}`, health });
  await scheduler.start();
});
afterAll(async () => {
  process.off('uncaughtException', onLost);
  await scheduler.stop();
  await asAdmin(`drop role ${role}`);
});

async function asAdmin(statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: own.url });
  await client.connect();
  await client.query(statement);
  await client.end();
}

/** Unlike `once`, whatever the socket has met before. */
function closing(socket: Socket): Promise<void> {
  return socket.closed
    ? Promise.resolve()
    : new Promise((resolve) => void socket.once('close', () => resolve()));
}

/** Everything that a server answers to these bytes, until it closes. */
async function ask(bytes: string | Buffer): Promise<string> {
  const socket = connect(scheduler.healthPort ?? 0, '127.0.0.1');
  let answer = '';
  socket.setEncoding('utf8').on('data', (text: string) => (answer += text));
  socket.on('error', () => {}); // a server that has heard enough closes while it is still being written to
  socket.setTimeout(10_000, () => socket.destroy());
  const closed = closing(socket);
  socket.end(bytes);
  await closed;
  return answer;
}

const head = (answer: string): string => /^HTTP\/1\.1 (\d+)/.exec(answer)?.[1] ?? 'closed';

test('a request that is one is answered, without a word about where or who', async () => {
  await until(
    'it to be ready',
    async () => head(await ask('GET /ready HTTP/1.1\r\nhost: a\r\n\r\n')) === '200',
  );
  for (const path of ['/live', '/ready', '/live?x=1', '/', '/metric']) {
    const answer = await ask(`GET ${path} HTTP/1.1\r\nhost: a\r\n\r\n`);
    expect(head(answer)).toBe(/live|ready/.test(path) ? '200' : '404');
    expect(answer).not.toMatch(/postgres|canary|127\.0\.0\.1|x-powered-by|server:/i);
  }
  const metrics = await fetch(`http://127.0.0.1:${scheduler.healthPort}/metrics`);
  const told = JSON.stringify([...metrics.headers]) + (await metrics.text());
  expect(metrics.status).toBe(200);
  expect(told).not.toMatch(/postgres:|canary|127\.0\.0\.1|x-powered-by|server:/i);
  expect(head(await ask('POST /metrics HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n'))).toBe('405');
  expect(head(await ask('POST /live HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n'))).toBe('405');
  expect(head(await ask(`POST /live HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n${marker}`))).toBe('405');
});

const requests: readonly (string | Buffer)[] = [
  ...hostileTexts,
  ...hostileTexts.map((text) => `GET /${text} HTTP/1.1\r\nhost: a\r\n\r\n`),
  ...hostileTexts.map(
    (text) => `GET /${encodeURIComponent(text.toWellFormed())} HTTP/1.1\r\nhost: a\r\n\r\n`,
  ),
  ...hostileTexts.map((text) => `GET /live HTTP/1.1\r\nhost: ${text}\r\nx-${text}: ${text}\r\n\r\n`),
  'GET http://[::1/live HTTP/1.1\r\nhost: a\r\n\r\n',
  'GET //evil.example/live HTTP/1.1\r\nhost: a\r\n\r\n',
  'GET /live HTTP/9.9\r\n\r\n',
  'CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n',
  'GET /live HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n',
  'GET /live HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\n\r\n',
  'POST /live HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ncontent-length: 4\r\n\r\nffffffff\r\n',
  `GET /live HTTP/1.1\r\n${'a: b\r\n'.repeat(100_000)}\r\n`,
  Buffer.alloc(1_000_000, 0),
  Buffer.from('1603010200010001fc0303', 'hex'),
];

test('any bytes at all are answered, or the connection is closed', async () => {
  const odd: string[] = [];
  for (const request of requests) {
    const answer = await ask(request);
    const status = head(answer);
    if (!/^(?:closed|100|200|4\d\d)$/.test(status)) odd.push(`${status} to ${named(String(request))}`);
    if (answer.includes(marker)) odd.push(`an echo of ${named(String(request))}`);
  }
  expect(odd).toEqual([]);
  expect(lost).toEqual([]);
  expect(head(await ask('GET /live HTTP/1.1\r\nhost: a\r\n\r\n'))).toBe('200');
});

test('requests that never end do not keep others out, nor the process', async () => {
  const slow = Array.from({ length: 100 }, () => connect(scheduler.healthPort ?? 0, '127.0.0.1'));
  for (const socket of slow) socket.on('error', () => {}).write('GET /live HTTP/1.1\r\nx:');
  expect(head(await ask('GET /live HTTP/1.1\r\nhost: a\r\n\r\n'))).toBe('200');
  await scheduler.stop();
  await Promise.all(slow.map(closing));
  expect(scheduler.leads).toBe(false);
});
