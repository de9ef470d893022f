import type { Codec, CodecPlace } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import { encodedError, placeOf } from '@pgqueue/core/internal';
import type { Target } from '../connection/target.ts';

/** Outcome of {@link rewrapDead}. */
export interface Rewrapped {
  /** Jobs that were written. */
  readonly done: number;
  /** Jobs of which everything is under the first key already. */
  readonly current: number;
  /** Jobs that can't be decrypted; the first of them, and why. */
  readonly unreadable: readonly { readonly id: string; readonly why: string }[];
}

interface DeadRow {
  readonly id: string;
  readonly task: string;
  /** Stands for the row as it was read. */
  readonly version: string;
  /** JSON text: numbers of a plain one stay as they are. */
  readonly payload: string;
  readonly errors: readonly unknown[];
  /** JSON text; null: none. */
  readonly checkpoint: string | null;
}

/**
 * Encrypts the payloads, checkpoints and errors of dead jobs under the first key. Plain ones are encrypted, too, if the codec
 * accepts them; plain errors as those of a new attempt are. A job that was redriven meanwhile is left alone.
 */
export async function rewrapDead(target: Target, codec: Codec, ids: readonly string[]): Promise<Rewrapped> {
  const { query, schema } = target;
  const rows = await query<DeadRow>(
    `select d.id, d.task, d.xmin::text as version, d.payload::text as payload, d.errors, d.checkpoint::text as checkpoint from ${schema}.dead_letter d where d.id = any ($1::uuid[])`,
    [ids],
  );
  const changes: object[] = [];
  const unreadable: { readonly id: string; readonly why: string }[] = [];
  for (const row of rows) {
    try {
      const changed = changeOf(codec, row);
      if (changed !== undefined) changes.push(changed);
    } catch (error) {
      if (!(error instanceof PgQueueError)) throw error;
      unreadable.push({ id: row.id, why: error.message });
    }
  }
  const current = rows.length - changes.length - unreadable.length;
  if (changes.length === 0) return { done: 0, current, unreadable };
  const written = await query(`select r.id from ${schema}.rewrap_dead($1::text::jsonb) as r (id)`, [
    JSON.stringify(changes),
  ]);
  return { done: written.length, current, unreadable };
}

/** Returns what is to be written of a job; undefined: nothing. @throws {PgQueueError} `key_missing`, `undecodable` */
function changeOf(codec: Codec, row: DeadRow): object | undefined {
  const { id, version, errors } = row;
  const again = (stored: unknown, place: CodecPlace, text: string): unknown => {
    const key = codec.keyOf(stored);
    const value = codec.decode(stored, place); // throws if another key has the id of the first one
    if (key === codec.writesWith) return stored;
    return JSON.parse(codec.encode(key === undefined ? text : JSON.stringify(value), place)) as unknown;
  };
  const payload: unknown = JSON.parse(row.payload);
  const newPayload = again(payload, placeOf(row, 'payload'), row.payload);
  const checkpoint: unknown = row.checkpoint === null ? null : JSON.parse(row.checkpoint);
  const newCheckpoint =
    row.checkpoint === null ? null : again(checkpoint, placeOf(row, 'checkpoint'), row.checkpoint);
  const newErrors = errors.map((error) => {
    if (codec.keyOf(error) === undefined) return plainError(codec, error, row);
    const renewed = again(error, placeOf(row, 'error'), '');
    if (renewed === error) return error;
    const message = `encrypted under the key ${JSON.stringify(codec.writesWith)}`;
    return { ...(error as object), message, ...(renewed as object) };
  });
  const same = newErrors.every((error, index) => error === errors[index]);
  if (newPayload === payload && newCheckpoint === checkpoint && same) return undefined;
  return { id, version, payload: newPayload, errors: newErrors, checkpoint: newCheckpoint };
}

/**
 * Returns a plain error as a new attempt would leave it: one that quotes values is encrypted in any case, others with `errors`,
 * and a crash, which the database writes, never. The members that the database has added stay readable.
 */
function plainError(codec: Codec, error: unknown, row: DeadRow): unknown {
  if (codec.plain === 'refuse' || typeof error !== 'object' || error === null) return error;
  const { node, try: tries, at, ...own } = error as Readonly<Record<string, unknown>>;
  const { kind } = own;
  if (kind === 'crash' || (!codec.errors && kind !== 'invalid')) return error;
  return { ...encodedError(codec, own, placeOf(row, 'error')), node, try: tries, at };
}
