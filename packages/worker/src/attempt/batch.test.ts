import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { ClaimedJob } from '@pgqueue/core/internal';
import { expect, test } from 'vitest';
import type { BatchParts } from './batch.ts';
import { batchOf, createBatch } from './batch.ts';
import type { Unit } from '../lease/unit.ts';

setFlagsFromString('--expose-gc');
const gc = runInNewContext('gc') as (options?: { readonly type: 'minor' }) => void;

const oldBytes = (): number =>
  getHeapSpaceStatistics().find((space) => space.space_name === 'old_space')?.space_used_size ?? NaN;

function unitOf(count: number): Unit {
  const [first, ...others] = Array.from(
    { length: count },
    (_, n) => ({ id: `job ${n}`, position: 256, token: 'token', payload: [n] }) as unknown as ClaimedJob,
  );
  if (first === undefined) throw new Error('no job');
  return [first, ...others];
}

test('a unit has a batch where one was made of it', () => {
  const parts = {} as BatchParts;
  const [unit, other] = [unitOf(2), unitOf(2)];
  const batch = createBatch(parts, unit, 2);
  expect([batchOf(unit), batchOf(other)]).toEqual([batch, undefined]);
});

test('a batch that is over is garbage for a collection of young objects: none of its jobs grows old', () => {
  const parts = {} as BatchParts;
  gc();
  gc();
  const before = oldBytes();
  for (let n = 0; n < 1_000; n += 1) createBatch(parts, unitOf(100), 100);
  // Objects that survive two minor collections move to old space.
  gc({ type: 'minor' });
  gc({ type: 'minor' });
  expect(oldBytes() - before).toBeLessThan(1_000_000);
});
