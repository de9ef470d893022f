import type { ClaimedJob } from '@pgqueue/core';
import { expect, test } from 'vitest';
import type { Ahead } from './ahead.ts';
import { createAhead } from './ahead.ts';
import type { Unit } from './bundles.ts';

const unit = (id: string, over: Partial<ClaimedJob> = {}): Unit => [
  { id, token: 'x', task: 'quick', leaseMs: 300_000, bundle: null, ...over } as ClaimedJob,
];
const names = (units: readonly Unit[]) => units.flatMap((jobs) => jobs.map(({ id }) => id));

function bench() {
  let nowMs = 0;
  const released: Unit[] = [];
  const ahead: Ahead = createAhead({
    slots: 2,
    release: (jobs) => released.push(jobs),
    clock: () => nowMs,
  });
  return {
    ahead,
    released: () => names(released.splice(0)),
    passes: (ms: number) => {
      nowMs += ms;
    },
    run: (durationMs: number, task = 'quick') => {
      for (let n = 0; n < 1_000; n += 1) ahead.ended(task, durationMs);
    },
  };
}

test('as much may be claimed ahead as the slots do within 50 ms, and nothing before that is known', () => {
  const { ahead, run } = bench();
  expect(ahead.room(0)).toBe(0);
  run(1);
  expect(ahead.room(0)).toBe(100);
  ahead.put([unit('a'), unit('b')], 0);
  expect(ahead.room(0)).toBe(98);
  expect([ahead.next()?.unit[0].id, ahead.next()?.unit[0].id, ahead.next()]).toEqual(['a', 'b', undefined]);
  run(20);
  expect(ahead.room(0)).toBeLessThanOrEqual(6);
  run(0.001);
  expect(ahead.room(0)).toBe(1_000);
  run(2_000);
  expect(ahead.room(0)).toBe(0);
});

test('where they wait for too long all the same, fewer are claimed', () => {
  const { ahead, run, passes } = bench();
  run(1);
  for (let round = 0; round < 100; round += 1) {
    ahead.put([unit(`a${round}`), unit(`b${round}`)], 0);
    passes(60);
    ahead.next();
    ahead.next();
  }
  expect(ahead.room(0)).toBeLessThan(5);
  expect(ahead.room(0)).toBeGreaterThan(0);
  for (let round = 0; round < 1_000; round += 1) {
    ahead.put([unit(`c${round}`)], 0);
    ahead.next();
  }
  expect(ahead.room(0)).toBe(100);
});

test('those that may run for long are given back at once, and the next claim needs a slot for them', () => {
  const { ahead, run, released } = bench();
  run(100, 'slow');
  run(1);
  const short = { leaseMs: 900 };
  const wait = [unit('a'), unit('b'), unit('c')];
  ahead.put([...wait, unit('new', { task: 'new' }), unit('slow', { task: 'slow' }), unit('short', short)], 0);
  expect(released()).toEqual(['new', 'slow', 'short']);
  expect(ahead.room(0)).toBe(0);
  expect(ahead.room(1)).toBeGreaterThan(0);
  ahead.put([], 0);
  expect(ahead.room(0)).toBeGreaterThan(0);
  const [first] = unit('one', { bundle: 'bundle' });
  ahead.put([[first, first]], 0);
  expect(released()).toEqual(['one', 'one']);
});

test('after a claim of which most could not wait, none are claimed ahead for a while: they would come and go', () => {
  const { ahead, run, released, passes } = bench();
  run(1);
  ahead.put([unit('a'), unit('b', { leaseMs: 900 }), unit('c', { leaseMs: 900 })], 0);
  expect(released()).toEqual(['b', 'c']);
  passes(150);
  expect(ahead.room(1)).toBe(0);
  passes(60);
  expect(ahead.room(1)).toBe(99);
});

test('a task whose runs take long now and then does not wait either', () => {
  const { ahead, run, released } = bench();
  run(1);
  for (let n = 0; n < 40; n += 1) {
    for (let short = 0; short < 30; short += 1) ahead.ended('quick', 1);
    ahead.ended('quick', 50);
  }
  expect(ahead.room(5)).toBe(0);
  ahead.put([unit('a')], 0);
  expect(released()).toEqual(['a']);
  run(1);
  ahead.put([unit('b')], 0);
  expect(released()).toEqual([]);
});

test('a lease that was lost is forgotten; one that must not run here is given back', () => {
  const { ahead, run, released } = bench();
  run(1);
  ahead.put([unit('lost'), unit('cancelled'), unit('fenced')], 0);
  expect(ahead.holding.size).toBe(3);
  const [lost, cancelled, fenced] = [...ahead.holding];
  lost?.abort('lease_lost');
  cancelled?.abort('cancelled');
  fenced?.abort('node_lost');
  expect(released()).toEqual(['cancelled', 'fenced']);
  expect(ahead.holding.size).toBe(0);
  cancelled?.abort('cancelled');
  expect(released()).toEqual([]);
});

test('when it closes all are given back, and none waits any more', () => {
  const { ahead, run, released } = bench();
  run(1);
  ahead.put([unit('a'), unit('b')], 0);
  ahead.close();
  expect(released()).toEqual(['a', 'b']);
  expect(ahead.room(5)).toBe(0);
  ahead.put([unit('c')], 0);
  expect(released()).toEqual(['c']);
});
