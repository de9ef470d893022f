import type { ClaimedJob } from '@pgqueue/core/internal';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Unit } from '../lease/unit.ts';
import { startClaimer } from './claim-loop.ts';
import type { Claimed } from './claims.ts';

// Waits between claims never end by themselves.
beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }));
afterEach(() => void vi.useRealTimers());

const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve));
};

function rows(count: number): Claimed['rows'] {
  return Array.from({ length: count }, (_, index) => {
    const job = { id: `${index}`, position: index, bundle: null } as ClaimedJob;
    return { position: index, size: 2, jobs: [job, job], suspect: false };
  });
}

/**
 * Claims for 4 free slots and 4 batches ahead. The first claim brings `claimed`, every other one nothing. `empties`: the
 * node then holds nothing any more.
 */
async function claims(claimed: Pick<Claimed, 'rows' | 'full'>, { empties = false } = {}) {
  const given: Claimed['rows'][] = [];
  const taken: { readonly units: number; readonly ahead: number }[] = [];
  const claimer = startClaimer({
    claims: () => {
      const { rows: brought, full } = given.length === 0 ? claimed : { rows: [], full: false };
      given.push(brought);
      return Promise.resolve({ rows: brought, full, claimedAt: 0 });
    },
    slots: 4,
    wanted: () => ({ free: 4, ahead: 4 }),
    take: (units: readonly Unit[], { ahead }) => void taken.push({ units: units.length, ahead }),
    batch: () => {},
    ask: () => {},
    hearing: () => true,
    observe: () => {},
  });
  await turns();
  if (empties) claimer.slotFreed(true);
  await turns();
  const claimsUntilNow = given.length;
  await claimer.stop();
  return { claims: claimsUntilNow, first: taken[0] };
}

test('a claim that was cut is followed by the next at once, and says nothing of what there is to claim ahead', async () => {
  expect(await claims({ rows: rows(3), full: true })).toEqual({ claims: 2, first: { units: 3, ahead: 0 } });
  expect(await claims({ rows: rows(6), full: true })).toEqual({ claims: 2, first: { units: 6, ahead: 0 } });
});

test('a claim that brought less than was asked for, and was not cut, has taken all', async () => {
  expect(await claims({ rows: rows(6), full: false })).toEqual({ claims: 1, first: { units: 6, ahead: 4 } });
  expect(await claims({ rows: rows(8), full: false })).toEqual({ claims: 2, first: { units: 8, ahead: 4 } });
});

test('a node that holds nothing any more claims anew only if it ran a suspect', async () => {
  const suspects = rows(1).map((row) => ({ ...row, suspect: true }));
  expect(await claims({ rows: rows(1), full: false }, { empties: true })).toMatchObject({ claims: 1 });
  expect(await claims({ rows: suspects, full: false }, { empties: true })).toMatchObject({ claims: 2 });
});

/**
 * A node of 4 slots, all of them busy at first. Each claim brings the rows that are ready, up to its maximum.
 */
function busyNode() {
  const state = { free: 0, ahead: 0, ready: 100 };
  const claimed: number[] = [];
  let asked = 0;
  const claimer = startClaimer({
    claims: ({ max, ahead }) => {
      const count = Math.min(state.ready, max + (ahead ?? 0));
      state.ready -= count;
      claimed.push(count);
      return Promise.resolve({ rows: rows(count), full: false, claimedAt: 0 });
    },
    slots: 4,
    wanted: () => ({ free: state.free, ahead: state.ahead }),
    take: () => Object.assign(state, { free: 0, ahead: 0 }),
    batch: () => {},
    ask: () => {
      asked += 1;
    },
    hearing: () => true,
    observe: () => {},
  });
  const slotFreed = async (now: Partial<typeof state>): Promise<void> => {
    Object.assign(state, now);
    vi.advanceTimersByTime(10);
    claimer.slotFreed(false);
    await turns();
  };
  return {
    claimer,
    slotFreed,
    claimed: () => claimed.splice(0),
    asked: () => asked,
  };
}

test('while all slots are busy, batches are claimed ahead two at a time for four slots, not one by one', async () => {
  const { claimer, slotFreed, claimed } = busyNode();
  await slotFreed({ ahead: 1 });
  expect(claimed()).toEqual([]);
  await slotFreed({ ahead: 2 });
  expect(claimed()).toEqual([2]);
  // A free slot is filled at once.
  await slotFreed({ free: 1, ahead: 4 });
  expect(claimed()).toEqual([5]);
  await claimer.stop();
});

test('where nothing is claimed for 100 ms, the scheduler is told of settled batches all the same', async () => {
  const { claimer, slotFreed, asked } = busyNode();
  await slotFreed({ free: 4 });
  claimer.settled();
  await turns();
  vi.advanceTimersByTime(99);
  await turns();
  expect(asked()).toBe(0);
  vi.advanceTimersByTime(1);
  await turns();
  expect(asked()).toBe(1);
  vi.advanceTimersByTime(1_000);
  await turns();
  expect(asked()).toBe(1);
  await claimer.stop();
});

test('the scheduler is asked for more when batches were settled and a claim has brought less than it could take', async () => {
  const { claimer, slotFreed, asked } = busyNode();
  await slotFreed({ free: 4 });
  claimer.settled();
  claimer.settled();
  expect(asked()).toBe(0);
  await slotFreed({ free: 4, ready: 3 });
  expect(asked()).toBe(1);
  await slotFreed({ free: 1, ready: 0 });
  expect(asked()).toBe(1);
  claimer.settled();
  expect(asked()).toBe(2);
  claimer.hint(false);
  await slotFreed({ free: 1, ready: 1 });
  claimer.settled();
  expect(asked()).toBe(2);
  await claimer.stop();
});
