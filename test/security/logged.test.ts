import { logObserver } from '@pgqueue/core';
import { errorData, loggedError } from '@pgqueue/core/internal';
import type { PgQueueEvent } from '@pgqueue/core';
import { describe, expect, test } from 'vitest';
import { hostileValues } from '../support/hostile.ts';

const secret = 'canary-5f3a';

/** The lines that one event makes, as JSON. */
function logged(event: PgQueueEvent): readonly unknown[] {
  const lines: unknown[] = [];
  const log = (fields: object, name: string): void => {
    lines.push(JSON.parse(JSON.stringify({ event: name, ...fields })));
  };
  logObserver({ debug: log, info: log, warn: log, error: log })(event);
  return lines;
}

function databaseError(code: string, message: string): Error {
  return Object.assign(new Error(message), {
    name: 'error',
    code,
    detail: `Failing row contains (${secret}).`,
    where: `JSON data, line 1: ${secret}`,
    hint: secret,
    parameters: [secret],
  });
}

describe('what is logged of an error', () => {
  test('its name, message, code and stack; no detail of PostgreSQL’s', () => {
    const error = databaseError('23514', 'new row violates check constraint "queue_payload_size"');
    const data = loggedError(error);
    expect({ ...data, stack: data.stack?.slice(0, 7) }).toEqual({
      name: 'error',
      code: '23514',
      message: 'new row violates check constraint "queue_payload_size"',
      stack: '    at ',
    });
    expect(JSON.stringify(data)).not.toContain(secret);
  });

  test.each([
    `invalid input syntax for type integer: "${secret}"`,
    `invalid input syntax for type uuid: "a "quoted" ${secret}\n"`,
    `value "${secret}" is out of range for type integer`,
    `date/time field value out of range: "${secret}"`,
  ])('no value that PostgreSQL quotes in %j', (message) => {
    expect(JSON.stringify(loggedError(databaseError('22P02', message)))).not.toContain(secret);
  });

  test('of several lines the stack has the frames only', () => {
    const { stack = '' } = loggedError(new Error(`first\nsecond ${secret}`));
    expect(stack).not.toContain(secret);
    expect(stack.split('\n').every((line) => /^\s+at /.test(line))).toBe(true);
  });
});

test('what is wrong with a payload may quote it: only how many problems there are is logged', () => {
  const lines = logged({ type: 'job.invalid', job: 'a', task: 't', problems: [secret, secret] });
  expect(lines).toEqual([{ event: 'job.invalid', job: 'a', task: 't', problems: 2 }]);
});

describe.each(Object.entries(hostileValues))('an error that is, or holds, %s', (_name, value) => {
  const parts = Object.defineProperties(new Error('x'), {
    name: { value },
    message: { value },
    stack: { value },
    code: { value },
  });

  test.each([
    ['is', value],
    ['holds', parts],
  ])('%s', (_what, error) => {
    for (const data of [errorData(error), loggedError(error)]) {
      const text = JSON.stringify(data);
      expect(text.length).toBeLessThan(80_000);
      // what jsonb refuses
      expect(text).not.toMatch(/\\u0000|\\ud[89a-f]/);
    }
    const lines: unknown[] = [];
    const log = (fields: object, event: string): void =>
      void lines.push(JSON.stringify({ event, ...fields }));
    const observe = logObserver({ debug: log, info: log, warn: log, error: log });
    observe({ type: 'database.error', during: 'test', error });
    expect(lines).toHaveLength(1);
  });
});

test('a message is cut between characters', () => {
  expect(errorData(new Error('\u{1f469}'.repeat(2_000))).message.isWellFormed()).toBe(true);
});
