import type { Policy } from '@pgqueue/core';
import { concurrency, fifo, gate, policy, rate, strictPriority } from '@pgqueue/core';
import { describe, expect, test } from 'vitest';
import { afterWrite, explain, ids, job, ready, restored, running, see } from './policy.ts';

const plain = policy({ order: fifo() });
const planned = (snapshot: ReturnType<typeof see>, made: Policy = plain): string =>
  ids(made.plan(snapshot, made.initial));

describe('see', () => {
  test('makes a lane of each queue and key, in the order of the key', () => {
    const waiting = [
      job(3, { key: 'a' }),
      job(2, { key: 'b' }),
      job(4, { key: 'a', priority: -1 }),
      job(1, { queue: 'mail', key: 'a' }),
    ];
    const { lanes, nowMs, inFlight } = see(waiting);
    expect(lanes.map(({ queue, key, jobs }) => [queue, key, jobs.map(({ id }) => id).join(' ')])).toEqual([
      ['default', 'a', 'job-4 job-3'],
      ['default', 'b', 'job-2'],
      ['mail', 'a', 'job-1'],
    ]);
    expect([nowMs, inFlight]).toEqual([0, []]);
  });

  test('has nodes for every task and version of the jobs, in every pool', () => {
    const gpu = {
      pool: 'gpu',
      paused: false,
      concurrency: null,
      keyConcurrency: null,
      rate: null,
      keyRate: null,
      weight: 1,
    };
    const waiting = [job(1), job(2, { task: 'mail', version: 3 }), job(3, { queue: 'images', task: 'mail' })];
    const plan = plain.plan(see(waiting, { queues: { images: gpu } }), plain.initial);
    expect(plan.dispatch.toSorted((a, b) => a.id.localeCompare(b.id))).toEqual([
      { id: 'job-1', pool: 'default' },
      { id: 'job-2', pool: 'default' },
      { id: 'job-3', pool: 'gpu' },
    ]);
  });

  test('has 100 slots, or as many as it is given, of which ready work items take theirs', () => {
    const many = Array.from({ length: 120 }, (_, index) => job(index + 1));
    expect(plain.plan(see(many), plain.initial).dispatch).toHaveLength(100);
    expect(planned(see(many, { slots: 2 }))).toBe('job-1 job-2');
    const single = ready(job(200));
    const bundle = [201, 202].map((seq) => ({ ...ready(job(seq)), bundle: 'job-201' }));
    const taken = [running(job(300)), single, ...bundle];
    expect(planned(see(many, { slots: 3, inFlight: taken }))).toBe('job-1');
  });

  test('takes any other part of a snapshot as it is given', () => {
    const late = see([job(1)], { nowMs: 5, pools: {}, batchMax: 7 });
    expect(late).toMatchObject({ nowMs: 5, pools: {}, batchMax: 7 });
    expect(planned(late)).toBe('');
  });

  test('takes fetched values as simulations do, and says that they are of that time', () => {
    const { prepared } = see([], { nowMs: 5, prepared: { credit: ['a'] } });
    expect(prepared).toEqual({ credit: { value: ['a'], atMs: 5 } });
  });
});

test('jobs in flight keep the facts of the job, and say where they are', () => {
  const waited = job(1, { key: 'acme', alone: true });
  expect(ready(waited)).toMatchObject({ id: 'job-1', key: 'acme', state: 'ready', node: null, bundle: null });
  expect(running(waited, 7)).toMatchObject({ state: 'running', node: 'node-1', dispatchedMs: 7 });
  expect(running(waited)).not.toHaveProperty('alone');
});

test('afterWrite charges what was dispatched, at the time of the write', () => {
  const limited = policy({ gates: [rate({ name: 'api', perSecond: 2, burst: 1 })], order: fifo() });
  const first = limited.plan(see([job(1), job(2)]), limited.initial);
  expect(ids(first)).toBe('job-1');
  const state = afterWrite(limited, first, 10);
  const at = (nowMs: number): string => ids(limited.plan(see([job(2)], { nowMs }), state));
  expect([at(509), at(510)]).toEqual(['', 'job-2']);
  const whole: Policy = { name: 'whole', initial: {}, plan: () => ({ ...first, state: { kept: 1 } }) };
  expect(afterWrite(whole, whole.plan(see([]), {}), 0)).toEqual({ kept: 1 });
});

test('restored hands on a state as JSON, with the time at which it was saved', () => {
  const limited = policy({ gates: [rate({ name: 'api', perSecond: 1, burst: 1 })], order: fifo() });
  const { state } = limited.plan(see([job(1)]), limited.initial);
  const next = restored(limited, state, 1_000);
  const at = (nowMs: number): string => ids(limited.plan(see([job(2)], { nowMs }), next));
  expect([at(1_999), at(2_000)]).toEqual(['', 'job-2']);
  const whole: Policy = {
    name: 'whole',
    initial: {},
    plan: (_, given) => ({ dispatch: [], held: {}, state: given }),
  };
  expect(restored(whole, { kept: { at: 1 } })).toEqual({ kept: { at: 1 } });
});

describe('explain', () => {
  const limited = policy({
    gates: [concurrency({ name: 'tenant', by: ({ key }) => key, limit: 1 })],
    order: strictPriority(),
  });
  const snapshot = see([job(2, { key: 'acme' }), job(3, { key: 'globex' })], {
    inFlight: [running(job(1, { key: 'acme' }))],
  });

  test('names the gates that hold a job, and how many go before it', () => {
    expect(explain(limited, snapshot, limited.initial, 'job-2')).toEqual({
      holds: [{ gate: 'tenant', message: 'tenant acme has 1 of 1 in flight', untilMs: null, paced: true }],
      ahead: 0,
    });
    expect(explain(limited, snapshot, limited.initial, 'job-3')).toEqual({ holds: [], ahead: 1 });
  });

  test('counts jobs that a plan dispatched once they are in flight', () => {
    const [first, second] = [job(2, { key: 'acme' }), job(3, { key: 'acme' })];
    const before = see([first, second]);
    const plan = limited.plan(before, limited.initial);
    expect([ids(plan), plan.held]).toEqual(['job-2', { default: { tenant: 1 } }]);
    expect(explain(limited, before, plan.state, 'job-3')).toEqual({ holds: [], ahead: 1 });
    const after = see([second], { inFlight: [ready(first)] });
    expect(explain(limited, after, plan.state, 'job-3').holds.map(({ gate: name }) => name)).toEqual([
      'tenant',
    ]);
  });

  test('refuses a job that does not wait, and a policy that explains nothing', () => {
    expect(() => explain(limited, snapshot, limited.initial, 'job-1')).toThrow(
      expect.objectContaining({ code: 'not_found', message: 'no job job-1 waits in this snapshot' }),
    );
    const { name, initial, plan } = policy({ gates: [gate({ name: 'none', admits: () => true })] });
    expect(() => explain({ name, initial, plan }, snapshot, initial, 'job-2')).toThrow(
      expect.objectContaining({ code: 'configuration', message: 'policy fair_share has no explain' }),
    );
  });
});
