import { describe, expect, test } from 'vitest';
import { aJob, anItem, aPool, aSnapshot, lanesOf, nowMs } from '../../testing/snapshots.ts';
import { policy } from '../compose/compose.ts';
import { fifo } from '../orders/ranked.ts';
import { strictPriority } from '../orders/strict-priority.ts';
import type { Plan } from '../plan.ts';
import type { Policy } from '../policy.ts';
import type { Candidate, InFlight, Snapshot } from '../snapshot.ts';
import { defaultQueue } from '../snapshot.ts';

const urgent = aJob({ seq: 100, key: 'urgent', priority: -5 });
const recalling = policy({ order: strictPriority(), recall: true });

function planOf(
  made: Policy,
  jobs: readonly Candidate[],
  inFlight: readonly InFlight[],
  seen: Partial<Snapshot> = {},
): Plan {
  const ready = inFlight.filter(({ state, pool }) => state === 'ready' && pool === 'default').length;
  const pools = { default: { ...aPool(2), ready: [{ task: 't', version: 1, count: ready }] }, gpu: aPool(2) };
  return made.plan(aSnapshot({ lanes: lanesOf(jobs), inFlight, pools, ...seen }), made.initial);
}

describe('recall', () => {
  const low = [1, 2].map((seq) => anItem({ seq, priority: 1 }));

  test('takes back what is ready and of lower priority, and dispatches nothing beside it', () => {
    const plan = planOf(recalling, [urgent], low);
    expect(plan.recall).toEqual(['job1', 'job2']);
    expect(plan.dispatch).toEqual([]);
    expect(plan.state).toEqual(recalling.initial);
  });

  test('the next plan puts the urgent job first, and as many of the others as there is room for', () => {
    const plan = planOf(recalling, [urgent, ...low.map(({ seq }) => aJob({ seq, priority: 1 }))], []);
    expect(plan.recall).toBeUndefined();
    expect(plan.dispatch.map(({ id }) => id)).toEqual(['job100', 'job1']);
  });

  test.each([
    ['runs already', low.map((item) => ({ ...item, state: 'running' as const, node: 'n' }))],
    ['belongs to a bundle', low.map((item) => ({ ...item, bundle: 'job1' }))],
    ['waits in another pool', low.map((item) => ({ ...item, pool: 'gpu' }))],
    ['is as urgent', low.map((item) => ({ ...item, priority: -5 }))],
    [
      'has waited long enough to make up for it',
      low.map((item) => ({ ...item, createdMs: nowMs - 7 * 60_000 })),
    ],
  ])('leaves what %s', (_, inFlight) => {
    expect(planOf(recalling, [urgent], inFlight).recall).toBeUndefined();
  });

  test('not for a job that a gate holds, but for the next one that may go', () => {
    const queues = { held: { ...defaultQueue, paused: true } };
    const jobs = [{ ...urgent, queue: 'held' }, aJob({ seq: 101, key: 'other', priority: 0 })];
    expect(planOf(recalling, jobs, low, { queues }).recall).toEqual(['job1', 'job2']);
    expect(planOf(recalling, jobs.slice(0, 1), low, { queues }).recall).toBeUndefined();
  });

  test('not for a job that no node can run', () => {
    expect(planOf(recalling, [{ ...urgent, task: 'unknown' }], low).recall).toBeUndefined();
  });

  test('only where it was asked for, and by an order that ranks', () => {
    expect(planOf(policy({ order: strictPriority() }), [urgent], low).recall).toBeUndefined();
    expect(planOf(policy({ order: fifo(), recall: true }), [urgent], low).recall).toBeUndefined();
  });

  test('what was recalled for a job is not recalled again once that has gone', () => {
    const first = planOf(recalling, [urgent], low);
    const back = low
      .filter(({ id }) => first.recall?.includes(id))
      .map(({ seq }) => aJob({ seq, priority: 1 }));
    const second = planOf(recalling, [urgent, ...back], []);
    const ids = new Set(second.dispatch.map(({ id }) => id));
    const items = [anItem({ seq: 100, key: 'urgent', priority: -5 }), ...low].filter(({ id }) => ids.has(id));
    const third = planOf(
      recalling,
      back.filter(({ id }) => !ids.has(id)),
      items,
    );
    expect([items.length, third.recall, third.dispatch]).toEqual([2, undefined, []]);
  });
});
