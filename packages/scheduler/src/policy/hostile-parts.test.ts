import type { Candidate, Gate, Lane, OpenOrder, Order } from '@pgqueue/core';
import { fifo, policy } from '@pgqueue/core';
import { describe, expect, test } from 'vitest';
import {
  aGate,
  aJob,
  aLane,
  aSnapshot,
  hastyMs,
  inTurns,
  limited,
  patientMs,
  plannerOf,
} from '../testing/planning.ts';

const forever = (): never => {
  for (;;);
};
const broken = (): never => {
  throw new Error('broken');
};
const saying = (message: RegExp): unknown => expect.stringMatching(message);
const inSeq = ['a1', 'a2', 'a3', 'b4'];

/** A FIFO order with the given members of the open order replaced. */
function anOrder(own: Partial<OpenOrder>): Order {
  const order = fifo();
  return {
    name: 'odd',
    open: (snapshot, state, heads) => ({ ...order.open(snapshot, state, heads), ...own }),
  };
}

describe('a gate that fails', () => {
  const gates: readonly (readonly [string, Partial<ReturnType<Gate['open']>>, RegExp])[] = [
    ['throws', { admits: broken }, /broken/],
    [
      'answers with a boolean',
      { admits: (() => true) as never },
      /must say admit, hold or hold_lane, not boolean/,
    ],
    ['answers with nothing', { admits: (() => {}) as never }, /not undefined/],
    [
      'answers with a promise',
      { admits: (() => Promise.reject(new Error('late'))) as never },
      /not a promise/,
    ],
  ];
  test.each(gates)('and %s is left out', (_, open, message) => {
    const gate = aGate('odd', () => 'admit', {
      open: () => ({ ...aGate('odd', () => 'hold').open(aSnapshot(), null), ...open }),
    });
    const { dispatched, planner } = plannerOf(policy({ order: fifo(), gates: [gate] }));
    expect(dispatched()).toEqual(inSeq);
    expect(planner.faults()).toMatchObject([{ part: 'odd', message: saying(message), count: 1 }]);
  });

  test.each(gates)('and %s holds, where it is a limit', (_, open, message) => {
    const admits = open.admits ?? (() => 'admit' as const);
    const gate = aGate(
      'odd',
      (job, lane, member) => (job.key === 'a' ? admits(job, lane, member) : 'admit'),
      { onError: 'hold' },
    );
    const { dispatched, planner } = plannerOf(policy({ order: fifo(), gates: [gate] }));
    expect(dispatched()).toEqual(['b4', 'b5', 'b6']);
    expect(planner.faults()).toMatchObject([{ part: 'odd', message: saying(message) }]);
  });

  test('at what becomes of a plan does no harm to it', () => {
    const odd = aGate('odd', () => 'admit', {
      onError: 'hold',
      open: () => ({
        admits: () => 'admit',
        why: broken,
        nextMs: broken,
        unread: broken,
        state: broken,
      }),
    });
    const { dispatched } = plannerOf(policy({ order: fifo(), gates: [odd] }));
    expect(dispatched()).toEqual(inSeq);
  });

  test('when it is told of a job that goes holds the others, where it is a limit: it has lost count', () => {
    const told: string[] = [];
    const odd = aGate('odd', () => 'admit', {
      onError: 'hold',
      open: () => ({
        admits: () => 'admit',
        why: () => ({ message: '', untilMs: null }),
        take: ({ id }: Candidate) => {
          told.push(id);
          broken();
        },
      }),
    });
    const { dispatched } = plannerOf(policy({ order: fifo(), gates: [odd] }));
    expect(dispatched()).toEqual(['a1']);
    expect(told).toEqual(['a1']);
  });

  test('when it opens holds everything, where it is a limit, and is left out else', () => {
    const opens = (onError: 'hold' | 'ignore'): readonly string[] =>
      plannerOf(
        policy({ order: fifo(), gates: [aGate('odd', () => 'admit', { onError, open: broken })] }),
      ).dispatched();
    expect(opens('hold')).toEqual([]);
    expect(opens('ignore')).toEqual(inSeq);
  });
});

