import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { getRequestListener } from '@hono/node-server';
import { PgQueueError } from '@pgqueue/core';
import type { Dashboard } from './dashboard.ts';
import { isLoopbackAddress, isLoopbackName } from './guard/remote.ts';

/** A handler of Node's HTTP server, and so of whatever is made on it: Express, Fastify. */
export type NodeHandler = (request: IncomingMessage, response: ServerResponse) => void;

/** For frameworks that are made on Node's HTTP server. Nothing may have read the request's body before. */
export function toNodeHandler(dashboard: Dashboard): NodeHandler {
  const listener = getRequestListener(
    (request, env) => dashboard.fetch(request, { remoteAddress: env.incoming.socket?.remoteAddress }),
    { overrideGlobalObjects: false },
  );
  return (request, response) => void listener(request, response);
}

/** Where the dashboard listens. */
export interface ServeOptions {
  /** 0: any that is free. Default 3456. */
  readonly port?: number;
  /** Default `127.0.0.1`. Others than loopback want an auth hook. */
  readonly host?: string;
}

/** A dashboard that listens. */
export interface DashboardServer {
  /** Such as `http://127.0.0.1:3456/`. */
  readonly url: string;
  readonly port: number;
  /** Stops listening, and closes the dashboard. */
  readonly close: () => Promise<void>;
}

/**
 * A server of its own for a dashboard. @throws {PgQueueError} `configuration`: the address is not loopback and there is no auth hook,
 * or it can't be listened on
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
  server.on('error', () => {}); // of single connections
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
