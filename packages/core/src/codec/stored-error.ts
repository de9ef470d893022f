import { PgQueueError } from '../errors.ts';
import type { Codec, CodecPlace } from './codec.ts';

/**
 * Encodes the error of an attempt. Its kind and its run time stay readable, and its message says that it is encoded.
 * The database adds its own members (node, try, time) beside the encoded text.
 */
export function encodedError(codec: Codec, error: object, place: CodecPlace): object {
  const { kind, ms } = error as { readonly kind?: unknown; readonly ms?: unknown };
  return {
    ...(kind === undefined ? {} : { kind }),
    ...(ms === undefined ? {} : { ms }),
    message: `encrypted under the key ${JSON.stringify(codec.writesWith)}`,
    ...(JSON.parse(codec.encode(JSON.stringify(error), place)) as object),
  };
}

/** Returns a stored value for people: decoded where that is possible, and otherwise as it is stored. */
export function opened(codec: Codec | undefined, stored: unknown, place: CodecPlace): unknown {
  if (codec?.keyOf(stored) === undefined) return stored;
  try {
    return codec.decode(stored, place);
  } catch (error) {
    if (error instanceof PgQueueError) return stored;
    throw error;
  }
}

/** Returns a stored error for people: see {@link opened}. */
export function openedError<Stored>(codec: Codec | undefined, stored: Stored, place: CodecPlace): Stored {
  if (codec?.keyOf(stored) === undefined) return stored;
  const found = opened(codec, stored, place);
  if (found === stored || typeof found !== 'object') return stored;
  const {
    $enc: _version,
    key: _key,
    fingerprint: _fingerprint,
    data: _data,
    ...others
  } = stored as Readonly<Record<string, unknown>>;
  return { ...others, ...found } as Stored;
}
