import { expect, test } from 'vitest';
import { jobsOf, numberOf, payloadBytes, payloadOf } from './load.ts';

test('every payload takes a hundred bytes, and says its number', () => {
  for (const n of [0, 9, 10, 199_999, 4_999_999]) {
    const payload = payloadOf(n);
    expect(Buffer.byteLength(JSON.stringify(payload))).toBe(payloadBytes);
    expect(numberOf(payload)).toBe(n);
  }
});

test('jobs are numbered on, and take turns between keys', () => {
  const jobs = jobsOf({ from: 5, count: 4, keys: 3 });
  expect(jobs.map(({ payload }) => numberOf(payload))).toEqual([5, 6, 7, 8]);
  expect(jobs.map(({ key }) => key)).toEqual(['key-2', 'key-0', 'key-1', 'key-2']);
  expect(jobsOf({ from: 0, count: 1 })[0]?.key).toBeUndefined();
  expect(jobsOf({ from: 0, count: 1, key: 'a' })[0]?.key).toBe('a');
});
