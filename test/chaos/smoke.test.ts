// Ten kinds of faults beside a busy core, each at least once; then five of them against a worker in Python. `npm run chaos` runs longer, with all kinds.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, onTestFinished, test } from 'vitest';
import { lacks } from '../support/tools.ts';
import { startBusyCore } from './busy-core.ts';
import { lineOf, problemsOf } from './checker/check.ts';
import { trace } from './checker/traces.ts';
import { chaosRun } from './run.ts';
import { timelineHtml } from './timeline.ts';

const folder = mkdtempSync(join(tmpdir(), 'pgqueue-chaos-'));
/**
 * Milliseconds of faults: enough to plan each kind once and some twice, if the machine makes them in time.
 */
const ms = 45_000;
const keep = process.env['PGQUEUE_CHAOS_KEEP'] !== undefined;

afterEach(() => {
  if (!keep) rmSync(folder, { recursive: true, force: true });
});

const faults = [
  'worker-freeze', // the only fault that must cause a stale settlement
  'worker-kill',
  'scheduler-kill',
  'postgres-immediate',
  'backend-terminate',
  'network-reset',
  'requests-dropped',
  'reply-lost',
  'node-reset',
  'network-delay',
];

test.skipIf(lacks('postgresql-15'))(
  'under faults nothing is lost, done twice or beyond a limit',
  async () => {
    const busy = startBusyCore();
    onTestFinished(() => busy.stop());
    const run = await chaosRun({
      seed: 1,
      ms,
      faults,
      perSecond: 60,
      everyMs: 3_000,
      mixed: true,
      whole: true,
      folder,
    });
    console.log(lineOf(run.verdict));
    expect(problemsOf(run.verdict, { staleMin: 1 })).toEqual([]);
    expect(run.verdict.total.acknowledged).toBeGreaterThan(300);
    expect(run.verdict.recoveries.map(({ kind }) => kind)).toEqual(faults.toSorted());
    expect(run.verdict.snapshots).toBeGreaterThan(10);
    expect(await timelineHtml(run)).toContain('worker-freeze');
  },
);

test.skipIf(lacks('postgresql-15') || lacks('psycopg'))(
  'a worker in Python among others loses nothing, and does nothing twice, either',
  async () => {
    const kinds = ['worker-freeze', 'worker-kill', 'node-reset', 'commit-reply-lost', 'network-reset'];
    const run = await chaosRun({
      seed: 92, // with it all of them, each once, hit the one in Python
      ms: 4_200,
      faults: kinds,
      perSecond: 120, // so that the one in Python gets enough of them, however long it takes to start again
      everyMs: 800,
      mixed: true,
      whole: true,
      python: 1 / 3,
      folder: join(folder, 'python'),
    });
    console.log(lineOf(run.verdict));
    expect(problemsOf(run.verdict)).toEqual([]);
    expect(run.verdict.recoveries.map(({ kind }) => kind)).toEqual(kinds.toSorted());
    const hit = run.history.filter((event) => event.type === 'fault' && event.phase === 'made');
    expect(hit.flatMap((event) => ('target' in event ? [event.target] : []))).toEqual(['node-1', 'node-1']);
    const leases = [...trace(run.history).jobs.values()].flatMap((job) => [...job.leases.values()]);
    const own = leases.filter(({ node }) => node === 'node-1');
    const done = own.filter(({ settles }) => settles.some(({ verdict }) => verdict === 'done'));
    expect(done.length).toBeGreaterThan(30);
  },
);
