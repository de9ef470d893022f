import { expect, test } from 'vitest';
import { aJob, aSnapshot, lanesOf, nowMs } from '../../testing/snapshots.ts';
import { policy } from '../compose/compose.ts';
import { fifo } from '../orders/ranked.ts';
import type { Snapshot } from '../snapshot.ts';
import type { Gate } from '../gate.ts';
import { gate } from './custom.ts';

const jobs = ['a', 'b', 'b', 'c'].map((key, seq) => aJob({ seq, key }));

function goes(own: Gate, seen: Partial<Snapshot> = {}): readonly string[] {
  const made = policy({ gates: [own], order: fifo() });
  return made.plan(aSnapshot({ lanes: lanesOf(jobs), ...seen }), made.initial).dispatch.map(({ id }) => id);
}

test('a function that says true, or why not', () => {
  const noB = gate({ name: 'no_b', admits: ({ key }) => (key === 'b' ? `key ${key} is not served` : true) });
  expect(goes(noB)).toEqual(['job0', 'job3']);
  const made = policy({ gates: [noB], order: fifo() });
  const snapshot = aSnapshot({ lanes: lanesOf(jobs) });
  const [, lane] = snapshot.lanes;
  const [, job] = jobs;
  if (lane === undefined || job === undefined) throw new Error('there are jobs');
  expect(made.plan(snapshot, made.initial).held).toEqual({ default: { no_b: 2 } });
  expect(made.explain?.(snapshot, made.initial, job, lane).holds).toEqual([
    { gate: 'no_b', message: 'key b is not served', untilMs: null },
  ]);
});

test('reads what was fetched, typed by the fetch', () => {
  const suspended = gate({
    name: 'suspended',
    prepare: {
      everyMs: 10_000,
      deadlineMs: 1_000,
      fetch: async () => ({ keys: await Promise.resolve(['b']) }),
    },
    admits: ({ key }, _snapshot, fetched) => {
      if (fetched === null) return 'it is not known yet who is suspended';
      return fetched.value.keys.includes(key) ? `suspended since ${fetched.atMs}` : true;
    },
  });
  expect(goes(suspended)).toEqual([]);
  const prepared = { suspended: { value: { keys: ['b'] }, atMs: nowMs } };
  expect(goes(suspended, { prepared })).toEqual(['job0', 'job3']);
  expect(policy({ gates: [suspended], order: fifo() }).prepare).toMatchObject([
    { name: 'suspended', everyMs: 10_000, deadlineMs: 1_000 },
  ]);
});

test.each([
  ['ignore', ['job0', 'job1', 'job2', 'job3']],
  ['hold', []],
] as const)('a function that fails: %s', (onError, expected) => {
  const failing = gate({ name: 'failing', onError, admits: () => undefined as unknown as true });
  expect(goes(failing)).toEqual(expected);
  const made = policy({ gates: [failing], order: fifo() });
  expect(made.plan(aSnapshot({ lanes: lanesOf(jobs) }), made.initial).faults).toEqual([
    {
      part: 'failing',
      error: new Error('admits must return true, or why job job0 has to wait'),
      instead: onError === 'hold' ? 'held' : 'ignored',
    },
  ]);
});

test('"lane" ends the asking about a key', () => {
  const asked: string[] = [];
  const none = gate({
    name: 'none',
    lane: true,
    admits: ({ id }) => {
      asked.push(id);
      return 'no';
    },
  });
  expect(goes(none)).toEqual([]);
  expect(asked).toEqual(['job0', 'job1', 'job3']);
});
