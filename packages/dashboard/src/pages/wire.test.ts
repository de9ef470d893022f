import { errorData } from '@pgqueue/core/internal';
import { expect, test } from 'vitest';
import { errorOf } from './wire.ts';

test('an error is shown with its causes, and their stacks below its own', () => {
  const cause = new RangeError('connect ECONNREFUSED');
  const error = { ...errorData(new Error('fetch failed', { cause })), node: 'n', try: 1, at: 'now' };
  const { name, message, stack } = errorOf(error);
  expect([name, message]).toEqual(['Error', 'fetch failed: connect ECONNREFUSED']);
  expect(stack).toMatch(
    /^Error: fetch failed\n {4}at [^]+\n\ncaused by: RangeError: connect ECONNREFUSED\n {4}at /,
  );
});

test('rows of other writers may hold anything', () => {
  const odd = { message: { a: 1 }, stack: 7, cause: 'text', errors: 5, node: null, try: 1, at: '' };
  expect(errorOf(odd as never)).toEqual({ kind: 'error', name: null, message: '{"a":1}: text', stack: '7' });
});
