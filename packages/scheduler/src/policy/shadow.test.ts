import type { Gate, Plan, Policy, Snapshot } from '@pgqueue/core';
import { fifo, ordered, policy, turns } from '@pgqueue/core';
import { defaultQueue } from '@pgqueue/core/internal';
import { describe, expect, test } from 'vitest';
import type { Planned } from '../testing/planning.ts';
import {
  aGate,
  aSnapshot,
  aWhole,
  hastyMs,
  inTurns,
  limited,
  patientMs,
  plannerOf,
} from '../testing/planning.ts';

const live = policy({ name: 'live', order: turns() });
const withShadow = (shadow: Policy, budgetMs: number = patientMs): Planned =>
  plannerOf(live, { shadow, budgetMs });
const throwing = (name: string, onError: Gate['onError']): Gate => ({
  name,
  ...(onError === undefined ? {} : { onError }),
  open: () => ({
    admits: () => {
      throw new Error('no idea');
    },
    why: () => ({ message: 'no idea', untilMs: null }),
  }),
});
const dispatching =
  (...ids: readonly string[]): Policy['plan'] =>
  (_, state): Plan => ({ dispatch: ids.map((id) => ({ id, pool: 'default' })), held: {}, state });

test('a shadow that plans the same shows no difference', () => {
  const { dispatched, planner } = withShadow(policy({ name: 'same', order: turns() }));
  expect(dispatched()).toEqual(inTurns);
  expect(planner.shadow()).toMatchObject({
    policy: 'same',
    snapshots: 1,
    skipped: 0,
    failed: 0,
    both: 4,
    liveOnly: {},
    shadowOnly: {},
    rankDifference: 0,
    keys: [
      { queue: 'default', key: 'a', live: 0.5, shadow: 0.5 },
      { queue: 'default', key: 'b', live: 0.5, shadow: 0.5 },
    ],
  });
});

test('what the shadow would do otherwise is counted, and nothing of it is dispatched', () => {
  const { dispatched, planner } = withShadow(policy({ name: 'fifo', order: fifo() }));
  expect(dispatched()).toEqual(inTurns);
  // live: a1 b4 a2 b5, shadow: a1 a2 a3 b4
  expect(planner.shadow()).toMatchObject({
    both: 3,
    liveOnly: { later: 1 },
    shadowOnly: { later: 1 },
    rankDifference: (0 + 2 + 1) / 3,
    keys: [
      { key: 'a', live: 0.5, shadow: 0.75 },
      { key: 'b', live: 0.5, shadow: 0.25 },
    ],
  });
});

test('differences have the reason of the policy that holds the job', () => {
  const odd = aGate('odd', ({ seq }) => (seq === 1 ? 'hold' : 'admit'));
  const noB = aGate('no_b', ({ key }) => (key === 'b' ? 'hold_lane' : 'admit'));
  const { dispatched, planner } = withShadow(policy({ name: 'strict', order: turns(), gates: [odd, noB] }));
  expect(dispatched()).toEqual(inTurns);
  expect(planner.shadow()).toMatchObject({ liveOnly: { odd: 1, no_b: 2 }, shadowOnly: { later: 1 } });
});

describe('lanes that the last tick did not read', () => {
  const noA = aGate('no_a', ({ key }) => (key === 'a' ? 'hold' : 'admit'));
  const old = (): Snapshot => {
    const snapshot = aSnapshot();
    return { ...snapshot, lanes: snapshot.lanes.map((lane) => ({ ...lane, fresh: false })) };
  };

  test('are judged as if it had: a shadow that needs them anew gets no tick for it', () => {
    const strict = policy({ name: 'strict', order: turns(), gates: [noA, ordered()] });
    const { dispatched, planner } = withShadow(strict);
    expect(dispatched(old())).toEqual(inTurns);
    // the first job of b goes in both; the second one waits for it
    expect(planner.shadow()).toMatchObject({ both: 1, liveOnly: { no_a: 2, ordered: 1 }, shadowOnly: {} });
  });

  test('are compared when they are read, if the live policy needs them anew', () => {
    const own = policy({ name: 'live', order: turns(), gates: [ordered()] });
    const shadow = policy({ name: 'same', order: turns(), gates: [ordered()] });
    const { dispatched, planner } = plannerOf(own, { shadow });
    expect(dispatched(old())).toEqual([]);
    expect(planner.shadow()).toMatchObject({ both: 0, liveOnly: {}, shadowOnly: {} });
    expect(dispatched()).toEqual(['a1', 'b4']);
    expect(planner.shadow()).toMatchObject({ both: 2, liveOnly: {}, shadowOnly: {} });
  });
});

