import type { KeyObject } from 'node:crypto';
import { createHmac } from 'node:crypto';
import type { Codec, CodecPlace } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import type { Rule, Shape } from '@pgqueue/core/internal';
import {
  aFlag,
  aListOf,
  anObject,
  aText,
  oneOf,
  optional,
  optionProblems,
  repeated,
  throwProblems,
} from '@pgqueue/core/internal';
import type { Ciphers, Sodium } from './ciphers.ts';
import { ciphersOf, isSodium } from './ciphers.ts';
import type { EncryptionKey } from './keys.ts';
import { aKey, secretOf } from './keys.ts';

/** Options of {@link encrypted}. */
export interface EncryptedOptions {
  /** The first key encrypts; each of them decrypts. Put a new key in front, and remove the last one when no value needs it. */
  readonly keys: readonly EncryptionKey[];
  /**
   * Values that are not encrypted: `accept` reads them, as the change to encryption, schedules and producers without a
   * codec need it. `refuse`: a job with one is dead at once, so that nobody who may write rows can make up a payload.
   */
  readonly plain: 'accept' | 'refuse';
  /** Encrypts the errors of attempts, too, and keeps their texts out of events, logs and spans. Default false. */
  readonly errors?: boolean;
  /** Encrypts progress, too. Default false. */
  readonly progress?: boolean;
  /**
   * The package `sodium-native`, to encrypt and decrypt small values in half the time. Values are then written by
   * ChaCha20-Poly1305, which every codec reads, with it or without. Default: AES-256-GCM of `node:crypto`.
   */
  readonly sodium?: object;
}

const aSodium: Rule = {
  expected: "the package sodium-native, such as import sodium from 'sodium-native'",
  judge: isSodium,
};

/** Never quotes a key: errors are logged. */
const aSecret: Rule = {
  expected: aKey,
  judge: (value, path) => {
    if (secretOf(value) !== undefined) return true;
    const length =
      typeof value === 'string' ? value.length : (value as Partial<Uint8Array> | null)?.byteLength;
    const got = typeof value === 'string' ? `a text of ${length} characters` : `${length ?? 'no'} bytes`;
    return [`${path} must be ${aKey}, not ${got}`];
  },
};

const shape: Shape<EncryptedOptions> = {
  keys: aListOf(
    anObject({ id: aText({ max: 100 }), key: aSecret }),
    "a list of keys, such as [{ id: '2026-11', key }]",
  ),
  plain: oneOf('accept', 'refuse'),
  errors: optional(aFlag),
  progress: optional(aFlag),
  sodium: optional(aSodium),
};

/**
 * Parts of an encrypted value, which is stored as an object with the member `$enc`: the parts in this order, separated by
 * colons. `version`: number of its cipher. `fingerprint`: of the key, so that another key under its id is known as such.
 * `data`: base64 of the nonce, the encrypted text and the tag.
 */
interface Envelope {
  readonly version: number;
  readonly key: string;
  readonly fingerprint: string;
  readonly data: string;
}

/**
 * Creates a codec that encrypts values before they reach the database: AES-256-GCM, or with `sodium`
 * ChaCha20-Poly1305, with a nonce of 12 random bytes for each value. Job id, field and task are authenticated, so
 * a value that is moved to another job is refused. Give every producer, worker, puller, operator and dashboard the
 * same; a scheduler needs none.
 * @throws {PgQueueError} `configuration`, with all problems at once, and without any key
 */
export function encrypted(options: EncryptedOptions): Codec {
  throwProblems('configuration', 'encrypted(options)', [
    ...optionProblems(options, shape),
    ...listProblems(options),
  ]);
  const { keys, plain, errors = false, progress = false } = options;
  const sodium = options.sodium as Sodium | undefined; // it was tried above
  const known = new Map(keys.map(({ id, key }) => [id, knownKey(secretOf(key) as KeyObject, sodium)]));
  const writesWith = keys[0]?.id ?? '';
  const { ciphers, fingerprint } = known.get(writesWith) as KnownKey;
  const { version, encrypt } = ciphers.writes;
  const head = `{"$enc":${JSON.stringify(`${version}:${writesWith}:${fingerprint}:`).slice(0, -1)}`;

  const open = (envelope: Envelope, place: CodecPlace): unknown => {
    const { version: written, key, data } = envelope;
    const found = known.get(key);
    const by = found?.ciphers.reads.get(written);
    if (by === undefined || found?.fingerprint !== envelope.fingerprint)
      throw keyMissing(place, envelope, found);
    let text: string;
    try {
      text = by.decrypt(Buffer.from(data, 'base64'), additionalData(written, place));
    } catch (error) {
      throw undecodable(
        place,
        `it was changed, cut, or moved here from another place (key ${JSON.stringify(key)})`,
        error,
      );
    }
    return JSON.parse(text) as unknown;
  };

  return {
    errors,
    progress,
    plain,
    writesWith,
    encode: (text, place) => `${head}${encrypt(text, additionalData(version, place)).toString('base64')}"}`,
    decode: (stored, place) => {
      const envelope = envelopeOf(stored);
      if (envelope !== undefined) return open(envelope, place);
      if (plain === 'accept') return stored;
      throw undecodable(place, "it is not encrypted, and the codec has plain: 'refuse'");
    },
    keyOf,
  };
}

