import { once } from 'node:events';
import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Shape } from '@pgqueue/core';
import { aFlag, aNumber, aText, optional, PgQueueError } from '@pgqueue/core';

/** Where a worker or scheduler answers `GET /live`, `GET /ready` and `GET /metrics`. */
export interface HealthOptions {
  /** 0: any that is free. */
  readonly port: number;
  /** Default: all addresses. */
  readonly host?: string;
  /** A loop that makes no progress for so long has died: `/live` fails. Default 120000. */
  readonly stuckMs?: number;
  /** So many keys are named in a scheduler's `/metrics`, those with the most jobs; the rest is summed. 0 to 1000: each is a few series. Default 10. */
  readonly keys?: number;
  /** Whether it answers `GET /metrics`. Default true. */
  readonly metrics?: boolean;
}

/** A rule for each of them. */
export const healthShape: Shape<HealthOptions> = {
  port: aNumber({ min: 0, max: 65_535, whole: true }),
  host: optional(aText()),
  stuckMs: optional(aNumber({ min: 100, max: 86_400_000 })),
  keys: optional(aNumber({ min: 0, max: 1_000, whole: true })),
  metrics: optional(aFlag),
};

/** What is wrong, in words; empty: nothing. */
export interface HealthChecks {
  /** Of the process: it should be started anew. */
  readonly live: () => readonly string[];
  /** Of its work at present. */
  readonly ready: () => readonly string[];
  /** What Prometheus gets. */
  readonly metrics?: (() => Promise<{ readonly contentType: string; readonly text: string }>) | undefined;
}

/** A server of health checks. */
export interface HealthServer {
  readonly port: number;
  readonly close: () => Promise<void>;
}

/**
 * Answers with 200, or 503 and what is wrong, as JSON. A process whose event loop is blocked does not answer: probes need a timeout.
 * @throws {PgQueueError} `configuration`: the port can't be listened on
 */
export async function serveHealth(
  { port, host }: HealthOptions,
  checks: HealthChecks,
): Promise<HealthServer> {
  const server = createServer((request, response) => answer(checks, request, response));
  server.requestTimeout = 5_000;
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new PgQueueError('configuration', `health: port ${port} can't be listened on: ${why}`, {
      cause: error,
    });
  }
  server.on('error', () => {}); // of single connections: the one that probes sees it
  return {
    port: (server.address() as AddressInfo).port,
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

function answer(checks: HealthChecks, { method, url = '' }: IncomingMessage, response: ServerResponse): void {
  const [path] = url.split('?');
  const check = path === '/live' ? checks.live : path === '/ready' ? checks.ready : undefined;
  const { metrics } = checks;
  if (path === '/metrics' && metrics !== undefined && (method === 'GET' || method === 'HEAD')) {
    void answerMetrics(metrics, { method, response });
    return;
  }
  const say = (status: number, body: object): void => {
    response.writeHead(status, {
      'content-type': 'application/json',
      'cache-control': 'no-store',
      connection: 'close',
    });
    response.end(method === 'HEAD' ? undefined : `${JSON.stringify(body)}\n`);
  };
  if (check === undefined && (path !== '/metrics' || metrics === undefined)) {
    const paths = ['/live', '/ready', ...(metrics === undefined ? [] : ['/metrics'])];
    return say(404, { status: 'unknown', paths });
  }
  if (method !== 'GET' && method !== 'HEAD') return say(405, { status: 'unknown', methods: ['GET', 'HEAD'] });
  const problems = check?.() ?? [];
  say(problems.length === 0 ? 200 : 503, { status: problems.length === 0 ? 'ok' : 'failing', problems });
}

async function answerMetrics(
  metrics: NonNullable<HealthChecks['metrics']>,
  { method, response }: { readonly method: string; readonly response: ServerResponse },
): Promise<void> {
  const headers = { 'cache-control': 'no-store', connection: 'close' };
  try {
    const { contentType, text } = await metrics();
    response.writeHead(200, { ...headers, 'content-type': contentType });
    response.end(method === 'HEAD' ? undefined : text);
  } catch {
    response.writeHead(500, headers);
    response.end();
  }
}

/** Of loops by their names, those that make no progress. */
export function stuckLoops(
  loops: Readonly<Record<string, { readonly stuckMs: () => number } | undefined>>,
  { stuckMs = 120_000 }: Partial<HealthOptions>,
): readonly string[] {
  return Object.entries(loops).flatMap(([name, loop]) => {
    const ms = loop?.stuckMs() ?? 0;
    return ms > stuckMs ? [`${name}: no progress for ${Math.round(ms)} ms`] : [];
  });
}