describe('a gate that never ends', () => {
  const poisoned = (
    onError: 'hold' | 'ignore',
    poison: (job: Candidate) => boolean,
  ): ReturnType<typeof plannerOf> =>
    plannerOf(
      policy({
        order: fifo(),
        gates: [aGate('odd', (job) => (poison(job) ? forever() : 'admit'), { onError })],
      }),
      { budgetMs: hastyMs },
    );

  test('with one job costs one tick its order; then it is not asked about that job', () => {
    const { dispatched, planner } = poisoned('hold', ({ id }) => id === 'a2');
    expect(dispatched()).toEqual(['a1', 'b4', 'a3', 'b5']);
    expect(dispatched()).toEqual(['a1', 'a3', 'b4', 'b5']);
    expect(planner.faults()).toMatchObject([
      {
        part: 'odd',
        message: saying(/did not come back within 400 ms when it was asked about job a2/),
        count: 1,
      },
    ]);
  });

  test('with one job lets that go, where it is no limit', () => {
    const { dispatched } = poisoned('ignore', ({ id }) => id === 'a2');
    expect(dispatched()).toEqual(inTurns);
    expect(dispatched()).toEqual(inSeq);
  });

  test('with every job is not asked at all after three; a limit holds everything then', () => {
    const asked = new Set<string>();
    const { dispatched, planner, pass } = poisoned('hold', ({ id }) => asked.add(id).size > 0);
    for (let tick = 0; tick < 100; tick += 1) {
      expect(dispatched()).toEqual([]);
      // ends the policy's pause but not the gate's
      if (tick % 10 === 9) pass(10);
    }
    expect(asked.size).toBe(3);
    expect(planner.faults()).toContainEqual(expect.objectContaining({ part: 'odd' }));
  });

  test('with every job is left out, where it is no limit', () => {
    const { dispatched } = poisoned('ignore', () => true);
    for (let tick = 0; tick < 10; tick += 1) expect(dispatched()).toHaveLength(4);
  });

  test('is explained as what it is', () => {
    const { planner, dispatched } = poisoned('hold', ({ id }) => id === 'a2');
    dispatched();
    const snapshot = aSnapshot();
    const [lane] = snapshot.lanes;
    const [, job] = lane?.jobs ?? [];
    if (lane === undefined || job === undefined) throw new Error('no job');
    expect(planner.explain(snapshot, job, lane)?.holds).toEqual([
      { gate: 'odd', message: 'it failed: see the status of the scheduler', untilMs: null },
    ]);
  });

  test('is asked again after a second', () => {
    let heals = false;
    const { dispatched, pass } = poisoned('hold', ({ id }) => id === 'a2' && !heals);
    dispatched();
    heals = true;
    expect(dispatched()).toEqual(['a1', 'a3', 'b4', 'b5']);
    pass(1_001);
    expect(dispatched()).toEqual(inSeq);
  });
});

describe('an order that', () => {
  test.each<[string, Partial<OpenOrder>, RegExp]>([
    ['throws', { next: broken }, /broken/],
    ['throws when it is told of a job', { taken: broken }, /broken/],
    ['throws at its state', { state: broken }, /broken/],
    [
      'makes up a lane',
      { next: () => aLane('z', [aJob('z', 9)]) },
      /chose a lane that is not in the snapshot|reading/,
    ],
    ['makes up an empty lane', { next: () => aLane('z', []) }, /chose a lane that is not in the snapshot/],
    ['never ends', { next: forever }, /did not come back/],
  ])('%s is replaced by turns, within the same gates', (_, open, message) => {
    const { dispatched, planner } = plannerOf(
      policy({
        order: anOrder(open),
        gates: [aGate('not_a2', ({ id }) => (id === 'a2' ? 'hold' : 'admit'), { onError: 'hold' })],
      }),
      { budgetMs: open.next === forever ? hastyMs : patientMs },
    );
    for (let tick = 0; tick < 5; tick += 1) expect(dispatched()).toEqual(['a1', 'b4', 'a3', 'b5']);
    expect(planner.faults()).toMatchObject([{ part: 'odd', message: saying(message) }]);
    expect(dispatched(limited({ concurrency: 2 }))).toEqual(['a1', 'b4']);
  });

  test('stays with a lane of which nothing is left is replaced by turns, unless nothing is left at all', () => {
    const stays: Order = {
      name: 'odd',
      open: ({ lanes: [first] }) => ({ next: () => first, taken: () => {}, passed: () => {} }),
    };
    const { dispatched, planner } = plannerOf(policy({ order: stays }));
    const { lanes } = aSnapshot();
    expect(dispatched(aSnapshot({ lanes: lanes.slice(0, 1) }))).toEqual(['a1', 'a2', 'a3']);
    expect(planner.faults()).toEqual([]);
    expect(dispatched()).toEqual(inTurns);
    expect(planner.faults()).toMatchObject([
      { part: 'odd', message: saying(/a lane of which nothing is left/) },
    ]);
  });

  test('ends its turns too early leaves the rest held, and says so', () => {
    const hasty: Order = {
      name: 'hasty',
      open: ({ lanes: [first] }) => {
        let went = false;
        return { next: () => (went ? undefined : first), taken: () => void (went = true), passed: () => {} };
      },
    };
    const { planner } = plannerOf(policy({ order: hasty }));
    const snapshot = aSnapshot();
    const { dispatch, held } = planner.plan(snapshot);
    expect(dispatch.map(({ id }) => id)).toEqual(['a1']);
    expect(held).toEqual({ default: { order_ended: 5 } });
    const [lane, other] = snapshot.lanes as [Lane, Lane];
    const asked = (job: Candidate | undefined, of: Lane) => planner.explain(snapshot, job as Candidate, of);
    expect(asked(other.jobs[0], other)).toMatchObject({ ahead: null, holds: [{ gate: 'hasty' }] });
    expect(asked(lane.jobs[0], lane)).toMatchObject({ ahead: 0, holds: [] });
  });

  test('never ends costs a tick its time only as often as it is tried', () => {
    let calls = 0;
    const { dispatched, pass } = plannerOf(
      policy({
        order: anOrder({
          next: () => {
            calls += 1;
            return forever();
          },
        }),
      }),
      { budgetMs: hastyMs },
    );
    for (let second = 0; second < 12; second += 1) {
      for (let tick = 0; tick < 5; tick += 1) expect(dispatched()).toEqual(inTurns);
      pass(1_000);
    }
    // retries after 1, 2 and 4 seconds
    expect(calls).toBe(4);
  });
});

