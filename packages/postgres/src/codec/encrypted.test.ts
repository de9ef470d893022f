import crypto from 'node:crypto';
import { readFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import type { CodecField, CodecPlace } from '@pgqueue/core';
import fc from 'fast-check';
import sodium from 'sodium-native';
import { describe, expect, test, vi } from 'vitest';
import { blind } from './blind.ts';
import type { Sodium } from './ciphers.ts';
import { encrypted } from './encrypted.ts';

interface Vectors {
  readonly keys: readonly { readonly id: string; readonly key: string }[];
  readonly vectors: readonly (CodecPlace & {
    readonly text: string;
    readonly value: unknown;
    readonly stored: { readonly $enc: string };
  })[];
  readonly refused: readonly (CodecPlace & {
    readonly why: string;
    readonly code: string;
    readonly stored: object;
  })[];
  readonly plain: readonly unknown[];
  readonly blind: readonly { readonly value: string; readonly key: string; readonly text: string }[];
}

const { keys, ...vectors } = JSON.parse(
  readFileSync(new URL('../../../../docs/encryption-vectors.json', import.meta.url), 'utf8'),
) as Vectors;
const codec = encrypted({ keys, plain: 'accept' });
const bySodium = encrypted({ keys, plain: 'accept', sodium });
const decryptName = 'crypto_aead_chacha20poly1305_ietf_decrypt';
const place: CodecPlace = { id: '0193a4d2-7c1e-7b44-9d3a-5f0c2e8b6a71', field: 'payload', name: 'greet' };
const sealed = (value: unknown, at = place, by = codec): unknown =>
  JSON.parse(by.encode(JSON.stringify(value), at)) as unknown;

/** Returns what says how a value is encrypted, and its data. */
function partsOf({ $enc: text }: { readonly $enc: string }): readonly [string, string] {
  const at = text.lastIndexOf(':') + 1;
  return [text.slice(0, at), text.slice(at)];
}

describe('the vectors', () => {
  test.each(vectors.vectors)('$field of $name is read', ({ stored, value, text, ...at }) => {
    // another nonce each time, and the same length
    const [head, data] = partsOf(stored);
    const writer = encrypted({
      keys: keys.filter(({ id }) => id === codec.keyOf(stored)),
      plain: 'accept',
      ...(head.startsWith('2:') ? { sodium } : {}),
    });
    const again = JSON.parse(writer.encode(text, at)) as typeof stored;
    const [headAgain, dataAgain] = partsOf(again);
    expect(headAgain).toBe(head);
    expect(dataAgain).toHaveLength(data.length);
    expect(dataAgain).not.toBe(data);
    for (const reader of [codec, bySodium])
      for (const seen of [stored, again]) expect(reader.decode(seen, at)).toEqual(value);
  });

  test.each(vectors.refused)('$why is refused', ({ stored, code, ...at }) => {
    for (const reader of [codec, bySodium])
      expect(() => reader.decode(stored, at)).toThrow(expect.objectContaining({ code }) as Error);
  });

  test.each(vectors.plain)('%j is plain', (value) => {
    expect(codec.keyOf(value)).toBeUndefined();
    expect(codec.decode(value, place)).toEqual(value);
  });

  test.each(vectors.blind)('blind of $value', ({ value, key, text }) => {
    expect(blind(value, key)).toBe(text);
    expect(blind(value, Buffer.from(key, 'base64'))).toBe(text);
  });
});

test.each(['pgqueue-chacha20-poly1305', 'pgqueue-key'])(
  'blind of %s is not what is derived from a key that serves for both',
  (value) => {
    const [{ key } = { key: '' }] = keys;
    const derived = crypto.createHmac('sha256', Buffer.from(key, 'base64')).update(value).digest('base64url');
    expect(blind(value, key)).not.toBe(derived);
  },
);

test('any text is the same to node:crypto and to sodium', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const as = JSON.parse(JSON.stringify(value)) as unknown;
      const [one, other] = [sealed(value), sealed(value, place, bySodium)];
      for (const reader of [codec, bySodium])
        for (const stored of [one, other]) expect(reader.decode(stored, place)).toEqual(as);
    }),
  );
});

test('where OpenSSL has AES alone, a value of the other cipher waits for a process that can read it', () => {
  const { createCipheriv } = crypto;
  vi.spyOn(crypto, 'createCipheriv').mockImplementation((...given: Parameters<typeof createCipheriv>) => {
    if (given[0] === 'chacha20-poly1305') throw new Error('unsupported');
    return createCipheriv(...given);
  });
  syncBuiltinESMExports();
  try {
    const lacking = encrypted({ keys, plain: 'accept' });
    expect(lacking.decode(sealed(1, place, lacking), place)).toBe(1);
    expect(errorOf(() => lacking.decode(sealed(1, place, bySodium), place))).toMatchObject({
      code: 'key_missing',
      message: expect.stringContaining(
        'ChaCha20-Poly1305, which the OpenSSL of this process lacks',
      ) as string,
    });
    const withSodium = encrypted({ keys, plain: 'accept', sodium });
    expect(withSodium.decode(sealed(1, place, bySodium), place)).toBe(1);
  } finally {
    vi.restoreAllMocks();
    syncBuiltinESMExports();
  }
});

test('an id in capitals is the same place', () => {
  expect(codec.decode(sealed(5, { ...place, id: place.id.toUpperCase() }), place)).toBe(5);
});

