import type { Need } from '@pgqueue/core';
import type { Target } from '../../connection/target.ts';
import { ask } from '../../connection/target.ts';
import { explaining } from '../enqueue/enqueue.ts';
import type { Lease } from '../lease.ts';
import type { SettleRequest, SettleVerdict } from '../settle.ts';
import { lockMs, settle } from '../settle.ts';

/** A step that the step of a running job waited for. */
export interface NeededStep extends Pick<Need, 'outcome' | 'done' | 'failed' | 'other'> {
  readonly name: string;
  readonly step: number;
}

/** Lists the steps that the step of a running job waited for. Empty also when the lease was lost. */
export function readNeeds({ query, schema }: Target, { id, token }: Lease): Promise<readonly NeededStep[]> {
  return query<NeededStep>(
    `select n.name, n.step, n.outcome, n.done, n.failed, n.other from ${schema}.needs_of($1, $2) n`,
    [id, token],
  );
}

/** The end of a job of a flow, with its result; of a signal, with its value. */
export interface EndInStep {
  /** For a signal: the flow. */
  readonly job: string;
  readonly outcome: 'done' | 'dead' | 'cancelled' | 'expired' | 'erased';
  readonly result: unknown;
  /** Task of a job that is done; null for a signal, and for others. */
  readonly task: string | null;
}

/** Place of a page of ends: up to `max` of them, behind the id `after`. */
export interface PagePlace {
  readonly after: string | null;
  readonly max: number;
}

/** A page of ends, in the order of ids, with its length in characters. */
export interface PageOfEnds {
  readonly ends: readonly EndInStep[];
  readonly length: number;
}

/**
 * Reads a page of the ends of a needed step's jobs. Undefined: the lease was lost. That is read in the same
 * snapshot, or the empty page of a lost lease would look like the last one.
 */
export async function readNeedPage(
  { query, schema }: Target,
  { id, token }: Lease,
  { step, after, max }: PagePlace & { readonly step: number },
): Promise<PageOfEnds | undefined> {
  const [row] = await query<{ readonly ends: string | null; readonly held: boolean }>(
    `select (select json_agg(r order by r.job)::text from ${schema}.need_results($1, $2, $3, $4, $5) r) as ends,
       exists (select from ${schema}.needs_of($1, $2)) as held`,
    [id, token, step, after, max],
  );
  return row?.held === true ? pageOf(row.ends) : undefined;
}

/** Reads a page that came as one text. */
export function pageOf(text: string | null): PageOfEnds {
  const ends = text === null ? [] : (JSON.parse(text) as readonly EndInStep[]);
  return { ends, length: text?.length ?? 0 };
}

/**
 * Adds jobs (a JSON list) to the step of a running job. False: the lease was lost, and nothing was added. Safe to
 * repeat, with `again`: an id that exists, or has ended, is left alone.
 * @throws {PgQueueError} `invalid_job`, `too_many_pending`
 */
export async function addJobs(
  target: Target,
  { id, token }: Lease,
  { jobs, again }: { readonly jobs: string; readonly again: boolean },
): Promise<boolean> {
  const values = [id, token, jobs, again];
  return (await explaining(() => ask(target, 'add_jobs($1, $2, $3::text::jsonb, $4)', values))) === true;
}

/**
 * Ends a running job as done, and adds jobs to its step, with one transaction. Answers as {@link settle} does, and
 * waits for locks as its `impatient` calls do. `repeat`: the reply of an earlier call may have been lost.
 * @throws {PgQueueError} `invalid_job`, `too_many_pending`
 */
export async function fanOut(
  target: Target,
  { jobs, ...settlement }: SettleRequest,
  { repeat = false }: { readonly repeat?: boolean } = {},
): Promise<ReadonlyMap<string, SettleVerdict>> {
  const { id, token, data } = settlement;
  const { query, schema } = target;
  // names patience.ms in an argument: so it is set before the call
  const [row] = await explaining(() =>
    query<{ readonly settled: boolean }>(
      `select ${schema}.fan_out($1, $2, $3, nullif($4::text, patience.ms)::jsonb) as settled
       from (select set_config('lock_timeout', '${lockMs}', true) as ms) as patience`,
      [id, token, data, jobs ?? '[]'],
    ),
  );
  if (row?.settled === true) return new Map([[id, 'done']]);
  return repeat ? settle(target, [settlement], { repeat, impatient: true }) : new Map();
}
