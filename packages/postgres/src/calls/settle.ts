import { PgQueueError } from '@pgqueue/core';
import { channelName, mayHint } from '../hints/hints.ts';
import type { Target } from '../connection/target.ts';
import { askIds } from '../connection/target.ts';

/** The end of one attempt. `data` is the result of a done job or the error of a failed one. */
export interface SettleRequest {
  readonly id: string;
  readonly token: string;
  readonly outcome: 'done' | 'retry' | 'dead' | 'snooze' | 'cancelled';
  /** For retry and snooze. */
  readonly delayMs: number | null;
  /** JSON text, without NUL. */
  readonly data: string | null;
  /** Time that the job waited for a slot after its claim, in milliseconds: no part of its run. Default 0. */
  readonly waitedMs?: number;
  /** Jobs that a done job adds to its step, as a JSON list. Only `fanOut` takes them. */
  readonly jobs?: string | undefined;
}

/** Outcome of an accepted settlement. `repeated`: an earlier call with the same token had been accepted. */
export type SettleVerdict = 'done' | 'retry' | 'dead' | 'snooze' | 'cancelled' | 'repeated';

/**
 * Ends attempts, each fenced by its token: the SQL function `settle` (its SQL says why it is safe). Commits
 * synchronously. An id that is missing from the answer was stale: its lease had been lost, and nothing was
 * changed.
 */
export async function settle(
  target: Target,
  settlements: readonly SettleRequest[],
  { repeat = false, impatient = false }: SettleOptions = {},
): Promise<ReadonlyMap<string, SettleVerdict>> {
  if (settlements.length === 0) return new Map();
  const text = textOf(target, { impatient });
  return verdictsOf(await target.query<Row>(text, valuesOf(settlements, repeat)));
}

/** Options of a settlement. */
export interface SettleOptions {
  /** The reply of an earlier call with any of these tokens was lost. Default false. */
  readonly repeat?: boolean;
  /**
   * Waits up to {@link lockMs} for locks of other transactions; then the server refuses the whole call by
   * 55P03, and nothing was changed. `unlockedJobs` says which jobs can be settled. Default false: waits as
   * long as the role waits for locks, and a query may take.
   */
  readonly impatient?: boolean;
}

/**
 * Longest wait for a lock, in milliseconds. Longer than pgqueue holds its own locks, except on a server that
 * hardly commits.
 */
export const lockMs = 200;

/** Returns the ids of the given leases whose jobs no other transaction has locked, or that are lost. */
export function unlockedJobs(
  target: Target,
  leases: readonly Pick<SettleRequest, 'id' | 'token'>[],
): Promise<ReadonlySet<string>> {
  const values = [leases.map(({ id }) => id), leases.map(({ token }) => token)];
  return askIds(target, 'unlocked_jobs($1::uuid[], $2::uuid[])', values);
}

/**
 * Settles one attempt or a few, with a hint for the schedulers in the same transaction, which they receive
 * one round trip sooner. Commits with a hint wait for each other, so there is one at a time in the whole
 * database: if another one is under way, `hinted` is false, and the caller must send the hint. Impatient, as
 * in `SettleOptions`.
 */
export async function settleAndHint(
  target: Target,
  settlements: readonly SettleRequest[],
): Promise<{ readonly verdicts: ReadonlyMap<string, SettleVerdict>; readonly hinted: boolean }> {
  const text = textOf(target, { also: hint, impatient: true });
  const rows = await target.query<Row & { readonly hinted: boolean }>(text, [
    ...valuesOf(settlements, false),
    channelName(target.schema, 'done'),
  ]);
  return { verdicts: verdictsOf(rows), hinted: rows.some(({ hinted }) => hinted) };
}

/**
 * Settles within a transaction of the caller, which holds the job's rows from then on: no node can take the
 * job over, whatever becomes of this one. So the server ends that transaction when it has been idle for
 * `idleMs`, or for the timeout set before, whichever is shorter.
 */
export async function settleWithin(
  target: Target,
  settlements: readonly SettleRequest[],
  idleMs: number,
): Promise<ReadonlyMap<string, SettleVerdict>> {
  const values = [...valuesOf(settlements, false), Math.round(idleMs)];
  return verdictsOf(await target.query<Row>(textOf(target, { also: idle }), values));
}

interface Row {
  readonly id: string;
  readonly verdict: SettleVerdict;
}

/** Additional columns of each row. */
const hint = `, case when ${mayHint('$8')} then pg_notify($8, case when bool_and(verdict = 'done') over () then string_agg(job_id::text, ',') over () else '' end)::text = '' else false end as hinted`;
const idle = `, set_config('idle_in_transaction_session_timeout', least($8::float8,
  nullif(extract(epoch from current_setting('idle_in_transaction_session_timeout')::interval) * 1000, 0))::bigint::text, true) as idle`;

function textOf(
  { schema }: Target,
  { also = '', impatient = false }: { readonly also?: string; readonly impatient?: boolean },
): string {
  const repeat = impatient ? "($6::boolean or patience.ms = '')" : '$6';
  // names of one word: plug-ins of a handler's library may rename the others
  return `select job_id as id, verdict${also} from ${sourceOf(impatient)}${schema}.settle($1::uuid[], $2::uuid[], $3::text[], $4::float8[], $5::text[], ${repeat}, p_waited_ms => $7::float8[])`;
}

/**
 * Sets lock_timeout for this statement alone. The caller must name `patience.ms` in an argument of the
 * function, so that it is set before the call; it is never empty.
 */
function sourceOf(impatient: boolean): string {
  return impatient
    ? `(select set_config('lock_timeout', '${lockMs}', true) as ms) as patience, lateral `
    : '';
}

function valuesOf(settlements: readonly SettleRequest[], repeat: boolean): readonly unknown[] {
  if (settlements.some(({ jobs }) => jobs !== undefined))
    throw new PgQueueError('invariant', 'settle can not add jobs: fanOut does');
  return [
    settlements.map(({ id }) => id),
    settlements.map(({ token }) => token),
    settlements.map(({ outcome }) => outcome),
    settlements.map(({ delayMs }) => delayMs),
    settlements.map(({ data }) => data),
    repeat,
    settlements.map(({ waitedMs = 0 }) => waitedMs),
  ];
}

function verdictsOf(rows: readonly Row[]): ReadonlyMap<string, SettleVerdict> {
  return new Map(rows.map(({ id, verdict }) => [id, verdict]));
}
