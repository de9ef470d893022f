import type { TaskHandler } from '@pgqueue/core';
import { defineTask, fairShare, implement, policy } from '@pgqueue/core';
import type { DashboardServer } from '@pgqueue/dashboard';
import { createDashboard, serveDashboard } from '@pgqueue/dashboard';
import type { Database, Operator } from '@pgqueue/postgres';
import { createOperator } from '@pgqueue/postgres';
import { openDatabase } from '@pgqueue/postgres/internal';
import type { Producer } from '@pgqueue/producer';
import { createProducer } from '@pgqueue/producer';
import { createScheduler } from '@pgqueue/scheduler';
import { createWorker } from '@pgqueue/worker';
import type { Browser, BrowserContextOptions } from 'playwright-core';
import { z } from 'zod';
import { ensureWeb } from '../../scripts/build-web.mjs';
import { launch, watch } from './chrome.ts';
import type { Watched } from './chrome.ts';

/** The viewer's role in these tests: the auth hook trusts a header. */
export type Viewer = 'viewer' | 'operator';

export interface Visit extends Watched {
  readonly close: () => Promise<void>;
}

/** A dashboard over a real database, with a scheduler and workers; and a browser to look at it. */
export interface Stage {
  readonly browser: Browser;
  readonly server: DashboardServer;
  readonly database: Database;
  readonly operator: Operator;
  readonly producer: Producer;
  readonly tasks: typeof tasks;
  readonly sql: (text: string, values?: readonly unknown[]) => Promise<readonly Record<string, unknown>[]>;
  /** Opens a new page in that role, at a path or a full address, and records the faults on it. */
  readonly visit: (path: string, as?: Viewer, options?: BrowserContextOptions) => Promise<Visit>;
  /** Ends the handlers of `steps` that run now. */
  readonly release: () => void;
  readonly close: () => Promise<void>;
}

const tenant = z.object({ tenant: z.string() });
const tasks = {
  hello: defineTask({ name: 'hello', payload: tenant, key: (job) => job.tenant }),
  steps: defineTask({ name: 'steps', payload: tenant, key: (job) => job.tenant, timeout: '10m' }),
  fails: defineTask({ name: 'fails', payload: tenant, key: (job) => job.tenant, retry: { maxTries: 1 } }),
} as const;

interface Gate {
  readonly handlers: readonly TaskHandler[];
  readonly release: () => void;
}

/** Handlers of three tasks: one ends at once, one always fails, one runs until it is released. */
function handlersWithGate(): Gate {
  const open = new Set<() => void>();
  return {
    release: () => {
      for (const resolve of open) resolve();
      open.clear();
    },
    handlers: [
      implement(tasks.hello, ({ tenant }) => Promise.resolve({ greeted: tenant })),
      implement(tasks.fails, () => Promise.reject(new RangeError('endpoint 4711 refused "hello" after 3 s'))),
      implement(tasks.steps, async (_, ctx) => {
        await ctx.progress({ step: 3, of: 10 });
        await new Promise<void>((resolve) => {
          open.add(resolve);
          ctx.signal.addEventListener('abort', () => resolve(), { once: true });
        });
      }),
    ],
  };
}

/** Opens a stage over a migrated, empty database. Closing the stage does not drop the database. */
export async function openStage(connectionString: string, port: number = 0): Promise<Stage> {
  await ensureWeb();
  const database = openDatabase({ connectionString, connectionsMax: 4 });
  const operator = createOperator({ connectionString });
  const producer = createProducer({ connectionString });
  const { handlers, release } = handlersWithGate();
  // with credit every share that ever had jobs is remembered, so the page of policies always shows some
  const order = fairShare({ idleCredit: 1 });
  const scheduler = createScheduler({ connectionString, policy: policy({ order }) });
  const worker = createWorker({ connectionString, tasks: handlers, node: 'worker-1', concurrency: 8 });
  const dashboard = createDashboard({
    connectionString,
    databaseRoles: false,
    // these tests are not about statements that time out on a busy machine
    statementTimeoutMs: 60_000,
    concurrency: 32,
    auth: ({ headers }) => ({
      name: headers.get('x-test-name') ?? 'ada',
      role: headers.get('x-test-role') === 'viewer' ? 'viewer' : 'operator',
    }),
  });
  const server = await serveDashboard(dashboard, { port });
  const [browser] = await Promise.all([launch(), scheduler.start(), worker.start()]);
  return {
    browser,
    server,
    database,
    operator,
    producer,
    tasks,
    release,
    sql: (text, values = []) => database.query(text, values),
    visit: async (path, as = 'operator', options = {}) => {
      const context = await browser.newContext({
        viewport: { width: 1280, height: 800 },
        reducedMotion: 'reduce', // otherwise fade-ins would take half of the time of a click
        extraHTTPHeaders: { 'x-test-role': as },
        ...options,
      });
      context.setDefaultTimeout(120_000);
      const address = new URL(path, server.url);
      const watched = await watch(context, address.origin);
      await watched.page.goto(address.href, { waitUntil: 'domcontentloaded' });
      return { ...watched, close: () => context.close() };
    },
    close: async () => {
      release();
      await browser.close();
      await server.close();
      await Promise.all([worker.stop({ drainMs: 0 }), scheduler.stop(), producer.close(), operator.close()]);
      await database.close();
    },
  };
}