test('where the live policy holds a job, its gate is the reason', () => {
  const greedy = aWhole({ name: 'free', plan: dispatching('a1', 'b4') });
  const { dispatched, planner } = withShadow(greedy);
  expect(dispatched(aSnapshot({ queues: { default: { ...defaultQueue, keyConcurrency: 1 } } }))).toEqual([
    'a1',
    'b4',
  ]);
  expect(planner.shadow()).toMatchObject({ both: 2, shadowOnly: {} });
  expect(dispatched(limited({ paused: true }))).toEqual([]);
  // a shadow plan that exceeds a limit is not a plan
  expect(planner.shadow()).toMatchObject({ failed: 1 });
});

test.each<[string, Policy['plan']]>([
  [
    'loops for ever',
    () => {
      for (;;);
    },
  ],
  ['throws', () => [].reduce((_, one) => one)],
  ['returns unknown jobs', dispatching('x')],
  ['returns a promise', (() => Promise.reject(new Error('late'))) as never],
])('a shadow that %s never touches the live plan, and is named', (_, plan) => {
  const { dispatched, planner } = withShadow(aWhole({ plan }), hastyMs);
  for (let tick = 0; tick < 50; tick += 1) expect(dispatched()).toEqual(inTurns);
  expect(planner.faults()).toMatchObject([{ policy: 'shadow whole', part: 'plan' }]);
  const { failed = 0, skipped = 0, ...report } = planner.shadow() ?? {};
  expect(report).toMatchObject({ snapshots: 0, both: 0 });
  expect(failed).toBeGreaterThan(0);
  expect(failed + skipped).toBe(50);
});

test.each<[string, Parameters<typeof policy>[0]]>([
  ['gate', { order: turns(), gates: [throwing('odd', 'ignore')] }],
  ['limit', { order: turns(), gates: [throwing('limit', 'hold')] }],
  [
    'order',
    {
      order: {
        name: 'odd',
        open: () => {
          throw new Error('no order');
        },
      },
    },
  ],
])(
  'a shadow whose %s fails has failed on that snapshot, and what it plans without is compared',
  (_, parts) => {
    const { dispatched, planner } = withShadow(policy({ name: 'odd', ...parts }));
    for (let tick = 0; tick < 3; tick += 1) expect(dispatched()).toEqual(inTurns);
    expect(planner.faults().map(({ policy: name }) => name)).toEqual(['shadow odd']);
    expect(planner.shadow()).toMatchObject({ snapshots: 3, skipped: 0, failed: 3 });
  },
);

test('a shadow that fails when it is told what was written has failed on that snapshot', () => {
  const { dispatched, planner } = withShadow(
    aWhole({
      plan: dispatching('a1'),
      written: () => {
        throw new Error('not now');
      },
    }),
  );
  dispatched();
  expect(planner.shadow()).toMatchObject({ snapshots: 1, failed: 1, both: 1 });
});

test('a slow shadow gets a tenth of the time', () => {
  let plans = 0;
  const { dispatched, planner, pass } = withShadow(
    aWhole({
      plan: (snapshot, state) => {
        plans += 1;
        pass(40);
        return dispatching('a1')(snapshot, state);
      },
    }),
  );
  for (let tick = 0; tick < 1_000; tick += 1) {
    pass(10);
    dispatched();
  }
  // 10 s of ticks plus the shadow's own time, at a tenth, and 100 ms saved up
  expect(plans).toBeGreaterThan(20);
  expect(plans).toBeLessThan(35);
  expect(planner.shadow()).toMatchObject({ snapshots: plans, skipped: 1_000 - plans });
});

test('the shadow keeps its own state, and is told which of its choices were written', () => {
  const told: unknown[] = [];
  const { planner, dispatched } = withShadow(
    aWhole({
      initial: { count: 0 },
      plan: (_, state) => ({
        dispatch: ['a1', 'b6'].map((id) => ({ id, pool: 'default' })),
        held: {},
        state: { count: Number(state['count']) + 1 },
      }),
      written: (state, { ids }) => {
        told.push([state['count'], [...ids]]);
        return state;
      },
    }),
  );
  dispatched();
  planner.plan(aSnapshot());
  planner.dropped();
  dispatched();
  expect(told).toEqual([
    [1, inTurns],
    [2, inTurns],
  ]);
  expect(planner.plan(aSnapshot()).parts).toBeNull();
});

test('an event tells of it once a second', () => {
  const { dispatched, events, pass } = withShadow(policy({ name: 'fifo', order: fifo() }));
  for (let tick = 0; tick < 10; tick += 1) dispatched();
  expect(events).toEqual([]);
  pass(1_001);
  dispatched();
  dispatched();
  pass(1_001);
  dispatched(aSnapshot({ lanes: [] }));
  pass(1_001);
  dispatched(aSnapshot({ lanes: [] }));
  expect(events).toMatchObject([
    {
      type: 'shadow.compared',
      policy: 'live',
      shadow: 'fifo',
      snapshots: 10,
      skipped: 0,
      both: 30,
      liveOnly: 10,
      shadowOnly: 10,
    },
    { type: 'shadow.compared', snapshots: 12 },
  ]);
});
