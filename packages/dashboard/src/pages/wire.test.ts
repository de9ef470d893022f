import { errorData } from '@pgqueue/core/internal';
import { expect, test } from 'vitest';
import { errorOf, workersOf } from './wire.ts';

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

test('workers are never used by more than their slots, whatever nodes have claimed ahead', () => {
  const nodes = {
    alive: 2,
    draining: 1,
    lost: 0,
    left: 0,
    overdue: 0,
    slots: 20,
    slotsInUse: 20,
    leases: 21,
  };
  const none = { ...nodes, slots: 0, slotsInUse: 0 };
  expect(workersOf({ nodes })).toEqual({ nodes: 2, slots: 20, slotsInUse: 20, leases: 21, use: 1 });
  expect(workersOf({ nodes: none }).use).toBeNull();
});
