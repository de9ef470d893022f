// A producer process of the bench, loaded after leave.ts. Performs one operation after another, at its pace,
// until it is told to stop. Sometimes repeats an operation that got no answer.
import { setTimeout as delay } from 'node:timers/promises';
import { createOperator } from '@pgqueue/postgres';
import { openDatabase } from '@pgqueue/postgres/internal';
import { createProducer } from '@pgqueue/producer';
import { actorName as name, said, url } from '../../support/actors/messages.ts';
import type { JobSpec, OpSpec } from '../workload.ts';
import { chances, leaseMs, opSpec } from '../workload.ts';
import { config, openOwnHistory } from './config.ts';
import { jobOf } from './tasks.ts';

const write = openOwnHistory();
const queryTimeoutMs = 5_000;
const producer = createProducer({ connectionString: url, connectionsMax: 3, queryTimeoutMs });
const operator = createOperator({ connectionString: url, connectionsMax: 1, queryTimeoutMs });
/** The application's connections. */
const database = openDatabase({ connectionString: url, connectionsMax: 2, queryTimeoutMs });

/** Milliseconds of delay that the producer catches up after an outage; it skips the rest. */
const catchUpMs = 3_000;

class RolledBack extends Error {}

/**
 * Runs one transaction of the application: its own row and the jobs, both or neither. Resolves to `unknown`
 * if the COMMIT got no answer.
 */
async function inTransaction({ name: op, jobs, kind }: OpSpec): Promise<'ok' | 'fail' | 'unknown'> {
  let sealed = false;
  try {
    await database.transaction(async (client) => {
      await client.query('insert into chaos.application (op) values ($1) on conflict do nothing', [op]);
      await producer.with(client).enqueueMany(jobs.map(jobOf));
      if (kind === 'rollback') throw new RolledBack();
      sealed = true;
    });
    return 'ok';
  } catch {
    return sealed ? 'unknown' : 'fail';
  }
}

/** Inserts jobs by plain SQL, as a producer in any language can. */
async function bySql(jobs: readonly JobSpec[]): Promise<void> {
  await database.query(
    `insert into pgqueue.queue (id, task, queue, key, attributes, payload, timeout, max_tries, max_crashes)
     select id, task, queue, key, jsonb_build_object('tenant', tenant), payload, lease, 4, case task when 'poison' then 3 else 1000 end
     from jsonb_to_recordset($1) as x (id uuid, task text, queue text, key text, tenant text, payload jsonb, lease interval)
     on conflict (id) do nothing`,
    [
      JSON.stringify(
        jobs.map(({ id, kind, queue, key, tenant, n, ms, fails, pad }) => ({
          id,
          task: kind,
          queue,
          key,
          tenant,
          payload: { n, ms, fails, tenant, pad: 'x'.repeat(pad) },
          lease: `${kind === 'medium' ? 2 * leaseMs : leaseMs} milliseconds`,
        })),
      ),
    ],
  );
}

async function perform(op: OpSpec): Promise<'ok' | 'fail' | 'unknown'> {
  const { kind, jobs } = op;
  if (kind === 'transaction' || kind === 'rollback') return inTransaction(op);
  try {
    if (kind === 'sql') await bySql(jobs);
    else await producer.enqueueMany(jobs.map(jobOf));
    return 'ok';
  } catch {
    return 'unknown';
  }
}

async function enqueue(op: OpSpec, times: number): Promise<void> {
  const call = { type: 'enqueue', op: `${op.name}.${times}` } as const;
  write({ ...call, phase: 'invoke', ids: op.jobs.map(({ id }) => id) });
  const phase = await perform(op);
  write({ ...call, phase });
  // plain SQL can't be repeated: its rows may be there, and its jobs may have ended already
  const repeatable = op.kind === 'batch' || op.kind === 'single';
  if (phase === 'unknown' && repeatable && times < 3) await enqueue(op, times + 1);
}

async function cancelSome(jobs: readonly JobSpec[]): Promise<void> {
  for (const { id } of jobs.filter(({ cancel }) => cancel)) {
    const call = { type: 'cancel', op: `cancel-${id}` } as const;
    write({ ...call, phase: 'invoke', id });
    const phase = await operator.jobs.cancel([id]).then(
      () => 'ok' as const,
      () => 'unknown' as const,
    );
    write({ ...call, phase });
  }
}

const stopping = new AbortController();
process.on('message', (message) => {
  if (message === 'stop') stopping.abort();
});

async function produce(): Promise<void> {
  let next = 0;
  let due = performance.now();
  for (let n = 0; !stopping.signal.aborted; n += 1) {
    const op = opSpec(config, name, n, next);
    next += op.jobs.length;
    due = Math.max(due, performance.now() - catchUpMs) + (op.pause * 1_000) / config.perSecond;
    await enqueue(op, 1);
    const moment = chances(config.seed, name, 'pause', n)() * 50;
    if (op.jobs.some(({ cancel }) => cancel)) await delay(moment);
    await cancelSome(op.jobs);
    const leftMs = due - performance.now();
    if (leftMs > 0) await delay(leftMs);
  }
}

said({ type: 'ready' });
await produce();
await Promise.race([Promise.all([producer.close(), operator.close(), database.close()]), delay(5_000)]);
process.disconnect();
