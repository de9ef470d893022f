import { createHash } from 'node:crypto';
import type { FlowRow } from '@pgqueue/core/internal';
import { PgQueueError } from '@pgqueue/core';
import type { Target } from '../../connection/target.ts';
import { ask } from '../../connection/target.ts';
import { explaining } from '../enqueue/enqueue.ts';
import type { Lease } from '../lease.ts';
import { settle } from '../settle.ts';
import type { PageOfEnds, PagePlace } from './results.ts';
import { pageOf } from './results.ts';
import { flowJson } from './start.ts';

/**
 * Answer to {@link suspendJob}. `ended`: the flow has ended, and the job still runs. `cancelled`: the job's
 * cancellation was asked for, and it has ended. Undefined: the lease was lost, and nothing was changed.
 */
export type Suspension = 'suspended' | 'ended' | 'cancelled' | undefined;

/**
 * Suspends a running job until a flow has ended, and keeps its checkpoint (JSON text). A flow that exists is
 * waited for as it is. `repeat`: the reply of an earlier call may have been lost.
 * @throws {PgQueueError} `invalid_job`, `too_many_pending`
 */
export async function suspendJob(
  target: Target,
  { id, token }: Lease,
  {
    checkpoint,
    flow,
    repeat = false,
  }: { readonly checkpoint: string; readonly flow: FlowRow; readonly repeat?: boolean },
): Promise<Suspension> {
  const values = [id, token, checkpoint, flowJson(flow)];
  const verdict = await explaining(() =>
    ask<Exclude<Suspension, undefined>>(
      target,
      'suspend_job($1, $2, $3::text::jsonb, $4::text::jsonb)',
      values,
    ),
  );
  if (verdict !== undefined || !repeat) return verdict;
  // the lease is gone: an earlier call may have suspended the job, which is a snooze under its token
  const snooze = { id, token, outcome: 'snooze', delayMs: 0, data: null } as const;
  return (await settle(target, [snooze], { repeat })).has(id) ? 'suspended' : undefined;
}

/**
 * Reads a page of the ends of the jobs of a flow that a running job has waited for. Undefined: the lease was lost.
 * The job must have a row of its own.
 */
export async function readWaitedPage(
  { query, schema }: Target,
  { id, token }: Lease,
  { flow, after, max }: PagePlace & { readonly flow: string },
): Promise<PageOfEnds | undefined> {
  const [row] = await query<{ readonly ends: string | null; readonly held: boolean }>(
    `select (select json_agg(r order by r.job)::text from ${schema}.own_results($1, $2, $3, 0, $4, $5) r) as ends,
       exists (select from ${schema}.leased($2, array[$1::uuid])) as held`,
    [id, token, flow, after, max],
  );
  return row?.held === true ? pageOf(row.ends) : undefined;
}

/** Reads the database's clock, in Unix milliseconds. */
export async function readClock({ query }: Pick<Target, 'query'>): Promise<number> {
  const [row] = await query<{ readonly ms: number }>('select date_part($1, clock_timestamp()) * 1000 as ms', [
    'epoch',
  ]);
  if (row === undefined) throw new PgQueueError('invariant', 'the clock came back without a row');
  return row.ms;
}

/** Returns the id of the flow in which a job waits for a signal, as `signal_flow_of` makes it. */
export function signalFlowId(job: string, name: string): string {
  const hex = createHash('md5').update(`${job.toLowerCase()}:signal:${name}`).digest('hex');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

/**
 * Gives a job the value (JSON text) of a signal that its handler waits for, or will wait for; the first value wins.
 * `ended`: the wait for it is over. `unknown`: there is no such job that has not ended.
 * @throws {PgQueueError} `installation`: it is on its way to another one
 */
export async function signalJob(
  { query, schema }: Target,
  { job, name, value }: { readonly job: string; readonly name: string; readonly value: string },
): Promise<'signalled' | 'repeated' | 'ended' | 'unknown'> {
  const [answer] = await query<{ readonly outcome: 'signalled' | 'repeated' | 'ended' | 'busy' | 'unknown' }>(
    `select ${schema}.signal_job($1::uuid, $2::text, $3::text::jsonb) as outcome`,
    [job, name, value],
  );
  if (answer === undefined) throw new PgQueueError('invariant', `no answer for a signal of job ${job}`);
  if (answer.outcome !== 'busy') return answer.outcome;
  throw new PgQueueError(
    'installation',
    `job ${job} is busy: it is on its way to another installation. Signal it again in a moment; if that does not help, go on with the move of its key`,
    { data: { id: job } },
  );
}
