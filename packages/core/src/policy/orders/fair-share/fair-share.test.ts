import { describe, expect, test } from 'vitest';
import { restored, throughJsonb } from '../../../testing/orders.ts';
import { serve } from '../../../testing/service.ts';
import { aJob, anItem, aPool, aSnapshot, lanesOf, nowMs } from '../../../testing/snapshots.ts';
import { policy } from '../../compose/compose.ts';
import { defaultPolicy } from '../../compose/default.ts';
import type { Candidate, JobFacts, Lane } from '../../snapshot.ts';
import { defaultQueue } from '../../snapshot.ts';
import type { FairShareState } from './state.ts';
import type { FairShareOptions } from './fair-share.ts';
import { fairShare } from './fair-share.ts';
import { takeTurns } from './pool-turns.ts';

function keysServed(
  options: FairShareOptions,
  slots: readonly number[],
  keys: readonly string[] = ['a', 'b'],
): string {
  return serve({ order: fairShare(options), backlogs: keys.map((key) => ({ key })), slots })
    .map(({ key }) => key)
    .join('');
}

/** Returns a promise, as an async function does. */
function later(value: number): number {
  return Promise.resolve(value) as unknown as number;
}

function stateOf(state: unknown): FairShareState {
  return state as FairShareState;
}

describe('fair share', () => {
  test('by default, queues go by their weights, and keys alike', () => {
    const made = defaultPolicy();
    const jobs = ['a', 'b', 'c'].flatMap((key, at) =>
      Array.from({ length: 8 }, (_, n) =>
        aJob({ seq: at * 10 + n, key, queue: at === 2 ? 'heavy' : 'light' }),
      ),
    );
    const queues = { heavy: { ...defaultQueue, weight: 2 } };
    const plan = made.plan(
      aSnapshot({ lanes: lanesOf(jobs), queues, pools: { default: aPool(12) } }),
      made.initial,
    );
    const went = new Map(jobs.map((job) => [job.id, job.key]));
    const counts = Map.groupBy(plan.dispatch, ({ id }) => went.get(id) ?? '');
    expect(['a', 'b', 'c'].map((key) => counts.get(key)?.length)).toEqual([2, 2, 8]);
    expect(made.name).toBe('default');
  });

  test('who comes back neither waits for what it had before, nor gets what it missed', () => {
    const order = fairShare({ levels: [{ by: 'key' }] });
    const back = serve({
      order,
      backlogs: [{ key: 'a' }, { key: 'b', from: 0, to: 2 }, { key: 'b', from: 20 }],
      slots: Array.from({ length: 24 }, () => 2),
    });
    expect(
      back
        .slice(-8)
        .map(({ key }) => key)
        .toSorted()
        .join(''),
    ).toBe('aaaabbbb');
  });

  test('with credit, it gets so much of what it missed', () => {
    const served = (idleCredit: number): number =>
      serve({
        order: fairShare({ levels: [{ by: 'key' }], idleCredit }),
        backlogs: [{ key: 'a' }, { key: 'b', to: 1 }, { key: 'b', from: 20 }],
        slots: Array.from({ length: 30 }, () => 2),
      }).filter(({ key }) => key === 'b').length;
    expect([served(0), served(4)]).toEqual([12, 14]);
  });

  test('what a share had ahead of others counts half after its half-life', () => {
    const ahead = (halfLifeMs: number | null, afterMs: number): number => {
      const order = fairShare({
        levels: [{ by: 'key', weight: (key) => (key === 'a' ? 0.1 : 1) }],
        halfLifeMs,
      });
      const made = policy({ order });
      const lanes = lanesOf(['a', 'b', 'b', 'c'].map((key, seq) => aJob({ seq, key })));
      const first = made.plan(aSnapshot({ lanes, pools: { default: aPool(1) } }), made.initial);
      const second = made.plan(
        aSnapshot({ lanes, nowMs: nowMs + afterMs, pools: { default: aPool(1) } }),
        first.state,
      );
      const { names = [], ahead: column = [] } = stateOf(second.state['fair_share']).pools['default'] ?? {};
      return (column[names.indexOf('a')] ?? 0) - (column[names.indexOf('c')] ?? 0);
    };
    expect(ahead(null, 1_000)).toBeCloseTo(10, 1);
    expect(ahead(1_000, 1_000)).toBeLessThan(6);
    expect(ahead(1_000, 1_000)).toBeGreaterThan(4);
  });

  test('pools are shared out each by itself', () => {
    const queues = { video: { ...defaultQueue, pool: 'gpu' } };
    const jobs = ['mail', 'video'].flatMap((queue, at) =>
      Array.from({ length: 20 }, (_, n) => aJob({ seq: at * 100 + n, queue, key: n % 2 === 0 ? 'a' : 'b' })),
    );
    const made = policy({ order: fairShare() });
    const pools = { default: aPool(4), gpu: aPool(6) };
    const plan = made.plan(aSnapshot({ lanes: lanesOf(jobs), queues, pools }), made.initial);
    const counts = Map.groupBy(
      plan.dispatch,
      ({ id, pool }) => `${pool} ${jobs.find((job) => job.id === id)?.key}`,
    );
    expect([...counts].map(([name, went]) => `${name} ${went.length}`).toSorted()).toEqual([
      'default a 2',
      'default b 2',
      'gpu a 3',
      'gpu b 3',
    ]);
  });

  test('pools have their turns: the one of which fewest jobs go, whatever is left in the others', () => {
    const inPool = (pool: string, count: number, from: number): readonly Candidate[] =>
      Array.from({ length: count }, (_, n) => aJob({ seq: from + n, queue: pool }));
    const queues = Object.fromEntries(['a', 'b', 'c', 'd'].map((pool) => [pool, { ...defaultQueue, pool }]));
    const jobs = [...inPool('a', 1, 10), ...inPool('b', 3, 20), ...inPool('c', 4, 30), ...inPool('d', 2, 40)];
    const pools = { a: aPool(9), b: aPool(2), c: aPool(9) };
    const made = policy({ order: fairShare() });
    const plan = made.plan(aSnapshot({ lanes: lanesOf(jobs), queues, pools }), made.initial);
    expect(plan.dispatch.map(({ pool }) => pool).join('')).toBe('abcbccc');
    expect(plan.held).toEqual({ b: { no_free_slot: 1 }, d: { no_capable_node: 2 } });
  });

  test('pools of which nothing is left are not gone through for each job', () => {
    let asked = 0;
    const poolOf = (name: string, jobs: number) => {
      const [lane] = lanesOf([aJob({ seq: 1, queue: name })]);
      const pool = {
        name,
        taken: 0,
        tree: { next: () => ((asked += 1), pool.taken < jobs ? lane : undefined) },
      };
      return pool;
    };
    const pools = Array.from({ length: 100 }, (_, n) => poolOf(`p${n}`, n < 10 ? 10 : 0));
    const { next } = takeTurns(pools, new Set());
    const went: string[] = [];
    for (let lane = next(); lane !== undefined; lane = next()) {
      const { queue } = lane;
      went.push(queue);
      for (const pool of pools) if (pool.name === queue) pool.taken += 1;
    }
    expect([went.length, new Set(went.slice(0, 10)).size]).toEqual([100, 10]);
    // once for each job, and once for each pool
    expect(asked).toBe(100 + 100);
  });

  test('a pool without a free slot is not gone through', () => {
    let asked = 0;
    const lane: Lane = {
      queue: 'default',
      key: '',
      more: false,
      retryDueMs: null,
      fresh: true,
      get jobs() {
        asked += 1;
        return [aJob({ seq: 0 })];
      },
    };
    const made = policy({ order: fairShare() });
    const plan = made.plan(aSnapshot({ lanes: [lane], pools: { default: aPool(0) } }), made.initial);
    expect([plan.held, plan.dispatch]).toEqual([{ default: { no_free_slot: 1 } }, []]);
    // the lane is read once, to count the held jobs
    expect(asked).toBe(1);
    expect(plan.state['fair_share']).toBe(made.initial['fair_share']);
  });

  test('the max of a share is explained', () => {
    const levels = [{ name: 'tenant', by: 'key', max: () => 2 }] as const;
    const made = policy({ order: fairShare({ levels }) });
    const job = aJob({ seq: 9, key: 'acme' });
    const inFlight = [1, 2].map((seq) => anItem({ seq, key: 'acme' }));
    const lanes = lanesOf([job]);
    const snapshot = aSnapshot({ lanes, inFlight });
    expect(made.plan(snapshot, made.initial).held).toEqual({ default: { fair_share_max_tenant: 1 } });
    const [hold] = made.explain?.(snapshot, made.initial, job, lanes[0] as Lane).holds ?? [];
    expect(hold?.message).toMatch(/^tenant acme has 2 of 2 in flight$/);
  });
});

