import type { JobRow } from '@pgqueue/core/internal';
import { expect, test } from 'vitest';
import { hintFacts, readHint } from './hinted-job.ts';

const row: JobRow = {
  id: '01a20a81-e1c0-77bc-abac-4b5be71c52fa',
  queue: 'q',
  task: 't',
  key: 'a "key", of ü',
  priority: -3,
  attributes: { tenant: 'a', size: 1.5, big: true, none: null },
  runAfter: null,
  delayMs: null,
  expiresAt: null,
  timeoutMs: 1_000,
  maxTries: 20,
  maxCrashes: 3,
  retry: null,
  unique: null,
  payload: '{}',
  payloadVersion: 2,
  trace: null,
};

/** The payload as the database builds it. */
const payloadOf = (facts: string | null): string => `[[17,"4294967295",1795470384243.5,${facts}]]`;
const [listed = []] = JSON.parse(payloadOf(hintFacts(row))) as unknown[][];
const withOther = (at: number, value: unknown): string => JSON.stringify([listed.with(at, value)]);

test('a hint tells all that a policy may read of a new job', () => {
  const [job, ...more] = readHint(payloadOf(hintFacts(row))) ?? [];
  expect(more).toEqual([]);
  expect(job).toEqual({
    id: row.id,
    queue: 'q',
    key: row.key,
    task: 't',
    version: 2,
    priority: -3,
    seq: 17,
    createdMs: 1_795_470_384_243.5,
    attributes: row.attributes,
    rowVersion: '4294967295',
  });
});

test('a hint tells of several, and of none if it does not describe each', () => {
  const seqs = (payload: string) => readHint(payload)?.map(({ seq }) => seq);
  expect(seqs(JSON.stringify([listed, listed.with(0, 18)]))).toEqual([17, 18]);
  expect(seqs(JSON.stringify([listed, listed.with(0, 1.5)]))).toBeUndefined();
});

test.each([
  ['is delayed', { delayMs: 1 }],
  ['waits for a time', { runAfter: new Date(0) }],
  ['expires', { expiresAt: new Date(0) }],
  ['is unique', { unique: { key: 'u', onConflict: 'keep', maxWaitMs: null } }],
  ['has long attributes', { attributes: { a: 'x'.repeat(1_500) } }],
] as const)('nothing is told of a job that %s', (_what, other) => {
  expect(hintFacts({ ...row, ...other })).toBeNull();
});

test.each([
  ['nothing', ''],
  ['ids', row.id],
  ['no JSON', '[1'],
  ['an object', '{}'],
  ['an empty list', '[]'],
  ['a number', '[1]'],
  ['too few', '[[1,2]]'],
  ['too many', JSON.stringify([[...listed, 1]])],
  ['a seq that is none', withOther(0, 1.5)],
  ['a row version that is none', withOther(1, '4294967296')],
  ['a row version in SQL', withOther(1, "1' or true")],
  ['a time beyond all times', payloadOf(hintFacts(row)).replace('1795470384243.5', '1e400')],
  ['an id that is none', withOther(3, 'x')],
  ['a queue that PostgreSQL can’t hold', withOther(4, '\0')],
  ['a key that is half a character', withOther(5, '\ud800')],
  ['a task that is none', withOther(6, null)],
  ['a version beyond all', withOther(7, 2 ** 31)],
  ['a priority beyond all', withOther(8, -(2 ** 31) - 1)],
  ['attributes in a list', withOther(9, [])],
  ['attributes in attributes', withOther(9, { a: {} })],
  ['an attribute’s name that PostgreSQL can’t hold', withOther(9, { '\0': 1 })],
])('%s describes no job', (_what, payload) => {
  expect(readHint(payload)).toBeUndefined();
});
