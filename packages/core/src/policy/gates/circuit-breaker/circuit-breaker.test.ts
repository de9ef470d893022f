import { describe, expect, test } from 'vitest';
import { aJob, anItem, aSnapshot, lanesOf, nowMs } from '../../../testing/snapshots.ts';
import { policy } from '../../compose/compose.ts';
import { fifo } from '../../orders/ranked.ts';
import type { Plan } from '../../plan.ts';
import type { PolicyState } from '../../plan.ts';
import type { AttemptEnd, Candidate, InFlight, Settlement, Snapshot } from '../../snapshot.ts';
import type { CircuitBreakerOptions } from './circuit-breaker.ts';
import { circuitBreaker } from './circuit-breaker.ts';

const options: CircuitBreakerOptions = {
  name: 'provider',
  by: ({ key }) => key,
  errorRate: 0.5,
  minimum: 4,
  windowMs: 10_000,
  openMs: 30_000,
};

const waiting = ['a', 'a', 'b', 'b'].map((key, seq) => aJob({ seq, key }));

/** Returns settlements of jobs of key a that ended `ms` after `nowMs`. */
function ended(outcomes: readonly AttemptEnd[], ms = 0, id = 100): readonly Settlement[] {
  return outcomes.map((outcome, index) => ({
    job: aJob({ seq: id + index, key: 'a' }),
    outcome,
    busyMs: 10,
    endedMs: nowMs + ms,
  }));
}

function ticking(more: Partial<CircuitBreakerOptions> = {}) {
  const made = policy({ gates: [circuitBreaker({ ...options, ...more })], order: fifo() });
  let state: PolicyState = made.initial;
  const at = (ms: number, seen: Partial<Snapshot>): Snapshot =>
    aSnapshot({ nowMs: nowMs + ms, lanes: lanesOf(waiting), ...seen });
  const plan = (ms: number, seen: Partial<Snapshot> = {}): Plan => made.plan(at(ms, seen), state);
  return {
    /** Plans and writes one tick. Returns the ids of the dispatched jobs of key a; all other jobs must go. */
    tick: (ms: number, seen: Partial<Snapshot> = {}, written?: readonly string[]): readonly string[] => {
      const { dispatch, state: after } = plan(ms, seen);
      const ids = dispatch.map(({ id }) => id);
      expect(ids).toEqual(expect.arrayContaining(['job2', 'job3']));
      state = made.written?.(after, { atMs: nowMs + ms + 1, ids: new Set(written ?? ids) }) ?? after;
      return ids.filter((id) => id !== 'job2' && id !== 'job3');
    },
    plan,
    why: (ms: number, seen: Partial<Snapshot> = {}) => {
      const [job] = waiting;
      const [lane] = at(ms, seen).lanes;
      if (job === undefined || lane === undefined) throw new Error('there are jobs');
      return made.explain?.(at(ms, seen), state, job, lane).holds;
    },
    restore: (savedState: PolicyState): void => {
      const saved = JSON.parse(JSON.stringify(savedState)) as PolicyState;
      const parts = Object.entries(saved).map(
        ([name, part]) => [name, { state: part, savedMs: nowMs }] as const,
      );
      state = made.restore?.(Object.fromEntries(parts)) ?? state;
    },
    state: () => state,
    part: () => state['provider'],
  };
}

/** Returns ticks with a circuit that opened at 0, after 3 of 4 attempts had failed. */
function opened(more: Partial<CircuitBreakerOptions> = {}) {
  const ticks = ticking(more);
  expect(ticks.tick(0, { settled: ended(['retry', 'done', 'crash', 'dead']) })).toEqual([]);
  return ticks;
}

function probe(id: Candidate, ms: number): InFlight {
  return anItem({ ...id, dispatchedMs: nowMs + ms });
}

