import type { QueueSeen } from '@pgqueue/core';
import { describe, expect, test } from 'vitest';
import { aJob, aLane } from '../testing/planning.ts';
import { itemOf } from './items/item.ts';
import type { PlanWritten } from './backlog.ts';
import { backlogOf, isBehind } from './backlog.ts';
import type { KnownJob } from './lanes/known-job.ts';

const known = (seq: number, facts: Partial<KnownJob> = {}): KnownJob => ({
  ...aJob('a', seq),
  rowVersion: '1',
  crashes: 0,
  ...facts,
});
const cacheOf = (
  jobs: readonly KnownJob[],
  { more = true, others = [] as readonly KnownJob[] } = {},
): Parameters<typeof backlogOf>[0] => ({
  lanes: () => [{ ...aLane('a', jobs), more }, aLane('b', others)],
  find: (id) => jobs.find((job) => job.id === id),
});
const written = (over: Partial<PlanWritten> = {}): PlanWritten => ({
  snapshot: { queues: {}, lanes: [aLane('a', [])] },
  planned: { held: { default: { no_free_slot: 3 } }, forecast: null },
  written: { items: [] },
  readAt: 1_000,
  tookMs: 5,
  ...over,
});
const item = (...jobs: readonly KnownJob[]): ReturnType<typeof itemOf> =>
  itemOf({ jobs, pool: 'default', dispatchedMs: 0, bundle: null }, 256, null);
const queue: QueueSeen = {
  pool: 'default',
  paused: false,
  concurrency: null,
  keyConcurrency: null,
  rate: null,
  keyRate: null,
  weight: 3,
};

describe('a backlog', () => {
  test('begins with the first job that waits, and is read again in time', () => {
    const next = known(7);
    const found = backlogOf(cacheOf([next, known(8)]), written());
    expect(found).toMatchObject({ template: next, after: 6, untilMs: 1_050 });
    expect(backlogOf(cacheOf([next]), written({ tookMs: 40 }))?.untilMs).toBe(1_200);
  });

  test('begins behind the last job that went, with jobs like those of the last batch', () => {
    const items = [item(known(1), known(2)), item(known(3))];
    expect(backlogOf(cacheOf([]), written({ written: { items } }))).toMatchObject({
      template: known(2),
      after: 3,
    });
    expect(backlogOf(cacheOf([]), written({ written: { items: [item(known(3))] } }))).toBeUndefined();
    const urgent = [...items, item(known(4, { priority: 1 }))];
    expect(backlogOf(cacheOf([]), written({ written: { items: urgent } }))).toBeUndefined();
  });

  test('may have weights, but no limit', () => {
    const plan = (own: Partial<QueueSeen>): PlanWritten =>
      written({ snapshot: { queues: { default: { ...queue, ...own } }, lanes: [aLane('a', [])] } });
    expect(backlogOf(cacheOf([known(1)]), plan({}))).toBeDefined();
    const rate = { perSecond: 1, burst: 1 };
    for (const own of [
      { paused: true },
      { concurrency: 5 },
      { keyConcurrency: 1 },
      { rate },
      { keyRate: rate },
    ])
      expect(backlogOf(cacheOf([known(1)]), plan(own))).toBeUndefined();
  });

  test('is none where other jobs wait, or a rule holds some, or a job is not like others', () => {
    expect(backlogOf(cacheOf([known(1)], { others: [known(2)] }), written())).toBeUndefined();
    expect(backlogOf(cacheOf([], { more: false }), written())).toBeUndefined();
    const held = { default: { no_free_slot: 1, key_rate: 1 } };
    expect(backlogOf(cacheOf([known(1)]), written({ planned: { held, forecast: null } }))).toBeUndefined();
    const moving = { queues: {}, lanes: [aLane('a', [])], moving: ['a'] };
    expect(backlogOf(cacheOf([known(1)]), written({ snapshot: moving }))).toBeUndefined();
    const leftOut = { queues: {}, lanes: [] };
    expect(backlogOf(cacheOf([known(1)]), written({ snapshot: leftOut }))).toBeUndefined();
    for (const facts of [
      { tries: 1 },
      { crashes: 1 },
      { expiresMs: 5 },
      { flow: 'f' },
      { attributes: { a: 1 } },
    ])
      expect(backlogOf(cacheOf([known(1, facts)]), written())).toBeUndefined();
  });

  test('is not disturbed by news of jobs behind it', () => {
    const found = backlogOf(cacheOf([known(7)]), written());
    if (found === undefined) throw new Error('no backlog');
    expect(isBehind(found, undefined)).toBe(true);
    expect(isBehind(found, { jobs: [known(9)] })).toBe(true);
    expect(isBehind(found, { jobs: [known(9), known(3)] })).toBe(false);
    expect(isBehind(found, { jobs: [known(9, { priority: -1 })] })).toBe(false);
    expect(isBehind(found, { jobs: [{ ...known(9), key: 'b' }] })).toBe(false);
  });
});
