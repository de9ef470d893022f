import type { Lane } from '@pgqueue/core';
import { ordered, policy } from '@pgqueue/core';
import type { Target } from '@pgqueue/postgres/internal';
import { expect, test } from 'vitest';
import { createFlying } from '../state/items/item.ts';
import { aJob, aLane, anItem, aSnapshot, plannerOf } from '../testing/planning.ts';
import { wantedSlots } from './wanted.ts';

const noItems = createFlying([]);
/** All jobs are shown, so none is counted by a query. */
const database: Target = { schema: 'none', query: () => Promise.reject(new Error('nothing is hidden')) };

const old = (key: string, facts: Partial<Lane> = {}): Lane => ({
  ...aLane(
    key,
    [1, 2].map((seq) => aJob(key, seq)),
  ),
  fresh: false,
  ...facts,
});

test('an ordered key that the last tick did not read has one job that could go, unless one is before it', async () => {
  const { planner } = plannerOf(policy({ gates: [ordered()] }));
  const snapshot = aSnapshot({
    lanes: [
      old('a'),
      old('b', { fresh: true }),
      old('runs'),
      old('retries', { retryDueMs: 1_000_001 }),
      old('retried', { retryDueMs: 999_999 }),
    ],
    inFlight: [anItem(aJob('runs', 0), { state: 'running' })],
    nowMs: 1_000_000,
  });
  const asked = { snapshot, flying: noItems, dispatched: noItems, nodes: [], settled: [] };
  expect(await wantedSlots(database, { ...asked, plan: planner.aside() })).toEqual({ default: 3 });
});
