import type { Enqueued, JobRow } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import { columnsOf } from './enqueue-columns.ts';
import type { Target } from './target.ts';

/** What an enqueue is told beside its jobs. */
export interface EnqueueInput {
  /**
   * Some of the jobs may have been enqueued before (ids of the caller's making, or a retry after a lost reply): ids of jobs
   * that have ended since count as repeated too, as long as history keeps them.
   */
  readonly again?: boolean;
}

/**
 * Enqueues jobs with one statement, however many; resolves to what became of each, in input order. All or nothing. The
 * order of the input is the order of their `seq`; jobs with a unique key come after the others.
 *
 * Jobs without a unique key are inserted; one whose id is in QUEUE is left alone (served by queue's primary key). Jobs with
 * one, and all where some may have been enqueued before, go through the SQL function `enqueue_unique` (migration 0002 says why it is
 * safe, and why one statement can't be: it would miss a settlement that it waits for). A producer's rights are enough.
 *
 * Every parameter is a text that the statement casts, so it means the same through every driver. Rows go as lists, through unnest: by
 * json_to_recordset they take a fifth more. As array literals they took 1.4 µs of Node and 8.9 of the server a row (1,000 of 100 bytes of
 * payload, an id and a task), as texts that are cut, with the task as one value, 0.1 and 8.4. Columns that all have their default are left
 * out. One row takes a plain VALUES: 20 µs less than any FROM.
 * @throws {PgQueueError} `invalid_job` where a payload takes more room as jsonb than the table allows
 */
export async function enqueueJobs(
  target: Target,
  jobs: readonly JobRow[],
  { again = false }: EnqueueInput = {},
): Promise<readonly Enqueued[]> {
  if (jobs.length === 0) return [];
  const single = (job: JobRow): boolean => job.unique === null && !again;
  const rows = jobs.filter(single);
  const unique = jobs.filter((job) => !single(job));
  const values: (string | null)[] = [];
  const insert = rows.length === 0 ? '' : insertStatement(target.schema, rows, values);
  const call = unique.length === 0 ? '' : uniqueCall(target.schema, unique, again, values);
  const answers = await run(target, textOf({ insert, call, rows: rows.length }, values), values);
  if (answers[0]?.all === true) return jobs.map(({ id }): Enqueued => ({ id, outcome: 'enqueued' }));
  const inserted = new Set<string>();
  const answered: Enqueued[] = [];
  for (const { id, n, outcome } of answers) {
    if (n === undefined || n === null || outcome === null) inserted.add(id);
    else answered[n] = { id, outcome };
  }
  let ordinal = 0;
  return jobs.map((job): Enqueued => {
    if (single(job)) {
      return { id: job.id, outcome: inserted.delete(job.id) ? 'enqueued' : 'repeated' };
    }
    const found = answered[ordinal];
    ordinal += 1;
    if (found === undefined) throw new PgQueueError('invariant', `no answer for job ${job.id}`);
    return found;
  });
}

/** Of many rows, of which each was inserted nearly always, the answer is that, and not all of their ids. */
function textOf(
  { insert, call, rows }: { readonly insert: string; readonly call: string; readonly rows: number },
  values: (string | null)[],
): string {
  if (insert === '' || (call === '' && rows === 1)) return insert + call;
  const inserted = `with inserted as (${insert})`;
  if (call !== '')
    return `${inserted} select id::text, null::integer as n, null as outcome from inserted union all ${call}`;
  const all = `(select count(*) from inserted) = $${values.push(`${rows}`)}::text::integer`;
  return `${inserted} select null as id, true as "all" where ${all} union all select id::text, null from inserted where not ${all}`;
}

interface Answer {
  readonly id: string;
  /** All that were to be inserted were, none was there before; nothing else is in the answer. */
  readonly all?: boolean | null;
  readonly n?: number | null;
  readonly outcome: Enqueued['outcome'] | null;
}

function run(target: Target, text: string, values: readonly (string | null)[]): Promise<readonly Answer[]> {
  return explaining(() => target.query<Answer>(text, values));
}