describe('what fair share keeps', () => {
  test('is bounded, however many keys come and go', () => {
    const made = policy({ order: fairShare() });
    let { initial: state } = made;
    let waiting = Array.from({ length: 300 }, (_, n) => aJob({ seq: n, key: `key${n}` }));
    for (let tick = 1; tick < 30; tick += 1) {
      waiting.push(
        ...Array.from({ length: 700 }, (_, n) => aJob({ seq: tick * 700 + n, key: `key${tick}-${n}` })),
      );
      const plan = made.plan(aSnapshot({ lanes: lanesOf(waiting), pools: { default: aPool(700) } }), state);
      const ids = new Set(plan.dispatch.map(({ id }) => id));
      waiting = waiting.filter(({ id }) => !ids.has(id));
      ({ state } = plan);
    }
    const [queue] = stateOf(state['fair_share']).pools['default']?.below ?? [];
    expect(queue?.names.length).toBeLessThan(3_000);
  });

  test('holds 40,000 keys, of which 20,000 are idle', () => {
    const made = policy({ order: fairShare({ levels: [{ by: 'key' }] }) });
    const jobs = Array.from({ length: 66_000 }, (_, n) => aJob({ seq: n, key: `key${n}` }));
    const pools = { default: aPool(25_000) };
    const first = made.plan(aSnapshot({ lanes: lanesOf(jobs), pools, batchMax: 25_000 }), made.initial);
    const names = (state: unknown): number => stateOf(state).pools['default']?.names.length ?? 0;
    expect(names(first.state['fair_share'])).toBeLessThanOrEqual(65_000);
    const one = made.plan(aSnapshot({ lanes: lanesOf([jobs[0] ?? aJob({ seq: 0 })]) }), first.state);
    expect(names(one.state['fair_share'])).toBeLessThanOrEqual(20_001);
  });

  test.each([
    ['nothing', null],
    ['another unit', { unit: 'time', levels: 2, pools: {}, runtimes: {}, unsure: [] }],
    [
      'columns of different length',
      { unit: 'jobs', levels: 2, pools: { default: { names: ['a'], ahead: [], below: [] } } },
    ],
    [
      'text for numbers',
      { unit: 'jobs', levels: 2, pools: { default: { names: ['a'], ahead: ['x'], below: [] } } },
    ],
    ['a list', [1, 2]],
  ])('is begun anew where %s was saved', (_, saved) => {
    const made = policy({ order: fairShare() });
    const state = made.restore?.({ fair_share: { state: saved, savedMs: nowMs } });
    const plan = made.plan(aSnapshot({ lanes: lanesOf([aJob({ seq: 0 })]) }), state ?? {});
    expect([plan.faults, plan.dispatch.length]).toEqual([[], 1]);
  });

  test('outlives a leader: fairness does not begin at zero', () => {
    const made = policy({
      order: fairShare({ levels: [{ by: 'key', weight: (key) => (key === 'a' ? 1 : 5) }] }),
    });
    const jobs = ['a', 'a', 'a', 'b', 'b', 'b', 'b', 'b', 'b'].map((key, seq) => aJob({ seq, key }));
    const first = made.plan(aSnapshot({ lanes: lanesOf(jobs), pools: { default: aPool(1) } }), made.initial);
    expect(first.dispatch.map(({ id }) => id)).toEqual(['job0']);
    const rest = aSnapshot({ lanes: lanesOf(jobs.slice(1)), pools: { default: aPool(5) } });
    const next = made.plan(rest, restored(made, first.state));
    expect(next.dispatch.map(({ id }) => id)).toEqual(['job3', 'job4', 'job5', 'job6', 'job7']);
    expect(throughJsonb(first.state)).toEqual(first.state);
  });
});

