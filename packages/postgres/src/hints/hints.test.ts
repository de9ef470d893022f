import { expect, test } from 'vitest';
import { wakes } from './hints.ts';

test.each([
  ['', true],
  ['default', true],
  ['other', false],
  ['["default", "n1", "n2"]', true],
  ['["default", "n1"]', false],
  ['["default"]', false],
  ['["other", "n2"]', false],
  ['["default", {"n2": 1}]', false],
  ['["broken', false],
  ['[]', false],
  ['{"0": "default"}', false],
])('the hint %s', (payload, expected) => {
  expect(wakes(payload, { pool: 'default', node: 'n2' })).toBe(expected);
});

test('a pool may be named like a list', () => {
  expect(wakes('["default", "n1"]', { pool: '["default", "n1"]', node: 'n2' })).toBe(true);
});
