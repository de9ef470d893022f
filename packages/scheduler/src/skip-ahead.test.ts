import type { LaneRow } from '@pgqueue/postgres';
import { expect, test } from 'vitest';
import { createSkipAhead } from './skip-ahead.ts';

const row = (seq: number, task: string): LaneRow => ({
  queue: 'q',
  key: 'k',
  paged: true,
  wanted: 10,
  retryDueMs: null,
  id: `job${seq}`,
  seq,
  priority: 0,
  task,
  version: 1,
  rowVersion: '1',
  createdMs: 0,
  expiresMs: null,
  tries: 0,
  attributes: {},
});

/** A key with `held` jobs that nobody can run before one that somebody can; what the database would show of it. */
function world(held: number): (start: readonly [number, number] | undefined, limit: number) => LaneRow[] {
  return (start, limit) =>
    Array.from({ length: held + 1 }, (_, seq) => row(seq, seq < held ? 'unknown' : 't'))
      .filter(({ seq }) => start === undefined || seq > start[1])
      .slice(0, limit);
}

const ofKey = 10;
const misfit = ({ task }: LaneRow) => (task === 'unknown' ? 'lasting' : undefined);

test('a walk comes to the job behind 5,000 held ones in a few ticks, and then rests', () => {
  const skip = createSkipAhead();
  const show = world(5_000);
  let ticks = 0;
  let found = false;
  while (!found && ticks < 20) {
    ticks += 1;
    const { starts, lookahead } = skip.starts(ticks);
    const start = starts['q']?.['k'];
    const candidates = show(start, start === undefined ? ofKey : Math.max(lookahead, ofKey));
    found = candidates.some(({ task }) => task === 't');
    skip.note({ candidates, misfit, nowMs: ticks });
  }
  expect(found).toBe(true);
  expect(ticks).toBeLessThanOrEqual(9);
  expect(skip.walking()).toBe(false);
  expect(skip.starts(ticks + 1).starts['q']?.['k'] ?? skip.starts(ticks + 2).starts['q']?.['k']).toEqual([
    0, 4_999,
  ]);
});

test('every fourth tick looks at the front, and after a rest the walk begins anew', () => {
  const skip = createSkipAhead();
  skip.note({ candidates: world(50)(undefined, ofKey), misfit, nowMs: 0 });
  const looks = Array.from({ length: 4 }, (_, at) => Object.keys(skip.starts(at + 1).starts).length);
  expect(looks).toEqual([1, 1, 1, 0]);
  skip.starts(5);
  skip.note({ candidates: [], misfit, nowMs: 5 });
  expect(Object.keys(skip.starts(6).starts)).toEqual(['q']);
  skip.note({ candidates: world(50)([0, 9], 1_000), misfit, nowMs: 6 });
  expect(Object.keys(skip.starts(7).starts)).toEqual(['q']);
  expect(skip.starts(2_000).starts).toEqual({});
});

test('a key that is gone ends its walk; so do other nodes', () => {
  const skip = createSkipAhead();
  const begin = (): void => skip.note({ candidates: world(50)(undefined, ofKey), misfit, nowMs: 0 });
  begin();
  expect(skip.walking()).toBe(true);
  for (let tick = 0; tick < 40; tick += 1) {
    skip.starts(tick);
    skip.note({ candidates: [], misfit, nowMs: tick });
  }
  expect(skip.walking()).toBe(false);
  begin();
  skip.reset();
  expect(skip.walking()).toBe(false);
});

test('the rows that all walks of one tick cost are bounded', () => {
  const skip = createSkipAhead();
  const candidates = Array.from({ length: 500 }, (_, key) => ({
    ...row(key, 'unknown'),
    key: `k${key}`,
    wanted: 1,
  }));
  skip.note({ candidates, misfit, nowMs: 0 });
  const seen = new Set<string>();
  for (let tick = 1; tick <= 12; tick += 1) {
    const { starts, lookahead } = skip.starts(tick);
    const keys = Object.keys(starts['q'] ?? {});
    expect(keys.length * lookahead).toBeLessThanOrEqual(4_000);
    for (const key of keys) seen.add(key);
  }
  expect(seen.size).toBe(500);
});
