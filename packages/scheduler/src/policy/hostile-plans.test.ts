import type { Plan, Policy, Snapshot } from '@pgqueue/core';
import { describe, expect, test } from 'vitest';
import { aSnapshot, aWhole, hastyMs, inTurns, limited, patientMs, plannerOf } from '../testing/planning.ts';

const forever = (): never => {
  for (;;);
};
const toPlan = ({ lanes }: Snapshot): Plan['dispatch'] =>
  lanes.flatMap(({ jobs }) => jobs.map(({ id }) => ({ id, pool: 'default' })));
const plan = (own: object): Plan => ({ dispatch: [], held: {}, state: {}, ...own });
const saying = (message: RegExp): unknown => expect.stringMatching(message);

/** Policies written as a whole whose plans can't be used, each with the expected fault message. */
const hostile: readonly (readonly [string, Policy['plan'], RegExp])[] = [
  [
    'throws',
    () => {
      throw new Error('broken');
    },
    /^broken$/,
  ],
  [
    'throws null',
    () => {
      // oxlint-disable-next-line typescript/only-throw-error
      throw null;
    },
    /threw null/,
  ],
  [
    'throws what can be no text',
    () => {
      throw Object.create(null);
    },
    /threw \[Object: null prototype\]/,
  ],
  ['loops for ever', forever, /did not come back within 400 ms/],
  [
    'loops in what it catches',
    () => {
      for (;;) {
        try {
          forever();
        } finally {
          forever();
        }
      }
    },
    /did not come back/,
  ],
  [
    'backtracks for ever',
    () => plan({ state: { odd: /^(a+)+$/.test(`${'a'.repeat(64)}b`) } }),
    /did not come back/,
  ],
  [
    'recurses for ever',
    (snapshot, state) => {
      const again = (): Plan => again();
      return again() ?? { snapshot, state };
    },
    /Maximum call stack/,
  ],
  ['returns nothing', () => undefined as never, /did not return a plan/],
  ['returns a text', () => 'plan' as never, /did not return a plan/],
  ['returns a promise', (() => Promise.resolve(plan({}))) as never, /returned a promise/],
  [
    'returns a promise that fails',
    (async () => Promise.reject(new Error('late'))) as never,
    /returned a promise/,
  ],
  ['returns no jobs', () => plan({ dispatch: 'all' }), /did not return a plan/],
  ['returns jobs that are none', () => plan({ dispatch: ['a1', null] }), /object with id and pool/],
  ['returns unknown jobs', () => plan({ dispatch: [{ id: 'x', pool: 'default' }] }), /job x is no candidate/],
  ['returns an unknown pool', () => plan({ dispatch: [{ id: 'a1', pool: 'gpu' }] }), /no place in pool gpu/],
  [
    'returns a job twice',
    () => plan({ dispatch: ['a1', 'a1'].map((id) => ({ id, pool: 'default' })) }),
    /is no candidate, or is there twice/,
  ],
  ['returns more than there are slots', (snapshot) => plan({ dispatch: toPlan(snapshot) }), /no_free_slot/],
  [
    'returns more than a batch',
    (snapshot) =>
      plan({
        dispatch: Array.from({ length: snapshot.batchMax + 1 }, (_, n) => ({ id: `${n}`, pool: 'default' })),
      }),
    /101 jobs, where 100 are allowed/,
  ],
  [
    'hides jobs in a bundle',
    (snapshot) => plan({ dispatch: toPlan(snapshot).map((job) => ({ ...job, bundle: 'a1' })) }),
    /job b4 does not belong to bundle a1/,
  ],
  ['has no state', () => plan({ state: null }), /has no state/],
  ['has a list for its state', () => plan({ state: [] }), /must be an object/],
  ['has a part without a name', () => plan({ state: { '': 1 } }), /1 to 100 characters/],
  ['has a part with NUL in its name', () => plan({ state: { 'a\u0000': 1 } }), /without U\+0000/],
  ['has a part with half a surrogate pair', () => plan({ state: { '\ud800': 1 } }), /surrogate/],
  ['says it goes on at no time', () => plan({ nextMs: Number.NaN }), /its nextMs is not what/],
  ['gives reasons as it likes', () => plan({ reasons: { a1: 'because' } }), /its reasons is not what/],
  ['recalls what is no work item', () => plan({ recall: ['a1'] }), /job a1 can't be recalled/],
  [
    'loops when its plan is read',
    () =>
      new Proxy(plan({}), {
        get: forever,
      }),
    /did not come back/,
  ],
  [
    'sorts the snapshot in place',
    ({ lanes, ...snapshot }) => plan({ dispatch: (lanes as unknown[]).reverse(), snapshot }),
    /read only/,
  ],
  [
    "changes a job's key",
    ({ lanes }) => {
      Object.assign(lanes[0]?.jobs[0] ?? {}, { key: 'z' });
      return plan({});
    },
    /read only/,
  ],
];

describe.each(hostile)('a policy that %s', (_, hostilePlan, message) => {
  const budgetMs = message.source.includes('come back') ? hastyMs : patientMs;

  test('is named, its tick and the next are FIFO per key, and nothing is saved of it', () => {
    const { planner, events, dispatched } = plannerOf(aWhole({ plan: hostilePlan }), { budgetMs });
    expect(dispatched()).toEqual(inTurns);
    expect(planner.faults()).toEqual([
      expect.objectContaining({
        policy: 'whole',
        part: 'plan',
        message: saying(message),
        count: 1,
      }),
    ]);
    expect(events).toContainEqual(
      expect.objectContaining({ type: 'policy.failed', policy: 'whole', part: 'plan' }),
    );
    expect(planner.plan(aSnapshot())).toMatchObject({
      dispatch: inTurns.map((id) => ({ id, pool: 'default' })),
      parts: null,
    });
  });

  test('keeps to the limits of queue_config all the same', () => {
    const { dispatched } = plannerOf(aWhole({ plan: hostilePlan }), { budgetMs });
    expect(dispatched(limited({ paused: true }))).toEqual([]);
    expect(dispatched(limited({ concurrency: 3 }))).toEqual(['a1', 'b4', 'a2']);
    expect(dispatched(limited({ rate: { perSecond: 1, burst: 2 } }))).toEqual(['a1', 'b4']);
    expect(dispatched(limited({ rate: { perSecond: 1, burst: 2 } }))).toEqual([]);
  });
});
