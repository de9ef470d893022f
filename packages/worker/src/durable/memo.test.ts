import { describe, expect, test } from 'vitest';
import { childId, inOrder } from './child-ids.ts';
import { Memo } from './memo.ts';

const stepped = (value: unknown, data: unknown): unknown => ({
  pgqueue: { v: 1, steps: { a: { kind: 'step', value } } },
  data,
});

describe('a checkpoint', () => {
  test.each([[null], [{ page: 1 }], ['text'], [[1]], [{ pgqueue: 1, data: 2 }]])(
    'without steps is the data alone: %j',
    (data) => {
      const memo = new Memo(data);
      expect(memo.data).toEqual(data);
      expect(JSON.parse(memo.textWith({}))).toEqual(data);
    },
  );

  test('has the steps beside the data', () => {
    const memo = new Memo({ page: 1 });
    const text = memo.textWith({ entry: ['a', { kind: 'step', value: 5 }] });
    expect(JSON.parse(text)).toEqual(stepped(5, { page: 1 }));
    expect(memo.begin('a', 'step')).toBeUndefined();
    const next = new Memo(JSON.parse(text));
    expect(next.begin('a', 'step')).toEqual({ kind: 'step', value: 5 });
    expect(next.data).toEqual({ page: 1 });
    expect(JSON.parse(next.textWith({ data: 'null' }))).toEqual(stepped(5, null));
  });

  test('of data that look like steps is told apart', () => {
    const data = stepped(5, null);
    const text = new Memo(null).textWith({ data: JSON.stringify(data) });
    const next = new Memo(JSON.parse(text));
    expect(next.data).toEqual(data);
    expect(next.begin('a', 'step')).toBeUndefined();
  });

  test('keeps a step of the name __proto__', () => {
    const text = new Memo(null).textWith({ entry: ['__proto__', { kind: 'step', value: 5 }] });
    expect(new Memo(JSON.parse(text)).begin('__proto__', 'step')).toEqual({ kind: 'step', value: 5 });
  });
});

describe('a name', () => {
  test.each([
    ['that is empty', '', /text of 1 to 100/],
    ['that is too long', 'x'.repeat(101), /text of 1 to 100/],
    ['with NUL', 'a\u0000', /NUL/],
    ['that is no text', 5 as never, /text of 1 to 100/],
    ['of another kind before', 'a', /ctx.sleep\("a"\): an earlier attempt has used this name for ctx.step/],
  ])('%s is refused', (_name, name, message) => {
    expect(() => new Memo(stepped(5, null)).begin(name, 'sleep')).toThrow(message);
  });

  test('is used once in an attempt', () => {
    const memo = new Memo(null);
    memo.begin('a', 'step');
    expect(() => memo.begin('a', 'step')).toThrow('has used this name before');
  });

  test('is one of 100', () => {
    const memo = new Memo(null);
    for (let n = 0; n < 100; n += 1) {
      memo.begin(String(n), 'step');
      memo.set(String(n), { kind: 'step' });
    }
    expect(() => memo.begin('100', 'step')).toThrow('at most 100 steps');
  });
});

test('what is kept has 256 KiB at most', () => {
  const memo = new Memo('x'.repeat(200_000));
  expect(() => memo.textWith({ entry: ['a', { kind: 'step', value: 'x'.repeat(62_100) }] })).toThrow(
    /have 262\d{3} bytes of JSON, more than 262144/,
  );
});

test('work goes in turn, also behind work that failed', async () => {
  const memo = new Memo(null);
  const done: number[] = [];
  const first = memo.inTurn(async () => {
    await Promise.resolve();
    done.push(1);
    throw new Error('no');
  });
  const second = memo.inTurn(() => Promise.resolve(done.push(2)));
  await expect(first).rejects.toThrow('no');
  await second;
  expect(done).toEqual([1, 2]);
});

test('ends come in the order of the jobs, and those that are missing are done', () => {
  const flow = '01a20a81-e1c0-77bc-abac-4b5be71c52fa';
  const ids = Array.from({ length: 300 }, (_, index) => childId(flow, index));
  expect(ids.toSorted()).toEqual(ids);
  expect(new Set(ids).size).toBe(300);
  const ends = [
    { job: childId(flow, 2), outcome: 'dead', result: null, task: null },
    { job: childId(flow, 0), outcome: 'done', result: 7, task: 'a' },
  ] as const;
  expect(inOrder(flow, 3, ends)).toEqual([
    { job: ids[0], outcome: 'done', result: 7 },
    { job: ids[1], outcome: 'done', result: null },
    { job: ids[2], outcome: 'dead', result: null },
  ]);
});
