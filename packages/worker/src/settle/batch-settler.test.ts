import type { Target } from '@pgqueue/postgres/internal';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { DoneRow } from '../lease/ended.ts';
import { createRowSettler } from './batch-settler.ts';

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }));
afterEach(() => void vi.useRealTimers());

const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve));
};

function row(position: number, jobs = 1): DoneRow {
  return {
    position,
    token: 't',
    busyMs: Array.from({ length: jobs }, () => 1),
    data: Array.from({ length: jobs }, () => null),
    leases: () => [],
    ended: () => [],
    settled: () => {},
  };
}

/** A database that settles everything at once. `statements`: positions, by statement. */
function bench() {
  const statements: (readonly number[])[] = [];
  const database = {
    schema: 'pgqueue',
    query: (_text: string, [positions = '{}']: readonly string[]) => {
      const settled = positions.slice(1, -1).split(',').map(Number);
      statements.push(settled);
      return Promise.resolve([{ settled }]);
    },
  } as unknown as Target;
  const settler = createRowSettler({
    database,
    observe: () => {},
    onRows: () => {},
    abandoned: new AbortController().signal,
    unanswered: new WeakSet(),
    onAnswered: () => {},
    before: () => Promise.resolve(),
    settle: () => {},
    onFailed: () => {},
    onIdle: () => {},
  });
  return { settler, statements };
}

test('batches that end within 10 ms of a statement are settled by the next one together', async () => {
  const { settler, statements } = bench();
  settler.settle(row(1));
  await turns();
  expect(statements).toEqual([[1]]);
  settler.settle(row(2));
  await turns();
  vi.advanceTimersByTime(9);
  settler.settle(row(3));
  await turns();
  expect(statements).toEqual([[1]]);
  expect(settler.busy()).toBe(true);
  vi.advanceTimersByTime(1);
  await turns();
  expect(statements).toEqual([[1], [2, 3]]);
  expect(settler.busy()).toBe(false);
});

test("those of a hundred jobs don't wait", async () => {
  const { settler, statements } = bench();
  settler.settle(row(1));
  await turns();
  settler.settle(row(2, 100));
  await turns();
  expect(statements).toEqual([[1], [2]]);
});
