import type { Enqueued } from '@pgqueue/core';
import type { JobRow } from '@pgqueue/core/internal';
import { PgQueueError } from '@pgqueue/core';
import { channelName, hintBytesMax, mayHint } from '../../hints/hints.ts';
import { hintBytes, hintedFacts } from '../../hints/hinted-job.ts';
import { databaseError, databaseMessage, movedState, sqlState } from '../../connection/pg-errors.ts';
import { columnsOf } from './enqueue-columns.ts';
import { jobJson } from './job-json.ts';
import type { Target } from '../../connection/target.ts';

/** Options of an enqueue. */
export interface EnqueueInput {
  /**
   * Some of the jobs may have been enqueued before (ids chosen by the caller, or a retry after a lost reply):
   * ids of jobs that have ended since count as repeated, too, as far back as history reaches. Default false.
   */
  readonly again?: boolean;
  /** The payloads are encoded for the new ids: a waiting job that is replaced keeps its own. Default false. */
  readonly bound?: boolean;
  /** Given by a router: the statement checks that this installation is the home of the jobs' keys. */
  readonly versions?: KeyVersions;
  /** Set if an earlier try with these versions may have been accepted: then each newer route is refused. Default false. */
  readonly repeated?: boolean;
}

/** Outcome of one job. */
export interface EnqueuedRow extends Enqueued {
  /** Encoded payload (JSON text) of a waiting job that has kept it, since the new one is `bound` to another id. */
  readonly stored?: string;
}

/** Version of the route that a router knows of a key; 0: none. */
export type KeyVersions = (key: string) => number;

/**
 * Enqueues any number of jobs with one statement, all or none; resolves to the outcome of each, in input
 * order. The order of the input is the order of their `seq`; jobs with a unique key come after the others.
 *
 * Jobs without a unique key are inserted: their ids were made for this call, so an id that is in QUEUE
 * already is an error. Looking for the id first (`ON CONFLICT`) and returning the ids took a tenth of the
 * server's time for an enqueue of one job. Jobs with a unique key, and all jobs if some may have been
 * enqueued before, go through the SQL function `enqueue_unique`. Its SQL says why it is safe, and why one
 * statement would not be: it would miss a settlement that it waits for. The rights of a producer are enough.
 *
 * Every parameter is a text that the statement casts, so it means the same through every driver. Rows go as
 * lists, through unnest: json_to_recordset takes a fifth more time. A row of 100 bytes of payload, an id and
 * a task, of 1,000, takes 1.4 µs of Node and 8.9 µs of the server as array literals, but 0.1 and 8.4 µs as
 * texts that are split, with the task as one value. Columns whose values are all the default are left out.
 * One row takes a plain VALUES, which is 20 µs faster than any FROM.
 * @throws {PgQueueError} `invalid_job` if a payload takes more room as jsonb than the table allows; `moved` if
 * `versions` are given and a key has its home elsewhere: then nothing was enqueued
 */
export async function enqueueJobs(
  target: Target,
  jobs: readonly JobRow[],
  { again = false, bound = false, versions, repeated = false }: EnqueueInput = {},
): Promise<readonly EnqueuedRow[]> {
  const [first] = jobs;
  if (first === undefined) return [];
  if (jobs.length === 1 && first.unique === null && !again) {
    const { text, values } = singleInsert(target.schema, first, { versions });
    await explaining(() => target.query(text, values));
    return [{ id: first.id, outcome: 'enqueued' }];
  }
  const rows = again ? [] : jobs.filter(({ unique }) => unique === null);
  const unique = again ? jobs : jobs.filter((job) => job.unique !== null);
  const values: (string | null)[] = [];
  const home =
    versions === undefined ? '' : homeCall(target.schema, { jobs, versions, again, repeated }, values);
  const insert = rows.length === 0 ? '' : insertStatement(target.schema, rows, values, home);
  const call =
    unique.length === 0
      ? ''
      : uniqueCall(target.schema, unique, { again, bound }, values) + (insert === '' ? home : '');
  const answers = await explaining(() => target.query<EnqueueRow>(textOf(insert, call), values));
  const answered: EnqueuedRow[] = [];
  for (const { id, n, outcome, stored } of answers) {
    if (n !== null && outcome !== null) answered[n] = { id, outcome, ...(stored === null ? {} : { stored }) };
  }
  let ordinal = 0;
  return jobs.map((job): EnqueuedRow => {
    if (job.unique === null && !again) return { id: job.id, outcome: 'enqueued' };
    const found = answered[ordinal];
    ordinal += 1;
    if (found === undefined) throw new PgQueueError('invariant', `no answer for job ${job.id}`);
    return found;
  });
}

