import type { Json, Snapshot } from '@pgqueue/core';
import { describe, expect, test } from 'vitest';
import { aSnapshot, aWhole, plannerOf } from '../testing/planning.ts';

const forever = (): never => {
  for (;;);
};
const saying = (message: RegExp): unknown => expect.stringMatching(message);
const nested = (depth: number): Json => (depth === 0 ? 0 : [nested(depth - 1)]);

describe('state', () => {
  test('of a plan that was not written is as it was before', () => {
    const seen: unknown[] = [];
    const { planner } = plannerOf(
      aWhole({
        initial: { count: 0 },
        plan: (_, state) => {
          seen.push(state['count']);
          return {
            dispatch: [{ id: 'a1', pool: 'default' }],
            held: {},
            state: { count: Number(state['count']) + 1 },
          };
        },
      }),
    );
    planner.plan(aSnapshot());
    planner.dropped();
    planner.plan(aSnapshot());
    planner.plan(aSnapshot());
    planner.written({ atMs: 1, ids: new Set() });
    planner.plan(aSnapshot());
    expect(seen).toEqual([0, 0, 0, 1]);
  });

  test.each<[string, unknown, RegExp]>([
    ['NaN', Number.NaN, /NaN is no JSON/],
    ['a function', () => 1, /function is no JSON/],
    ['a date', new Date(0), /object of a class/],
    ['a promise', Promise.resolve(1), /a promise is no JSON/],
    ['undefined', { x: { y: undefined } }, /at x.y: undefined is no JSON/],
    ['a text that PostgreSQL refuses', ['\u0000'], /U\+0000/],
    ['half a surrogate pair', { '\uD800': 1 }, /half a surrogate/],
    ['millions of numbers', Array.from({ length: 3_000_000 }, () => 1), /longer than/],
    ['endless depth', nested(200), /deeper than 100/],
    ['16 MB of text', ['x'.repeat(16_000_000)], /longer than/],
    ['a proxy that loops', new Proxy({}, { ownKeys: forever }), /a proxy is no JSON/],
  ])('that is no JSON is named, and not saved: %s', (_, value, message) => {
    const { planner } = plannerOf(
      aWhole({
        plan: () => ({
          dispatch: [{ id: 'a1', pool: 'default' }],
          held: {},
          state: { bad: value as Json, good: 1 },
        }),
      }),
    );
    const planned = planner.plan(aSnapshot());
    expect(planned.dispatch).toHaveLength(1);
    expect(Object.keys(planned.parts ?? {})).toEqual(['good']);
    expect(planner.faults()).toMatchObject([{ part: 'bad', message: saying(message) }]);
  });

  test('that is a promise which fails does not end the process', async () => {
    const late = (): never => Promise.reject(new Error('late')) as never;
    const { planner } = plannerOf(
      aWhole({
        plan: (_, state) => ({
          dispatch: [{ id: 'a1', pool: 'default' }],
          held: {},
          state: { ...state, bad: late() },
        }),
      }),
    );
    expect(planner.plan(aSnapshot()).parts).toBeNull();
    await Promise.resolve();
    expect(planner.faults()).toMatchObject([{ part: 'bad' }]);
  });

  test('is saved where it changed; soft parts once a second', () => {
    let [exact, soft] = [{ n: 1 }, { n: 1 }];
    const { planner, pass } = plannerOf(
      aWhole({
        softParts: ['soft'],
        plan: () => ({ dispatch: [{ id: 'a1', pool: 'default' }], held: {}, state: { exact, soft } }),
      }),
    );
    const parts = (): unknown => {
      const planned = planner.plan(aSnapshot());
      planner.written({ atMs: 1, ids: new Set(['a1']) });
      return planned.parts;
    };
    expect(parts()).toEqual({ exact: { n: 1 }, soft: { n: 1 } });
    expect(parts()).toBeNull();
    [exact, soft] = [{ n: 2 }, { n: 2 }];
    expect(parts()).toEqual({ exact: { n: 2 } });
    expect(parts()).toBeNull();
    pass(1_001);
    expect(parts()).toEqual({ soft: { n: 2 } });
  });

  test('that is soft, and was left by a batch, is saved alone after a second', () => {
    let n = 0;
    const { planner, pass } = plannerOf(
      aWhole({
        softParts: ['soft'],
        plan: ({ lanes }) => {
          n += 1;
          const dispatch = lanes.length === 0 ? [] : [{ id: 'a1', pool: 'default' }];
          return { dispatch, held: {}, state: { soft: { n } } };
        },
      }),
    );
    const parts = (snapshot: Snapshot): unknown => {
      const planned = planner.plan(snapshot);
      planner.written({ atMs: 1, ids: new Set() });
      return planned.parts;
    };
    const idle = aSnapshot({ lanes: [] });
    expect(parts(aSnapshot())).toEqual({ soft: { n: 1 } });
    expect(parts(aSnapshot())).toBeNull();
    expect(parts(idle)).toBeNull();
    pass(1_001);
    expect(parts(idle)).toEqual({ soft: { n: 4 } });
    pass(1_001);
    expect(parts(idle)).toBeNull();
  });

  test('of a batch that failed is offered again', () => {
    const { planner } = plannerOf(
      aWhole({ plan: () => ({ dispatch: [{ id: 'a1', pool: 'default' }], held: {}, state: { part: 1 } }) }),
    );
    expect(planner.plan(aSnapshot()).parts).toEqual({ part: 1 });
    planner.dropped();
    expect(planner.plan(aSnapshot()).parts).toEqual({ part: 1 });
  });
});