describe('a closed circuit', () => {
  test('opens when enough attempts have ended, and so many of them failed', () => {
    const ticks = ticking();
    expect(ticks.tick(0, { settled: ended(['retry', 'retry', 'retry']) })).toEqual(['job0', 'job1']);
    expect(ticks.tick(1, { settled: ended(['done', 'done'], 1) })).toEqual(['job0', 'job1']);
    expect(ticks.tick(2, { settled: ended(['done', 'done'], 2) })).toEqual(['job0', 'job1']);
    expect(ticks.tick(3, { settled: ended(['retry', 'done'], 3) })).toEqual(['job0', 'job1']);
    expect(ticks.tick(4, { settled: ended(['dead'], 4) })).toEqual([]);
    expect(ticks.why(4)).toEqual([
      {
        gate: 'provider',
        message: 'provider a is open: 5 of 10 attempts failed within 10 s; a probe goes in 30 s',
        untilMs: nowMs + 30_004,
      },
    ]);
    expect(ticks.plan(4).nextMs).toBe(nowMs + 30_004);
  });

  test('what says nothing about failing does not count', () => {
    const ticks = ticking();
    const settled = ended(['retry', 'retry', 'retry', 'snooze', 'cancelled', 'recalled']);
    expect(ticks.tick(0, { settled })).toEqual(['job0', 'job1']);
  });

  test('attempts older than the window do not count', () => {
    const ticks = ticking();
    expect(ticks.tick(0, { settled: ended(['retry', 'retry', 'retry']) })).toEqual(['job0', 'job1']);
    expect(ticks.tick(10_000, { settled: ended(['retry'], 10_000) })).toEqual(['job0', 'job1']);
    expect(ticks.tick(10_001, { settled: ended(['retry', 'retry', 'retry'], -2) })).toEqual(['job0', 'job1']);
    const nine = ticking();
    expect(nine.tick(0, { settled: ended(['retry', 'retry', 'retry']) })).toEqual(['job0', 'job1']);
    expect(nine.tick(9_000, { settled: ended(['retry'], 9_000) })).toEqual([]);
  });

  test('is forgotten when its attempts are over', () => {
    const ticks = ticking();
    ticks.tick(0, { settled: ended(['done']) });
    expect(Object.keys(ticks.part() ?? {})).toEqual(['a']);
    ticks.tick(20_000);
    expect(ticks.part()).toEqual({});
  });

  test('the same state where nothing happened', () => {
    const ticks = ticking();
    ticks.tick(0, { settled: ended(['done']) });
    expect(ticks.plan(1).state['provider']).toBe(ticks.part());
  });
});

describe('an open circuit', () => {
  test('lets one job go when its time is over, and only one', () => {
    const ticks = opened();
    expect(ticks.tick(29_999)).toEqual([]);
    expect(ticks.tick(30_000)).toEqual(['job0']);
    const inFlight = [probe(waiting[0] as Candidate, 30_001)];
    expect(ticks.tick(30_002, { inFlight })).toEqual([]);
    expect(ticks.tick(300_000, { inFlight })).toEqual([]);
    expect(ticks.why(300_000, { inFlight })).toEqual([
      {
        gate: 'provider',
        message:
          'provider a is half open, and waits for its probe, job job0: 3 of 4 attempts failed within 10 s',
        untilMs: null,
      },
    ]);
  });

  test.each<readonly [AttemptEnd, readonly string[], readonly string[]]>([
    ['done', ['job0', 'job1'], ['job0', 'job1']],
    ['retry', [], ['job0']],
    ['dead', [], ['job0']],
    ['crash', [], ['job0']],
    ['snooze', ['job0'], []],
    ['cancelled', ['job0'], []],
    ['recalled', ['job0'], []],
  ])('a probe that ends with %s', (outcome, atOnce, later) => {
    const ticks = opened();
    expect(ticks.tick(30_000)).toEqual(['job0']);
    const [settlement] = ended([outcome], 40_000, 0);
    expect(ticks.tick(40_000, { settled: [settlement as Settlement] })).toEqual(atOnce);
    const inFlight = atOnce.length === 1 ? [probe(waiting[0] as Candidate, 40_001)] : [];
    expect(ticks.tick(70_000, { inFlight })).toEqual(later);
  });

  test('after a probe that is done it counts anew', () => {
    const ticks = opened();
    ticks.tick(30_000);
    ticks.tick(30_010, {
      settled: [...ended(['done'], 30_009, 0), ...ended(['dead', 'dead', 'dead'], 30_009)],
    });
    expect(ticks.tick(30_020, { settled: ended(['retry', 'retry', 'retry'], 30_020) })).toEqual([
      'job0',
      'job1',
    ]);
  });

  test('attempts that began before it opened make no difference', () => {
    const ticks = opened();
    expect(ticks.tick(100, { settled: ended(['done', 'done', 'done', 'done', 'done']) })).toEqual([]);
    expect(ticks.tick(30_000)).toEqual(['job0']);
    const inFlight = [probe(waiting[0] as Candidate, 30_001)];
    expect(ticks.tick(30_100, { inFlight, settled: ended(['done', 'dead'], 30_050) })).toEqual([]);
  });

  test('a probe that was not written is sent anew', () => {
    const ticks = opened();
    expect(ticks.tick(30_000, {}, [])).toEqual(['job0']);
    expect(ticks.tick(30_001)).toEqual(['job0']);
    expect(ticks.tick(30_002, { inFlight: [probe(waiting[0] as Candidate, 30_002)] })).toEqual([]);
  });

  test('a probe that is lost without a result is given up after as long again', () => {
    const ticks = opened();
    expect(ticks.tick(30_000)).toEqual(['job0']);
    expect(ticks.tick(31_000, { inFlight: [probe(waiting[0] as Candidate, 30_001)] })).toEqual([]);
    expect(ticks.tick(50_000)).toEqual([]);
    expect(ticks.plan(50_001).nextMs).toBe(nowMs + 80_000);
    expect(ticks.tick(79_999)).toEqual([]);
    expect(ticks.tick(80_000)).toEqual(['job0']);
  });

  test('a probe is one job, not a bundle', () => {
    const made = policy({
      gates: [circuitBreaker(options)],
      order: fifo(),
      coalesce: [{ when: () => true, max: 2, ageMs: 0 }],
    });
    const state = { ...made.initial, ...opened().state() };
    const { dispatch } = made.plan(aSnapshot({ nowMs: nowMs + 30_000, lanes: lanesOf(waiting) }), state);
    expect(dispatch.map(({ id }) => id)).toEqual(['job0', 'job2', 'job3']);
  });

  test('a clock that is set back does not keep it open for longer', () => {
    const ticks = opened();
    expect(ticks.tick(-3_600_000)).toEqual([]);
    expect(ticks.tick(-3_570_001)).toEqual([]);
    expect(ticks.tick(-3_570_000)).toEqual(['job0']);
  });
});