/** Answer of {@link enqueueAndHint}. */
export interface HintedEnqueue {
  /** True if the statement has notified schedulers. */
  readonly sent: boolean;
  /** Descriptions of the jobs for a later hint; undefined: they are not known. */
  readonly jobs?: readonly string[];
}

/**
 * Enqueues jobs whose ids were made for this call, without unique keys, in their order. With `notify` it notifies schedulers itself
 * when it commits. Commits that carry a hint wait for each other, so only one carries one at a time: if another is under way, or the
 * server's queue of notifications is nearly full, the jobs are enqueued without a hint. So are those that take more room than one has.
 * @param given `facts`: those of each job, from `hintFacts`
 * @throws {PgQueueError} as {@link enqueueJobs}
 */
export async function enqueueAndHint(
  target: Target,
  rows: readonly JobRow[],
  {
    facts,
    notify,
    versions,
  }: {
    readonly facts: readonly string[];
    readonly notify: boolean;
    readonly versions?: KeyVersions | undefined;
  },
): Promise<HintedEnqueue> {
  const [row, ...others] = rows;
  if (row === undefined) return { sent: false };
  const fits = hintBytes(facts) <= hintBytesMax;
  const hint = { channel: channelName(target.schema, 'queue'), facts, notify: notify && fits };
  const { text, values } =
    others.length === 0
      ? hintingOne(target.schema, row, { hint, versions })
      : hintingSeveral(target.schema, rows, { hint, versions });
  const [answer] = await explaining(() =>
    target.query<{ readonly told: readonly string[] | null }>(text, values),
  );
  if (answer === undefined) return { sent: false };
  return answer.told === null ? { sent: true } : { sent: false, jobs: answer.told };
}

/**
 * Joins the two statements. PostgreSQL would run an insert that nothing reads last; `union all` reads it
 * first, so jobs with a unique key come after.
 */
function textOf(insert: string, call: string): string {
  if (insert === '' || call === '') return insert + call;
  return `with inserted as (${insert} returning id) select id::text, null::integer as n, null as outcome, null as stored from inserted union all ${call}`;
}

interface EnqueueRow {
  readonly id: string;
  /** Index among the jobs that went through `enqueue_unique`; null: an inserted one. */
  readonly n: number | null;
  readonly outcome: Enqueued['outcome'] | null;
  readonly stored: string | null;
}

/**
 * Turns errors of the table's checks, of `at_home`, and of a transaction's isolation level into errors for the caller.
 * @throws {PgQueueError} `invalid_job`, `too_many_pending`, `moved`, `configuration`
 */
export async function explaining<Result>(enqueue: () => Promise<Result>): Promise<Result> {
  try {
    return await enqueue();
  } catch (error) {
    // by its text: other drivers hide the code
    const message = databaseMessage(error);
    if (message.includes('queue_payload_size')) {
      throw new PgQueueError(
        'invalid_job',
        'a payload takes more than 393216 bytes as PostgreSQL writes it (of 1e300, all 301 digits); store it elsewhere and enqueue a reference',
        { cause: error },
      );
    }
    const crowded = /queue_key_pending: (.+)/.exec(message)?.[1];
    if (crowded !== undefined) {
      throw new PgQueueError(
        'too_many_pending',
        `${crowded}: enqueue later, or fewer at once, or raise the limit ("pgqueue queues set QUEUE --key-pending N")`,
        { cause: error },
      );
    }
    const strict = tooStrict.exec(message)?.[0];
    if (strict !== undefined) {
      throw new PgQueueError(
        'configuration',
        `${strict}: begin it with "begin isolation level read committed", or enqueue outside of it`,
        { cause: error },
      );
    }
    if (sqlState(error) === movedState) throw movedError(error);
    throw error;
  }
}

