import { expect, test } from 'vitest';
import { readableRate, sayGroup, sayRate } from './format.ts';

test.each([
  [100, '100/s'],
  [2.5, '2.5/s'],
  [100 / 60, '100/m'],
  [5 / 60, '5/m'],
  [20 / 3_600, '20/h'],
  [1 / 3_600, '1/h'],
  [50 / 86_400, '50/d'],
  [1 / 86_400, '1/d'],
  [0.5 / 86_400, '0.5/d'],
  [1 / 7, '514.285714/h'],
  [1_000_000, '1000000/s'],
])('a rate of %s a second is %s', (perSecond, text) => {
  const { count, unit } = readableRate(perSecond);
  expect(`${Number(count.toPrecision(9))}/${unit}`).toBe(text);
});

test('a rate in words', () => {
  expect(sayRate(1 / 86_400, '')).toBe('1 a day');
  expect(sayRate(100 / 60, ' tokens')).toBe('100 tokens a minute');
  expect(sayRate(0.001 / 86_400, '')).toBe('0.001 a day');
  expect(sayRate(1 / 7, '')).toBe('514.29 an hour');
});

test('a group is called by its value, and the empty one is called so', () => {
  expect([sayGroup('key', 'a'), sayGroup('key', ''), sayGroup('api', undefined)]).toEqual([
    'key a',
    'the empty key',
    'api',
  ]);
});
