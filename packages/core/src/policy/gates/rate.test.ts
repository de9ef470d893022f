import { describe, expect, test } from 'vitest';
import { aJob, aSnapshot, lanesOf, nowMs } from '../../testing/snapshots.ts';
import { policy } from '../compose/compose.ts';
import type { Gate } from '../gate.ts';
import { fifo } from '../orders/ranked.ts';
import type { Plan } from '../plan.ts';
import type { PolicyState } from '../plan.ts';
import { neverMs } from '../policy.ts';
import type { Candidate, Snapshot } from '../snapshot.ts';
import { rate } from './rate.ts';

const api = (): Gate => rate({ name: 'api', perSecond: 10, burst: 4 });

/** `count` jobs, each with a key of its own. */
function many(count: number, facts: Partial<Candidate> = {}): readonly Candidate[] {
  return Array.from({ length: count }, (_, seq) => aJob({ seq, key: `k${seq}`, ...facts }));
}

/**
 * Returns functions that run ticks of one policy. Each tick dispatches the jobs that may go of many waiting
 * ones.
 */
function ticking(gate: Gate, jobs: readonly Candidate[] = many(10)) {
  const made = policy({ gates: [gate], order: fifo() });
  let state: PolicyState = made.initial;
  const snapshotAt = (ms: number): Snapshot => aSnapshot({ nowMs: ms, lanes: lanesOf(jobs) });
  return {
    /** Returns a plan and keeps nothing of it. */
    plan: (ms: number): Plan => made.plan(snapshotAt(ms), state),
    /**
     * Returns the number of jobs that go. `write` gives the time of the write and the ids written; default:
     * at once, all.
     */
    tick: (ms: number, write: { readonly atMs?: number; readonly ids?: readonly string[] } = {}): number => {
      const { dispatch, state: after } = made.plan(snapshotAt(ms), state);
      const ids = new Set(write.ids ?? dispatch.map(({ id }) => id));
      state = made.written?.(after, { atMs: write.atMs ?? ms, ids }) ?? after;
      return dispatch.length;
    },
    /** Changes the leader between the write and its reply. */
    crash: (ms: number, savedMs: number): void => {
      const { state: after } = made.plan(snapshotAt(ms), state);
      const saved = JSON.parse(JSON.stringify(after)) as PolicyState;
      const parts = Object.entries(saved).map(([name, part]) => [name, { state: part, savedMs }] as const);
      state = made.restore?.(Object.fromEntries(parts)) ?? made.initial;
    },
    why: (ms: number, job: Candidate): unknown => {
      const [lane] = lanesOf([job]);
      if (lane === undefined) throw new Error('a job has a lane');
      return made.explain?.(snapshotAt(ms), state, job, lane).holds;
    },
    state: () => state['api'],
  };
}

describe('one bucket', () => {
  test('gives its burst at once, then one token after the other, exactly when each is there', () => {
    const ticks = ticking(api());
    expect(ticks.plan(nowMs)).toMatchObject({ nextMs: nowMs + 100, held: { default: { api: 6 } } });
    expect(ticks.tick(nowMs)).toBe(4);
    expect([99, 100, 199, 200].map((ms) => ticks.tick(nowMs + ms))).toEqual([0, 1, 0, 1]);
    expect(ticks.plan(nowMs + 200).nextMs).toBe(nowMs + 300);
  });

  test('never holds more than its burst', () => {
    const ticks = ticking(api());
    expect(ticks.tick(nowMs)).toBe(4);
    expect(ticks.tick(nowMs + 3_600_000)).toBe(4);
    expect(ticks.plan(nowMs + 3_600_000).nextMs).toBe(nowMs + 3_600_100);
  });

  test('is charged when the batch was written, and loses nothing between', () => {
    const ticks = ticking(api());
    expect(ticks.tick(nowMs, { atMs: nowMs + 50 })).toBe(4);
    // one token 100 ms after the write, not after the plan
    expect([100, 149, 150].map((ms) => ticks.tick(nowMs + ms))).toEqual([0, 0, 1]);
    // a slow tick: the tokens of 250 ms are there, and the half token left over still counts
    expect(ticks.tick(nowMs + 400, { atMs: nowMs + 410 })).toBe(2);
    expect([449, 450].map((ms) => ticks.tick(nowMs + ms))).toEqual([0, 1]);
  });

  test('is not charged for jobs that were not written', () => {
    const ticks = ticking(api());
    expect(ticks.tick(nowMs, { ids: ['job1'] })).toBe(4);
    expect(ticks.tick(nowMs, { ids: [] })).toBe(3);
    expect(ticks.tick(nowMs)).toBe(3);
  });

  test('says what is left, and when there is enough', () => {
    const ticks = ticking(api());
    ticks.tick(nowMs);
    expect(ticks.why(nowMs + 50, aJob({ seq: 99 }))).toEqual([
      {
        gate: 'api',
        message: 'api is at its rate of 10 a second with a burst of 4: 0.5 left; enough in 50 ms',
        untilMs: nowMs + 100,
      },
    ]);
    expect(ticks.why(nowMs + 100, aJob({ seq: 99 }))).toEqual([]);
  });
});

