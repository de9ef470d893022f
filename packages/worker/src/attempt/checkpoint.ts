import type { Parsed, Task } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import { jobLimits, storableJson } from '@pgqueue/core/internal';
import { saveCheckpoint } from '@pgqueue/postgres/internal';
import type { Attempt } from './attempt.ts';
import { encodedCheckpoint } from '../codec/encoding.ts';
import { lose } from '../lease/held-leases.ts';
import type { LeaseParts } from './lease-calls.ts';
import { loggerWith, ownRows, whileHeld } from './lease-calls.ts';

/**
 * Saves resume data with the job of an attempt. False: its lease was lost.
 * @throws {PgQueueError} `invalid_job`: the data is too long, or does not fit the task's schema
 */
export async function keepCheckpoint(
  parts: LeaseParts,
  { task, attempt }: { readonly task: Task; readonly attempt: Attempt },
  data: unknown,
): Promise<boolean> {
  const text = await checkedText(task, data);
  const { memo } = attempt;
  return memo.inTurn(async () => {
    const saved = await saveText(parts, attempt, memo.textWith({ data: text }));
    if (saved) memo.keepData(text);
    return saved;
  });
}

/** Saves the whole checkpoint of a job, its steps and its data. False: its lease was lost. */
export async function saveText(parts: LeaseParts, attempt: Attempt, text: string): Promise<boolean> {
  const stored = encodedCheckpoint(parts.codec, attempt.job, text);
  await ownRows([attempt]);
  const answer = await whileHeld([attempt], () => saveCheckpoint(parts.database, attempt.lease, stored));
  if (answer?.given === false && attempt.live) lose(attempt, { ...parts, during: 'extend' });
  return answer?.given ?? false;
}

async function checkedText(task: Task, data: unknown): Promise<string> {
  const text = data === null ? 'null' : storableJson(data);
  const bytes = Buffer.byteLength(text);
  const bytesMax = jobLimits.payloadBytesMax;
  if (bytes > bytesMax) {
    throw refused(
      task,
      `it has ${bytes} bytes of JSON, more than ${bytesMax}; keep a reference to it instead`,
    );
  }
  const stored: unknown = JSON.parse(text);
  if (stored === null) return text;
  // Checks the value as the next attempt will read it: after a round trip through JSON.
  const parsed = await task.parseCheckpoint(stored);
  if (parsed.ok) return text;
  throw refused(task, parsed.problems.join('; '));
}

function refused({ name }: Task, why: string): PgQueueError {
  return new PgQueueError('invalid_job', `task "${name}" can't keep this checkpoint: ${why}`, {
    data: { task: name },
  });
}

/**
 * Returns the checkpoint of an earlier attempt; null: none. A checkpoint that does not fit the task's schema
 * (another release saved it) is dropped with a warning, and the job starts over.
 */
export async function keptCheckpoint(parts: LeaseParts, task: Task, attempt: Attempt): Promise<unknown> {
  const { job } = attempt;
  if (job.checkpoint === null) return null;
  const { data } = attempt.memo;
  if (data === null) return null;
  const parsed = await parse(task, data);
  if (parsed.ok) return parsed.payload;
  const { problems } = parsed;
  loggerWith(parts.logger, { job: job.id, task: task.name }).warn(
    { problems },
    'the checkpoint does not fit the schema of its task: the job begins anew',
  );
  return null;
}

async function parse(task: Task, stored: unknown): Promise<Parsed<unknown>> {
  try {
    return await task.parseCheckpoint(stored);
  } catch (error) {
    return { ok: false, problems: [error instanceof Error ? error.message : String(error)] };
  }
}
