// Ten kinds of faults beside a busy core, each at least once. `npm run chaos` runs longer, with all kinds.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, onTestFinished, test } from 'vitest';
import { lacks } from '../support/tools.ts';
import { startBusyCore } from './busy-core.ts';
import { lineOf, problemsOf } from './checker/check.ts';
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
