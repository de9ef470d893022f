import fc from 'fast-check';
import { expect, test } from 'vitest';
import { installationOf, isUuid, uuidV7 } from './ids.ts';

const bytes = fc.uint8Array({ minLength: 10, maxLength: 10 });
const time = fc.integer({ min: 0, max: 0xffff_ffff_ffff });

test('the example of RFC 9562', () => {
  const random = Uint8Array.of(0xfc, 0xc3, 0x98, 0xc4, 0xdc, 0x0c, 0x0c, 0x07, 0x39, 0x8f);
  expect(uuidV7(0x017f22e279b0, random)).toBe('017f22e2-79b0-7cc3-98c4-dc0c0c07398f');
});

test('holds its time, its version and its variant', () => {
  fc.assert(
    fc.property(time, bytes, (unixMs, random) => {
      const id = uuidV7(unixMs, random);
      expect(isUuid(id)).toBe(true);
      expect(id).toMatch(/^.{14}7.{4}[89ab]/);
      expect(Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16)).toBe(unixMs);
    }),
  );
});

test('made later sorts later', () => {
  fc.assert(
    fc.property(time, time, bytes, bytes, (a, b, first, second) => {
      fc.pre(a < b);
      expect(uuidV7(a, first) < uuidV7(b, second)).toBe(true);
    }),
  );
});

test('all the random bits are used', () => {
  fc.assert(
    fc.property(bytes, fc.integer({ min: 0, max: 79 }), (random, bit) => {
      const fixed = bit < 4 || bit === 16 || bit === 17; // bits that the version and the variant overwrite
      const other = random.map((byte, index) => (index === bit >> 3 ? byte ^ (0x80 >> (bit & 7)) : byte));
      expect(uuidV7(1, random) === uuidV7(1, other)).toBe(fixed);
    }),
  );
});

test('names its installation, and keeps its time and all other random bits', () => {
  fc.assert(
    fc.property(time, bytes, fc.integer({ min: 0, max: 1023 }), (unixMs, random, number) => {
      const id = uuidV7(unixMs, random, number);
      const plain = uuidV7(unixMs, random);
      expect(isUuid(id)).toBe(true);
      expect(id).toMatch(/^.{14}7.{4}[89ab]/);
      expect(installationOf(id)).toBe(number);
      expect(installationOf(id.toUpperCase())).toBe(number);
      expect(id.slice(0, 19) + id.slice(22)).toBe(plain.slice(0, 19) + plain.slice(22));
    }),
  );
});

test.each([
  '',
  'x',
  '017f22e279b07cc398c4dc0c0c07398f',
  '017f22e2-79b0-7cc3-98c4-dc0c0c07398g',
  '{017f22e2-79b0-7cc3-98c4-dc0c0c07398f}',
])('%j is no UUID', (text) => {
  expect(isUuid(text)).toBe(false);
});
