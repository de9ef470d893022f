import type { Candidate, Lane } from '@pgqueue/core';
import { expect, test } from 'vitest';
import { freezeSnapshot } from './freeze.ts';
import { aSnapshot } from './testing/planning.ts';

const jobOf = (id: string): Candidate => ({
  id,
  queue: 'q',
  key: 'k',
  task: 't',
  version: 1,
  priority: 0,
  seq: 1,
  createdMs: 0,
  expiresMs: null,
  attributes: { region: 'eu' },
  tries: 0,
});
const laneOf = (jobs: readonly Candidate[]): Lane => ({
  queue: 'q',
  key: 'k',
  jobs,
  more: false,
  retryDueMs: null,
  fresh: true,
});
const isFrozen = (jobs: readonly Candidate[]): boolean =>
  [jobs, ...jobs, ...jobs.map(({ attributes }) => attributes)].every((one) => Object.isFrozen(one));

test('every job of a lane is frozen, one that joins those that were before among them', () => {
  const jobs = [jobOf('a'), jobOf('b'), jobOf('c')];
  freezeSnapshot(aSnapshot({ lanes: [laneOf(jobs)] }));
  expect(isFrozen(jobs)).toBe(true);
  const joined = [...jobs.slice(1), jobOf('d')];
  freezeSnapshot(aSnapshot({ lanes: [laneOf(joined)] }));
  expect(isFrozen(joined)).toBe(true);
});

test('a list that was frozen without its jobs makes none of them so', () => {
  const jobs = Object.freeze([jobOf('a'), jobOf('b')]);
  freezeSnapshot(aSnapshot({ lanes: [laneOf(jobs)] }));
  expect(isFrozen(jobs)).toBe(true);
});

test('what is in flight is not made before somebody asks', () => {
  const asked: string[] = [];
  const snapshot = {
    ...aSnapshot({}),
    get inFlight() {
      asked.push('inFlight');
      return [];
    },
  };
  expect(Object.isFrozen(freezeSnapshot(snapshot))).toBe(true);
  expect(asked).toEqual([]);
});
