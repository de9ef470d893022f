import type { Plan, Policy, Snapshot } from '@pgqueue/core';
import { fifo, policy } from '@pgqueue/core';
import { describe, expect, test } from 'vitest';
import { anItem, aSnapshot, aWhole, hastyMs, inTurns, limited, plannerOf } from '../testing/planning.ts';

const forever = (): never => {
  for (;;);
};
const toPlan = ({ lanes }: Snapshot): Plan['dispatch'] =>
  lanes.flatMap(({ jobs }) => jobs.map(({ id }) => ({ id, pool: 'default' })));
const saying = (message: RegExp): unknown => expect.stringMatching(message);

test('a policy that fails for certain jobs only is used for all other snapshots', () => {
  const { dispatched, planner } = plannerOf(
    aWhole({
      plan: ({ lanes }, state) => {
        const jobs = lanes.flatMap((lane) => lane.jobs);
        if (jobs.some(({ id }) => id === 'b6')) throw new Error('no b6');
        return {
          dispatch: jobs
            .toReversed()
            .slice(0, 2)
            .map(({ id }) => ({ id, pool: 'default' })),
          held: {},
          state,
        };
      },
    }),
  );
  expect(dispatched()).toEqual(inTurns);
  const [a] = aSnapshot().lanes;
  expect(dispatched(aSnapshot({ lanes: a === undefined ? [] : [a] }))).toEqual(['a3', 'a2']);
  expect(planner.faults()).toHaveLength(1);
});

describe('limits of queue_config, where a policy written as a whole does not keep to them', () => {
  const greedy = aWhole({
    plan: (snapshot, state) => ({ dispatch: toPlan(snapshot).slice(0, 4), held: {}, state }),
  });

  test.each([
    [
      'a pause',
      limited({ paused: true }),
      [],
      /job a1 must be held by paused_queue: queue default is paused/,
    ],
    [
      'a concurrency',
      limited({ concurrency: 3 }),
      ['a1', 'b4', 'a2'],
      /job b4 must be held by queue_concurrency/,
    ],
    [
      'one of each key',
      limited({ keyConcurrency: 1 }),
      ['a1', 'b4'],
      /job a2 must be held by key_concurrency/,
    ],
    [
      'a rate',
      limited({ rate: { perSecond: 1, burst: 2 } }),
      ['a1', 'b4'],
      /job a3 must be held by queue_rate/,
    ],
  ])('%s: the plan is refused', (_, snapshot, ids, message) => {
    const { dispatched, planner } = plannerOf(greedy);
    expect(dispatched(snapshot)).toEqual(ids);
    expect(planner.faults()).toMatchObject([{ part: 'plan', message: saying(message) }]);
  });

  test('a plan of its own in a policy made of parts is checked like any', () => {
    const snapshot = limited({ concurrency: 3 });
    const { dispatched, planner } = plannerOf({ ...policy({ order: fifo() }), plan: greedy.plan });
    expect(dispatched(snapshot)).toEqual(['a1', 'b4', 'a2']);
    expect(planner.faults()).toMatchObject([{ part: 'plan' }]);
  });

  test('a rate is charged for what it dispatches itself, and saved with it', () => {
    const snapshot = limited({ rate: { perSecond: 1, burst: 4 } });
    const { dispatched, planner } = plannerOf(greedy);
    const planned = planner.plan(snapshot);
    expect(planned.dispatch.map(({ id }) => id)).toEqual(['a1', 'a2', 'a3', 'b4']);
    expect(Object.keys(planned.parts ?? {})).toEqual(['queue_rate']);
    planner.written({ atMs: snapshot.nowMs, ids: new Set(['a1', 'a2', 'a3', 'b4']) });
    expect(dispatched(snapshot)).toEqual([]);
    expect(dispatched({ ...snapshot, nowMs: snapshot.nowMs + 1_000 })).toEqual(['a1']);
  });

  test('what it says of the state of these gates does not count', () => {
    const snapshot = limited({ rate: { perSecond: 1, burst: 4 } });
    const { dispatched } = plannerOf(
      aWhole({
        plan: (seen) => ({ dispatch: toPlan(seen).slice(0, 4), held: {}, state: { queue_rate: {} } }),
        written: () => ({}),
      }),
    );
    expect(dispatched(snapshot)).toHaveLength(4);
    expect(dispatched(snapshot)).toEqual([]);
  });

  test('what the last leader saved of them counts', () => {
    const snapshot = limited({ rate: { perSecond: 1, burst: 4 } });
    const first = plannerOf(greedy);
    const { parts } = first.planner.plan(snapshot);
    const saved = Object.entries(parts ?? {}).map(
      ([part, state]) => [part, { state, savedMs: snapshot.nowMs }] as const,
    );
    const second = plannerOf({ ...greedy, restore: () => ({}) });
    second.planner.restore(Object.fromEntries(saved));
    expect(second.dispatched(snapshot)).toEqual([]);
    expect(second.dispatched({ ...snapshot, nowMs: snapshot.nowMs + 2_000 })).toEqual(['a1', 'b4']);
  });
});