/** Refusal of an enqueue that an old snapshot would mislead, by `assert_read_committed`. */
const tooStrict =
  /an enqueue [^:]+ needs a transaction that is read committed, and this one is [a-z]+(?: read)?/;

/** Error of an enqueue through a router that came to the wrong installation. */
function movedError(error: unknown): PgQueueError {
  const { message, detail } = databaseError(error) as { readonly message: string; readonly detail?: string };
  return new PgQueueError(
    'moved',
    `${message}: nothing was enqueued here; read the routes again, and enqueue there`,
    { data: JSON.parse(detail ?? '{}') as Readonly<Record<string, unknown>>, cause: error },
  );
}

/**
 * Returns a further member of a FROM list, which refuses the statement if a key has its home elsewhere. Its order
 * among the members does not matter: it fails the whole statement.
 * @param again the refusal tells which of the jobs are known; `repeated`: as of {@link EnqueueInput}
 */
export function homeCall(
  schema: string,
  {
    jobs,
    versions,
    again = false,
    repeated = false,
  }: {
    readonly jobs: readonly { readonly id: string; readonly key: string }[];
    readonly versions: KeyVersions;
    readonly again?: boolean;
    readonly repeated?: boolean;
  },
  values: (string | null)[],
): string {
  const keys = [...new Set(jobs.map(({ key }) => key))];
  const lists = [
    [arrayLiteral(keys), 'text[]'],
    [arrayLiteral(keys.map((key) => String(versions(key)))), 'bigint[]'],
    [again ? arrayLiteral(jobs.map(({ id }) => id)) : null, 'uuid[]'],
    [String(repeated), 'boolean'],
  ] as const;
  const given = lists.map(([list, type]) => `$${values.push(list)}::text::${type}`);
  return `, ${schema}.at_home(${given.join(', ')}) home`;
}

/** A statement and its parameters. */
interface Statement {
  readonly text: string;
  readonly values: readonly (string | null)[];
}

/** The hint that a statement carries. */
interface Hint {
  readonly channel: string;
  readonly facts: readonly string[];
  readonly notify: boolean;
}

/**
 * Texts of inserts of one row, by schema and columns. Building a text takes longer than everything else here.
 */
const singleInserts = new Map<string, string>();

function singleInsert(
  schema: string,
  row: JobRow,
  { hints = false, versions }: { readonly hints?: boolean; readonly versions?: KeyVersions | undefined } = {},
): Statement {
  const used = columnsOf([row]);
  const values: (string | null)[] = [];
  let key = `${schema}${hints ? ' +' : ''}${versions === undefined ? '' : ' @'}`;
  for (const { name, sources } of used) {
    key += ` ${name}`;
    for (const { value } of sources) values.push(value(row));
  }
  const columns = values.length;
  if (versions !== undefined) homeCall(schema, { jobs: [row], versions }, values);
  let text = singleInserts.get(key);
  if (text === undefined) {
    const before = Array.from({ length: columns }, () => null);
    const home = versions === undefined ? '' : homeCall(schema, { jobs: [row], versions }, before);
    const insert = insertStatement(schema, [row], [], home);
    text = hints ? hintingInsert(insert, values.length) : insert;
    singleInserts.set(key, text);
  }
  return { text, values };
}

function hintingOne(
  schema: string,
  row: JobRow,
  { hint, versions }: { readonly hint: Hint; readonly versions: KeyVersions | undefined },
): Statement {
  const { text, values } = singleInsert(schema, row, { hints: true, versions });
  return { text, values: [...values, hint.channel, String(hint.notify), ...hint.facts] };
}

