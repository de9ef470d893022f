import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { connect, createServer } from 'node:net';
import { expect, test } from 'vitest';
import { startCutProxy } from '../support/cut-proxy.ts';
import { until } from '../support/until.ts';

test('however long each piece is delayed, and however late timers are, a connection keeps its order', async () => {
  let received = '';
  const server = createServer((socket) => {
    socket.on('data', (data) => (received += data.toString()));
    socket.on('error', () => {}); // the proxy ends it
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const proxy = await startCutProxy(`postgres://127.0.0.1:${(server.address() as AddressInfo).port}/x`);
  const client = connect(Number(new URL(proxy.url).port), '127.0.0.1');
  client.on('error', () => {});
  client.setNoDelay(true);
  await once(client, 'connect');
  let sent = '';
  for (let n = 0; n < 400; n += 1) {
    if (n % 40 === 0)
      proxy.delay(n % 80 === 0 ? () => ((n * 7) % 20) + ((sent.length * 0.37) % 1) : undefined);
    if (n % 150 === 100) proxy.hold('to-server');
    if (n % 150 === 130) proxy.hold(undefined);
    client.write(`${n} `);
    sent += `${n} `;
    await new Promise((resolve) => setImmediate(resolve));
    if (n % 50 === 25) block(15); // timers come late, in bulk
  }
  proxy.hold(undefined);
  await until('everything to arrive', () => received.length >= sent.length);
  expect(received).toBe(sent);
  await proxy.close();
  server.close();
});

function block(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}
