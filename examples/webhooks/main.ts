// npm run demo: real processes, real HTTP, and a bad day. Exits with 1 if anything is lost. With --stay, the
// dashboard stays open afterwards.
import { setTimeout as delay } from 'node:timers/promises';
import { createDashboard, serveDashboard } from '@pgqueue/dashboard';
import { createOperator, migrate } from '@pgqueue/postgres';
import type { Operator } from '@pgqueue/postgres';
import { startServer } from '@pgqueue/postgres/testing';
import { createProducer } from '@pgqueue/producer';
import type { FlowRun, Producer } from '@pgqueue/producer';
import pg from 'pg';
import { importCatalogue, items, pages } from './catalogue.ts';
import type { Message, ReceiverReport } from './messages.ts';
import type { Actor, Stage } from '../processes.ts';
import { createStage } from '../processes.ts';
import type { Report } from './report.ts';
import { phantoms, progressLine, reportText, tenantFigures } from './report.ts';

const enqueueSeconds = 12;
/** Far longer than the demo takes, even on a busy machine. */
const deadlineSeconds = 240;

/** Messages that the processes have sent so far, summed up. */
interface Heard {
  leader: string | undefined;
  electedAt: number;
  firstBatchAt: number;
  killedAt: number;
  staleTried: number;
  staleRefused: number;
  /** Attempts that the frozen node gave up when it came back. */
  leasesLost: number;
  enqueued: { readonly committed: Readonly<Record<string, number>>; readonly rolledBack: number } | undefined;
  receiver: ReceiverReport | undefined;
}

function listenTo(heard: Heard): (name: string, message: unknown) => void {
  return (name, given) => {
    const message = given as Message;
    if (message.kind === 'enqueued') heard.enqueued = message;
    if (message.kind === 'receiver') heard.receiver = message.report;
    if (message.kind !== 'event') return;
    const { event, at } = message;
    if (event.type === 'leader.elected') {
      heard.leader = name;
      if (heard.killedAt > 0) heard.electedAt = at;
    }
    if (event.type === 'tick' && heard.electedAt > 0) heard.firstBatchAt ||= at;
    if (event.type === 'job.stale') heard.leasesLost += 1;
  };
}

async function until(
  what: string,
  seconds: number,
  condition: () => boolean | Promise<boolean>,
): Promise<void> {
  const deadline = Date.now() + seconds * 1_000;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`waited ${seconds} s in vain for ${what}`);
    await delay(25);
  }
}

interface Lease {
  readonly id: string;
  readonly token: string;
}

interface Scene {
  readonly stage: Stage;
  readonly pool: pg.Pool;
  readonly operator: Operator;
  readonly producer: Producer;
  readonly heard: Heard;
  readonly schedulers: readonly Actor[];
  readonly workers: readonly Actor[];
}

/** Returns the leases of a node, which the node could settle if it could still reach the database. */
async function leasesOf(pool: pg.Pool, node: string): Promise<readonly Lease[]> {
  const { rows } = await pool.query<Lease>(
    'select id, lock_token as token from pgqueue.work_item where lock_key = $1',
    [node],
  );
  return rows;
}

/**
 * Settles a job as done, as a worker in any language does. Returns false if the lease was lost and nothing
 * changed.
 */
async function ack(pool: pg.Pool, { id, token }: Lease): Promise<boolean> {
  const { rows } = await pool.query<{ accepted: boolean }>(
    `select pgqueue.ack($1, $2, '"too late"') as accepted`,
    [id, token],
  );
  return rows[0]?.accepted === true;
}

