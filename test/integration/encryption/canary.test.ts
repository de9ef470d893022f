// A secret in payloads, results, checkpoints, progress, flows, signals and errors: with encryption on, everything that is stored,
// logged, measured, traced, answered or dumped is searched for it. Without encryption the same search finds it: so it looks in the right places.
import { spawnSync } from 'node:child_process';
import { context, propagation, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import type { Codec } from '@pgqueue/core';
import {
  defineTask,
  flow,
  giveUp,
  implement,
  implementBatch,
  isolated,
  logObserver,
  signal,
} from '@pgqueue/core';
import { createDashboard } from '@pgqueue/dashboard';
import { createOperator } from '@pgqueue/postgres';
import { createProducer } from '@pgqueue/producer';
import { createScheduler } from '@pgqueue/scheduler';
import { createWorker } from '@pgqueue/worker';
import pg from 'pg';
import { pino } from 'pino';
import sodium from 'sodium-native';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { createTestDatabase } from '../../support/database.ts';
import { codecOf } from '../../support/encryption/keys.ts';
import { until } from '../../support/until.ts';
import { browse, byHeader } from '../dashboard/support.ts';

const secret = 'canary-5e1c';
const spans = new InMemorySpanExporter();

beforeAll(() => {
  trace.setGlobalTracerProvider(
    new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter: spans })] }),
  );
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
});
afterAll(() => {
  for (const api of [trace, context, propagation]) api.disable();
});

const payload = z.object({ secret: z.string() });
const retry = { maxTries: 1 } as const;
const fine = defineTask({ name: 'fine', payload, retry: { base: 1, jitter: 0 } });
const fails = defineTask({ name: 'fails', payload, retry });
const strict = defineTask({ name: 'strict', payload: z.object({ secret: z.string() }), retry });
const floats = defineTask({ name: 'floats', payload, retry });
const late = defineTask({ name: 'late', payload, retry });
const bundled = defineTask({ name: 'bundled', payload, retry });
const apart = defineTask({ name: 'bursts-apart', payload, retry: { ...retry, maxCrashes: 1 } });
const waits = defineTask({ name: 'waits', payload });

const quoting = (): Error =>
  Object.assign(new TypeError(`said ${secret}`, { cause: new Error(secret) }), { code: 'E_QUOTES' });
const handlers = [
  implement(fine, async (given, ctx) => {
    const name = await ctx.step('step', () => given.secret);
    await ctx.checkpoint({ name });
    if (ctx.job.tries === 0) throw quoting();
    await ctx.progress({ at: given.secret });
    return { out: given.secret };
  }),
  implement(fails, () => giveUp(quoting())),
  implement(
    defineTask({
      name: 'strict',
      payload: z.custom<{ readonly secret: string }>(() => false, { error: `not ${secret}` }),
    }),
    () => {},
  ),
  implement(floats, async () => {
    void Promise.reject(quoting());
    await new Promise((resolve) => setImmediate(resolve));
  }),
  implement(late, async (given, ctx) => {
    await ctx.transaction(() => Promise.resolve(given.secret));
    throw quoting();
  }),
  implementBatch(bundled, () => {
    throw quoting();
  }),
  implement(apart, isolated(new URL('../../support/isolated/canary.ts', import.meta.url))),
  implement(waits, async (_, ctx) => ({
    all: await ctx.all('jobs', [fine.job({ secret })]),
    ok: await ctx.waitForSignal('ok', { timeout: '1h' }),
  })),
];

const paths = [
  'overview',
  'keys',
  'queues',
  'jobs',
  'flows',
  'nodes',
  'dead',
  'dead/groups',
  'schedules',
  'policy',
  'health',
  'audit',
];

/** Undefined: pg_dump of Debian's PostgreSQL 15 is missing, or refuses a newer server. */
function dumpOf(url: string): string | undefined {
  const dump = spawnSync('/usr/lib/postgresql/15/bin/pg_dump', [url], {
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  });
  return dump.status === 0 ? dump.stdout : undefined;
}
/** True where the run of the tests is for the server that pg_dump belongs to. */
const dumps = process.env['PGQUEUE_TEST_MAJOR'] === '15';

