import type { ClaimedJob } from '@pgqueue/core/internal';
import { expect, test, vi } from 'vitest';
import type { Ahead } from './prefetch.ts';
import { createAhead } from './prefetch.ts';
import type { Unit } from '../lease/unit.ts';
import { applyHeartbeat, liveOf } from '../lease/held-leases.ts';

const unit = (id: string): Unit => [
  { id, token: 'x', task: 'quick', leaseMs: 300_000, bundle: null } as ClaimedJob,
];

function bench(slots = 2) {
  let nowMs = 0;
  const released: Unit[] = [];
  const ahead: Ahead = createAhead({ slots, release: (jobs) => released.push(jobs), clock: () => nowMs });
  return {
    ahead,
    released: () => released.splice(0).flatMap((jobs) => jobs.map(({ id }) => id)),
    passes: (ms: number) => {
      nowMs += ms;
      vi.advanceTimersByTime(ms);
    },
  };
}

test('a batch for each slot is claimed ahead, as soon as claims have brought batches, and as long as there are any', () => {
  const { ahead } = bench();
  expect(ahead.room()).toBe(0);
  ahead.saw(true);
  expect(ahead.room()).toBe(2);
  ahead.put([unit('a'), unit('b')], { claimedAt: 0, sought: 2 });
  expect(ahead.room()).toBe(0);
  expect([ahead.next()?.unit[0].id, ahead.next()?.unit[0].id, ahead.next()]).toEqual(['a', 'b', undefined]);
  expect(ahead.room()).toBe(2);
  ahead.put([unit('c')], { claimedAt: 0, sought: 2 });
  expect(ahead.room()).toBe(0);
  ahead.saw(true);
  expect(ahead.room()).toBe(1);
});

test('one that has left for a slot, and was settled there, is not missed by a heartbeat that was under way', () => {
  const { ahead, released } = bench();
  ahead.put([unit('a'), unit('b')], { claimedAt: 0, sought: 2 });
  const asked = liveOf(ahead.holding);
  expect(asked.map(({ lease }) => lease.id)).toEqual(['a', 'b']);
  ahead.next();
  const told: unknown[] = [];
  const lost = asked.map(({ lease }) => lease);
  applyHeartbeat(asked, { lost, cancelled: [] }, (event) => told.push(event));
  // The other batch still waits, so its lease was really lost.
  expect(told).toEqual([{ type: 'job.stale', job: 'b', task: 'quick', during: 'heartbeat' }]);
  expect([ahead.next(), released()]).toEqual([undefined, []]);
});

test('what has waited for 100 ms is given back, and for a while no more is claimed', () => {
  vi.useFakeTimers();
  try {
    const { ahead, released, passes } = bench();
    ahead.saw(true);
    ahead.put([unit('a')], { claimedAt: 0, sought: 1 });
    passes(60);
    ahead.put([unit('b')], { claimedAt: 60, sought: 1 });
    expect(ahead.next()?.leased).toEqual({ claimedAt: 0, waitedMs: 60 });
    passes(60);
    expect(released()).toEqual([]);
    passes(60);
    expect(released()).toEqual(['b']);
    expect(ahead.room()).toBe(0);
    passes(200);
    expect(ahead.room()).toBe(2);
  } finally {
    vi.useRealTimers();
  }
});

test('when it is closed, what waits is given back, and so is what comes', () => {
  const { ahead, released } = bench();
  ahead.saw(true);
  ahead.put([unit('a')], { claimedAt: 0, sought: 2 });
  ahead.close();
  ahead.put([unit('b')], { claimedAt: 0, sought: 2 });
  expect([released(), ahead.room(), ahead.next()]).toEqual([['a', 'b'], 0, undefined]);
});
