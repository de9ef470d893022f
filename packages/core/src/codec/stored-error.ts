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

/**
 * Returns a stored error for people: see {@link opened}. A plain one has no text if the codec encodes errors and refuses
 * what is plain: anybody who may write rows can have made it up.
 */
export function openedError<Stored>(codec: Codec | undefined, stored: Stored, place: CodecPlace): Stored {
  if (codec === undefined) return stored;
  if (codec.keyOf(stored) === undefined) return provenError(codec, stored);
  const found = opened(codec, stored, place);
  if (found === stored || typeof found !== 'object') return stored;
  const { $enc: _encrypted, ...others } = stored as Readonly<Record<string, unknown>>;
  return { ...others, ...found } as Stored;
}

/** Members of an error that the database has written, and that say nothing in words. */
const facts = ['kind', 'reason', 'ms', 'node', 'try', 'at'];
/** Begins the error of a job that the scheduler sets aside. */
const asideText = "it can't be processed: ";

/** Returns a plain error without its text where that is refused, unless the database itself writes such ones. */
function provenError<Stored>(codec: Codec, stored: Stored): Stored {
  if (!codec.errors || codec.plain !== 'refuse' || typeof stored !== 'object' || stored === null)
    return stored;
  const { kind, message } = stored as Readonly<Record<string, unknown>>;
  if (kind === 'crash' || (typeof message === 'string' && message.startsWith(asideText))) return stored;
  const kept = Object.entries(stored).filter(([name]) => facts.includes(name));
  const text = "its text is not encrypted, and the codec has plain: 'refuse'";
  return { ...Object.fromEntries(kept), message: text } as Stored;
}
