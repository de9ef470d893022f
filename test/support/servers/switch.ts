// The address that applications know: it leads to whichever server is the primary.
import { once } from 'node:events';
import type { AddressInfo, Socket } from 'node:net';
import { connect, createServer } from 'node:net';

export interface Switch {
  /** The same database, whoever serves it. */
  readonly url: string;
  /** Leads to another port of this machine, or nowhere; what is connected is cut off. */
  readonly point: (port: number | undefined) => void;
  /** Cuts what is connected; new connections go on. */
  readonly cut: () => void;
  readonly close: () => Promise<void>;
}

/** As a load balancer does that asks the servers who is the primary. `url`: of any of them. */
export async function startSwitch(url: string): Promise<Switch> {
  const given = new URL(url);
  let target: number | undefined = Number(given.port);
  const open = new Set<Socket>();
  const server = createServer((client) => {
    if (target === undefined) {
      client.resetAndDestroy();
      return;
    }
    const upstream = connect(target, '127.0.0.1');
    for (const socket of [client, upstream]) {
      open.add(socket);
      socket.on('error', () => {}); // the other end went away: that is what this is for
      socket.on('close', () => {
        open.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
    client.pipe(upstream);
    upstream.pipe(client);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  given.port = String((server.address() as AddressInfo).port);
  const cut = (): void => {
    for (const socket of open) socket.destroy();
  };
  return {
    url: given.href,
    cut,
    point: (port) => {
      target = port;
      cut();
    },
    close: async () => {
      cut();
      server.close();
      await once(server, 'close');
    },
  };
}
