import { expect, test } from 'vitest';
import type { Section } from './summary.ts';
import { isMet, targetRow, targetsOf } from './targets.ts';

function section(
  work: string,
  name: string,
  rows: readonly (readonly [string, string, Record<string, number>])[],
): Section {
  return {
    work,
    case: name,
    metrics: [],
    sizes: { jobs: 1, seconds: 1 },
    rows: rows.map(([peer, setting, metrics]) => ({
      peer,
      setting,
      faults: [],
      repetitions: 1,
      metrics: Object.fromEntries(
        Object.entries(metrics).map(([metric, median]) => [
          metric,
          { median, min: median, max: median, count: 1 },
        ]),
      ),
    })),
  };
}

test('only what was measured has a target', () => {
  expect(targetsOf([])).toEqual([]);
  const targets = targetsOf([
    section('drain', '1 worker process', [
      ['pgqueue', 'default', { jobsPerSecond: 60, nodeMicros: 5, storeMicros: 15, walBytes: 2_000 }],
      ['graphile-worker', 'best', { jobsPerSecond: 30, nodeMicros: 10, storeMicros: 15, walBytes: 1_000 }],
      ['table', 'hand-tuned', { jobsPerSecond: 150, nodeMicros: 1, storeMicros: 1, walBytes: 1 }],
    ]),
  ]);
  expect(targets.map((target) => [target.what, target.value, isMet(target)])).toEqual([
    ['drain, 1 process: of graphile-worker’s best', 2, true],
    ['drain, 1 process: of the table', 0.4, false],
    ['CPU a job: of graphile-worker', 0.8, true],
    ['WAL a job: of graphile-worker', 2, false],
  ]);
});

test('the best of the others counts, of those that were measured', () => {
  const [target] = targetsOf([
    section('enqueue', 'by 1000, 1 connection', [
      ['pgqueue', 'default', { jobsPerSecond: 120 }],
      ['graphile-worker', 'best', { jobsPerSecond: 60 }],
      ['pg-boss', 'best', { jobsPerSecond: 100 }],
      ['bullmq', 'best', { jobsPerSecond: 500 }],
    ]),
  ]);
  expect(target).toMatchObject({ value: 1.2, atLeast: 1.3 });
  const alone = [['pgqueue', 'default', { jobsPerSecond: 1 }] as const];
  expect(targetsOf([section('enqueue', 'by 1000, 1 connection', alone)])).toEqual([]);
});

test('a row says what holds', () => {
  expect(targetRow({ what: 'x', value: 1.2345, atMost: 1.5 })).toEqual(['x', '1.23', '≤ 1.5', 'yes']);
  expect(targetRow({ what: 'y', value: 0.9, atLeast: 0.95 })).toEqual(['y', '0.9', '≥ 0.95', 'no']);
});
