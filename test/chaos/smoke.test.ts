// The bench itself, in a short form: every part of it, and eight kinds of faults at least; in CI for three minutes. A longer run is `npm run chaos`.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { lacks } from '../support/tools.ts';
import { lineOf, problemsOf } from './checker/check.ts';
import { chaosRun } from './run.ts';
import { timelineHtml } from './timeline.ts';

const folder = mkdtempSync(join(tmpdir(), 'pgqueue-chaos-'));
const ms = process.env['CI'] === undefined ? 40_000 : 180_000;
const keep = process.env['PGQUEUE_CHAOS_KEEP'] !== undefined;

afterEach(() => {
  if (!keep) rmSync(folder, { recursive: true, force: true });
});

const faults = [
  'worker-freeze', // the only one that must try a stale settlement
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

test.skipIf(lacks('replication'))('under faults nothing is lost, done twice or beyond a limit', async () => {
  const run = await chaosRun({
    seed: 1,
    ms,
    faults,
    perSecond: 60,
    everyMs: 3_000,
    mixed: true,
    folder,
  });
  console.log(lineOf(run.verdict));
  expect(problemsOf(run.verdict, { staleMin: 1 })).toEqual([]);
  expect(run.verdict.total.acknowledged).toBeGreaterThan(ms / 80);
  expect(run.verdict.recoveries.length).toBeGreaterThanOrEqual(8);
  expect(run.verdict.snapshots).toBeGreaterThan(10);
  expect(await timelineHtml(run)).toContain('worker-freeze');
});