describe('a new leader', () => {
  test('goes on with what was saved', () => {
    const ticks = opened();
    ticks.restore(ticks.state());
    expect(ticks.tick(29_999)).toEqual([]);
    expect(ticks.tick(30_000)).toEqual(['job0']);
    ticks.restore(ticks.state());
    expect(ticks.tick(30_001, { inFlight: [probe(waiting[0] as Candidate, 30_001)] })).toEqual([]);
  });

  test('knows a probe that the last one sent, and had not saved, by its work item', () => {
    const ticks = opened();
    const saved = ticks.state();
    expect(ticks.tick(30_000)).toEqual(['job0']);
    ticks.restore(saved);
    const inFlight = [
      anItem({ seq: 77, key: 'a', dispatchedMs: nowMs - 5 }),
      probe(waiting[1] as Candidate, 30_002),
      probe(waiting[0] as Candidate, 30_001),
    ];
    expect(ticks.tick(31_000, { inFlight })).toEqual([]);
    expect(ticks.why(31_000, { inFlight })).toMatchObject([
      { message: expect.stringContaining('probe, job job0') as string },
    ]);
    expect(ticks.tick(32_000, { settled: ended(['done'], 31_500, 0) })).toEqual(['job0', 'job1']);
  });

  test.each([null, 'x', { a: null }, { a: { kind: 'closed', tenths: [[1]] } }, { a: { kind: 'open' } }])(
    'a saved part that is none, %o, is as good as none',
    (saved) => {
      expect(circuitBreaker(options).restore?.(saved, nowMs)).toEqual({});
    },
  );
});

test('jobs that it does not concern neither count nor are held', () => {
  const ticks = ticking({ when: ({ task }) => task !== 't' });
  expect(ticks.tick(0, { settled: ended(['dead', 'dead', 'dead', 'dead']) })).toEqual(['job0', 'job1']);
});

test('where "by" fails, the job goes, its attempts do not count, and it is reported', () => {
  const ticks = ticking({
    by: ({ key }) => {
      if (key === 'a') throw new Error('no provider');
      return key;
    },
  });
  expect(ticks.tick(0, { settled: ended(['dead', 'dead', 'dead', 'dead']) })).toEqual(['job0', 'job1']);
  expect(ticks.plan(1).faults).toEqual([
    { part: 'provider', error: new Error('by failed for job job0: no provider'), instead: 'ignored' },
  ]);
});

test('remembers so many values at most: those that were active last', () => {
  const many = Array.from({ length: 10_001 }, (_, seq): Settlement => ({
    job: aJob({ seq, key: `k${seq}` }),
    outcome: 'done',
    busyMs: 1,
    endedMs: seq === 7 ? nowMs - 5_000 : nowMs,
  }));
  const ticks = ticking();
  ticks.tick(0, { settled: many });
  const names = Object.keys(ticks.part() ?? {});
  expect(names).toHaveLength(10_000);
  expect(names).not.toContain('k7');
});

test.each([
  [{ errorRate: 0 }, 'gate provider: errorRate must be more than 0, and at most 1, not 0'],
  [
    { minimum: 0, windowMs: 0, openMs: -1 },
    /minimum must be 1 or more, not 0; windowMs .* more than 0, not 0; openMs .* more than 0, not -1$/,
  ],
])('%o is refused', (wrong, message) => {
  expect(() => circuitBreaker({ ...options, ...wrong })).toThrow(message);
});
