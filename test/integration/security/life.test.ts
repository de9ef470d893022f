// Odd values that handlers return, throw, report and log, and that plain SQL and manual changes put into the
// tables. Every job must end, no process may, and logs must stay lines of JSON without payloads.
import { defineTask, implement, logObserver } from '@pgqueue/core';
import { breaches, openDatabase } from '@pgqueue/postgres/internal';
import { createProducer } from '@pgqueue/producer';
import { createScheduler } from '@pgqueue/scheduler';
import type { Scheduler } from '@pgqueue/scheduler';
import { createPuller, createWorker } from '@pgqueue/worker';
import type { Worker } from '@pgqueue/worker';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { useDatabase } from '../../support/database.ts';
import { hostileTexts, hostileValues, marker, named, nested } from '../../support/hostile.ts';
import { until } from '../../support/until.ts';

const ways = ['returns', 'throws', 'rejects', 'reports', 'extends', 'saves', 'logs', 'carries'] as const;
const task = defineTask({
  name: 'hostile',
  payload: z.looseObject({ way: z.enum(ways), value: z.string() }),
  retry: { maxTries: 1 },
});
const any = defineTask({ name: 'any', payload: z.unknown(), retry: { maxTries: 1 } });

const own = useDatabase();
const { database } = own;
let scheduler: Scheduler;
let worker: Worker;
let lines = '';
const lost: unknown[] = [];
const onLost = (error: unknown): void => void lost.push(error);
const logger = pino({ level: 'debug' }, { write: (line: string) => void (lines += line) });
const observe = logObserver(logger);

const handlers = [
  implement(task, async ({ way, value: name }, { progress, extend, checkpoint, log }) => {
    const value = hostileValues[name] as never;
    const wrong = (error: unknown): boolean => error instanceof Error;
    switch (way) {
      case 'returns':
        return value;
      case 'throws':
        throw value; // oxlint-disable-line typescript/only-throw-error -- this is what it is about
      case 'rejects':
        return Promise.reject(Object.assign(new Error('no'), { cause: value, detail: value }));
      case 'reports':
        return progress(value).catch(wrong);
      case 'extends':
        return extend(value).catch(wrong);
      case 'saves':
        return checkpoint(value).catch(wrong);
      case 'logs':
        log.info({ value }, 'a handler logs');
        return 'logged';
      case 'carries':
      default:
        return 'carried';
    }
  }),
  implement(any, (payload) => payload),
];

beforeAll(async () => {
  process.on('unhandledRejection', onLost);
  scheduler = createScheduler({ connectionString: own.url, observe });
  worker = createWorker({ connectionString: own.url, tasks: handlers, concurrency: 20, observe, logger });
  await Promise.all([scheduler.start(), worker.start()]);
});
afterAll(async () => {
  await Promise.all([scheduler.stop(), worker.stop()]);
  process.off('unhandledRejection', onLost);
});

async function allEnded(): Promise<void> {
  await until('every job to end', async () => {
    const open = await database.query(`select id from pgqueue.queue limit 1`, []);
    return open.length === 0;
  });
  expect(lost).toEqual([]);
  expect((await breaches(database)).filter(({ count }) => count > 0)).toEqual([]);
}

function parsedLines(): readonly Readonly<Record<string, unknown>>[] {
  // oxlint-disable-next-line no-control-regex -- control characters are what this is about
  expect(lines).not.toMatch(/[\u0000-\u0009\u000b-\u001f]/);
  return lines
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>);
}

test('handlers may return, throw, report, extend by, save and log anything', async () => {
  const producer = createProducer({ connectionString: own.url });
  const jobs = Object.keys(hostileValues).flatMap((value) => ways.map((way) => task.job({ way, value })));
  await producer.enqueueMany(jobs);
  await producer.close();
  await allEnded();
  const rows = await database.query<{ way: string; status: string; jobs: number }>(
    `select payload ->> 'way' as way, status, count(*)::integer as jobs from (
       select payload, outcome as status from pgqueue.history union all select payload, 'dead' from pgqueue.dead_letter) j
     group by 1, 2`,
    [],
  );
  const all = Object.keys(hostileValues).length;
  const failed = new Set(['throws', 'rejects']);
  // a returned error counts as thrown; resolving a promise reads `then`, at which two proxies throw
  const failures = 3;
  for (const way of ways) {
    const count = (status: string): number =>
      rows.find((row) => row.way === way && row.status === status)?.jobs ?? 0;
    const dead = failed.has(way) ? all : way === 'returns' ? failures : 0;
    expect({ way, dead: count('dead'), done: count('done') }).toEqual({ way, dead, done: all - dead });
  }
  expect(worker.running).toBe(0);
  // a handler may put its own texts into its errors and logs
  const silent = parsedLines().filter(({ msg, err }) => msg !== 'a handler logs' && err === undefined);
  expect(JSON.stringify(silent)).not.toContain(marker);
});

