import { PgQueueError } from '@pgqueue/core';
import { openDatabase } from '@pgqueue/postgres';
import { createBulkRuns } from './actions/bulk.ts';
import { createUndoStore } from './actions/undo.ts';
import { createApp } from './app.ts';
import { openOffice, shares } from './desk.ts';
import { createCsrf } from './guard/csrf.ts';
import { createTurnstile } from './guard/turnstile.ts';
import { createAnswers } from './live/answers.ts';
import type { Hub } from './live/hub.ts';
import { createHub } from './live/hub.ts';
import { startPoller } from './live/poller.ts';
import type { DashboardOptions } from './options.ts';
import { settle } from './options.ts';
import { Problem } from './problem.ts';
import { builtFolder, createStaticFiles } from './static-files.ts';

/** A dashboard, to be mounted. */
export interface Dashboard {
  /**
   * Answers one request: pages, their data, events. What is thrown becomes an answer. `env` says where the request comes from, where
   * there is no auth hook: `{ remoteAddress }`, or what Hono's server for Node gives (`c.env`); anything else says nothing.
   */
  readonly fetch: (request: Request, env?: unknown) => Promise<Response>;
  /**
   * Connects, and looks whether what it needs is there: useful before listening, since else the first requests say so.
   * @throws {PgQueueError} `schema_version`, `configuration`
   */
  readonly check: () => Promise<void>;
  /** Where it is mounted, without a slash at its end. */
  readonly basePath: string;
  /** Whether it answers others than this machine. */
  readonly hasAuth: boolean;
  /** Ends events and bulk actions, the latter after the chunk that they are at, and its connections. A pool that was given stays open. */
  readonly close: () => Promise<void>;
}

const connectionsMax = 6;
const waitingMax = 64;
const waitMs = 10_000;
const answersPace = { leastMs: 1_000, mostMs: 20_000, share: shares.page } as const;

/**
 * A dashboard as a handler of web-standard requests. Connects with the first of them. Reads are bounded each: none walks over a whole
 * table. @throws {PgQueueError} `configuration`, with all problems at once
 */
export function createDashboard(options: DashboardOptions): Dashboard {
  const settings = settle(options);
  const { connectionString, pool, schema } = options;
  const database = openDatabase({
    applicationName: 'pgqueue dashboard',
    ...(connectionString === undefined ? {} : { connectionString }),
    ...(pool === undefined ? {} : { pool }),
    ...(schema === undefined ? {} : { schema }),
    connectionsMax,
    queryTimeoutMs: 90_000,
    onError: () => {},
  });
  const office = openOffice(database, settings);
  const hub = createHub();
  const undo = createUndoStore();
  const answers = createAnswers(answersPace);
  const send: Hub['send'] = (event) => {
    answers.forget(); // whoever hears of it asks anew
    hub.send(event);
  };
  const bulk = createBulkRuns({ settings, undo, tell: (run) => send({ event: 'bulk', data: run }) });
  const poller = startPoller(office, hub);
  const app = createApp({
    office,
    csrf: createCsrf({ secret: settings.csrfSecret, path: settings.basePath }),
    turnstile: createTurnstile({ atOnce: settings.concurrency, waitingMax, waitMs }),
    slowly: createTurnstile({ atOnce: 1, waitingMax: 4, waitMs }),
    hub: { ...hub, send },
    answers,
    undo,
    bulk,
    files: createStaticFiles(builtFolder(), settings.basePath),
  });
  let closed: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    await Promise.all([poller.stop(), bulk.close()]);
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

/** Sockets have what they say on their prototypes: this takes it as it is. */
function asRecord(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
}
