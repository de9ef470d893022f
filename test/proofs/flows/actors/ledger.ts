// The handlers' own part of the record, over connections that no fault cuts.
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { actorOptions } from '../../../support/actors/messages.ts';

const { ledgerUrl } = actorOptions as { readonly ledgerUrl: string };
const pool = new pg.Pool({ connectionString: ledgerUrl, max: 4, application_name: 'ledger' });
pool.on('error', () => {}); // expected: the server restarts

export const noteText = 'insert into proof.ran (job, flow, step, what) values ($1, $2, $3, $4)';

interface Doing {
  readonly id: string;
  readonly flow: string;
  readonly step: number;
}

/** Notes that a handler has begun or come to its good end; resolves to how often its flow was retried. */
export async function note({ id, flow, step }: Doing, what: 'begin' | 'ok'): Promise<number> {
  const { rows } = await pool.query<{ n: number }>(
    `with noted as (${noteText})
     select count(*)::integer as n from proof.retry where flow = $2 and answer = 'retried'`,
    [id, flow, step, what],
  );
  return rows[0]?.n ?? 0;
}

/** Notes something that must not be. */
export async function noteWrong(flow: string, what: string): Promise<void> {
  await pool.query('insert into proof.wrong (flow, what) values ($1, $2)', [flow, what]);
}

/** Notes a value that a job's step has returned; resolves to how many different ones there are. */
export async function noteDrawn(job: string, value: string): Promise<number> {
  await pool.query('insert into proof.drawn (job, value) values ($1, $2) on conflict do nothing', [
    job,
    value,
  ]);
  const { rowCount } = await pool.query('select from proof.drawn where job = $1', [job]);
  return rowCount ?? 0;
}

/**
 * Signals a job. Gives up after some tries, since the server may be gone, or this process: the client of the proof signals
 * all such jobs later.
 */
export async function tell(job: string, signal: string): Promise<void> {
  for (let tries = 0; tries < 5; tries += 1) {
    try {
      await pool.query(`select pgqueue.signal_job($1, $2, '"now"')`, [job, signal]);
      return;
    } catch {
      await delay(100);
    }
  }
}

export async function closeLedger(): Promise<void> {
  await pool.end();
}