test('a part whose written() fails leaves the limits charged, at the time of the write', () => {
  const odd = aGate('odd', () => 'admit', { initial: 0, written: broken });
  const snapshot = limited({ rate: { perSecond: 1, burst: 3 } });
  const { dispatched, planner } = plannerOf(policy({ order: fifo(), gates: [odd] }));
  const ids = planner.plan(snapshot).dispatch.map(({ id }) => id);
  expect(ids).toEqual(['a1', 'a2', 'a3']);
  planner.written({ atMs: snapshot.nowMs + 900, ids: new Set(ids) });
  expect(dispatched({ ...snapshot, nowMs: snapshot.nowMs + 1_800 })).toEqual([]);
  expect(dispatched({ ...snapshot, nowMs: snapshot.nowMs + 1_900 })).toEqual(['a1']);
  expect(planner.faults()).toMatchObject([{ part: 'written', message: 'broken' }]);
});

test('a part that can restore nothing does not take the others with it', () => {
  const snapshot = limited({ rate: { perSecond: 1, burst: 3 } });
  const withOdd = (own: Partial<Gate>): ReturnType<typeof plannerOf> =>
    plannerOf(policy({ order: fifo(), gates: [aGate('odd', () => 'admit', { initial: 0, ...own })] }), {
      budgetMs: hastyMs,
    });
  const first = withOdd({});
  const { parts } = first.planner.plan(snapshot);
  const saved = Object.entries({ ...parts, odd: 1 }).map(
    ([part, state]) => [part, { state, savedMs: snapshot.nowMs }] as const,
  );
  for (const restore of [broken, forever]) {
    const second = withOdd({ restore });
    second.planner.restore(Object.fromEntries(saved));
    expect(second.dispatched(snapshot)).toEqual([]);
    expect(second.planner.faults()).toContainEqual(expect.objectContaining({ part: 'odd' }));
  }
});

test('a slow policy dispatches what it could plan in its time', () => {
  const slow = aGate('slow', () => {
    planned.pass(1);
    return 'admit';
  });
  const jobs = Array.from({ length: 1_000 }, (_, seq) => aJob('a', seq));
  const group = { tasks: { t: { min: 1, max: 1 } }, slots: 1_000, depth: 1_000 };
  const snapshot = aSnapshot({
    lanes: [aLane('a', jobs)],
    pools: { default: { groups: [group], ready: [] } },
    batchMax: 1_000,
  });
  const planned = plannerOf(policy({ order: fifo(), gates: [slow] }), { budgetMs: 1_000 });
  expect(planned.dispatched(snapshot)).toEqual(jobs.slice(0, 601).map(({ id }) => id));
  expect(planned.planner.faults()).toMatchObject([
    { part: 'plan', message: saying(/it was slow/), suspendedUntilMs: null },
  ]);
});