/** What the table refuses, in the words of who enqueues. @throws {PgQueueError} `invalid_job`, `too_many_pending` */
export async function explaining<Result>(enqueue: () => Promise<Result>): Promise<Result> {
  try {
    return await enqueue();
  } catch (error) {
    if (error instanceof Error && error.message.includes('queue_payload_size')) {
      throw new PgQueueError(
        'invalid_job',
        'a payload takes more than 262144 bytes as jsonb (many small numbers take more than as text); store it elsewhere and enqueue a reference',
        { cause: error },
      );
    }
    // by its text: other drivers hide the code
    const crowded = error instanceof Error ? /queue_key_pending: (.+)/.exec(error.message)?.[1] : undefined;
    if (crowded !== undefined) {
      throw new PgQueueError(
        'too_many_pending',
        `${crowded}: enqueue later, or fewer at once, or raise the limit ("pgqueue queues set QUEUE --key-pending N")`,
        { cause: error },
      );
    }
    throw error;
  }
}

/** What is the same for all rows goes as one value: of jobs of one task, that is most. */
function insertStatement(schema: string, rows: readonly JobRow[], values: (string | null)[]): string {
  const used = columnsOf(rows);
  const lists: { readonly name: string; readonly list: string }[] = [];
  const references = new Map<string, string>();
  for (const { name, type, value } of used.flatMap((column) => column.sources)) {
    const texts = rows.map(value);
    const [first = null] = texts;
    if (texts.every((text) => text === first)) {
      references.set(name, cast(`$${values.push(first)}`, type));
    } else {
      lists.push({ name, list: listOf(texts, values) });
      references.set(name, type === 'text' ? `x.${name}` : `x.${name}::${type}`);
    }
  }
  const list = used.map(({ expression }) => expression((name) => references.get(name) ?? 'null')).join(', ');
  const from =
    lists.length === 0
      ? `values (${list})`
      : `select ${list} from unnest(${lists.map((of) => of.list).join(', ')}) as x (${lists.map(({ name }) => name).join(', ')})`;
  return `insert into ${schema}.queue (${used.map(({ name }) => name).join(', ')}) ${from} on conflict (id) do nothing returning id`;
}

/** Texts, as one that is cut at its line ends: JSON has none, and nothing in it must be quoted. */
function listOf(texts: readonly (string | null)[], values: (string | null)[]): string {
  const cuttable = texts.every((text) => text !== null && !text.includes('\n'));
  return cuttable
    ? `string_to_array($${values.push(texts.join('\n'))}::text, chr(10))`
    : `$${values.push(arrayLiteral(texts))}::text::text[]`;
}

/** Through text where a driver would encode the type in a way of its own. */
function cast(parameter: string, type: string): string {
  return type === 'text' || type === 'uuid' ? `${parameter}::${type}` : `${parameter}::text::${type}`;
}

function uniqueCall(
  schema: string,
  rows: readonly JobRow[],
  again: boolean,
  values: (string | null)[],
): string {
  const json = rows.map((row, n) => {
    const fields = JSON.stringify({
      n,
      id: row.id,
      queue: row.queue,
      task: row.task,
      key: row.key,
      priority: row.priority,
      attributes: row.attributes,
      run_after: row.runAfter,
      delay_ms: row.delayMs,
      expires_at: row.expiresAt,
      timeout_ms: row.timeoutMs,
      max_tries: row.maxTries,
      max_crashes: row.maxCrashes,
      retry: row.retry,
      unique_key: row.unique?.key,
      mode: row.unique?.onConflict,
      payload_version: row.payloadVersion,
      trace: row.trace,
      again,
    });
    return `${fields.slice(0, -1)},"payload":${row.payload}}`;
  });
  const parameter = `$${values.push(`[${json.join(',')}]`)}::text::jsonb`;
  return `select u.job_id::text as id, u.ordinal as n, u.outcome from ${schema}.enqueue_unique(${parameter}) u`;
}

/** PostgreSQL's own text form of an array. */
function arrayLiteral(values: readonly (string | null)[]): string {
  const quoted = values.map((value) =>
    value === null ? 'NULL' : `"${value.replace(/["\\]/g, String.raw`\$&`)}"`,
  );
  return `{${quoted.join(',')}}`;
}
