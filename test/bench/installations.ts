// npm run bench:installations -- [--jobs 300000] [--rounds 3]
// Measures the processor time of a job over 1, 2 and 4 installations on one machine, each with a server and a scheduler of
// its own, all with one worker: it tells whether a job costs more where there are more of them.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { createOperator, migrate } from '@pgqueue/postgres';
import { openDatabase } from '@pgqueue/postgres/internal';
import { createRouter } from '@pgqueue/router';
import type { RunningServer } from '../../packages/postgres/src/testing/running-server.ts';
import { startEmbedded } from '../../packages/postgres/src/testing/server-local.ts';
import { cpuMsOf, serverCpuMs } from '../../bench/src/actors/processes.ts';
import { startActor } from '../support/actors.ts';
import { nothing } from './routed-task.ts';

const { values } = parseArgs({
  options: { jobs: { type: 'string', default: '300000' }, rounds: { type: 'string', default: '3' } },
});
const [jobs, rounds] = [Number(values.jobs), Number(values.rounds)];
const counts = [1, 2, 4];
const batch = 1_000;
const keys = 200;
/** Jobs for each installation before the measured ones. */
const warmUp = 50_000;

interface Opened {
  readonly server: RunningServer;
  readonly data: string;
  readonly pid: number;
}

async function open(): Promise<Opened> {
  const data = mkdtempSync(join(tmpdir(), 'pgqueue-installations-'));
  const server = await startEmbedded({ data });
  await migrate({ connectionString: server.adminUrl });
  return { server, data, pid: Number.parseInt(readFileSync(join(data, 'postmaster.pid'), 'utf8'), 10) };
}

interface Cost {
  readonly jobsPerSecond: number;
  /** Microseconds of processor time a job. */
  readonly node: number;
  readonly servers: number;
}

/** Drains a backlog over so many installations. */
async function drain(count: number): Promise<Cost> {
  const opened = await Promise.all(Array.from({ length: count }, open));
  const installations = opened.map(({ server }, index) => ({
    number: index,
    name: `n${index}`,
    connectionString: server.adminUrl,
  }));
  const operators = installations.map(({ connectionString }) => createOperator({ connectionString }));
  const databases = installations.map((one) =>
    openDatabase({ connectionString: one.connectionString, connectionsMax: 1 }),
  );
  const router = createRouter({ installations });
  try {
    for (const [index, operator] of operators.entries())
      await operator.installation.init({ number: index, name: `n${index}` });
    const actors = await Promise.all([
      ...installations.map(({ name, connectionString }) =>
        startActor('scheduler', { url: connectionString, name }),
      ),
      startActor('worker', {
        url: '',
        name: 'worker',
        options: { installations },
        file: new URL('routed-worker.ts', import.meta.url),
      }),
    ]);
    const done = async (): Promise<boolean> => {
      const left = await Promise.all(
        databases.map((database) => database.query('select from pgqueue.queue limit 1', [])),
      );
      return left.every(({ length }) => length === 0);
    };
    /** Enqueues jobs while nothing runs, then lets them run. Returns the seconds that they took. */
    const work = async (wanted: number, begin: () => void): Promise<number> => {
      await Promise.all(operators.map((operator) => operator.queues.pause('default')));
      for (let first = 0; first < wanted; first += batch) {
        const some = Array.from({ length: batch }, (_, index) => first + index);
        await router.producer.enqueueMany(some.map((n) => nothing.job({ n }, { key: `key-${n % keys}` })));
      }
      begin();
      const beganAt = performance.now();
      await Promise.all(operators.map((operator) => operator.queues.resume('default')));
      while (!(await done())) await delay(100);
      return (performance.now() - beganAt) / 1_000;
    };
    const nodeMs = (): number => actors.reduce((sum, { process }) => sum + cpuMsOf(process.pid ?? 0), 0);
    const serversMs = (): number => opened.reduce((sum, { pid }) => sum + serverCpuMs(pid), 0);
    let [node, servers] = [0, 0];
    // compiles, and fills caches: each process of its own
    await work(warmUp * count, () => {});
    const seconds = await work(jobs, () => {
      [node, servers] = [nodeMs(), serversMs()];
    });
    const cost = {
      jobsPerSecond: jobs / seconds,
      node: ((nodeMs() - node) * 1_000) / jobs,
      servers: ((serversMs() - servers) * 1_000) / jobs,
    };
    await Promise.all(actors.map((actor) => actor.stop()));
    return cost;
  } finally {
    await router.close();
    await Promise.all([...operators, ...databases].map((one) => one.close()));
    await Promise.all(opened.map(({ server }) => server.stop()));
    for (const { data } of opened) rmSync(data, { recursive: true, force: true });
  }
}

const middle = (all: readonly number[]): number => all.toSorted((a, b) => a - b)[all.length >> 1] ?? NaN;
const measured = new Map(counts.map((count) => [count, [] as Cost[]]));
for (let round = 0; round < rounds; round += 1)
  for (const count of counts) {
    const cost = await drain(count);
    measured.get(count)?.push(cost);
    console.log(count, cost);
  }
const [one = 1] = counts;
const costOf = (count: number): number =>
  middle((measured.get(count) ?? []).map(({ node, servers }) => node + servers));
console.table(
  counts.map((count) => {
    const own = measured.get(count) ?? [];
    return {
      installations: count,
      'jobs/s': Math.round(middle(own.map(({ jobsPerSecond }) => jobsPerSecond))),
      'Node µs/job': Math.round(middle(own.map(({ node }) => node)) * 10) / 10,
      'servers µs/job': Math.round(middle(own.map(({ servers }) => servers)) * 10) / 10,
      'of one': Math.round((costOf(count) / costOf(one)) * 100) / 100,
    };
  }),
);
