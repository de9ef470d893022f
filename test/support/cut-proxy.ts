import { once } from 'node:events';
import type { AddressInfo, Socket } from 'node:net';
import { connect, createServer } from 'node:net';

/** Stands between a client and PostgreSQL, and takes replies away. */
export interface CutProxy {
  readonly url: string;
  /** The next statement whose text contains `part` is delivered and executed; its connection breaks in place of the reply. */
  readonly cutReplyOf: (part: string) => void;
  /** How many replies were taken away. */
  readonly cuts: () => number;
  readonly close: () => Promise<void>;
}

export async function startCutProxy(databaseUrl: string): Promise<CutProxy> {
  const to = new URL(databaseUrl);
  const open = new Set<Socket>();
  let wanted: string | undefined;
  let cuts = 0;
  const server = createServer((client) => {
    const upstream = connect(Number(to.port === '' ? 5432 : to.port), to.hostname);
    let cutting = false;
    for (const socket of [client, upstream]) {
      open.add(socket);
      socket.on('error', () => {}); // the other end went away: that is what this is for
      socket.on('close', () => {
        open.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
    client.on('data', (data) => {
      if (wanted !== undefined && data.includes(wanted)) {
        wanted = undefined;
        cutting = true;
      }
      upstream.write(data);
    });
    upstream.on('data', (data) => {
      if (cutting) {
        cuts += 1;
        client.destroy();
      } else client.write(data);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = new URL(databaseUrl);
  url.hostname = '127.0.0.1';
  url.port = String((server.address() as AddressInfo).port);
  return {
    url: url.href,
    cutReplyOf: (part) => {
      wanted = part;
    },
    cuts: () => cuts,
    close: async () => {
      for (const socket of open) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
