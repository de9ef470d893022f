import type { InFlight } from '@pgqueue/core';
import type { TickRead } from '@pgqueue/postgres';
import { expect, test } from 'vitest';
import { createMemory } from './memory.ts';
import { suppose } from './suppose.ts';

const ids = ['00000000-0000-7000-8000-00000000000a', '00000000-0000-7000-8000-00000000000b'] as const;

const item = (id: string): Omit<InFlight, 'state' | 'node'> => ({
  id,
  queue: 'q',
  key: 'k',
  task: 't',
  version: 1,
  priority: 0,
  seq: 1,
  createdMs: 0,
  expiresMs: null,
  attributes: {},
  tries: 0,
  pool: 'default',
  bundle: null,
  dispatchedMs: 0,
});

const read: TickRead = {
  state: { now: 5_000, nodes: [], items: [], queues: {}, settled: [], expiredLeases: true, lostNodes: true },
  enqueuers: null,
  config: '1 7',
  due: null,
  rows: [],
  questions: [],
};

function memoryOf() {
  const memory = createMemory({ observe: () => {}, batchMax: 500 });
  ids.forEach((id, position) => memory.ledger.wrote(item(id), position + 1));
  memory.lastLook = { read, config: '1 7', atMs: 100 };
  return memory;
}

test('is the last look without what ended, by a clock that is not ahead of the database’s', () => {
  const memory = memoryOf();
  const guess = suppose(memory, [ids[0]], 150);
  expect(guess?.inFlight.map(({ id }) => id)).toEqual([ids[1]]);
  expect(guess?.supposed).toEqual({ ended: [ids[0]], config: '1 7' });
  expect(guess?.read.state).toMatchObject({ now: 5_050, expiredLeases: false, lostNodes: false });
  expect(memory.ledger.inFlight()).toHaveLength(2);
  guess?.confirm();
  expect(memory.ledger.inFlight().map(({ id }) => id)).toEqual([ids[1]]);
});

test.each([
  ['nothing is said', (memory: ReturnType<typeof memoryOf>) => suppose(memory, [], 150)],
  ['what is said is of no work item', (memory: ReturnType<typeof memoryOf>) => suppose(memory, ['x'], 150)],
  ['the last look is too old', (memory: ReturnType<typeof memoryOf>) => suppose(memory, [ids[0]], 301)],
  [
    'settlements are asked for',
    (memory: ReturnType<typeof memoryOf>) => {
      memory.feeds = true;
      return suppose(memory, [ids[0]], 150);
    },
  ],
])('is nothing where %s', (_name, of) => {
  expect(of(memoryOf())).toBeUndefined();
});