function hintingSeveral(
  schema: string,
  rows: readonly JobRow[],
  { hint, versions }: { readonly hint: Hint; readonly versions: KeyVersions | undefined },
): Statement {
  const values: (string | null)[] = [];
  const home = versions === undefined ? '' : homeCall(schema, { jobs: rows, versions }, values);
  const insert = insertStatement(schema, rows, values, home);
  const before = values.length;
  values.push(hint.channel, String(hint.notify));
  const ids = listOf(
    rows.map(({ id }) => id),
    values,
  );
  const facts = listOf(hint.facts, values);
  const given = ` join unnest(${ids}, ${facts}) as f (id, facts) on f.id::uuid = made.id`;
  return { text: hintingInsert(insert, before, given), values };
}

/**
 * Adds the hint to an insert, with more parameters behind those: the channel, whether to notify, and the facts.
 * @param given joins the facts of several jobs, as `f.facts`; by default those of one job are the last parameter
 */
function hintingInsert(insert: string, parameters: number, given?: string): string {
  const [channel = '', notify, facts] = [1, 2, 3].map((n) => `$${parameters + n}`);
  const told =
    given === undefined
      ? `select array[${hintedFacts(`${facts}::text`)}] as told from made offset 0`
      : `select array_agg(${hintedFacts('f.facts')} order by made.seq) as told from made${given}`;
  return `with made as (${insert} returning id, seq, created)
select case when not (${notify}::boolean and ${mayHint(channel)} and pg_notify(${channel}, '[' || array_to_string(h.told, ',') || ']')::text = '') then h.told end as told
from (${told}) h`;
}

/**
 * Builds an insert. A column with the same value in all rows is passed once: most are, if the jobs are of one
 * task.
 */
function insertStatement(
  schema: string,
  rows: readonly JobRow[],
  values: (string | null)[],
  home = '',
): string {
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
    lists.length > 0
      ? `select ${list} from unnest(${lists.map((of) => of.list).join(', ')}) as x (${lists.map(({ name }) => name).join(', ')})${home}`
      : home === ''
        ? `values (${list})`
        : `select ${list} from ${home.slice(2)}`;
  return `insert into ${schema}.queue (${used.map(({ name }) => name).join(', ')}) ${from}`;
}

/** Passes texts as one text that is split at line ends: JSON has none, and no text must be quoted. */
function listOf(texts: readonly (string | null)[], values: (string | null)[]): string {
  const cuttable = texts.every((text) => text !== null && !text.includes('\n'));
  return cuttable
    ? `string_to_array($${values.push(texts.join('\n'))}::text, chr(10))`
    : `$${values.push(arrayLiteral(texts))}::text::text[]`;
}

/** Casts through text any type that a driver may encode in its own way. */
function cast(parameter: string, type: string): string {
  return type === 'text' || type === 'uuid' ? `${parameter}::${type}` : `${parameter}::text::${type}`;
}

function uniqueCall(
  schema: string,
  rows: readonly JobRow[],
  options: Readonly<Record<'again' | 'bound', boolean>>,
  values: (string | null)[],
): string {
  const json = rows.map((row, n) => {
    const { key, onConflict, maxWaitMs } = row.unique ?? {};
    return jobJson(row, { n, unique_key: key, mode: onConflict, max_wait_ms: maxWaitMs, ...options });
  });
  const parameter = `$${values.push(`[${json.join(',')}]`)}::text::jsonb`;
  return `select u.job_id::text as id, u.ordinal as n, u.outcome, u.stored::text as stored from ${schema}.enqueue_unique(${parameter}) u`;
}

/** Writes PostgreSQL's text form of an array. */
function arrayLiteral(values: readonly (string | null)[]): string {
  const quoted = values.map((value) =>
    value === null ? 'NULL' : `"${value.replace(/["\\]/g, String.raw`\$&`)}"`,
  );
  return `{${quoted.join(',')}}`;
}
