import { describe, expect, test } from 'vitest';
import { exactJson } from './exact-json.ts';

describe('numbers in JSON', () => {
  test.each([
    ['{"v":1e400}', 'Its number "v" is one'],
    ['{"v":{"w":[1,-9007199254740993]}}', 'Its number "1" is one'],
    ['0.1000000000000000055', 'It is a number'],
    ['[1e-400]', 'Its number "0" is one'],
  ])('%s is refused: it would be changed', (text, says) => {
    expect(() => exactJson(text)).toThrow(
      `${says} that a double can't hold, and would be changed: give it as a text.`,
    );
  });

  test.each([
    ['9007199254740992', 9007199254740992],
    ['-0', -0],
    ['0e5', 0],
    ['1.50', 1.5],
    ['-120E-1', -12],
    ['1e21', 1e21],
    ['0.0000001', 1e-7],
    ['1.7976931348623157e308', Number.MAX_VALUE],
    ['5e-324', Number.MIN_VALUE],
    ['"9007199254740993"', '9007199254740993'],
  ])('%s is taken as it is', (text, value) => {
    expect(exactJson(text)).toBe(value);
  });

  test('all else stays as JSON.parse has it', () => {
    const text = '{"a":[true,null,{"b":"1e400"}],"":1,"c":{}}';
    expect(exactJson(text)).toEqual(JSON.parse(text));
  });
});
