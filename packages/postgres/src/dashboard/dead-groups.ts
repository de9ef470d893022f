import { createHash } from 'node:crypto';
import { errorTexts } from '@pgqueue/core/internal';
import type { Database } from '../connection/database.ts';
import type { DeadFilter, DeadJob } from '../reads/dead.ts';
import { parseCursor } from '../reads/dead.ts';

/** A dead job, with the group of its error. */
export interface GroupedDead extends Omit<DeadJob, 'uniqueKey'> {
  readonly group: string;
}

/** A filter of dead jobs: a job must match every given field. */
export interface GroupedFilter extends Omit<DeadFilter, 'olderThanMs' | 'newerThanMs'> {
  readonly group?: string;
  /** Died at this time or later. */
  readonly since?: Date;
  /** Died before this time. */
  readonly until?: Date;
}

/** One page of the dead jobs that match a filter. */
export interface GroupedOptions extends GroupedFilter {
  /** The `next` of the previous page. */
  readonly after?: string;
  readonly limit: number;
  /** Maximum number of dead jobs that one page reads. */
  readonly walkMax: number;
  /** The earliest death first, instead of the latest. */
  readonly oldestFirst?: boolean;
  /** Leave out jobs that died later. */
  readonly upTo?: Date;
}

/** A page of dead jobs. */
export interface GroupedPage {
  readonly items: readonly GroupedDead[];
  readonly next: string | null;
  readonly seen: number;
  /** Death of the last job that was read, if the page read as many as it may; else null. */
  readonly lookedTo: Date | null;
}

/**
 * Returns a page in the order of death. Served by dead_letter_died: reads up to `walkMax` rows, however few
 * match.
 */
export async function listGroupedDead(database: Database, options: GroupedOptions): Promise<GroupedPage> {
  const { limit, walkMax, group } = options;
  const narrow = [options.queue, options.task, options.reason, group].every((part) => part === undefined);
  const max = narrow ? Math.min(walkMax, limit + 1) : walkMax;
  const rows = await walk(database, options, max);
  const fitting = rows.flatMap(({ fits, ...row }) => {
    if (!fits) return [];
    const own = groupOf(row).group;
    return group === undefined || own === group ? [{ ...row, group: own }] : [];
  });
  const shown = fitting.slice(0, limit);
  const last = shown.at(-1);
  const toItem = ({ diedUs: _us, ...item }: Walked & { group: string }): GroupedDead => item;
  if (fitting.length > limit && last !== undefined) {
    return { items: shown.map(toItem), next: cursorOf(last), seen: rows.length, lookedTo: null };
  }
  const end = rows.length >= max ? rows.at(-1) : undefined;
  return {
    items: shown.map(toItem),
    next: end === undefined ? null : cursorOf(end),
    seen: rows.length,
    lookedTo: end?.died ?? null,
  };
}

type Walked = Omit<GroupedDead, 'group'> & { readonly diedUs: string };

async function walk(
  { query, schema }: Database,
  { queue, task, reason, since, until, after, oldestFirst = false, upTo }: GroupedOptions,
  max: number,
): Promise<readonly (Walked & { readonly fits: boolean })[]> {
  const { us, id } = after === undefined ? { us: null, id: null } : parseCursor(after);
  const columns = `d.id, d.queue, d.task, d.key, d.reason, d.tries, d.crashes, d.created, d.died, d.node,
    extract(epoch from clock_timestamp() - d.died)::float8 * 1000 as "ageMs", d.errors -> -1 as "lastError",
    (extract(epoch from d.died) * 1000000)::bigint::text as "diedUs",
    ($4::text is null or d.queue = $4) and ($5::text is null or d.task = $5) and ($6::text is null or d.reason = $6) as fits`;
  const times = [upTo, since, until].map((at) => at?.toISOString() ?? null);
  const values = [us, id, max, queue ?? null, task ?? null, reason ?? null, ...times];
  const [behind, order] = oldestFirst ? ['>', 'asc'] : ['<', 'desc'];
  return query(
    `select ${columns} from ${schema}.dead_letter d
     where d.died > '-infinity' and ($7::timestamptz is null or d.died <= $7) and ($8::timestamptz is null or d.died >= $8)
       and ($9::timestamptz is null or d.died < $9)
       and ($1::bigint is null or (d.died, d.id) ${behind} (timestamptz 'epoch' + $1::bigint * interval '1 microsecond', $2::uuid))
     order by d.died ${order}, d.id ${order} limit $3`,
    values,
  );
}

/**
 * Returns the group of a dead job: jobs of one queue, task and reason, whose errors have the same name and,
 * but for details, the same message. A message that is nothing but details is the job's own, whole.
 */
export function groupOf({ queue, task, reason, lastError }: Omit<GroupedDead, 'group' | 'diedUs'>): {
  readonly group: string;
  readonly name: string | null;
  readonly message: string;
} {
  const { name, message: own } = lastError === null ? { name: null, message: '' } : errorTexts(lastError);
  const shared = withoutDetails(own);
  const whole = JSON.stringify([queue, task, reason, name, shared]);
  const message = hasWords.test(shared) ? shared : own.slice(0, messageMax);
  return { group: createHash('sha256').update(whole).digest('hex').slice(0, 16), name, message };
}

const hasWords = /[\p{L}\p{N}]/u;

const messageMax = 300;

/**
 * Replaces the details of a message by `…`: ids, numbers, addresses, quoted text. They differ from job to
 * job.
 */
export function withoutDetails(message: string): string {
  return message
    .slice(0, 1_000)
    .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gi, '…')
    .replaceAll(/"[^"\n]{0,200}"|'[^'\n]{0,200}'|`[^`\n]{0,200}`/g, '…')
    .replaceAll(/\b0x[0-9a-f]+\b|\b[0-9a-f]{12,}\b/gi, '…')
    .replaceAll(/\d+(?:[.,:]\d+)*/g, '…')
    .replaceAll(/…(?:[-_.:/]?…)+/g, '…')
    .slice(0, messageMax);
}

function cursorOf({ diedUs, id }: Walked): string {
  return `${diedUs}_${id}`;
}
