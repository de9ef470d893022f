import { once } from 'node:events';
import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Shape } from '@pgqueue/core/internal';
import { PgQueueError } from '@pgqueue/core';
import { aFlag, aFunction, aNumber, aText, optional } from '@pgqueue/core/internal';

/**
 * Options of the HTTP server of a worker or scheduler that answers `GET /live`, `GET /ready` and `GET
 * /metrics`.
 */
export interface HealthOptions {
  /** 0 takes any free port. */
  readonly port: number;
  /** Default: all addresses. */
  readonly host?: string;
  /** Longest time without progress of a loop, in milliseconds; after it `/live` fails. Default 120000. */
  readonly stuckMs?: number;
  /**
   * Number of keys named in a scheduler's `/metrics`, those with the most jobs; the other keys are summed. 0
   * to 1000: each key is a few series. Default 10.
   */
  readonly keys?: number;
  /** Also answer `GET /metrics`. Default true. */
  readonly metrics?: boolean;
}

/** Options of a role whose checks the server of another answers: see `createJointHealth`. */
export interface JoiningHealth extends HealthOptions {
  readonly join?: (checks: HealthChecks) => void;
}

/** Rules for {@link HealthOptions}. */
export const healthShape: Shape<JoiningHealth> = {
  port: aNumber({ min: 0, max: 65_535, whole: true }),
  host: optional(aText()),
  stuckMs: optional(aNumber({ min: 100, max: 86_400_000 })),
  keys: optional(aNumber({ min: 0, max: 1_000, whole: true })),
  metrics: optional(aFlag),
  join: optional(aFunction),
};

/** Checks behind the paths. Each returns its problems in words; an empty list means healthy. */
export interface HealthChecks {
  /** Problems of the process: it should be restarted. */
  readonly live: () => readonly string[];
  /** Problems of its work at present. */
  readonly ready: () => readonly string[];
  /** Text of `GET /metrics`, in a format that Prometheus reads. */
  readonly metrics?: (() => Promise<{ readonly contentType: string; readonly text: string }>) | undefined;
}

/** A server of health checks. */
export interface HealthServer {
  readonly port: number;
  readonly close: () => Promise<void>;
}

/**
 * Serves health checks as JSON: status 200, or 503 with the problems. A process whose event loop is blocked
 * does not answer, so probes need a timeout.
 * @throws {PgQueueError} `configuration`: the port can't be listened on
 */
export async function serveHealth(
  { port, host, join }: JoiningHealth,
  checks: HealthChecks,
): Promise<HealthServer> {
  if (join !== undefined) {
    join(checks);
    return { port, close: () => Promise.resolve() };
  }
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
  server.on('error', () => {}); // errors of single connections: the prober sees them
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
      ...(status === 405 ? { allow: 'GET, HEAD' } : {}),
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

/** Describes the loops that have made no progress for longer than `stuckMs`, by their names. */
export function stuckLoops(
  loops: Readonly<Record<string, { readonly stuckMs: () => number } | undefined>>,
  { stuckMs = 120_000 }: Partial<HealthOptions>,
): readonly string[] {
  return Object.entries(loops).flatMap(([name, loop]) => {
    const ms = loop?.stuckMs() ?? 0;
    return ms > stuckMs ? [`${name}: no progress for ${Math.round(ms)} ms`] : [];
  });
}
