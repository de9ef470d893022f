// npm run bench:held -- --seconds 10 [--profile DIR]
// Measures the cost of a tick beside jobs that a gate holds. Exits with 1 if the median tick that dispatches
// takes
// more than twice as long beside 100,000 held jobs as beside 100.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { Database } from '@pgqueue/postgres';
import { migrate } from '@pgqueue/postgres';
import { openDatabase } from '@pgqueue/postgres/internal';
import { startEmbedded } from '../../packages/postgres/src/testing/server-local.ts';
import { percentile } from '../proofs/checks.ts';
import { startActor } from '../support/actors.ts';
import { startConsumer } from './load.ts';

/** Number of jobs that a closed gate holds, and of their keys. */
interface Held {
  readonly jobs: number;
  readonly keys: number;
}

interface Measured extends Held {
  readonly ticks: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /**
   * Milliseconds of processor time for each tick: of the scheduler, and of its server processes (Linux only).
   */
  readonly cpuMs: number;
  readonly serverMs: number;
}

const runs: readonly Held[] = [
  { jobs: 100, keys: 100 },
  { jobs: 100_000, keys: 1 },
  { jobs: 100_000, keys: 100 },
  { jobs: 100_000, keys: 10_000 },
];
/** Milliseconds between enqueues of jobs that no gate holds: each wakes a tick. */
const flowMs = 20;
/** Milliseconds until the scheduler has read all lanes and its code is compiled. */
const settleMs = 5_000;

/** Returns the processor time, in milliseconds, that a process has used so far; 0 if /proc is missing. */
function processorMs(pid: number): number {
  const file = `/proc/${pid}/stat`;
  if (!existsSync(file)) return 0;
  const [, , , , , , , , , , , user, system] = readFileSync(file, 'utf8').replace(/^.*\)/, ') ').split(/ +/);
  return (Number(user) + Number(system)) * 10;
}

async function serverMs(database: Database): Promise<number> {
  const sessions = await database.query<{ readonly pid: number }>(
    `select pid from pg_stat_activity where application_name like 'pgqueue scheduler%'`,
    [],
  );
  return sessions.reduce((sum, { pid }) => sum + processorMs(pid), 0);
}

async function measure(held: Held, seconds: number, profile: string | undefined): Promise<Measured> {
  const data = mkdtempSync(join(tmpdir(), 'pgqueue-held-'));
  const server = await startEmbedded({ data });
  try {
    await migrate({ connectionString: server.adminUrl });
    const database = openDatabase({ connectionString: server.adminUrl, connectionsMax: 4 });
    await database.query(
      `insert into pgqueue.queue (task, key, payload, attributes)
       select 'work', 'key-' || n % $2, '{}', jsonb_build_object('group', n % 50) from generate_series(1, $1) n`,
      [held.jobs, held.keys],
    );
    await database.query('vacuum analyze pgqueue.queue', []);
    const scheduler = await startActor('scheduler', {
      url: server.adminUrl,
      name: 'held',
      file: new URL('scheduler.mjs', import.meta.url),
      env: { PGQUEUE_TEST_HELD: 'yes' },
      execArgv: profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profile}`],
    });
    const consumer = await startConsumer(database, 20);
    try {
      const flow = async (ms: number): Promise<void> => {
        const untilMs = performance.now() + ms;
        while (performance.now() < untilMs) {
          await database.query(
            `insert into pgqueue.queue (task, key, payload) values ('work', 'flow', '{}')`,
            [],
          );
          await database.query(`select pg_notify('pgqueue:queue', '')`, []);
          await new Promise((resolve) => setTimeout(resolve, flowMs));
        }
      };
      await flow(settleMs);
      const [from, serverFrom] = [scheduler.heard.length, await serverMs(database)];
      await flow(seconds * 1_000);
      const serverTo = await serverMs(database);
      const heard = scheduler.heard.slice(from);
      const all = heard.filter(({ type }) => type === 'tick');
      const times = all.flatMap(({ dispatched, durationMs }) =>
        Number(dispatched) > 0 ? [Number(durationMs)] : [],
      );
      const cpus = heard.flatMap(({ type, cpuMs }) => (type === 'memory' ? [Number(cpuMs)] : []));
      return {
        ...held,
        ticks: times.length,
        p50Ms: percentile(times, 0.5),
        p99Ms: percentile(times, 0.99),
        cpuMs: ((cpus.at(-1) ?? 0) - (cpus[0] ?? 0)) / Math.max(1, all.length),
        serverMs: (serverTo - serverFrom) / Math.max(1, all.length),
      };
    } finally {
      await scheduler.stop();
      await consumer.stop();
      await database.close();
    }
  } finally {
    await server.stop();
    rmSync(data, { recursive: true, force: true });
  }
}

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '10' },
    profile: { type: 'string' },
    // a single run with numbers of one's own
    jobs: { type: 'string' },
    keys: { type: 'string', default: '100' },
  },
});
execFileSync('tsc', ['-b', 'packages/scheduler'], {
  cwd: new URL('../..', import.meta.url),
  stdio: 'inherit',
});
let few: Measured | undefined;
let slow = false;
const chosen = values.jobs === undefined ? runs : [{ jobs: Number(values.jobs), keys: Number(values.keys) }];
for (const held of chosen) {
  const measured = await measure(held, Number(values.seconds), values.profile);
  few ??= measured;
  const times = measured.p50Ms / few.p50Ms;
  slow ||= times > 2;
  const { jobs, keys, ticks, p50Ms, p99Ms, cpuMs } = measured;
  const server = measured.serverMs.toFixed(2);
  console.log(
    `${jobs} held in ${keys} keys: ${ticks} ticks that dispatched, p50 ${p50Ms.toFixed(2)} ms (${times.toFixed(2)} times), p99 ${p99Ms.toFixed(2)} ms, ${cpuMs.toFixed(2)} ms of processor time each tick, ${server} ms of the server's`,
  );
}
process.exitCode = slow ? 1 : 0;
