import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { getRequestListener } from '@hono/node-server';
import { PgQueueError } from '@pgqueue/core';
import type { Dashboard } from './dashboard.ts';
import { isLoopbackAddress, isLoopbackName } from './guard/remote.ts';

/** Request handler for Node's HTTP server and frameworks built on it, such as Express and Fastify. */
export type NodeHandler = (request: IncomingMessage, response: ServerResponse) => void;

/**
 * Converts a dashboard to a handler for Node's HTTP server. Nothing may read the request's body before it.
 */
export function toNodeHandler(dashboard: Dashboard): NodeHandler {
  const listener = getRequestListener(
    (request, env) => dashboard.fetch(request, { remoteAddress: env.incoming.socket?.remoteAddress }),
    { overrideGlobalObjects: false },
  );
  return (request, response) => void listener(request, response);
}

/** Address to listen on. */
export interface ServeOptions {
  /** 0: any free port. Default 3456. */
  readonly port?: number;
  /** Default `127.0.0.1`. Addresses other than loopback need an auth hook. */
  readonly host?: string;
}

/** A dashboard with its own HTTP server. */
export interface DashboardServer {
  /** Address, such as `http://127.0.0.1:3456/`. */
  readonly url: string;
  readonly port: number;
  /** Stops listening and closes the dashboard. */
  readonly close: () => Promise<void>;
}

/**
 * Serves a dashboard on its own HTTP server.
 *
 * @throws {PgQueueError} `configuration`: the address is not loopback and there is no auth hook, or it cannot
 * be listened on
 */
export async function serveDashboard(
  dashboard: Dashboard,
  { port = 3456, host = '127.0.0.1' }: ServeOptions = {},
): Promise<DashboardServer> {
  if (!dashboard.hasAuth && !isLoopbackName(host) && !isLoopbackAddress(host)) {
    throw new PgQueueError(
      'configuration',
      `the dashboard: host ${JSON.stringify(host)} is not loopback, and whoever reaches it could do everything: give it the option "auth"`,
    );
  }
  const server = createServer(toNodeHandler(dashboard));
  server.requestTimeout = 30_000;
  server.headersTimeout = 15_000;
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new PgQueueError('configuration', `the dashboard: ${host}:${port} can't be listened on: ${why}`, {
      cause: error,
    });
  }
  server.on('error', () => {}); // errors of single connections
  const { port: bound } = server.address() as AddressInfo;
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${bound}${dashboard.basePath}/`,
    port: bound,
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      await dashboard.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
