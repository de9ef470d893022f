import type { ClaimedJob } from '@pgqueue/core';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Unit } from '../lease/unit.ts';
import { startClaimer } from './claim-loop.ts';
import type { Claimed } from './claims.ts';

// a wait between claims never ends by itself
beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }));
afterEach(() => void vi.useRealTimers());

const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve));
};

function rows(count: number): Claimed['rows'] {
  return Array.from({ length: count }, (_, index) => {
    const job = { id: `${index}`, position: index, bundle: null } as ClaimedJob;
    return { position: index, size: 2, jobs: [job, job] };
  });
}

/** Claims for 4 free slots and 4 batches ahead; the first claim brings `claimed`, each other nothing. */
async function claims(claimed: Pick<Claimed, 'rows' | 'full'>) {
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
    hearing: () => true,
    observe: () => {},
  });
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