describe('the database clock', () => {
  test('a step back creates no tokens, and a small one is waited out', () => {
    const ticks = ticking(api());
    expect(ticks.tick(nowMs)).toBe(4);
    expect([-3_000, -2_000, 0, 99].map((ms) => ticks.tick(nowMs + ms))).toEqual([0, 0, 0, 0]);
    expect(ticks.tick(nowMs + 100)).toBe(1);
  });

  test('a small step back finds a bucket that was full as it was then', () => {
    const ticks = ticking(api());
    expect(ticks.tick(nowMs)).toBe(4);
    expect(ticks.tick(nowMs + 400, { ids: [] })).toBe(4);
    expect(ticks.tick(nowMs + 50)).toBe(0);
  });

  test('after a great step back it goes on from there, with what it held', () => {
    const ticks = ticking(api());
    const back = nowMs - 7_200_000;
    expect(ticks.tick(nowMs)).toBe(4);
    expect([0, 99, 100, 200].map((ms) => ticks.tick(back + ms))).toEqual([0, 0, 1, 1]);
  });

  test('a step back between plan and write is paid for afterwards', () => {
    const ticks = ticking(api());
    expect(ticks.tick(nowMs)).toBe(4);
    expect(ticks.tick(nowMs + 400, { atMs: nowMs + 200 })).toBe(4);
    // 4 at 0, 4 at 200: the next one may go at 500
    expect([499, 500].map((ms) => ticks.tick(nowMs + ms))).toEqual([0, 1]);
  });
});

describe('state', () => {
  test('a full bucket is forgotten, a little later than it is full', () => {
    const ticks = ticking(rate({ name: 'api', by: ({ key }) => key, perSecond: 10, burst: 1 }), many(3));
    expect(ticks.tick(nowMs)).toBe(3);
    expect(Object.keys(ticks.state() ?? {})).toEqual(['k0', 'k1', 'k2']);
    ticks.tick(nowMs + 200, { ids: ['job0'] });
    ticks.tick(nowMs + 5_250, { ids: ['job0'] });
    // k1 and k2 were planned, and not written
    ticks.tick(nowMs + 5_251, { ids: [] });
    expect(Object.keys(ticks.state() ?? {})).toEqual(['k0', 'k1', 'k2']);
    const idle = ticking(rate({ name: 'api', by: ({ key }) => key, perSecond: 10, burst: 1 }), many(1));
    idle.tick(nowMs);
    expect(idle.state()).toEqual({ k0: [0, nowMs, 10, 1] });
  });

  test('a leader that does not know what was written counts all of it, at the time of the save', () => {
    const ticks = ticking(api());
    ticks.crash(nowMs, nowMs + 50);
    expect([149, 150].map((ms) => ticks.tick(nowMs + ms))).toEqual([0, 1]);
  });

  test('the same object where nothing was spent', () => {
    const ticks = ticking(api());
    ticks.tick(nowMs);
    expect(ticks.plan(nowMs + 50).state['api']).toBe(ticks.state());
  });

  test.each([null, 5, [], { a: null }, { a: [1] }, { a: [1, 2, 3, 'x'] }])(
    'a saved part that is none, %o, is as good as none',
    (saved) => {
      expect(api().restore?.(saved, nowMs)).toEqual({});
    },
  );

  test('names that JSON or PostgreSQL could stumble over', () => {
    const odd = ['__proto__', 'constructor', 'a\u0000b', '\ud83d'];
    const jobs = odd.map((key, seq) => aJob({ seq, key }));
    const ticks = ticking(rate({ name: 'api', by: ({ key }) => key, perSecond: 1, burst: 1 }), jobs);
    expect(ticks.tick(nowMs)).toBe(4);
    expect(Object.keys(ticks.state() ?? {})).toEqual(['__proto__', 'constructor', 'a\uFFFDb', '\uFFFD']);
    ticks.crash(nowMs, nowMs);
    expect(ticks.tick(nowMs)).toBe(0);
  });
});

