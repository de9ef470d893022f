// npm run bench:tick -- --keys 10000 --jobs 5000000 --seconds 30 [--profile DIR] [--json FILE]
// Exits with 1 if the first job of a new key waits longer than --new-key-max-ms. A scheduler that serves the
// key
// after the backlog takes minutes with 50,000 keys; one that serves it in turn takes a few ticks.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { migrate } from '@pgqueue/postgres';
import { openDatabase } from '@pgqueue/postgres/internal';
import type { Database } from '@pgqueue/postgres';
import { startEmbedded } from '../../packages/postgres/src/testing/server-local.ts';
import { percentile } from '../proofs/checks.ts';
import type { Actor } from '../support/actors.ts';
import { startActor } from '../support/actors.ts';
import { until } from '../support/until.ts';
import type { Backlog, Consumer } from './load.ts';
import { countFunctions, fill, functionTimes, meanTimes, startConsumer } from './load.ts';

interface Options extends Backlog {
  readonly seconds: number;
  readonly slots: number;
  /** A folder for the scheduler's CPU profile. */
  readonly profile: string | undefined;
}

interface Report extends Backlog {
  readonly fillSeconds: number;
  readonly analyzeSeconds: number;
  readonly tableMegabytes: number;
  readonly dispatchedPerSecond: number;
  /**
   * Microseconds for each dispatched job: of the scheduler's process, and of the database in the functions of
   * a tick.
   */
  readonly cpuMicros: number;
  readonly databaseMicros: number;
  readonly ticks: number;
  readonly tickMs: { readonly p50: number; readonly p99: number; readonly max: number };
  readonly rssMegabytes: number;
  readonly heapMegabytes: number;
  /** Milliseconds from a new key's first enqueue to its dispatch, by the database's clock. */
  readonly newKeyMs: {
    readonly hinted: { readonly p50: number; readonly max: number };
    readonly unhinted: { readonly p50: number; readonly max: number };
  };
  /** Mean times of the database's functions during the drain. */
  readonly functions: ReturnType<typeof meanTimes>;
}

const probes = 20;

/**
 * Enqueues one job of a new key, which the consumer leaves alone. Resolves to the milliseconds until its
 * dispatch.
 */
async function probe(database: Database, hinted: boolean, n: number): Promise<number> {
  const [job] = await database.query<{ id: string }>(
    `insert into pgqueue.queue (task, key) values ('probe', $1) returning id`,
    [`new-${hinted}-${n}`],
  );
  if (hinted) await database.query(`select pg_notify('pgqueue:queue', '')`, []);
  let ms = NaN;
  await until(
    'a new key to be dispatched',
    async () => {
      const [row] = await database.query<{ ms: number }>(
        `select extract(epoch from w.dispatched - q.created)::float8 * 1000 as ms
         from pgqueue.work_queue w join pgqueue.queue q on q.id = w.id where w.id = $1::uuid`,
        [job?.id],
      );
      ms = row?.ms ?? NaN;
      return row !== undefined;
    },
    60_000,
  );
  await database.query('delete from pgqueue.work_queue where id = $1::uuid', [job?.id]);
  await database.query('delete from pgqueue.queue where id = $1::uuid', [job?.id]);
  return ms;
}

interface Heard {
  readonly ticks: readonly { readonly durationMs: number; readonly dispatched: number }[];
  readonly rss: readonly number[];
  readonly heap: readonly number[];
  readonly cpuMs: readonly number[];
}

function heardOf({ heard }: Actor, from: number): Heard {
  const since = heard.slice(from);
  const memory = since.filter(({ type }) => type === 'memory');
  return {
    ticks: since.flatMap(({ type, durationMs, dispatched }) =>
      type === 'tick' ? [{ durationMs: Number(durationMs), dispatched: Number(dispatched) }] : [],
    ),
    rss: memory.map(({ rss }) => Number(rss)),
    heap: memory.map(({ heapUsed }) => Number(heapUsed)),
    cpuMs: memory.map(({ cpuMs }) => Number(cpuMs)),
  };
}

async function drain(
  database: Database,
  scheduler: Actor,
  { consumer, seconds }: { readonly consumer: Consumer; readonly seconds: number },
): Promise<Pick<Report, 'dispatchedPerSecond' | 'newKeyMs' | 'functions'> & { readonly heard: Heard }> {
  await until('the drain to begin', () => consumer.consumed() > 10_000, 120_000);
  const from = scheduler.heard.length;
  const calls = await functionTimes(database);
  const began = { consumed: consumer.consumed(), at: performance.now() };
  const hinted: number[] = [];
  const unhinted: number[] = [];
  for (let n = 0; n < probes; n += 1) {
    hinted.push(await probe(database, true, n));
    unhinted.push(await probe(database, false, n));
    const nextAt = began.at + ((n + 1) * seconds * 1_000) / probes;
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, nextAt - performance.now())));
  }
  const elapsed = (performance.now() - began.at) / 1_000;
  const summary = (times: readonly number[]): { p50: number; max: number } => ({
    p50: percentile(times, 0.5),
    max: Math.max(...times),
  });
  return {
    dispatchedPerSecond: (consumer.consumed() - began.consumed) / elapsed,
    newKeyMs: { hinted: summary(hinted), unhinted: summary(unhinted) },
    functions: meanTimes(calls, await functionTimes(database)),
    heard: heardOf(scheduler, from),
  };
}

