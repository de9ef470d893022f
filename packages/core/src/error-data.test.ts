import { describe, expect, test } from 'vitest';
import type { ErrorData } from './error-data.ts';
import { errorData, errorLine } from './error-data.ts';
import { loggedError } from './logged.ts';

const refused = (address: string): Error =>
  Object.assign(new Error(`connect ECONNREFUSED ${address}`), { code: 'ECONNREFUSED' });

/** Removes the stacks, which differ from run to run. */
function bare({ stack: _stack, ...data }: ErrorData): object {
  const { cause, errors } = data;
  return {
    ...data,
    ...(cause === undefined ? {} : { cause: bare(cause) }),
    ...(errors === undefined ? {} : { errors: errors.map(bare) }),
  };
}

describe('an error as data', () => {
  test('keeps its cause and the errors of an AggregateError, with codes and stacks', () => {
    const both = Object.assign(new AggregateError([refused('::1:9'), refused('127.0.0.1:9')]), {
      code: 'ECONNREFUSED',
    });
    const data = errorData(new TypeError('fetch failed', { cause: both }));
    expect(bare(data)).toEqual({
      name: 'TypeError',
      message: 'fetch failed',
      cause: {
        name: 'AggregateError',
        message: '',
        code: 'ECONNREFUSED',
        errors: ['::1:9', '127.0.0.1:9'].map((at) => ({
          name: 'Error',
          message: `connect ECONNREFUSED ${at}`,
          code: 'ECONNREFUSED',
        })),
      },
    });
    expect(data.cause?.errors?.[0]?.stack).toContain('at refused');
    expect(errorLine(data)).toBe(
      'fetch failed: AggregateError (connect ECONNREFUSED ::1:9; connect ECONNREFUSED 127.0.0.1:9)',
    );
  });

  test.each([
    ['an object', { code: 5 }, '{"code":5}'],
    ['an object with NUL', { text: 'a\u0000b\ud800' }, '{"text":"ab"}'],
    ['a list', [1, 'two'], '[1,"two"]'],
    ['what is no JSON', new Map([[1, 2]]), '[object Map]'],
    ['a text', 'plain', 'plain'],
    ['nothing', undefined, 'undefined'],
    ['a BigInt in an object', { n: 1n }, 'what was thrown can not be read'],
  ])('tells %s that was thrown instead of one', (_what, thrown, message) => {
    expect(errorData(thrown)).toEqual({ name: 'NonError', message });
    expect(bare(errorData(new Error('outer', { cause: thrown })))).toEqual(
      thrown === undefined
        ? { name: 'Error', message: 'outer' }
        : { name: 'Error', message: 'outer', cause: { name: 'NonError', message } },
    );
  });

  test('is bounded: cycles, depth, length of lists, and characters in all', () => {
    const cyclic = new Error('cyclic');
    cyclic.cause = new Error('inner', { cause: cyclic });
    expect(bare(errorData(cyclic))).toEqual({
      name: 'Error',
      message: 'cyclic',
      cause: { name: 'Error', message: 'inner' },
    });
    let deep = new Error('0');
    for (let n = 1; n <= 50; n += 1) deep = new Error(String(n), { cause: deep });
    expect(errorLine(errorData(deep))).toBe('50: 49: 48: 47: 46: 45');
    const wide = (levels: number): Error =>
      levels === 0
        ? new Error('x'.repeat(100_000))
        : new AggregateError(
            Array.from({ length: 20 }, () => wide(levels - 1)),
            'wide',
          );
    const data = errorData(wide(3));
    expect(data.errors?.length).toBeLessThanOrEqual(10);
    // 10,000 characters of the error itself and 8,000 of carried errors, which the last one may exceed by
    // 3,000; plus member names
    expect(JSON.stringify(data).length).toBeLessThan(25_000);
    expect(errorLine(data).length).toBeLessThanOrEqual(2_000);
  });
});

test.each([
  [{ message: 'own' }, 'own'],
  [{ message: 'query failed: gone', cause: { message: 'gone' } }, 'query failed: gone'],
  [{ name: 'Odd', message: '' }, 'Odd'],
  [{ message: { of: 'others' }, cause: 7, errors: 'none' }, '{"of":"others"}: 7'],
  [{ message: 'x', cause: { cause: null, errors: [null, [], 'text'] } }, 'x:  (null; ; text)'],
  ['text', 'text'],
  [null, 'null'],
])('on one line, whatever a row holds: %j', (row, line) => {
  expect(errorLine(row)).toBe(line);
});

test.each([
  ['en', (value: string) => `invalid input syntax for type integer: "${value}"`],
  ['de', (value: string) => `ungültige Eingabesyntax für Typ integer: »${value}«`],
  ['fr', (value: string) => `la valeur « ${value} » est en dehors des limites pour le type integer`],
])(
  'what is logged leaves out values that PostgreSQL quotes (%s), in causes too, and the members of thrown objects',
  (_, saying) => {
    const secret = 'canary-81c2';
    const wrong = Object.assign(new Error(saying(secret)), {
      code: '22P02',
      detail: secret,
    });
    const outer = new Error('Failed query', { cause: new AggregateError([wrong], 'all', { cause: wrong }) });
    const data = loggedError(outer);
    expect(JSON.stringify(data)).not.toContain(secret);
    expect(data.cause?.cause?.code).toBe('22P02');
    expect(loggedError({ detail: secret, code: 5 })).toEqual({
      name: 'NonError',
      message: 'an object with detail, code, which is no Error',
    });
  },
);
