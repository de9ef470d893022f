import { PgQueueError } from '@pgqueue/core';
import { openDatabase } from '@pgqueue/postgres/internal';
import { createBulkRuns } from './actions/bulk.ts';
import { createUndoStore } from './actions/undo.ts';
import { openApiProducer } from './api/producer.ts';
import { createApp } from './app.ts';
import { openOffice, shares } from './desk.ts';
import { createCsrf } from './guard/csrf.ts';
import type { Turnstile } from './guard/turnstile.ts';
import { createTurnstile } from './guard/turnstile.ts';
import { createAnswers } from './live/answers.ts';
import type { Hub } from './live/hub.ts';
import { createHub } from './live/hub.ts';
import { startPoller } from './live/poller.ts';
import type { DashboardOptions } from './options.ts';
import { settle } from './options.ts';
import { Problem } from './problem.ts';
import { builtFolder, createStaticFiles } from './static-files.ts';

/** A dashboard, to be mounted in an HTTP server. */
export interface Dashboard {
  /**
   * Answers one request for a page, data or events. Errors become answers. Without an auth hook, `env` must
   * say where the request comes from: `{ remoteAddress }`, or what Hono's server for Node provides (`c.env`).
   * Anything else is ignored.
   */
  readonly fetch: (request: Request, env?: unknown) => Promise<Response>;
  /**
   * Connects and checks schema and roles. Call it before listening, or the first requests report problems.
   *
   * @throws {PgQueueError} `schema_version`, `configuration`
   */
  readonly check: () => Promise<void>;
  /** Path the dashboard is mounted at, without a slash at the end. */
  readonly basePath: string;
  /** An auth hook is set, so that the dashboard answers other machines, too. */
  readonly hasAuth: boolean;
  /**
   * Ends event streams, stops bulk actions after their current chunk, and closes connections. A pool that was
   * passed in stays open.
   */
  readonly close: () => Promise<void>;
}

const connectionsMax = 6;
const waitingMax = 64;
const waitMs = 10_000;
/** Bodies of the HTTP API that are held in memory at a time, of up to 8 MiB each. */
const bodiesMax = 16;
const answersPace = { leastMs: 1_000, mostMs: 20_000, share: shares.page } as const;

/**
 * Creates a dashboard as a handler of web-standard requests. It connects on the first request. Every read is
 * bounded: none scans a whole table.
 *
 * @throws {PgQueueError} `configuration`, with all problems at once
 */
export function createDashboard(options: DashboardOptions): Dashboard {
  const settings = settle(options);
  const { connectionString, pool, schema } = options;
  const database = openDatabase({
    applicationName: 'pgqueue dashboard',
    ...(connectionString === undefined ? {} : { connectionString }),
    ...(pool === undefined ? {} : { pool }),
    ...(schema === undefined ? {} : { schema }),
    connectionsMax: connectionsMax + (settings.api === undefined ? 0 : settings.concurrency),
    queryTimeoutMs: 90_000,
    onError: () => {},
  });
  const office = openOffice(database, settings);
  const hub = createHub();
  const undo = createUndoStore();
  const answers = createAnswers(answersPace);
  const send: Hub['send'] = (event) => {
    answers.forget(); // clients that receive the event read again
    hub.send(event);
  };
  const bulk = createBulkRuns({ settings, undo, tell: (run) => send({ event: 'bulk', data: run }) });
  const poller = startPoller(office, hub);
  const turnstile = (atOnce: number): Turnstile => createTurnstile({ atOnce, waitingMax, waitMs });
  const producer = openApiProducer(database, office, connectionString);
  const app = createApp({
    office,
    csrf: createCsrf({ secret: settings.csrfSecret, path: settings.basePath }),
    turnstile: turnstile(settings.concurrency),
    api: producer && {
      office,
      producer,
      reading: turnstile(bodiesMax),
      turnstile: turnstile(settings.concurrency),
    },
    slowly: createTurnstile({ atOnce: 1, waitingMax: 4, waitMs }),
    hub: { ...hub, send },
    answers,
    undo,
    bulk,
    files: createStaticFiles(builtFolder(), settings.basePath),
  });
  let closed: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    await Promise.all([poller.stop(), bulk.close(), producer?.close()]);
    await database.close();
  };
  return {
    fetch: async (request, env) => app.fetch(request, { remoteAddress: remoteIn(env) }),
    check: async () => {
      try {
        await office.ready();
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        throw new PgQueueError('configuration', `the dashboard: ${error.message}`, { cause: error });
      }
    },
    basePath: settings.basePath,
    hasAuth: settings.auth !== undefined,
    close: () => (closed ??= close()),
  };
}

function remoteIn(env: unknown): string | undefined {
  const { remoteAddress, incoming } = asRecord(env);
  const told = remoteAddress ?? asRecord(asRecord(incoming)['socket'])['remoteAddress'];
  return typeof told === 'string' ? told : undefined;
}

/** Returns an object unchanged, without copying: sockets have their properties on the prototype. */
function asRecord(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
}
