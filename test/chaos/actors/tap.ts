// Loaded before anything else into each worker and scheduler, and into each of its threads: what its connections are asked and
// answered about leases and plans goes into the history, at the boundary of the driver. The packages are as they are.
import { wasRolledBack } from '@pgqueue/postgres/internal';
import pg from 'pg';
import type { HistoryEntry } from '../checker/history.ts';
import { monotonicMs } from '../record.ts';
import type { Heard } from './calls.ts';
import { hearingOf } from './calls.ts';
import { openOwnHistory } from './config.ts';

const write = openOwnHistory();

/** The newest lease of each job that this process has claimed. */
export const tokens: Map<string, string> = new Map();

type Rows = readonly Readonly<Record<string, unknown>>[];
type Done = (error: Error | undefined, result: { readonly rows: Rows } | undefined) => void;
type Query = (this: object, config: unknown, values?: unknown, callback?: unknown) => unknown;

/** Answers that count when their transaction commits, by connection. */
const waiting = new WeakMap<object, { readonly heard: Heard; readonly rows: Rows }[]>();

const prototype = pg.Client.prototype as unknown as { query: Query };
const original = prototype.query;

prototype.query = function tapped(given, values, callback) {
  const { text, parameters, done } = callOf(given, values, callback);
  if (text === undefined) return original.call(this, given, values, callback);
  const word = text.trimStart().slice(0, 8).toLowerCase();
  const transaction = waiting.get(this);
  if (word.startsWith('begin')) waiting.set(this, []);
  const ends = word.startsWith('commit') || word.startsWith('rollback');
  if (ends) waiting.delete(this);
  const heard = hearingOf(text, parameters);
  const sentAt = monotonicMs();
  if (heard?.invoked !== undefined) write(heard.invoked, sentAt);
  const answered = (error: unknown, rows: Rows): void => {
    if (ends) endAll(transaction ?? [], { committed: word.startsWith('commit'), error });
    if (heard === undefined) return;
    if (error !== undefined) tell(heard.failed(transaction !== undefined || wasRolledBack(error)));
    else if (transaction !== undefined) transaction.push({ heard, rows });
    else tell(heard.answered(rows, sentAt), heard);
  };
  if (heard === undefined && !ends) return original.call(this, given, values, callback);
  if (done === undefined) {
    const promise = original.call(this, given, values) as Promise<{ readonly rows: Rows }>;
    return promise.then(
      (result) => {
        answered(undefined, result.rows);
        return result;
      },
      (error: unknown) => {
        answered(error, []);
        throw error;
      },
    );
  }
  const tappedDone: Done = (error, result) => {
    answered(error ?? undefined, result?.rows ?? []);
    done(error, result);
  };
  return typeof values === 'function'
    ? original.call(this, given, tappedDone)
    : original.call(this, given, values, tappedDone);
};

function tell(entry: HistoryEntry | undefined, heard?: Heard): void {
  if (entry === undefined) return;
  write(entry);
  if (heard?.leased === undefined) return;
  if (entry.type !== 'claim' || entry.phase !== 'ok') return;
  for (const [id] of entry.leases) tokens.set(id, heard.leased);
}

function endAll(
  all: readonly { readonly heard: Heard; readonly rows: Rows }[],
  { committed, error }: { readonly committed: boolean; readonly error: unknown },
): void {
  for (const { heard, rows } of all) {
    if (committed && error === undefined) tell(heard.answered(rows, monotonicMs()), heard);
    else tell(heard.failed(!committed || wasRolledBack(error)));
  }
}

function callOf(
  given: unknown,
  values: unknown,
  callback: unknown,
): {
  readonly text: string | undefined;
  readonly parameters: readonly unknown[];
  readonly done: Done | undefined;
} {
  const options = (typeof given === 'object' ? given : {}) as {
    readonly text?: unknown;
    readonly values?: readonly unknown[];
    readonly submit?: unknown;
  };
  const text = typeof given === 'string' ? given : options.submit === undefined ? options.text : undefined;
  const parameters = Array.isArray(values) ? (values as unknown[]) : (options.values ?? []);
  const done = typeof values === 'function' ? values : callback;
  return {
    text: typeof text === 'string' ? text : undefined,
    parameters,
    done: typeof done === 'function' ? (done as Done) : undefined,
  };
}
