// The tenants' endpoints: real HTTP on loopback, slow, and failing for some.
import { createServer } from 'node:http';
import type { IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { onStop, tell } from './messages.ts';
import type { ReceiverReport } from './messages.ts';
import { isSigned } from './signature.ts';

const failingShare = 0.05;
const times = new Map<string, number>();
let requests = 0;
let failures = 0;
let forged = 0;

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
}

async function answer(request: IncomingMessage): Promise<number> {
  const body = await bodyOf(request);
  requests += 1;
  if (!isSigned(body, request.headers['x-signature'] as string | undefined)) {
    forged += 1;
    return 401;
  }
  if (request.url === '/closed-shop') return 410;
  await delay(5 + Math.random() * 30);
  if (Math.random() < failingShare) {
    failures += 1;
    return 503;
  }
  const { event } = JSON.parse(body) as { readonly event: string };
  times.set(event, (times.get(event) ?? 0) + 1);
  return 204;
}

function report(): ReceiverReport {
  const duplicates = [...times.values()].filter((count) => count > 1).length;
  return { requests, accepted: times.size, duplicates, failures, forged };
}

const server = createServer((request, response) => {
  if (request.method === 'GET') {
    response.setHeader('content-type', 'application/json').end(JSON.stringify(report()));
    return;
  }
  void answer(request).then(
    (status) => response.writeHead(status).end(),
    () => response.destroy(),
  );
});

const host = process.env['DEMO_HOST'] ?? '127.0.0.1';
server.listen(Number(process.env['DEMO_PORT'] ?? 0), host, () => {
  tell({ kind: 'ready', detail: `http://${host}:${(server.address() as AddressInfo).port}` });
});

process.on('message', (request) => {
  if (request === 'report') tell({ kind: 'receiver', report: report() });
});

onStop(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});
