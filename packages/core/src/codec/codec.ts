import type { Rule } from '../options/options.ts';

/** Values of a job that a codec encodes; `signal`: the value of a flow's signal. */
export type CodecField = 'payload' | 'result' | 'checkpoint' | 'error' | 'progress' | 'signal';

/** Place of one value, which an encoded value is bound to: moved to another place, it is refused. */
export interface CodecPlace {
  /** Id of the job; of the flow, for a signal. */
  readonly id: string;
  readonly field: CodecField;
  /** Name of the job's task; of the step, for a signal. */
  readonly name: string;
}

/**
 * Turns values into the form that the database keeps, and back. Made by `encrypted` of `@pgqueue/postgres`. Both
 * directions are synchronous and pure: no I/O.
 */
export interface Codec {
  /** Encodes the errors of attempts, too, and keeps their texts out of events and spans. */
  readonly errors: boolean;
  /** Encodes progress, too. */
  readonly progress: boolean;
  /** Behaviour for values that are not encoded: `refuse`: decoding them throws. */
  readonly plain: 'accept' | 'refuse';
  /** Returns the JSON text that is stored in place of a JSON text. */
  readonly encode: (text: string, place: CodecPlace) => string;
  /**
   * Returns the value of a stored value.
   * @throws {PgQueueError} `key_missing`, `undecodable`
   */
  readonly decode: (stored: unknown, place: CodecPlace) => unknown;
  /** Returns the id of the key that a stored value needs; undefined: it is not encoded. */
  readonly keyOf: (stored: unknown) => string | undefined;
  /** Id of the key that `encode` uses. */
  readonly writesWith: string;
}

/** Rule for an option that takes a codec. */
export const aCodec: Rule = { expected: 'a codec, made by encrypted(…)', judge: isCodec };

/** Reports whether a value has the members of a codec. */
function isCodec(value: unknown): value is Codec {
  if (typeof value !== 'object' || value === null) return false;
  const { encode, decode, keyOf } = value as Partial<Codec>;
  return [encode, decode, keyOf].every((member) => typeof member === 'function');
}