describe('mistakes', () => {
  test.each([
    [{ levels: [] }, /there must be a level/],
    [{ halfLifeMs: 0 }, /halfLifeMs/],
    [{ idleCredit: -1 }, /idleCredit/],
  ])('%j is refused', (options, message) => {
    expect(() => fairShare(options)).toThrow(message);
  });

  test.each<readonly [string, FairShareOptions, RegExp]>([
    ['weight', { levels: [{ by: 'key', weight: () => 0 }] }, /the weight of share a is 0/],
    ['large weight', { levels: [{ by: 'key', weight: () => 1e7 }] }, /the weight of share a is 10000000/],
    ['min', { levels: [{ by: 'key', min: () => Number.NaN }] }, /the min of share a is NaN/],
    ['cost', { charge: { cost: () => 0 } }, /the cost of job job1 is 0/],
    ['promised weight', { levels: [{ by: 'key', weight: () => later(1) }] }, /weight gave a promise/],
    ['weight in text', { levels: [{ by: 'key', weight: () => '2' as never }] }, /the weight of share a is 2/],
    ['promised cost', { charge: { cost: () => later(1) } }, /cost gave a promise/],
    ['small cost', { charge: { cost: () => 1e-10 } }, /the cost of job job1 is 1e-10/],
  ])('a %s that is none is reported, and the plan goes by turns', (_, options, message) => {
    const made = policy({ order: fairShare(options) });
    const plan = made.plan(aSnapshot({ lanes: lanesOf([aJob({ seq: 1, key: 'a' })]) }), made.initial);
    expect([plan.dispatch.length, String(plan.faults?.[0]?.error)]).toEqual([
      1,
      expect.stringMatching(message),
    ]);
  });

  test('a max that is none holds the jobs of its share, and is reported', () => {
    const levels = [{ by: 'key', max: (key: string) => (key === 'a' ? Number.NaN : 1) }] as const;
    const made = policy({ order: fairShare({ levels }) });
    const waiting = [aJob({ seq: 1, key: 'a' }), aJob({ seq: 2, key: 'b' })];
    const { dispatch, faults } = made.plan(aSnapshot({ lanes: lanesOf(waiting) }), made.initial);
    expect(dispatch.map(({ id }) => id)).toEqual(['job2']);
    expect(String(faults?.[0]?.error)).toContain('max gave NaN for a, where 0 or more');
  });

  test.each([1, 1e-6, 250_000])(
    'shares are by weight, also with weights of %f and three times as much',
    (weight) => {
      const levels = [{ by: 'key', weight: (key: string) => (key === 'a' ? weight : 3 * weight) }] as const;
      const slots = Array.from({ length: 24 }, () => 1);
      expect(keysServed({ levels }, slots).replaceAll('b', '')).toBe('aaaaaa');
    },
  );

  test.each([1, 1e-9, 1e-3, 1e14])(
    'shares are by cost, also with costs of %f and three times as much',
    (cost) => {
      const charge = { cost: ({ key }: JobFacts) => (key === 'a' ? 3 * cost : cost) };
      const slots = Array.from({ length: 24 }, () => 1);
      expect(keysServed({ charge, levels: [{ by: 'key' }] }, slots).replaceAll('b', '')).toBe('aaaaaa');
    },
  );

  test('keys of one share take turns by their order of enqueuing', () => {
    expect(keysServed({ levels: [{ by: 'queue' }] }, [1, 1, 2])).toBe('aaaa');
    expect(keysServed({ levels: [{ by: 'key' }] }, [1, 1, 2])).toBe('abab');
  });
});
