import type { Codec } from '@pgqueue/core';
import { giveUp, PgQueueError } from '@pgqueue/core';
import type { ClaimedJob } from '@pgqueue/core/internal';
import { encodedError, jobLimits, lengthProblem, placeOf } from '@pgqueue/core/internal';
import type { Ending } from '../lease/ending.ts';
import type { PageOfEnds } from '@pgqueue/postgres/internal';
import { decoded, keyOf } from '@pgqueue/postgres/internal';
import { resultBytesMax, unstorable } from '../lease/json.ts';
import { ResultError } from '../lease/result.ts';

type Named = Pick<ClaimedJob, 'id' | 'task'>;

/**
 * Shortest pause of a job whose key this node does not have, in milliseconds; the longest is twice as long. The job is not
 * given back at once: the same node would claim it again, thousands of times a second. A backlog of such jobs comes
 * back spread over the pause.
 */
const keyPauseMs = 30_000;

/** Returns the delay of a job that waits for a key. @param random 0 ≤ random < 1 */
export function keyDelayMs(random: number): number {
  return Math.round(keyPauseMs * (1 + random));
}

/**
 * Reports whether an attempt ended for lack of a key, also if its error has crossed the border of a process. A handler may
 * throw a value whose every reading throws, such as a revoked proxy.
 */
export function isKeyMissing(error: unknown): error is Error {
  try {
    if (!(error instanceof Error) || error.name !== 'PgQueueError') return false;
    return (error as { readonly code?: unknown }).code === 'key_missing';
  } catch {
    return false;
  }
}

/**
 * Decodes the payload and the checkpoint of a job in place. Returns the ending of a job that can't be decoded: one that lacks
 * a key, or this node a codec, waits for it, and one that was changed is dead.
 */
export function decodeJob(
  codec: Codec | undefined,
  job: Pick<ClaimedJob, 'id' | 'task' | 'payload' | 'checkpoint'>,
): Extract<Ending, { readonly kind: 'threw' }> | undefined {
  if (codec === undefined && keyOf(job.payload) === undefined && keyOf(job.checkpoint) === undefined)
    return undefined;
  const own = job as { payload: unknown; checkpoint: unknown };
  try {
    own.payload = decoded(codec, job.payload, placeOf(job, 'payload'));
    if (job.checkpoint !== null) own.checkpoint = decoded(codec, job.checkpoint, placeOf(job, 'checkpoint'));
    return undefined;
  } catch (error) {
    return { kind: 'threw', error: isKeyMissing(error) ? error : giveUp(error) };
  }
}

/**
 * Returns a result (JSON text) as it is stored; null: none. If it is too long then, returns a note of the problem in its place.
 * @param strict its task has a schema for results
 * @throws {ResultError} if `strict`, in place of the note
 */
export function encodedResult(
  codec: Codec | undefined,
  job: Named,
  { text, strict }: { readonly text: string | null; readonly strict: boolean },
): { readonly data: string | null; readonly problem?: string } {
  if (codec === undefined || text === null) return { data: text };
  const place = placeOf(job, 'result');
  const data = codec.encode(text, place);
  if (Buffer.byteLength(data) <= resultBytesMax) return { data };
  const note = unstorable(`it has more than ${resultBytesMax} bytes once it is encoded`);
  if (strict) throw new ResultError([note.problem]);
  return { data: codec.encode(note.text, place), problem: note.problem };
}

/**
 * Returns a checkpoint (JSON text) as it is stored.
 * @throws {PgQueueError} `configuration`: it is too long then
 */
export function encodedCheckpoint(codec: Codec | undefined, job: Named, text: string): string {
  if (codec === undefined || text === 'null') return text;
  const encoded = codec.encode(text, placeOf(job, 'checkpoint'));
  const problem = lengthProblem(
    encoded,
    'the checkpoint of this job, with the results of its steps,',
    jobLimits.payloadBytesMax,
  );
  if (problem === undefined) return encoded;
  throw new PgQueueError('configuration', problem);
}

/** Returns an error as it is stored. `quotes`: it quotes values, so it is encoded whatever the codec does with errors. */
export function keptError(codec: Codec | undefined, job: Named, error: object, quotes = false): object {
  const encodes = codec !== undefined && (codec.errors || quotes);
  return encodes ? encodedError(codec, error, placeOf(job, 'error')) : error;
}

/** Returns progress (JSON text) as it is shown. */
export function encodedProgress(codec: Codec | undefined, job: Named, text: string): string {
  return codec?.progress === true ? codec.encode(text, placeOf(job, 'progress')) : text;
}

/**
 * Decodes a page of results. `signal`: the name of the step, if it is a signal.
 * @throws {PgQueueError} `key_missing`, `undecodable`
 */
export function decodedPage(
  codec: Codec | undefined,
  page: PageOfEnds,
  signal: string | undefined,
): PageOfEnds {
  const ends = page.ends.map((end) => {
    const { job: id, result, task } = end;
    if (task !== null)
      return result === null
        ? end
        : { ...end, result: decoded(codec, result, placeOf({ id, task }, 'result')) };
    if (end.outcome !== 'done') return end;
    return { ...end, result: decoded(codec, result, { id, field: 'signal', name: signal ?? '' }) };
  });
  return { ...page, ends };
}
