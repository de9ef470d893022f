import type { PgQueueEvent, QueueSeen } from '@pgqueue/core';
import { defaultQueue } from '@pgqueue/core/internal';
import type { TickRead, TickState } from '@pgqueue/postgres/internal';
import { expect, test } from 'vitest';
import type { LaneRow } from '../testing/lanes.ts';
import { aRow, lanesOf, rowsOf } from '../testing/lanes.ts';
import { createUnreadable } from './unreadable.ts';

const row = aRow({ wanted: 4, id: 'good', createdMs: 5, attributes: { region: 'us', hot: null } });
const node = {
  id: 'n',
  pool: 'default',
  slots: 5,
  tasks: { t: { min: 1, max: 2, timeoutMs: null } },
  runs: {},
};

function aRead(rows: readonly LaneRow[], state: Partial<TickState> = {}): TickRead {
  return {
    state: {
      now: 1_000,
      nodes: [node],
      items: [],
      queues: {},
      settled: [],
      expiredLeases: false,
      lostNodes: false,
      ...state,
    },
    enqueuers: null,
    config: null,
    tallies: 1,
    due: null,
    lanes: lanesOf(rows),
    questions: [],
  };
}

function subject(): ReturnType<typeof createUnreadable> & { readonly events: PgQueueEvent[] } {
  const events: PgQueueEvent[] = [];
  return { ...createUnreadable((event) => events.push(event)), events };
}

test('what can be read comes through as it is', () => {
  const { without, current, events } = subject();
  const read = aRead([row, { ...row, id: null, attributes: null }], {
    queues: { q: { ...defaultQueue, rate: { perSecond: 1, burst: 2 } } },
  });
  expect(without(read, 0)).toEqual({ read, jobs: new Set() });
  expect([current(), events]).toEqual([[], []]);
});

test.each<[string, Partial<Record<keyof LaneRow, unknown>>]>([
  ['too much text', { attributes: null }],
  ['a list', { attributes: [] }],
  ['a list within', { attributes: { deep: [[[]]] } }],
  ['a number beyond a double', { attributes: { large: Infinity } }],
  ['a time that is none', { createdMs: Infinity }],
  ['a number that is none', { priority: Number.NaN }],
])('a job is left out for %s, and those beside it are not', (_, odd) => {
  const { without, current, events } = subject();
  const found = without(aRead([{ ...row, ...odd, id: 'odd' } as LaneRow, row]), 0);
  expect([...found.jobs]).toEqual(['odd']);
  expect(rowsOf(found.read.lanes).map(({ id, attributes }) => [id, attributes])).toEqual([
    ['odd', null],
    ['good', row.attributes],
  ]);
  expect(current()).toMatchObject([{ kind: 'job', id: 'odd', firstMs: 1_000 }]);
  expect(events).toMatchObject([{ type: 'tick.unreadable', kind: 'job', id: 'odd' }]);
});

test.each<[string, unknown]>([
  ['null', { mail: null }],
  ['a text', { mail: { min: '1', max: 2 } }],
  ['no end', { mail: { min: 1 } }],
  ['a list', []],
  ['nothing', null],
])('a node is left out whose tasks are %s, and the others are not', (_, tasks) => {
  const { without, current } = subject();
  const nodes = [{ ...node, id: 'odd', tasks: tasks as typeof node.tasks }, node];
  expect(without(aRead([], { nodes }), 0).read.state.nodes).toEqual([node]);
  expect(current()).toMatchObject([{ kind: 'node', id: 'odd' }]);
});

test('jobs of a queue whose settings are no numbers wait: a limit that nobody can read may be any', () => {
  const { without, current } = subject();
  const odd = {
    ...defaultQueue,
    concurrency: 'Infinity' as unknown as number,
    pool: 'p',
  } satisfies QueueSeen;
  const { read } = without(aRead([], { queues: { odd, q: defaultQueue } }), 0);
  expect(read.state.queues).toEqual({ odd: { ...defaultQueue, pool: 'p', paused: true }, q: defaultQueue });
  expect(current()).toMatchObject([{ kind: 'queue', id: 'odd' }]);
});

test('each is told once, stands there for a minute after it was seen last, and a hundred are told at most', () => {
  const { without, current, events } = subject();
  const odd = (id: string): LaneRow => ({ ...row, id, attributes: null });
  without(aRead([odd('a')]), 0);
  without(aRead([odd('a')]), 50_000);
  without(aRead([]), 110_000);
  expect([current().length, events.length]).toEqual([1, 1]);
  without(aRead([]), 110_001);
  expect(current()).toEqual([]);
  without(aRead(Array.from({ length: 150 }, (_, n) => odd(`job ${n}`))), 120_000);
  without(aRead(Array.from({ length: 150 }, (_, n) => odd(`job ${n}`))), 130_000);
  expect([current().length, events.length]).toEqual([100, 101]);
});
