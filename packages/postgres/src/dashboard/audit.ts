import { ask } from '../connection/target.ts';
import { PgQueueError } from '@pgqueue/core';
import type { Rule } from '@pgqueue/core/internal';
import { anObject, aText, oneOf } from '@pgqueue/core/internal';
import type { Database } from '../connection/database.ts';

/** Person or program that acts, as the dashboard or the command line names it. */
export interface Actor {
  readonly name: string;
  readonly via: 'dashboard' | 'cli';
}

/** Rule of an option that takes an {@link Actor}. */
export const anActor: Rule = anObject({ name: aText({ max: 200 }), via: oneOf('dashboard', 'cli') });

/** An action to note. */
export interface Action {
  /** `jobs.cancel`, `queue.set`, … */
  readonly action: string;
  readonly target: string | null;
  /** Plain JSON. If it exceeds 8,192 characters, only its length is stored. */
  readonly details: unknown;
}

/** One line of the audit table. */
export interface AuditLine {
  readonly n: string;
  readonly at: Date;
  readonly actor: string;
  readonly via: string;
  readonly databaseUser: string;
  readonly action: string;
  readonly target: string | null;
  readonly details: unknown;
  readonly result: unknown;
}

const textMax = 8_192;

/**
 * Runs an action and notes it: actor and action before it begins, its result afterwards. An action that can't
 * be noted is not run. A failed action leaves a line without a result.
 */
export async function audited<Result>(
  database: Database,
  { actor, ...action }: Action & { readonly actor: Actor },
  work: () => Promise<{ readonly result: unknown; readonly value: Result }>,
): Promise<Result> {
  const n = await noteAction(database, { actor, ...action });
  const { result, value } = await work();
  // the action is done: a failure to note its result undoes nothing
  await noteResult(database, n, result).catch(() => false);
  return value;
}

/** Writes actor and action before the action runs; resolves to the line's number. */
export async function noteAction(
  { query, schema }: Database,
  { actor, action, target, details }: Action & { readonly actor: Actor },
): Promise<string> {
  const [row] = await query<{ n: string }>(`select ${schema}.note_action($1, $2, $3, $4, $5::jsonb) as n`, [
    clean(actor.name, 200) || 'unknown',
    actor.via,
    action,
    target === null ? null : clean(target, 500),
    jsonOf(details),
  ]);
  if (row === undefined) throw new PgQueueError('invariant', 'note_action returned nothing');
  return row.n;
}

/** Writes the result of an action, once. */
export async function noteResult(database: Database, n: string, result: unknown): Promise<boolean> {
  return (await ask(database, 'note_result($1, $2::jsonb)', [n, jsonOf(result)])) === true;
}

/** One page of the lines that match. */
export interface AuditOptions {
  readonly actor?: string;
  readonly action?: string;
  readonly after?: string;
  readonly limit: number;
  /** Also read details and results, which not every role may. */
  readonly whole: boolean;
}

/** Lists lines, newest first; reads up to 5,000 lines a page. */
export async function listAudit(
  { query, schema }: Database,
  { actor, action, after, limit, whole }: AuditOptions,
): Promise<{ readonly items: readonly AuditLine[]; readonly next: string | null }> {
  const documents = whole ? 'a.details, a.result' : 'null::jsonb as details, null::jsonb as result';
  const rows = await query<AuditLine & { readonly fits: boolean }>(
    `select a.n::text as n, a.at, a.actor, a.via, a.db_user as "databaseUser", a.action, a.target, ${documents},
            ($3::text is null or a.actor = $3) and ($4::text is null or a.action = $4) as fits
     from ${schema}.audit a where ($1::bigint is null or a.n < $1) order by a.n desc limit $2`,
    [
      after ?? null,
      actor === undefined && action === undefined ? limit + 1 : walkMax,
      actor ?? null,
      action ?? null,
    ],
  );
  const fitting = rows.filter(({ fits }) => fits).map(({ fits: _fits, ...line }) => line);
  const shown = fitting.slice(0, limit);
  const more = fitting.length > limit ? shown.at(-1) : rows.length >= walkMax ? rows.at(-1) : undefined;
  return { items: shown, next: more?.n ?? null };
}

const walkMax = 5_000;

/** Returns JSON that PostgreSQL can store: without NUL and lone surrogates. */
function jsonOf(value: unknown): string {
  const text = JSON.stringify(value ?? {}, (_, part: unknown) =>
    typeof part === 'string' ? clean(part, textMax) : part,
  );
  return text.length <= textMax ? text : JSON.stringify({ characters: text.length });
}

function clean(text: string, max: number): string {
  return text.replaceAll('\u0000', '').slice(0, max).toWellFormed();
}