async function run(url: string, options: Options): Promise<Report> {
  const { keys, jobs, seconds, slots, profile } = options;
  const database = openDatabase({ connectionString: url, connectionsMax: 6 });
  try {
    await countFunctions(database);
    const filled = await fill(database, options);
    const scheduler = await startActor('scheduler', {
      url,
      name: 'bench',
      file: new URL('scheduler.mjs', import.meta.url),
      // the same options as the Docker image's
      execArgv: [
        '--max-semi-space-size=16',
        ...(profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profile}`]),
      ],
    });
    const consumer = await startConsumer(database, slots);
    try {
      const { heard, ...drained } = await drain(database, scheduler, { consumer, seconds });
      const times = heard.ticks.map(({ durationMs }) => durationMs);
      return {
        keys,
        jobs,
        fillSeconds: filled.fillMs / 1_000,
        analyzeSeconds: filled.analyzeMs / 1_000,
        tableMegabytes: filled.megabytes,
        ...drained,
        cpuMicros:
          (((heard.cpuMs.at(-1) ?? 0) - (heard.cpuMs[0] ?? 0)) * 1_000) /
          sum(heard.ticks.map(({ dispatched }) => dispatched)),
        databaseMicros:
          sum(
            ['tick', 'dispatch'].map((name) => {
              const { calls = 0, meanMs = 0 } = drained.functions[name] ?? {};
              return calls * meanMs * 1_000;
            }),
          ) / sum(heard.ticks.map(({ dispatched }) => dispatched)),
        ticks: times.length,
        tickMs: { p50: percentile(times, 0.5), p99: percentile(times, 0.99), max: Math.max(...times) },
        rssMegabytes: Math.max(...heard.rss) / 2 ** 20,
        heapMegabytes: Math.max(...heard.heap) / 2 ** 20,
      };
    } finally {
      await scheduler.stop();
      await consumer.stop();
    }
  } finally {
    await database.close();
  }
}

function sum(values: readonly number[]): number {
  return values.reduce((all, value) => all + value, 0);
}

function table(report: Report): void {
  const { tickMs, newKeyMs } = report;
  const rows = [
    ['dispatched jobs/s', report.dispatchedPerSecond, '>= 10000'],
    ['scheduler CPU µs a job', report.cpuMicros, ''],
    ['database µs a job', report.databaseMicros, ''],
    ['tick p50 ms', tickMs.p50, ''],
    ['tick p99 ms', tickMs.p99, '< 100'],
    ['tick max ms', tickMs.max, ''],
    ['scheduler RSS MiB', report.rssMegabytes, '< 256'],
    ['scheduler heap MiB', report.heapMegabytes, ''],
    ['new key, hinted: p50 ms', newKeyMs.hinted.p50, ''],
    ['new key, hinted: max ms', newKeyMs.hinted.max, '< 250'],
    ['new key, unhinted: p50 ms', newKeyMs.unhinted.p50, ''],
    ['new key, unhinted: max ms', newKeyMs.unhinted.max, '< 250'],
    ['fill s', report.fillSeconds, ''],
    ['vacuum analyze, checkpoint s', report.analyzeSeconds, ''],
    ['table and indexes MiB', report.tableMegabytes, ''],
  ] as const;
  console.log(`${report.keys} keys, ${report.jobs} jobs`);
  for (const [name, value, target] of rows) {
    console.log(`  ${name.padEnd(30)} ${value.toFixed(1).padStart(10)}  ${target}`);
  }
  console.table(report.functions);
}

const { values } = parseArgs({
  options: {
    keys: { type: 'string', default: '10000' },
    jobs: { type: 'string', default: '5000000' },
    seconds: { type: 'string', default: '30' },
    slots: { type: 'string', default: '2000' },
    profile: { type: 'string' },
    json: { type: 'string' },
    'new-key-max-ms': { type: 'string', default: '5000' },
  },
});
execFileSync('tsc', ['-b', 'packages/scheduler'], {
  cwd: new URL('../..', import.meta.url),
  stdio: 'inherit',
});
const data = mkdtempSync(join(tmpdir(), 'pgqueue-bench-'));
// a server that writes durably, unlike those of the tests
const server = await startEmbedded({ data });
try {
  await migrate({ connectionString: server.adminUrl });
  const report = await run(server.adminUrl, {
    keys: Number(values.keys),
    jobs: Number(values.jobs),
    seconds: Number(values.seconds),
    slots: Number(values.slots),
    profile: values.profile,
  });
  table(report);
  console.log(JSON.stringify(report));
  const newKeyMs = Math.max(report.newKeyMs.hinted.max, report.newKeyMs.unhinted.max);
  if (newKeyMs > Number(values['new-key-max-ms'])) process.exitCode = 1;
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(report, undefined, 2)}\n`);
} finally {
  await server.stop();
  rmSync(data, { recursive: true, force: true });
}
