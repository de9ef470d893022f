import type { Enqueued } from '@pgqueue/core';
import type { JobRow } from '@pgqueue/core/internal';
import type { Database } from '../../connection/database.ts';
import { explaining } from './enqueue.ts';
import type { Column } from './enqueue-columns.ts';
import { columnsOf } from './enqueue-columns.ts';

/** Fewest jobs for COPY: for fewer, an INSERT is as fast, and needs one round trip. */
const copyMin = 500;
/** Length of the chunks that are sent, in characters. */
const chunkLength = 64 * 1_024;

/**
 * Returns the columns to copy, if COPY may enqueue these jobs. They must be at least `copyMin`, and
 * never enqueued before; none has a unique key, and none waits until a time, which is the database's to
 * compute. Undefined: COPY may not.
 */
export function columnsToCopy(jobs: readonly JobRow[]): readonly Column[] | undefined {
  if (jobs.length < copyMin || jobs.some(({ unique }) => unique !== null)) return undefined;
  const columns = columnsOf(jobs);
  return columns.every(({ copied }) => copied !== null) ? columns : undefined;
}

/**
 * Enqueues jobs by COPY, all or none, in their order, in two thirds of the time of an INSERT. A job whose id
 * exists already is an error, so use it only for ids that were made for this call, and only once. After a
 * lost reply, `enqueueJobs` with `again` tells what became of the jobs. Never used in a caller's transaction:
 * other libraries' transactions can't copy, and the outcome must not depend on the adapter.
 * @throws {PgQueueError} `invalid_job`, `too_many_pending`
 */
export async function copyJobs(
  database: Database,
  jobs: readonly JobRow[],
  columns: readonly Column[],
): Promise<readonly Enqueued[]> {
  const names = columns.map(({ name }) => name).join(', ');
  await explaining(() =>
    database.copyIn(`copy ${database.schema}.queue (${names}) from stdin`, linesOf(jobs, columns)),
  );
  return jobs.map(({ id }) => ({ id, outcome: 'enqueued' }));
}

function* linesOf(jobs: readonly JobRow[], columns: readonly Column[]): Generator<string> {
  const values = columns.map(({ copied, sources: [source] }) => copied ?? source?.value ?? nothing);
  let chunk = '';
  for (const job of jobs) {
    let separator = '';
    for (const value of values) {
      chunk += separator + fieldOf(value(job));
      separator = '\t';
    }
    chunk += '\n';
    if (chunk.length < chunkLength) continue;
    yield chunk;
    chunk = '';
  }
  if (chunk !== '') yield chunk;
}

const nothing = (): null => null;

/** Escapes a value for COPY's text format. */
function fieldOf(value: string | null): string {
  if (value === null) return String.raw`\N`;
  return special.test(value)
    ? value.replace(allSpecial, (character) => escapes[character] ?? character)
    : value;
}

const special = /[\\\t\n\r]/;
const allSpecial = /[\\\t\n\r]/g;
const escapes: Readonly<Record<string, string>> = {
  '\\': String.raw`\\`,
  '\t': String.raw`\t`,
  '\n': String.raw`\n`,
  '\r': String.raw`\r`,
};
