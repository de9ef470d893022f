import { giveUp, retryAfter } from '@pgqueue/core';
import { expect, test } from 'vitest';
import { batchEndings } from './bundle-ending.ts';
import { unitsOf } from '../lease/unit.ts';

const ids = ['a', 'b', 'c'];
const no = new Error('no');
const later = retryAfter('1m', no);
const returned = (value?: unknown) => ({ kind: 'returned', value });
const threw = (error: unknown) => ({ kind: 'threw', error });

// Made within the test: a promise that rejects must be awaited at once.
test.each<[string, () => unknown, readonly object[]]>([
  ['nothing ends all as done', () => undefined, [returned(), returned(), returned()]],
  [
    'an object is the result of all',
    () => ({ n: 1 }),
    [returned({ n: 1 }), returned({ n: 1 }), returned({ n: 1 })],
  ],
  ['an outcome is the outcome of all', () => later, [returned(later), returned(later), returned(later)]],
  ['a list is by place', () => [1, later, undefined], [returned(1), returned(later), returned()]],
  ['an error in a list fails its job', () => [1, no, null], [returned(1), threw(no), returned(null)]],
  [
    'a promise in a list is waited for, and fails its job when it rejects',
    // oxlint-disable-next-line typescript/prefer-promise-reject-errors
    () => [Promise.resolve(1), Promise.reject(no), Promise.reject(later)],
    [returned(1), threw(no), threw(later)],
  ],
  [
    'a Map is by id, and who is missing is done',
    () =>
      new Map<string, unknown>([
        ['c', Promise.reject(no)],
        ['a', later],
      ]),
    [returned(later), returned(), threw(no)],
  ],
])('%s', async (_what, make, endings) => {
  expect(await batchEndings(ids, make())).toEqual(endings);
});

test.each<[string, () => unknown, string]>([
  ['a short list', () => [1, 2], 'returned a list of 2 for 3 jobs'],
  [
    'a long list, one of which rejects',
    () => [1, 2, 3, Promise.reject(no)],
    'returned a list of 4 for 3 jobs',
  ],
  ['an empty list', () => [], 'returned a list of 0 for 3 jobs'],
  [
    'a Map that names others',
    () => new Map([['x', giveUp(no)]]),
    'returned a Map that names 1 of no job of its bundle',
  ],
])('%s fails them all, since nobody knows which had failed', async (_what, make, message) => {
  const endings = await batchEndings(ids, make());
  expect(endings.map((ending) => ending.kind === 'threw' && String(ending.error))).toEqual(
    ids.map(() => `Error: the handler ${message}`),
  );
});

test('jobs of one bundle make one unit, the others one each, in the order of their first', () => {
  const jobs = [
    { id: 1, bundle: null },
    { id: 2, bundle: 'x' },
    { id: 3, bundle: 'y' },
    { id: 4, bundle: 'x' },
    { id: 5, bundle: null },
  ];
  expect(unitsOf(jobs).map((unit) => unit.map(({ id }) => id))).toEqual([[1], [2, 4], [3], [5]]);
  expect(unitsOf([])).toEqual([]);
});
