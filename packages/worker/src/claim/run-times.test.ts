import { expect, test } from 'vitest';
import type { RunTimes } from './run-times.ts';
import { createRunTimes } from './run-times.ts';

function run(times: RunTimes, task: string, ...[count, ms]: [number, number]): void {
  for (let n = 0; n < count; n += 1) times.add(task, ms);
}

/** Matches a mean of inexact numbers. */
const close = (ms: number, digits = 3): unknown => expect.closeTo(ms, digits);

/** Reports what is new, as the node does. */
function tell(times: RunTimes, nowMs: number): Readonly<Record<string, number>> | undefined {
  const news = times.news(nowMs);
  if (news !== undefined) times.told(news, nowMs);
  return news;
}

test('a task is told of after twenty runs, by the mean of them', () => {
  const times = createRunTimes();
  run(times, 'a', 10, 1);
  run(times, 'a', 9, 3);
  expect(times.news(0)).toBeUndefined();
  times.add('a', 3);
  expect(times.news(0)).toEqual({ a: close(2) });
});

test('what takes no time at all is told as a microsecond', () => {
  const times = createRunTimes();
  run(times, 'a', 20, 0);
  expect(times.news(0)).toEqual({ a: 0.001 });
});

test('a mean is told again when it is half as long again, or two thirds of it; not before 250 ms have passed', () => {
  const times = createRunTimes();
  run(times, 'a', 200, 2);
  expect(tell(times, 0)).toEqual({ a: 2 });
  run(times, 'a', 1_000, 2.9);
  expect(tell(times, 1_000)).toBeUndefined();
  run(times, 'a', 1_000, 3.2);
  expect(times.news(249)).toBeUndefined();
  expect(tell(times, 1_000)).toEqual({ a: close(3.2, 1) });
  run(times, 'a', 1_000, 2.3);
  expect(tell(times, 1_249)).toBeUndefined();
  expect(tell(times, 1_250)).toBeUndefined();
  run(times, 'a', 1_000, 1);
  expect(times.news(1_249)).toBeUndefined();
  expect(tell(times, 1_250)).toEqual({ a: close(1, 1) });
});

test('old runs count for less and less: what was long once is forgotten', () => {
  const times = createRunTimes();
  run(times, 'a', 20, 20);
  run(times, 'a', 2_000, 1);
  expect(times.news(0)).toEqual({ a: close(1, 1) });
});

test('a task of which more than one run in a hundred takes over 50 ms is not told of', () => {
  const times = createRunTimes();
  run(times, 'at the edge', 200, 50);
  for (const [task, long] of [
    ['one in a hundred', 2],
    ['two in a hundred', 4],
  ] as const) {
    run(times, task, 200 - long, 1);
    run(times, task, long, 51);
  }
  expect(Object.keys(times.news(0) ?? {})).toEqual(['at the edge', 'one in a hundred']);
});

test('one that was told of stays up to three in a hundred; beyond that it is taken back', () => {
  const times = createRunTimes();
  run(times, 'a', 200, 1);
  tell(times, 0);
  run(times, 'a', 5, 51);
  expect(Object.keys(times.news(1_000) ?? { a: 1 })).toEqual(['a']);
  run(times, 'a', 5, 51);
  expect(tell(times, 1_000)).toEqual({});
  // Once taken back, the task returns by the stricter limit for tasks without batches.
  run(times, 'a', 400, 1);
  expect(times.news(2_000)).toBeUndefined();
  run(times, 'a', 1_500, 1);
  expect(Object.keys(times.news(2_000) ?? {})).toEqual(['a']);
});

test('what was told is told again where nobody knows it any more', () => {
  const times = createRunTimes();
  run(times, 'a', 20, 1);
  tell(times, 0);
  expect(times.news(1_000)).toBeUndefined();
  times.forget();
  expect(times.news(1_000)).toEqual({ a: 1 });
});

test('of a thousand tasks at most; names of every object are names', () => {
  const times = createRunTimes();
  run(times, 'constructor', 20, 1);
  expect(tell(times, 0)).toEqual({ constructor: 1 });
  for (let n = 0; n < 1_100; n += 1) run(times, `task ${n}`, 20, 1);
  expect(Object.keys(times.news(1_000) ?? {})).toHaveLength(1_000);
});
