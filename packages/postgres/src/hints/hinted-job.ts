import type { Attributes, JobFacts } from '@pgqueue/core';
import type { JobRow } from '@pgqueue/core/internal';

/**
 * A waiting job as the hint of its enqueue describes it. Anyone who may NOTIFY can send such a hint, so it
 * proves nothing: the dispatch planned from it compares it with the job's row, and writes nothing if they
 * differ.
 */
export interface HintedJob extends Omit<JobFacts, 'expiresMs' | 'tries' | 'alone'> {
  /** The row's xmin. */
  readonly rowVersion: string;
}

/**
 * Maximum length of the facts, in characters. A NOTIFY payload has less than 8,000 bytes, and a character
 * takes up to four.
 */
const factsMax = 1_500;

/**
 * Returns the part of a hint's payload that the producer knows; the statement that inserts the job adds the
 * rest. Returns null for a job that is unique, delayed or expires, and for a text that is too long.
 */
export function hintFacts(row: JobRow): string | null {
  if (row.unique !== null || row.delayMs !== null || row.runAfter !== null || row.expiresAt !== null)
    return null;
  const { id, queue, key, task, payloadVersion, priority, attributes } = row;
  const facts = JSON.stringify([id, queue, key, task, payloadVersion, priority, attributes]);
  return facts.length > factsMax ? null : facts.slice(1, -1);
}

/** Most bytes that the database adds to the facts of a job. */
const addedMax = 80;

/** Returns how many bytes jobs take in a hint at most. `facts`: of each. */
export function hintBytes(facts: readonly string[]): number {
  return facts.reduce((sum, one) => sum + Buffer.byteLength(one) + addedMax, 2);
}

/** Returns SQL for what a hint says of a job, a JSON list, in the statement that inserts it. `facts`: an SQL expression. */
export function hintedFacts(facts: string): string {
  return `'[' || seq || ',"' || pg_current_xact_id()::xid || '",' || date_part('epoch', created) * 1000 || ',' || ${facts} || ']'`;
}

/**
 * Parses the payload of a hint: a list of jobs.
 * @returns undefined for any payload that does not describe one job or more
 */
export function readHint(payload: string): readonly HintedJob[] | undefined {
  if (!payload.startsWith('[')) return undefined;
  let listed: unknown;
  try {
    listed = JSON.parse(payload);
  } catch {
    return undefined;
  }
  if (!Array.isArray(listed) || listed.length === 0) return undefined;
  const jobs = listed.flatMap((one: unknown) => toJob(one) ?? []);
  return jobs.length === listed.length ? jobs : undefined;
}

function toJob(listed: unknown): HintedJob | undefined {
  if (!Array.isArray(listed) || listed.length !== 10) return undefined;
  const [seq, rowVersion, createdMs, id, queue, key, task, version, priority, attributes] =
    listed as readonly unknown[];
  const isJob =
    isInteger(seq, 1, Number.MAX_SAFE_INTEGER) &&
    isText(rowVersion) &&
    /^\d{1,10}$/.test(rowVersion) &&
    Number(rowVersion) < 2 ** 32 &&
    typeof createdMs === 'number' &&
    Number.isFinite(createdMs) &&
    isText(id) &&
    /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id) &&
    isText(queue) &&
    isText(key) &&
    isText(task) &&
    isInteger(version, 1, 2 ** 31 - 1) &&
    isInteger(priority, -(2 ** 31), 2 ** 31 - 1) &&
    areAttributes(attributes);
  return isJob
    ? { id, queue, key, task, version, priority, seq, createdMs, attributes, rowVersion }
    : undefined;
}

function isInteger(value: unknown, min: number, max: number): value is number {
  return Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max;
}

/** Reports whether PostgreSQL can read a text in JSON: it accepts neither NUL nor lone surrogates. */
function isText(value: unknown): value is string {
  return typeof value === 'string' && value.isWellFormed() && !value.includes('\0');
}

function areAttributes(value: unknown): value is Attributes {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  return Object.entries(value).every(
    ([name, one]: [string, unknown]) =>
      isText(name) &&
      (isText(one) ||
        typeof one === 'boolean' ||
        one === null ||
        (typeof one === 'number' && Number.isFinite(one))),
  );
}