describe('costs', () => {
  const tokens = (job: Candidate): number => Number(job.attributes['tokens']);

  test('a job waits until its whole cost is there; a cheaper one may go before', () => {
    const jobs = [3, 2, 1].map((cost, seq) => aJob({ seq, key: `k${seq}`, attributes: { tokens: cost } }));
    const ticks = ticking(rate({ name: 'api', perSecond: 10, burst: 4, cost: tokens }), jobs);
    expect(ticks.plan(nowMs).dispatch.map(({ id }) => id)).toEqual(['job0', 'job2']);
    expect(ticks.plan(nowMs).nextMs).toBe(nowMs + 200);
  });

  test('above the burst a job never goes, and nothing is waited for', () => {
    const job = aJob({ seq: 0, attributes: { tokens: 5 } });
    const ticks = ticking(rate({ name: 'api', perSecond: 10, burst: 4, cost: tokens }), [job]);
    expect(ticks.plan(nowMs)).toMatchObject({ dispatch: [], nextMs: null });
    expect(ticks.why(nowMs, job)).toEqual([
      {
        gate: 'api',
        message:
          'api is at its rate of 10 a second with a burst of 4: 4 left, this job takes 5, so it never goes until that burst is raised',
        untilMs: neverMs,
      },
    ]);
  });

  test('of several things: all must be there', () => {
    const gate = rate({
      name: 'api',
      by: ({ attributes }) => attributes['model'],
      perSecond: { calls: 1, tokens: 100 },
      burst: { calls: 2, tokens: 100 },
      cost: (job) => ({ calls: 1, tokens: tokens(job) }),
    });
    const jobs = [60, 60, 10].map((cost, seq) =>
      aJob({ seq, key: `k${seq}`, attributes: { tokens: cost, model: 'm' } }),
    );
    const ticks = ticking(gate, jobs);
    expect(ticks.plan(nowMs).dispatch.map(({ id }) => id)).toEqual(['job0', 'job2']);
    ticks.tick(nowMs);
    const [, second] = jobs;
    if (second === undefined) throw new Error('there are three');
    expect(ticks.why(nowMs, second)).toEqual([
      {
        gate: 'api',
        message:
          'api m is at its rate of 1 calls a second with a burst of 2: 0 left, this job takes 1; enough in 1 s',
        untilMs: nowMs + 1_000,
      },
    ]);
  });

  test('of nothing is free', () => {
    const gate = rate({ name: 'api', perSecond: 1, burst: 1, cost: () => 0 });
    expect(ticking(gate).tick(nowMs)).toBe(10);
  });
});

test('by value, with rates of their own; null is none', () => {
  const gate = rate({
    name: 'api',
    by: ({ key }) => key,
    perSecond: (value) => (value === 'k1' ? null : 1),
    burst: (value) => (value === 'k2' ? 2 : 1),
  });
  const jobs = Array.from({ length: 12 }, (_, seq) => aJob({ seq, key: `k${seq % 3}` }));
  const goes = ticking(gate, jobs)
    .plan(nowMs)
    .dispatch.map(({ id }) => Number(id.slice(3)) % 3);
  expect([0, 1, 2].map((key) => goes.filter((one) => one === key).length)).toEqual([1, 4, 2]);
});

test.each(['perSecond', 'burst'])(
  'undefined as the %s of a value holds its jobs, and is reported',
  (option) => {
    const rates: Readonly<Record<string, number>> = { k0: 1 };
    const given = { name: 'api', by: ({ key }: Candidate) => key, perSecond: 1, burst: 1 };
    const { plan } = ticking(rate({ ...given, [option]: (key: string) => rates[key] }), many(2));
    expect(plan(nowMs).dispatch.map(({ id }) => id)).toEqual(['job0']);
    expect(String(plan(nowMs).faults?.[0]?.error)).toContain(
      `${option} gave undefined for k1, where 0 or more`,
    );
  },
);

test('members of a bundle take their own tokens', () => {
  const coalesce = [{ when: () => true, max: 5, ageMs: 0 }];
  const made = policy({ gates: [api()], order: fifo(), coalesce });
  const lanes = lanesOf(Array.from({ length: 10 }, (_, seq) => aJob({ seq })));
  expect(made.plan(aSnapshot({ lanes }), made.initial).dispatch).toHaveLength(4);
});

test.each([
  [{ name: 'g', perSecond: 0, burst: 1 }, 'gate g: perSecond must be more than 0'],
  [
    { name: 'g', perSecond: Number.NaN, burst: -1 },
    /perSecond must be more than 0, .* not NaN; burst must be more than 0, .* not -1$/,
  ],
  [
    { name: 'g', perSecond: { calls: 1 }, burst: 1 },
    'gate g: perSecond has names, so there must be a cost that has them',
  ],
])('%o is refused', (options, message) => {
  expect(() => rate(options)).toThrow(message);
});
