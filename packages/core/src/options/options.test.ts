import { describe, expect, test } from 'vitest';
import { nearest } from './did-you-mean.ts';
import type { Rule } from './options.ts';
import {
  aDuration,
  aFlag,
  aFunction,
  aListOf,
  aNumber,
  anObject,
  anything,
  aRecordOf,
  aText,
  either,
  oneOf,
  optional,
  optionProblems,
  orNull,
} from './options.ts';

const shape = {
  name: aText({ max: 5 }),
  mode: optional(oneOf('fast', 'slow')),
  size: optional(aNumber({ min: 1, max: 9, whole: true })),
  inner: optional(anObject({ deep: aFlag })),
};

describe('names', () => {
  test.each([
    [
      { nam: 'a' },
      ['there is no nam: did you mean name?', 'name must be given: a text of 1 to 5 characters'],
    ],
    [{ name: 'a', other: 1 }, ['there is no other: only name, mode, size, inner']],
    [{ name: 'a', other: undefined }, ['there is no other: only name, mode, size, inner']],
    [
      { name: 'a', inner: { depe: true } },
      ['there is no inner.depe: did you mean deep?', 'inner.deep must be given: true or false'],
    ],
    [JSON.parse('{ "name": "a", "__proto__": 1 }'), ['there is no __proto__: only name, mode, size, inner']],
    [{ name: 'a', constructor: 1 }, ['there is no constructor: only name, mode, size, inner']],
    [{ name: 'a', mode: undefined }, []],
    [{ name: 'a', mode: 'fast', size: 9, inner: { deep: false } }, []],
  ])('%j', (options, problems) => {
    expect(optionProblems(options, shape)).toEqual(problems);
  });

  test("an object of the user's own may have more, but nothing that looks like a slip", () => {
    const mine = { name: 'a', helper: () => 1, sizes: [], moed: 'fast', dine: 1, innermost: 2 };
    expect(optionProblems(mine, shape, { own: true })).toEqual([
      'there is no sizes: did you mean size?',
      'there is no moed: did you mean mode?',
    ]);
  });

  test('of many unknown names ten are told', () => {
    const many = Object.fromEntries(Array.from({ length: 100_000 }, (_, n) => [`other${n}`, n]));
    const problems = optionProblems({ name: 'a', inner: { deep: true, ...many }, ...many }, shape);
    expect(problems).toHaveLength(22);
    expect([problems[9], problems[10]]).toEqual([
      'there is no other9: only name, mode, size, inner',
      'there are more unknown names',
    ]);
    expect(problems[21]).toBe('there are more unknown names in inner');
  });

  test.each([undefined, null, 5, 'text', [], () => 1])('%j are no options', (options) => {
    expect(optionProblems(options, shape)).toEqual([
      expect.stringMatching(/^its options must be an object, not /),
    ]);
  });

  test('all that is wrong is told at once', () => {
    const wrong = { nmae: 1, name: '', mode: 'fsat', size: 1.5, inner: true };
    expect(optionProblems(wrong, shape)).toEqual([
      'there is no nmae: did you mean name?',
      'name must be a text of 1 to 5 characters, not ""',
      'mode must be "fast" or "slow", not "fsat": did you mean "fast"?',
      'size must be a whole number from 1 to 9, not 1.5',
      'inner must be an object, not true',
    ]);
  });
});

describe('values', () => {
  const secret = `postgres://app:${'s3cret'.repeat(10)}@db/app`;
  test.each<[Rule, unknown, string | null]>([
    [aFunction, 'job => job.key', 'a function, not "job => job.key"'],
    [aFunction, () => 1, null],
    [aFlag, 'yes', 'true or false, not "yes"'],
    [aFlag, 0, 'true or false, not 0'],
    [aText(), '', 'a text that is not empty, not ""'],
    [aText({ min: 0 }), '', null],
    [aText({ max: 5 }), secret, `a text of 1 to 5 characters, not a text of ${secret.length} characters`],
    [aNumber(), Number.NaN, 'a number, not NaN'],
    [aNumber({ above: 0 }), 0, 'more than 0, not 0'],
    [aNumber({ above: 0, max: 1 }), 1, null],
    [aNumber({ min: 0 }), '5', '0 or more, not "5"'],
    [aNumber({ min: 0 }), Infinity, '0 or more, not Infinity'],
    [aNumber({ min: 0 }), 5n, '0 or more, not bigint'],
    [aNumber({ min: 1, whole: true }), 1.5, 'a whole number from 1, not 1.5'],
    [orNull(aNumber({ min: 0 })), null, null],
    [orNull(aNumber({ min: 0 })), -1, '0 or more, or null, not -1'],
    [aDuration, '30s', null],
    [aDuration, 'soon', 'a duration: milliseconds, or a text such as "30s", not "soon"'],
    [
      either(oneOf('key', 'queue'), aFunction),
      'keys',
      '"key" or "queue", or a function, not "keys": did you mean "key"?',
    ],
    [either(oneOf('key', 'queue'), aFunction), () => 1, null],
    [aListOf(aFlag), aFlag, 'a list, not an object'],
    [aListOf(aFlag), [true], null],
    [aRecordOf(aFlag), { one: true }, null],
    [anObject({}), Promise.resolve(), null],
    [aListOf(aFlag), Promise.resolve(), 'a list, not a promise: await it'],
    [anObject({}), [], 'an object, not an empty list'],
    [anObject({}), Symbol('x'), 'an object, not symbol'],
  ])('%o of %o', (rule, value, problem) => {
    expect(optionProblems({ it: value }, { it: rule })).toEqual(
      problem === null ? [] : [`it must be ${problem}`],
    );
  });

  test('a value that may be anything must be there', () => {
    expect(optionProblems({}, { it: anything })).toEqual(['it must be given']);
    expect(optionProblems({ it: null }, { it: anything })).toEqual([]);
  });

  test('what is wrong within a value is told with its path', () => {
    const rules = { list: aListOf(aFlag), record: either(aFlag, aRecordOf(aNumber({ min: 0 }))) };
    expect(optionProblems({ list: [true, 'no', 1], record: { one: 1, two: -2 } }, rules)).toEqual([
      'list[1] must be true or false, not "no"',
      'list[2] must be true or false, not 1',
      'record.two must be 0 or more, not -2',
    ]);
  });
});

describe('the nearest name', () => {
  const names = ['connectionString', 'windowMs', 'onError', 'by', 'max', 'perSecond', 'concurrency'];
  test('where a name may well be right is one change away, and begins alike', () => {
    const slips = ['onEror', 'onerror', 'onErrors', 'anError', 'onErrand', 'window'];
    expect(slips.map((slip) => nearest(slip, names, true))).toEqual([
      'onError',
      'onError',
      'onError',
      undefined,
      undefined,
      undefined,
    ]);
  });

  test.each([
    ['conectionString', 'connectionString'],
    ['connectionstring', 'connectionString'],
    ['window', 'windowMs'],
    ['onEror', 'onError'],
    ['onErrro', 'onError'],
    ['bye', 'by'],
    ['maximum', 'max'],
    ['per_second', 'perSecond'],
    ['concurency', 'concurrency'],
    ['to', undefined],
    ['state', undefined],
    ['limit', undefined],
    ['a'.repeat(10_000), undefined],
  ])('%s: %s', (name, near) => {
    expect(nearest(name, names)).toBe(near);
  });
});