test.each(['eu:2026:11', ':', 'a"b\\c\n:'])('the id of a key may be %j', (id) => {
  const [{ key } = { key: '' }] = keys;
  const own = encrypted({ keys: [{ id, key }], plain: 'refuse' });
  expect(own.keyOf(sealed(5, place, own))).toBe(id);
  expect(own.decode(sealed(5, place, own), place)).toBe(5);
});

test('the first key writes, and all read', () => {
  const older = encrypted({ keys: keys.slice(1), plain: 'accept' });
  const stored = sealed(1, place, older);
  expect(codec.keyOf(stored)).toBe(keys[1]?.id);
  expect(codec.decode(stored, place)).toBe(1);
  expect(codec.keyOf(sealed(1))).toBe('2026-11');
  expect(() => older.decode(sealed(1), place)).toThrow(
    expect.objectContaining({ code: 'key_missing', data: { ...place, key: '2026-11' } }) as Error,
  );
});

test('another key under the id of a value is as good as none, and the error names both', () => {
  const other = encrypted({ keys: [{ id: '2026-11', key: Buffer.alloc(32, 1) }], plain: 'accept' });
  const error = errorOf(() => other.decode(sealed(1), place));
  expect(error).toMatchObject({ code: 'key_missing', data: { ...place, key: '2026-11' } });
  expect(error.message).toMatch(
    /key "2026-11" of the fingerprint "tRDjpw", and this process has another key .* "[\w-]{6}": give/,
  );
});

test("plain: 'refuse' refuses what is not encrypted", () => {
  const strict = encrypted({ keys, plain: 'refuse' });
  for (const value of [{}, { a: 1 }, null, ...vectors.plain])
    expect(() => strict.decode(value, place)).toThrow(
      "it is not encrypted, and the codec has plain: 'refuse'",
    );
  expect(strict.decode(sealed({ a: 1 }), place)).toEqual({ a: 1 });
});

/** Returns the error that a call throws. */
function errorOf(call: () => unknown): Error & { readonly code?: unknown } {
  try {
    call();
  } catch (error) {
    return error as Error;
  }
  throw new Error('it has thrown nothing');
}

test.each(['result', 'error'] satisfies CodecField[])('no error quotes a value: moved to %s', (field) => {
  const stored = sealed({ secret: 'canary' });
  const error = errorOf(() => codec.decode(stored, { ...place, field }));
  expect(JSON.stringify([error, error.message, error.cause])).not.toContain('canary');
});

describe('options', () => {
  const key = Buffer.alloc(32, 7);
  test.each([
    ['no keys', { keys: [], plain: 'accept' }, 'keys is empty'],
    ['a short key', { keys: [{ id: 'a', key: 'hush' }], plain: 'accept' }, 'not a text of 4 characters'],
    ['31 bytes', { keys: [{ id: 'a', key: key.subarray(1) }], plain: 'accept' }, 'not 31 bytes'],
    ['no bytes', { keys: [{ id: 'a', key: 5 }], plain: 'accept' }, 'not no bytes'],
    ['null', { keys: [{ id: 'a', key: null }], plain: 'accept' }, 'not no bytes'],
    ['an empty id', { keys: [{ id: '', key }], plain: 'accept' }, 'keys[0].id must be a text of 1 to 100'],
    [
      'an id twice',
      {
        keys: [
          { id: 'a', key },
          { id: 'a', key },
        ],
        plain: 'accept',
      },
      'keys has the id "a" twice',
    ],
    ['no plain', { keys: [{ id: 'a', key }] }, 'plain must be given'],
    ['another plain', { keys: [{ id: 'a', key }], plain: 'acept' }, 'did you mean "accept"?'],
    ['nothing', undefined, 'its options must be an object'],
  ])('%s is refused', (_name, options, message) => {
    const error = errorOf(() => encrypted(options as never));
    expect(error).toMatchObject({ code: 'configuration' });
    expect(error.message).toContain(message);
    expect(error.message).not.toContain('hush');
  });

  const { crypto_aead_chacha20poly1305_ietf_encrypt: encrypt } = sodium as unknown as Sodium;
  test.each([
    ['another package', { ready: true }],
    ['a cipher that takes its parts in another order', { ...sodium, [decryptName]: encrypt }],
    [
      'one that does not verify',
      {
        ...sodium,
        [decryptName]: (
          ...[into, , stored, additional, nonce, secret]: Parameters<Sodium[typeof decryptName]>
        ) => {
          const text = Buffer.from(stored.subarray(0, into.length));
          const stream = Buffer.concat([Buffer.alloc(into.length), Buffer.alloc(16)]);
          encrypt(stream, Buffer.alloc(into.length), additional, null, nonce, secret);
          for (const [at, byte] of text.entries()) into[at] = byte ^ (stream[at] ?? 0);
          return 0;
        },
      },
    ],
  ])('%s is no sodium-native', (_name, given) => {
    expect(() => encrypted({ keys, plain: 'accept', sodium: given })).toThrow(
      "sodium must be the package sodium-native, such as import sodium from 'sodium-native', not an object",
    );
  });

  test('blind takes a key and a text', () => {
    expect(() => blind('a', 'short')).toThrow('key must be 32 bytes');
    expect(() => blind(5 as never, key)).toThrow('value must be a text, not number');
  });
});