/** The bad day: a worker frozen, a worker killed, the leading scheduler killed, while a catalogue is imported. */
async function disaster({ pool, operator, producer, heard, schedulers, workers }: Scene): Promise<FlowRun> {
  const [, killed, frozen] = workers;
  const leader = schedulers.find(({ name }) => name === heard.leader);
  if (killed === undefined || frozen === undefined || leader === undefined)
    throw new Error('an actor is missing');

  const run = await producer.start(importCatalogue);
  const late: Lease[] = [];
  await until('a worker to be frozen amid its jobs', 120, async () => {
    frozen.process.kill('SIGSTOP');
    late.push(...(await leasesOf(pool, frozen.name)));
    if (late.length === 0) frozen.process.kill('SIGCONT');
    return late.length > 0;
  });
  killed.process.kill('SIGKILL');
  late.push(...(await leasesOf(pool, killed.name)));
  const atFrozen = await operator.nodes.reset(frozen.name);
  const atKilled = await operator.nodes.reset(killed.name);
  console.log(
    `      kill -9 ${killed.name}, node reset by id: its ${atKilled.ready} jobs are ready for others`,
  );
  console.log(
    `      ${frozen.name} frozen, node reset: ${atFrozen.ready} jobs; it will come back and try to settle them`,
  );

  const accepted = await Promise.all(late.map((lease) => ack(pool, lease)));
  heard.staleTried = late.length;
  heard.staleRefused = accepted.filter((yes) => !yes).length;

  heard.killedAt = Date.now();
  leader.process.kill('SIGKILL');
  console.log(`      kill -9 ${leader.name}, which led`);
  await delay(1_000);
  frozen.process.kill('SIGCONT');
  await until('the standby to lead and dispatch', 120, () => heard.firstBatchAt > 0);
  console.log(
    `      ${heard.leader} took over after ${((heard.electedAt - heard.killedAt) / 1_000).toFixed(1)} s`,
  );
  return run;
}

/** Waits for the end of the import. Returns what its last step has summed up. */
async function importedBy(operator: Operator, run: FlowRun): Promise<{ pages: number; items: number }> {
  const { outcome } = await run.ended({ timeout: '2m' });
  if (outcome !== 'done') throw new Error(`the import of the catalogue is ${outcome}`);
  const [sum] = (await operator.flows.results(run.id, 'sum')).items;
  return sum?.result as { pages: number; items: number };
}

async function play(stage: Stage, connectionString: string, heard: Heard): Promise<number> {
  const began = Date.now();
  const elapsed = (): number => (Date.now() - began) / 1_000;
  const pool = new pg.Pool({ connectionString });
  const operator = createOperator({ connectionString });
  const producer = createProducer({ connectionString });
  try {
    await pool.query(
      'create table shop_order (id uuid primary key, tenant text not null, cents integer not null)',
    );
    const env = { DEMO_DATABASE_URL: connectionString, DEMO_SECONDS: String(enqueueSeconds) };
    const receiver = await stage.start('receiver.ts', 'receiver', env);
    const schedulers = await Promise.all(
      ['scheduler-1', 'scheduler-2'].map((name) => stage.start('scheduler.ts', name, env)),
    );
    const workers = await Promise.all(
      ['worker-1', 'worker-2', 'worker-3'].map((name) => stage.start('worker.ts', name, env)),
    );
    await until('a leader', 120, () => heard.leader !== undefined);
    console.log(
      `${heard.leader} leads; ${schedulers.length - 1} standby, ${workers.length} workers; four tenants, acme floods\n`,
    );
    stage.run('app.ts', 'app', { ...env, DEMO_ENDPOINT: receiver.detail });

    let disasterOver: Promise<FlowRun> | undefined;
    for (let nextLine = 0; ; await delay(100)) {
      if (elapsed() > deadlineSeconds) throw new Error(`not done after ${deadlineSeconds} s`);
      if (elapsed() < nextLine) continue;
      nextLine = elapsed() + 1;
      const progress = await progressLine(pool, elapsed());
      console.log(progress.line);
      if (disasterOver === undefined && progress.ended > 1_500) {
        disasterOver = disaster({ stage, pool, operator, producer, heard, schedulers, workers });
        disasterOver.catch(() => {}); // awaited below
      }
      const { rows } = await pool.query('select exists (select from pgqueue.queue) as waiting');
      if (heard.enqueued !== undefined && disasterOver !== undefined && rows[0].waiting === false) break;
    }
    const catalogue = await importedBy(operator, await disasterOver);
    receiver.process.send('report');
    await until("the receiver's report", 60, () => heard.receiver !== undefined);
    await Promise.all([...workers, ...schedulers].map((actor) => stage.stop(actor)));
    return await finish(pool, heard, { catalogue, seconds: elapsed() });
  } finally {
    await Promise.all([operator.close(), producer.close(), pool.end()]);
  }
}

