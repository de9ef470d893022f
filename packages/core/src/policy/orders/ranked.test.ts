import fc from 'fast-check';
import { expect, test } from 'vitest';
import { aJob, aPool, aSnapshot, lanesOf, nowMs } from '../../testing/snapshots.ts';
import { policy } from '../compose/compose.ts';
import { byScore } from './by-score.ts';
import { createHeap } from './ranking/heap.ts';
import { fifo, turns } from './ranked.ts';
import { inOrder, learn, nameIn, noRuntimes } from './ranking/runtimes.ts';

const jobs = ['a', 'a', 'b', 'a', 'b'].map((key, seq) =>
  aJob({ seq, key, attributes: { score: [3, 9, 4, 1, 8][seq] ?? 0 } }),
);

function went(order: ReturnType<typeof fifo>): readonly string[] {
  const made = policy({ order });
  return made.plan(aSnapshot({ lanes: lanesOf(jobs) }), made.initial).dispatch.map(({ id }) => id);
}

test('FIFO goes by the order of enqueuing, over all keys', () => {
  expect(went(fifo())).toEqual(['job0', 'job1', 'job2', 'job3', 'job4']);
});

test('turns: one of each key, the longest waiting first', () => {
  expect(went(turns())).toEqual(['job0', 'job2', 'job1', 'job4', 'job3']);
});

test('the higher score first, among the first of each key', () => {
  const score = byScore({ name: 'score', score: ({ attributes }) => Number(attributes['score']) });
  expect(went(score)).toEqual(['job2', 'job4', 'job0', 'job1', 'job3']);
});

test('a score that is no number is reported, and the plan goes by turns', () => {
  const made = policy({ order: byScore({ name: 'mine', score: () => Number.NaN }) });
  const plan = made.plan(aSnapshot({ lanes: lanesOf(jobs) }), made.initial);
  expect(plan.dispatch.map(({ id }) => id)).toEqual(went(turns()));
  expect(String(plan.faults?.[0]?.error)).toBe('Error: order mine has no number for job job0');
});

test('a heap gives back the smallest, whatever is pushed and replaced', () => {
  const step = fc.oneof(
    fc.record({ push: fc.integer() }),
    fc.record({ replace: fc.integer() }),
    fc.constant({ pop: true }),
  );
  fc.assert(
    fc.property(fc.array(fc.integer()), fc.array(step), (start, steps) => {
      const heap = createHeap([...start], (a, b) => a < b);
      let model = start.toSorted((a, b) => a - b);
      const popped: (readonly [number | undefined, number | undefined])[] = [];
      for (const next of steps) {
        if ('push' in next) {
          heap.push(next.push);
          model.push(next.push);
        } else if ('replace' in next) {
          heap.replace(next.replace);
          if (model.length > 0) model = [...model.slice(1), next.replace];
        } else popped.push([heap.pop(), model.shift()]);
        model.sort((a, b) => a - b);
        expect([heap.peek(), heap.size()]).toEqual([model[0], model.length]);
      }
      expect(popped.map(([got]) => got)).toEqual(popped.map(([, expected]) => expected));
    }),
    { numRuns: 100, seed: 7 },
  );
});

test('runtimes: the mean moves towards what was measured; what never ran, or crashed, tells nothing', () => {
  const settle = (
    busyMs: number,
    outcome: 'done' | 'crash' | 'cancelled' = 'done',
  ): Parameters<typeof learn>[1][number] => ({
    job: aJob({ seq: busyMs }),
    outcome,
    busyMs,
    endedMs: nowMs + busyMs,
  });
  expect(
    learn(noRuntimes, [settle(100), settle(200), settle(9_000, 'crash'), settle(0, 'cancelled')]).tasks,
  ).toEqual({
    names: ['t'],
    ms: [110],
  });
  expect(learn(noRuntimes, [settle(0, 'cancelled')])).toBe(noRuntimes);
  expect(inOrder([settle(5), settle(3)]).map(({ busyMs }) => busyMs)).toEqual([3, 5]);
});

test('where there is no more room for runtimes by share, those that were met first go', () => {
  const settled = Array.from({ length: 2_500 }, (_, n) => ({
    job: aJob({ seq: n, key: `key${n}` }),
    outcome: 'done' as const,
    busyMs: n + 1,
    endedMs: nowMs,
  }));
  const { names, ms } = learn(noRuntimes, settled, (job) => nameIn(job.key, job)).shares;
  expect([names.length, names[0], ms.at(-1)]).toEqual([1_500, '1:tkey1000', 2_500]);
});

test('without jobs there is nothing to choose', () => {
  const made = policy({ order: turns() });
  expect(made.plan(aSnapshot({ pools: { default: aPool(3) } }), made.initial).dispatch).toEqual([]);
});