/** Runs every kind of job, and returns the places where the secret is found. */
async function leaks(codec: Codec | undefined): Promise<readonly string[]> {
  const own = await createTestDatabase();
  const coded = codec === undefined ? {} : { codec };
  const client = new pg.Client({ connectionString: own.url });
  const said: [where: string, text: string][] = [];
  const events: string[] = [];
  const logger = pino({ level: 'debug' }, { write: (line: string) => void said.push(['log', line]) });
  const observe = logObserver(logger);
  const common = { connectionString: own.url, observe };
  const scheduler = createScheduler(common);
  const worker = createWorker({
    ...common,
    ...coded,
    observe: (event) => {
      events.push(event.type);
      observe(event);
    },
    tasks: handlers,
    concurrency: 4,
    health: { port: 0, host: '127.0.0.1' },
  });
  const producer = createProducer({ ...common, ...coded });
  // no codec: what an operator without keys sees
  const operator = createOperator({ connectionString: own.url, actor: { name: 'ada', via: 'cli' } });
  const signalling = createOperator({
    connectionString: own.url,
    ...coded,
    actor: { name: 'ada', via: 'cli' },
  });
  const dashboard = createDashboard({ connectionString: own.url, auth: byHeader, databaseRoles: false });
  const decoding = createDashboard({
    connectionString: own.url,
    ...coded,
    auth: byHeader,
    databaseRoles: false,
  });
  spans.reset();
  await client.connect();
  client.on('notification', ({ payload: hint }) => said.push(['hint', hint ?? '']));
  const { rows: channels } = await client.query<{ name: string }>(
    `select 'pgqueue:' || name as name from unnest(array['queue', 'done', 'work', 'flow', 'explain']) as x (name)`,
  );
  for (const { name } of channels) await client.query(`listen "${name}"`);
  try {
    await Promise.all([scheduler.start(), worker.start()]);
    const tasks = [fine, fails, strict, floats, late, bundled, apart];
    const made = await producer.enqueueMany(tasks.map((of) => of.job({ secret })));
    const waiting = await producer.enqueue(waits, { secret });
    const run = await producer.start(
      flow('graph')
        .step('jobs', [fine.job({ secret })])
        .step('ok', signal(z.string()))
        .step('late', fine.job({ secret }), { needs: ['jobs', 'ok'] }),
    );
    await producer.enqueue(
      fine,
      { secret },
      { delay: '1d', uniqueKey: { key: 'u', onConflict: 'debounce' } },
    );
    await producer.enqueue(
      fine,
      { secret },
      { delay: '1d', uniqueKey: { key: 'u', onConflict: 'debounce' } },
    );
    await signalling.flows.signal(run.id, 'ok', secret);
    await until('the job to wait for its signal', async () => {
      const { rows } = await client.query(`select from pgqueue.flow where name like '%: ok'`);
      return rows.length > 0;
    });
    await producer.signalJob(waiting.id, 'ok', secret);
    const ids = [...made, waiting].map(({ id }) => id);
    for (const id of ids) await operator.jobs.wait(id, { timeout: '120s' });
    await run.ended({ timeout: '120s' });
    expect(await producer.result(waiting.id)).toMatchObject({
      ok: secret,
      all: [{ result: { out: secret } }],
    });
    await until('every event', () =>
      ['job.settled', 'job.floating', 'job.late_error', 'job.crashed', 'job.invalid'].every(
        (type) => events.includes(type) || type === 'job.crashed',
      ),
    );
    said.push(['metrics', await (await fetch(`http://127.0.0.1:${worker.healthPort}/metrics`)).text()]);
    const { rows: tables } = await client.query<{ name: string }>(
      `select c.oid::regclass::text as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
       where c.relkind in ('r', 'v', 'm', 'p') and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')`,
    );
    for (const { name } of tables) {
      const { rows } = await client.query<{ row: string }>(`select t::text as row from ${name} t`);
      for (const { row } of rows) said.push([`table ${name}`, row]);
    }
    const dump = dumpOf(own.url);
    if (dump !== undefined) said.push(['dump', dump]);
    const { rows: activity } = await client.query<{ query: string }>('select query from pg_stat_activity');
    for (const { query } of activity) said.push(['pg_stat_activity', query]);
    for (const id of ids) {
      said.push([
        'operator',
        JSON.stringify([await operator.jobs.get(id), await operator.explain(id, { waitMs: 0 })]),
      ]);
    }
    const lists = [
      await operator.jobs.list(),
      await operator.dead.list(),
      await operator.flows.results(run.id, 'ok'),
      await operator.top(),
    ];
    said.push(['operator', JSON.stringify(lists)]);
    for (const [shown, user] of [
      [dashboard, 'ada:operator'],
      [decoding, 'bob:viewer'],
    ] as const) {
      const browser = browse(shown, user);
      const more = [
        ...ids.flatMap((id) => [`jobs/${id}`, `jobs/${id}/explain`]),
        `flows/${run.id}`,
        `flows/${run.id}/results?step=ok`,
      ];
      for (const path of [...paths, ...more]) {
        const { status, body } = await browser.get<object>(`/api/${path}`);
        expect({ path, status }).toEqual({ path, status: 200 });
        said.push([`dashboard for ${user}`, JSON.stringify(body)]);
      }
    }
    for (const { name, attributes, events: told, status } of spans.getFinishedSpans())
      said.push(['span', JSON.stringify({ name, attributes, told, status })]);
    expect(JSON.stringify(await browse(decoding, 'ada:operator').get(`/api/jobs/${ids[0]}`))).toContain(
      secret,
    );
    const shown = await browse(dashboard, 'ada:operator').get(`/api/jobs/${ids[0]}`);
    said.push(['shown', JSON.stringify(shown)]);
  } finally {
    await Promise.all([scheduler.stop(), worker.stop({ drainMs: 0 })]);
    await Promise.all([producer, operator, signalling, dashboard, decoding].map((one) => one.close()));
    await client.end();
    await own.drop();
  }
  expect(said.some(([place]) => place === 'dump') || !dumps).toBe(true);
  for (const where of ['log', 'hint', 'metrics', 'span', 'table pgqueue.history', 'table pgqueue.audit']) {
    expect(said.some(([place]) => place === where || place.startsWith(`${where}_`))).toBe(true);
  }
  const keyed = said.some(
    ([where, text]) => where === 'shown' && text.includes(String.raw`encrypted under the key \"new\"`),
  );
  expect(keyed).toBe(codec !== undefined);
  return [...new Set(said.filter(([, text]) => text.includes(secret)).map(([where]) => where))].toSorted();
}

test.each([
  ['AES-256-GCM', {}],
  ['ChaCha20-Poly1305', { sodium }],
])('with encryption by %s a secret is found nowhere', async (_cipher, by) => {
  expect(await leaks(codecOf(['new', 'old'], { errors: true, progress: true, ...by }))).toEqual([]);
});

test('without encryption the same search finds it', async () => {
  expect(await leaks(undefined)).toEqual(
    expect.arrayContaining([
      'dashboard for ada:operator',
      ...(dumps ? ['dump'] : []),
      'log',
      'operator',
      'span',
      'table pgqueue.dead_letter',
      'table pgqueue.queue',
    ]),
  );
});
