import { PgQueueError } from '@pgqueue/core';
import type { DatabaseOptions } from '@pgqueue/postgres';
import { openDatabase } from '@pgqueue/postgres/internal';
import { createBulkRuns } from './actions/bulk.ts';
import { createUndoStore } from './actions/undo.ts';
import { openApiProducer } from './api/producer.ts';
import { createApp } from './app.ts';
import type { Office } from './desk.ts';
import { openOffice, shares } from './desk.ts';
import { createCsrf } from './guard/csrf.ts';
import type { RemoteInfo } from './guard/remote.ts';
import type { Turnstile } from './guard/turnstile.ts';
import { createTurnstile } from './guard/turnstile.ts';
import { createAnswers } from './live/answers.ts';
import type { Hub } from './live/hub.ts';
import { createHub } from './live/hub.ts';
import { startPoller } from './live/poller.ts';
import type { Settings } from './options.ts';
import { Problem } from './problem.ts';
import { builtFolder, createStaticFiles } from './static-files.ts';

/** Pages, API and actions of one installation. */
export interface Site {
  readonly office: Office;
  readonly fetch: (request: Request, remote: RemoteInfo) => Promise<Response>;
  /** Connects and checks schema, roles and identity. @throws {PgQueueError} `schema_version`, `configuration` */
  readonly check: () => Promise<void>;
  readonly close: () => Promise<void>;
}

const connectionsMax = 6;
/** Requests that wait for others, and how long. */
export const limits = { waitingMax: 64, waitMs: 10_000 } as const;
/** Large bodies of the HTTP API that are held in memory at a time, of up to 8 MiB each. */
const bodiesMax = 16;
const answersPace = { leastMs: 1_000, mostMs: 20_000, share: shares.page } as const;

/** Opens the site of one installation. It connects on the first request. */
export function openSite(
  settings: Settings,
  { connectionString, pool, schema }: Pick<DatabaseOptions, 'connectionString' | 'pool' | 'schema'>,
): Site {
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
  const turnstile = (atOnce: number): Turnstile => createTurnstile({ ...limits, atOnce });
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
    slowly: createTurnstile({ ...limits, atOnce: 1, waitingMax: 4 }),
    hub: { ...hub, send },
    answers,
    undo,
    bulk,
    files: createStaticFiles(builtFolder(), settings),
  });
  let closed: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    await Promise.all([poller.stop(), bulk.close(), producer?.close()]);
    await database.close();
  };
  return {
    office,
    fetch: async (request, remote) => app.fetch(request, remote),
    check: async () => {
      try {
        await office.ready();
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        throw new PgQueueError('configuration', `the dashboard: ${error.message}`, { cause: error });
      }
    },
    close: () => (closed ??= close()),
  };
}