describe('a policy that does not come back', () => {
  test('is left out for a second, then for ever longer, and tried again', () => {
    let calls = 0;
    const { dispatched, planner, pass } = plannerOf(
      aWhole({
        plan: () => {
          calls += 1;
          return forever();
        },
      }),
      { budgetMs: hastyMs },
    );
    for (let tick = 0; tick < 20; tick += 1) expect(dispatched()).toEqual(inTurns);
    expect(calls).toBe(1);
    for (const [afterMs, expected] of [
      [1_001, 2],
      [1_001, 2],
      [1_000, 3],
      [3_900, 3],
      [101, 4],
    ] as const) {
      pass(afterMs);
      dispatched();
      expect(calls).toBe(expected);
    }
    const [fault] = planner.faults();
    expect(fault).toMatchObject({ count: 4 });
    expect(fault?.suspendedUntilMs).toBeGreaterThan(1_000_000 + 7_000);
  });

  test('is used again, and no more named after a minute, once it comes back', () => {
    let slow = true;
    const { dispatched, planner, pass } = plannerOf(
      aWhole({
        plan: (_, state) =>
          slow ? forever() : { dispatch: [{ id: 'b6', pool: 'default' }], held: {}, state },
      }),
      { budgetMs: hastyMs },
    );
    expect(dispatched()).toEqual(inTurns);
    slow = false;
    expect(dispatched()).toEqual(inTurns);
    pass(1_001);
    expect(dispatched()).toEqual(['b6']);
    expect(planner.faults()).toHaveLength(1);
    pass(60_000);
    expect(planner.faults()).toEqual([]);
  });
});

describe('a policy whose', () => {
  const dispatchOne: Policy['plan'] = (_, state) => ({
    dispatch: [{ id: 'a3', pool: 'default' }],
    held: {},
    state,
  });

  test('written() loops is left out, and the rates are charged', () => {
    const snapshot = limited({ rate: { perSecond: 1, burst: 3 } });
    const { dispatched, planner } = plannerOf(aWhole({ plan: dispatchOne, written: forever }), {
      budgetMs: hastyMs,
    });
    expect(dispatched(snapshot)).toEqual(['a3']);
    expect(dispatched(snapshot)).toEqual(['a1', 'b4']);
    expect(dispatched(snapshot)).toEqual([]);
    expect(planner.faults()).toMatchObject([{ part: 'written' }]);
  });

  test.each([
    ['throws', () => Promise.reject(new Error('no'))],
    ['returns nothing', () => undefined],
  ])('written() %s plans on with the state of the plan', (_, written) => {
    const { dispatched, planner } = plannerOf(aWhole({ plan: dispatchOne, written: written as never }));
    expect(dispatched()).toEqual(['a3']);
    expect(dispatched()).toEqual(['a3']);
    expect(planner.faults()).toMatchObject([{ part: 'written', count: 2 }]);
  });

  test.each([
    ['loops', forever, /did not come back/],
    ['returns a text', () => 'because', /must have holds/],
    ['throws', () => [].reduce((_, one) => one), /Reduce of empty array/],
  ])('explain() %s answers with the limits', (_, explain, message) => {
    const { planner } = plannerOf(aWhole({ plan: dispatchOne, explain: explain as never }), {
      budgetMs: hastyMs,
    });
    const snapshot = limited({ paused: true });
    const [lane] = snapshot.lanes;
    const [job] = lane?.jobs ?? [];
    if (lane === undefined || job === undefined) throw new Error('no job');
    expect(planner.explain(snapshot, job, lane)).toEqual({
      holds: [{ gate: 'paused_queue', message: 'queue default is paused', untilMs: null }],
      ahead: 0,
    });
    expect(planner.faults()).toMatchObject([{ part: 'explain', message: saying(message) }]);
  });

  test('restore() loops begins anew', () => {
    const { planner, dispatched } = plannerOf(aWhole({ plan: dispatchOne, restore: forever }), {
      budgetMs: hastyMs,
    });
    planner.restore({ x: { state: 1, savedMs: 1 } });
    expect(dispatched()).toEqual(['a3']);
    expect(planner.faults()).toMatchObject([{ part: 'restore' }]);
  });
});

test('explain says that no plan was made, until one is', () => {
  let breaks = true;
  const made = policy({ order: fifo() });
  const plan: Policy['plan'] = (...given) => {
    if (breaks) throw new Error('broken');
    return made.plan(...given);
  };
  const { planner, dispatched } = plannerOf({ ...made, plan, fallback: { ...made, plan } });
  const snapshot = aSnapshot();
  const [lane] = snapshot.lanes;
  const [job] = lane?.jobs ?? [];
  if (lane === undefined || job === undefined) throw new Error('no job');
  expect(dispatched(snapshot)).toEqual([]);
  expect(planner.explain(snapshot, job, lane)?.holds).toMatchObject([
    { gate: 'policy', message: saying(/the last plan failed, and so did its fallback/) },
  ]);
  breaks = false;
  expect(dispatched(snapshot)).not.toEqual([]);
  expect(planner.explain(snapshot, job, lane)?.holds).toEqual([]);
});

test('an event is reported once a second, however many ticks fail', () => {
  const { dispatched, events, planner, pass } = plannerOf(aWhole({ plan: () => [].reduce((_, one) => one) }));
  for (let tick = 0; tick < 10; tick += 1) dispatched();
  expect(events).toHaveLength(1);
  pass(1_001);
  dispatched();
  expect(events).toHaveLength(2);
  expect(planner.faults()).toMatchObject([{ count: 11 }]);
});

test('a policy made of parts that does no harm is used as it is', () => {
  const { dispatched, planner } = plannerOf(policy({ order: fifo() }));
  expect(dispatched()).toEqual(['a1', 'a2', 'a3', 'b4']);
  const [a] = aSnapshot().lanes;
  const job = a?.jobs[0];
  if (a === undefined || job === undefined) throw new Error('no job');
  expect(dispatched(aSnapshot({ inFlight: [anItem(job)] }))).toHaveLength(4);
  expect(planner.faults()).toEqual([]);
});
