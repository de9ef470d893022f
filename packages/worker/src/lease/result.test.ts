import type { Task } from '@pgqueue/core';
import { defineTask, giveUp } from '@pgqueue/core';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { checkReturned, resultData, ResultError } from './result.ts';
import { conclude } from '../attempt/to-settlement.ts';

const taskWith = (result?: z.ZodType): Task =>
  defineTask({ name: 'task', payload: z.unknown(), ...(result === undefined ? {} : { result }) });

const problemsOf = (work: () => unknown): unknown => {
  try {
    return work();
  } catch (error) {
    return error instanceof ResultError ? error.problems : error;
  }
};

test('the schema sees the result as it is stored, and what the handler returned is stored', () => {
  const seen: unknown[] = [];
  const loose = taskWith(z.unknown().transform((value) => seen.push(value)));
  expect(resultData(loose, { at: new Date(0), left: undefined, more: [1] })).toBe(
    '{"at":"1970-01-01T00:00:00.000Z","more":[1]}',
  );
  expect(resultData(loose, undefined)).toBeNull();
  expect(seen).toEqual([{ at: '1970-01-01T00:00:00.000Z', more: [1] }, null]);
});

test.each<[string, unknown, readonly unknown[]]>([
  ['another type', { words: 'one' }, [expect.stringMatching(/^words: /)]],
  ['nothing', undefined, [expect.stringMatching(/null/)]],
  ['no JSON', { words: 1n }, [expect.stringMatching(/can't be stored as JSON: .*BigInt/)]],
])('%s does not fit', (_what, value, problems) => {
  expect(problemsOf(() => resultData(taskWith(z.object({ words: z.int() })), value))).toEqual(problems);
});

test('a schema may be asynchronous', async () => {
  const slow = taskWith(z.int().refine((n) => Promise.resolve(n > 0), 'must be positive'));
  expect(await resultData(slow, 1)).toBe('1');
  await expect(resultData(slow, -1)).rejects.toMatchObject({ problems: ['must be positive'] });
});

test('outcomes and errors are no results, and without a schema everything fits', async () => {
  const strict = taskWith(z.never());
  await checkReturned(strict, giveUp());
  await checkReturned(strict, new Error('no'));
  await expect(checkReturned(strict, 1)).rejects.toBeInstanceOf(ResultError);
  expect(resultData(taskWith(), { words: 'one' })).toBe('{"words":"one"}');
});

test('the problems are stored with the job, but are in no message that is logged', () => {
  const conclusion = conclude({
    job: { id: 'id', task: 'greet', token: 'token', tries: 0, retry: null },
    ending: { kind: 'threw', error: new ResultError(['pin: expected a number, received 1234']) },
    retry: {},
    aborted: undefined,
    random: 0.5,
  });
  if (conclusion.kind !== 'settle') throw new Error(conclusion.kind);
  expect(conclusion.settlement.outcome).toBe('retry');
  expect(JSON.parse(conclusion.settlement.data ?? '')).toEqual({
    kind: 'error',
    name: 'ResultError',
    message: 'the result does not fit the schema of its task: pin: expected a number, received 1234',
  });
  expect(String(conclusion.error)).not.toContain('1234');
});