test('plain SQL may bring any name, and any JSON', async () => {
  lines = '';
  const documents = Object.values(hostileValues).flatMap((value) => {
    try {
      return [JSON.stringify(value)].filter((text) => text !== undefined && text.length < 200_000);
    } catch {
      return [];
    }
  });
  const inserted: string[] = [];
  const insert = async (columns: Readonly<Record<string, string>>): Promise<void> => {
    const row = { task: 'any', max_tries: '1', ...columns };
    const marks = Object.keys(row).map((name, n) =>
      /payload|attributes|retry|trace/.test(name) ? `$${n + 1}::text::jsonb` : `$${n + 1}`,
    );
    const text = `insert into pgqueue.queue (${Object.keys(row).join(', ')}) values (${marks.join(', ')}) returning id`;
    const rows = await database.query<{ id: string }>(text, Object.values(row)).catch(() => []);
    inserted.push(...rows.map(({ id }) => id));
  };
  const configure = async (queue: string): Promise<unknown> =>
    database.query(
      `insert into pgqueue.queue_config (queue, concurrency, key_concurrency, rate, rate_burst) values ($1, 5, 2, 100, 10)`,
      [queue],
    );
  for (const text of hostileTexts) {
    for (const column of ['key', 'unique_key', 'queue']) await insert({ [column]: text });
    await configure(text).catch(() => {});
    await insert({ attributes: JSON.stringify({ [text.slice(0, 50)]: text.slice(0, 1_000) }) });
    await insert({ retry: JSON.stringify({ kind: text.slice(0, 50), baseMs: text.slice(0, 50) }) });
  }
  for (const document of [
    ...documents,
    '{"constructor": {"prototype": {}}}',
    JSON.stringify(nested(2_000)),
  ]) {
    for (const column of ['payload', 'attributes', 'retry', 'trace']) await insert({ [column]: document });
  }
  expect(inserted.length).toBeGreaterThan(200);
  await allEnded();
  const dead = await database.query<{ message: string }>(
    `select distinct errors -> -1 ->> 'message' as message from pgqueue.dead_letter where task = 'any'`,
    [],
  );
  expect(
    dead.map(({ message }) => message.replace('the payload does not fit: it must not ', '')).toSorted(),
  ).toEqual(['have a key __proto__', 'have a key constructor with a key prototype below it']);
  expect(JSON.stringify(parsedLines().map(({ key: _key, queue: _queue, ...line }) => line))).not.toContain(
    marker,
  );
  expect((Object.prototype as Record<string, unknown>)[marker]).toBeUndefined();
});

test('nodes and schedulers may have any name that PostgreSQL can hold', async () => {
  const refused: string[] = [];
  // each starts threads and connections, so only the texts that differ most are tried
  const kinds = ["'", '"', '\\', '$', '\u0000', '\ud800', '\u001b', '\r', '\u202e', '__proto__', 'xxxxxxxxx'];
  const names = hostileTexts.filter((text) => kinds.some((kind) => text.includes(kind)));
  expect(names.length).toBeGreaterThan(10);
  for (const name of names) {
    const options = { connectionString: own.url, node: name, pool: name.slice(0, 100), listen: false };
    try {
      const puller = createPuller({ ...options, tasks: [name.slice(0, 200)] });
      await puller.claim().finally(() => void puller.close());
      await puller.close();
    } catch (error) {
      refused.push(`${named(name)}: ${(error as { readonly code?: string }).code}`);
    }
  }
  for (const one of refused) expect(one).toMatch(/: (?:configuration|2[23]...)$/);
  expect(refused.length).toBeLessThan(names.length / 2);
  expect(lost).toEqual([]);
});

test('a scheduler that finds nonsense as the policy’s state leads, and dispatches', async () => {
  await scheduler.stop();
  const states = [
    'null',
    '[]',
    '"a"',
    '1e400',
    '{"__proto__": {"a": 1}}',
    JSON.stringify(nested(2_000)),
    '{"lanes": {"constructor": null}}',
  ];
  await database.query(
    `insert into pgqueue.policy_state (part, state, saved) select n, '{}', now() from unnest($1::text[]) n on conflict do nothing`,
    [['', '__proto__', 'constructor', 'order', 'fair share', 'rate', 'queue_rate', 'x'.repeat(1_000)]],
  );
  for (const state of states) {
    await database.query('update pgqueue.policy_state set state = $1::text::jsonb', [state]);
    scheduler = createScheduler({ connectionString: own.url, observe });
    await scheduler.start();
    await database.query(`insert into pgqueue.queue (task, key) values ('any', 'a'), ('any', 'b')`, []);
    await allEnded();
    await scheduler.stop();
  }
  expect(parsedLines().length).toBeGreaterThan(0);
});

test('what stands behind a NUL in a name is no setting of the session', async () => {
  const name = 'a\u0000options\u0000-c search_path=evil\u0000';
  const named = openDatabase({ connectionString: own.url, applicationName: name });
  const [row] = await named.query<{ name: string; path: string }>(
    `select current_setting('application_name') as name, current_setting('search_path') as path`,
    [],
  );
  await named.close();
  expect(row).toEqual({ name: 'a?options?-c search_path=evil?', path: '"$user", public' });
});