interface KnownKey {
  readonly ciphers: Ciphers;
  readonly fingerprint: string;
}

/** The fingerprint tells keys apart, and nothing about the key: 4 bytes of an HMAC. */
function knownKey(secret: KeyObject, sodium: Sodium | undefined): KnownKey {
  const hash = createHmac('sha256', secret).update('pgqueue-key').digest();
  return { ciphers: ciphersOf(secret, sodium), fingerprint: hash.subarray(0, 4).toString('base64url') };
}

function listProblems(options: unknown): readonly string[] {
  const { keys } = (options ?? {}) as Partial<EncryptedOptions>;
  if (!Array.isArray(keys)) return [];
  if (keys.length === 0) return ['keys is empty: give at least one'];
  const ids = keys.map((key: unknown) => (key as Partial<EncryptionKey> | null)?.id);
  return repeated(ids.filter((id) => typeof id === 'string')).map(
    (id) => `keys has the id ${JSON.stringify(id)} twice`,
  );
}

/**
 * Returns the value of a stored value. Without a codec an encrypted value lacks its key.
 * @throws {PgQueueError} `key_missing`, `undecodable`
 */
export function decoded(codec: Codec | undefined, stored: unknown, place: CodecPlace): unknown {
  if (codec !== undefined) return codec.decode(stored, place);
  const key = keyOf(stored);
  if (key === undefined) return stored;
  const message = `${said(place)} is encrypted under the key ${JSON.stringify(key)}, and this process has no codec: give it the option codec, made by encrypted(), or --codec FILE on the command line`;
  throw new PgQueueError('key_missing', message, { data: { ...place, key } });
}

/** Returns the id of the key that a stored value is encrypted under; undefined: it is plain. */
export function keyOf(stored: unknown): string | undefined {
  return envelopeOf(stored)?.key;
}

/** Returns an encrypted value, alone or with plain members beside it, as errors have; undefined: it is plain. */
function envelopeOf(stored: unknown): Envelope | undefined {
  if (typeof stored !== 'object' || stored === null || !Object.hasOwn(stored, '$enc')) return undefined;
  const { $enc: text } = stored as { readonly $enc: unknown };
  if (typeof text !== 'string') return undefined;
  // only the key's id may have colons
  const keyAt = text.indexOf(':');
  const dataAt = text.lastIndexOf(':');
  const fingerprintAt = text.lastIndexOf(':', dataAt - 1);
  const version = text.slice(0, Math.max(0, keyAt));
  if (fingerprintAt <= keyAt || !/^[1-9]\d{0,8}$/.test(version)) return undefined;
  return {
    version: Number(version),
    key: text.slice(keyAt + 1, fingerprintAt),
    fingerprint: text.slice(fingerprintAt + 1, dataAt),
    data: text.slice(dataAt + 1),
  };
}

/** Returns the data that are authenticated and not stored. The name comes last: it may contain any character. */
function additionalData(version: number, { id, field, name }: CodecPlace): Buffer {
  return Buffer.from(`pgqueue-enc-${version}\n${id.toLowerCase()}\n${field}\n${name}`, 'utf8');
}

function said({ id, field, name }: CodecPlace): string {
  const what = `the ${field} of ${field === 'signal' ? 'flow' : 'job'} ${id}`;
  return `${what} (${field === 'signal' ? 'step' : 'task'} ${JSON.stringify(name)})`;
}

function keyMissing(
  place: CodecPlace,
  { version, key, fingerprint }: Envelope,
  found: KnownKey | undefined,
): PgQueueError {
  const under = `is encrypted under the key ${JSON.stringify(key)}`;
  let why = `${under}, which this process does not have: add it to the keys of encrypted()`;
  if (found !== undefined && found.fingerprint !== fingerprint)
    why = `${under} of the fingerprint ${JSON.stringify(fingerprint)}, and this process has another key under this id, of the fingerprint ${JSON.stringify(found.fingerprint)}: give encrypted() the right one`;
  if (found?.ciphers.reads.has(version) === false)
    why =
      version === 2
        ? 'is encrypted by ChaCha20-Poly1305, which the OpenSSL of this process lacks: give encrypted() the option sodium'
        : `is encrypted in version ${version}, which this release of pgqueue can't read: update it`;
  return new PgQueueError('key_missing', `${said(place)} ${why}`, { data: { ...place, key } });
}

function undecodable(place: CodecPlace, why: string, cause?: unknown): PgQueueError {
  return new PgQueueError('undecodable', `${said(place)} can't be decrypted: ${why}`, {
    data: { ...place },
    cause,
  });
}