async function finish(
  pool: pg.Pool,
  heard: Heard,
  { catalogue, seconds }: Pick<Report, 'catalogue' | 'seconds'>,
): Promise<number> {
  const tenants = await tenantFigures(pool);
  const left = await phantoms(pool);
  const { enqueued, receiver } = heard;
  if (enqueued === undefined || receiver === undefined) throw new Error('a report is missing');
  console.log(
    reportText({
      tenants,
      rolledBack: enqueued.rolledBack,
      phantoms: left,
      staleTried: heard.staleTried,
      staleRefused: heard.staleRefused,
      leasesLost: heard.leasesLost,
      takeoverMs: heard.firstBatchAt - heard.killedAt,
      catalogue,
      seconds,
      receiver,
    }),
  );
  const committed = Object.values(enqueued.committed).reduce((sum, count) => sum + count, 0);
  const delivered = tenants.reduce((sum, figures) => sum + figures.delivered, 0);
  const problems = [
    tenants.some(({ lost }) => lost > 0) && 'jobs were lost',
    tenants.reduce((sum, figures) => sum + figures.enqueued, 0) !== committed &&
      'the app and its table disagree',
    receiver.accepted < delivered && 'a delivery was reported that the receiver never saw',
    left > 0 && 'a rolled-back transaction left a job',
    (catalogue.pages !== pages || catalogue.items !== items) && 'the catalogue was not summed up whole',
    heard.staleTried === 0 && 'no stale settle was tried, so the demo showed nothing of the fence',
    heard.staleRefused < heard.staleTried && 'a stale settle was accepted',
  ].filter((problem) => problem !== false);
  for (const problem of problems) console.error(`FAILED: ${problem}`);
  return problems.length === 0 ? 0 : 1;
}

async function stayed(url: string): Promise<void> {
  console.log(`\ndashboard: ${url} stays open until Ctrl-C`);
  const asked = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => asked.abort());
  await delay(2_147_483_647, undefined, { signal: asked.signal }).catch(() => {});
}

const server = await startServer();
const heard: Heard = {
  leader: undefined,
  electedAt: 0,
  firstBatchAt: 0,
  killedAt: 0,
  staleTried: 0,
  staleRefused: 0,
  leasesLost: 0,
  enqueued: undefined,
  receiver: undefined,
};
const stage = createStage(import.meta.url, listenTo(heard));
try {
  console.log(`PostgreSQL ${server.major} (${server.kind})`);
  const admin = new pg.Client({ connectionString: server.adminUrl });
  await admin.connect();
  await admin.query('drop database if exists pgqueue_demo with (force)');
  await admin.query('create database pgqueue_demo');
  await admin.end();
  const url = new URL(server.adminUrl);
  url.pathname = '/pgqueue_demo';
  await migrate({ connectionString: url.href });
  const dashboard = await serveDashboard(createDashboard({ connectionString: url.href }), { port: 0 });
  const stays = process.argv.includes('--stay');
  console.log(
    `dashboard: ${dashboard.url}${stays ? '' : ' until the demo ends; npm run demo -- --stay keeps it'}\n`,
  );
  try {
    process.exitCode = await play(stage, url.href, heard);
    if (stays) await stayed(dashboard.url);
  } finally {
    await dashboard.close();
  }
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  await stage.stopAll();
  await server.stop();
}
