import { cancelled, giveUp, retryAfter, snooze } from '@pgqueue/core';
import { storableJson } from '@pgqueue/core/internal';
import type { AbortReason } from '@pgqueue/core';
import { describe, expect, test } from 'vitest';
import type { Conclusion } from './to-settlement.ts';
import type { Ending } from '../lease/ending.ts';
import { conclude } from './to-settlement.ts';
import { resultBytesMax, resultText } from '../lease/json.ts';

const job = { id: 'id', task: 'greet', token: 'token', tries: 2, retry: null };
const end = (ending: Ending, aborted?: AbortReason): Conclusion =>
  conclude({ job, ending, retry: { base: '1s', backoff: 'linear', jitter: 0 }, aborted, random: 0.5 });
const outcome = (ending: Ending, aborted?: AbortReason): string => {
  const conclusion = end(ending, aborted);
  return conclusion.kind === 'settle' ? conclusion.settlement.outcome : conclusion.kind;
};
const returned = (value: unknown): Ending => ({ kind: 'returned', value });
const threw = (error: unknown): Ending => ({ kind: 'threw', error });
const error = new Error('no');

describe('an ending', () => {
  test.each([
    [returned(1), 'done', 'done', 'done'],
    [returned(undefined), 'done', 'done', 'done'],
    [returned(giveUp(error)), 'dead', 'cancelled', 'dead'],
    [returned(retryAfter('1m', error)), 'retry', 'cancelled', 'retry'],
    [returned(snooze('1m')), 'snooze', 'cancelled', 'snooze'],
    [returned(cancelled()), 'cancelled', 'cancelled', 'cancelled'],
    [threw(error), 'retry', 'cancelled', 'release'],
    [threw('text'), 'retry', 'cancelled', 'release'],
    [returned(error), 'retry', 'cancelled', 'release'],
    [threw(giveUp(error)), 'dead', 'cancelled', 'dead'],
    [{ kind: 'invalid', problems: ['p'] } as const, 'dead', 'cancelled', 'dead'],
    [{ kind: 'timeout', timeoutMs: 5 } as const, 'retry', 'cancelled', 'retry'],
  ])('%j: undisturbed, cancelled, shut down', (ending, undisturbed, whenCancelled, whenShutDown) => {
    expect(outcome(ending)).toBe(undisturbed);
    expect(outcome(ending, 'cancelled')).toBe(whenCancelled);
    expect(outcome(ending, 'shutdown')).toBe(whenShutDown);
  });

  test('a retry waits as the job, else the task says, by the try that failed', () => {
    expect(end(threw(error))).toMatchObject({ settlement: { delayMs: 3_000 }, error });
    const own = { kind: 'fixed', baseMs: 7, factor: 1, maxMs: 100, jitter: 0 } as const;
    const input = {
      job: { ...job, retry: own },
      ending: threw(error),
      retry: {},
      aborted: undefined,
      random: 0,
    };
    expect(conclude(input)).toMatchObject({ settlement: { delayMs: 7 } });
  });

  test.each([
    [
      { kind: 'invalid', problems: ['a', 'b'] } as const,
      { kind: 'invalid', message: 'the payload does not fit: a; b' },
    ],
    [
      { kind: 'timeout', timeoutMs: 5.4 } as const,
      { kind: 'timeout', message: 'it was not done within 5 ms' },
    ],
    [threw(new TypeError('x')), { kind: 'error', name: 'TypeError', message: 'x' }],
  ])('%j keeps what it was', (ending, data) => {
    const conclusion = end(ending);
    expect(conclusion.kind === 'settle' && JSON.parse(conclusion.settlement.data ?? '')).toMatchObject(data);
  });
});

describe('a result', () => {
  test.each([
    [undefined, 'null'],
    [() => 1, 'null'],
    [{ a: 'x\u0000y', 'k\u0000': ['\ud800'] }, '{"a":"xy","k":["\ufffd"]}'],
    ['\\u0000', '"\\\\u0000"'],
    [{ at: new Date(0) }, '{"at":"1970-01-01T00:00:00.000Z"}'],
  ])('%j is stored as %s', (value, text) => {
    expect(storableJson(value)).toBe(text);
  });

  test('that can not be stored says so in its place', () => {
    const cycle: Record<string, unknown> = {};
    cycle['self'] = cycle;
    for (const value of [cycle, 1n, 'x'.repeat(resultBytesMax)]) {
      const { text, problem } = resultText(value);
      expect(problem).toMatch(/can't be stored/);
      expect(JSON.parse(text)).toEqual({ pgqueue_error: problem });
    }
  });
});
