// A process whose jobs add jobs to their step, by the functions that any language would call.
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { PulledJob } from '@pgqueue/worker';
import { createPuller } from '@pgqueue/worker';
import pg from 'pg';
import { actorName, run, url } from '../../../support/actors/messages.ts';
import { childrenOf, conduct, hangMs } from '../conduct.ts';
import type { Child } from '../conduct.ts';
import { closeLedger, note, noteWrong } from './ledger.ts';

const puller = createPuller({
  connectionString: url,
  node: actorName,
  slots: 10,
  heartbeatMs: 300,
  lostAfterMs: 1_500,
  queryTimeoutMs: 5_000,
  tasks: ['flow-grow'],
});
const pool = new pg.Pool({ connectionString: url, max: 4 });
pool.on('error', () => {}); // expected: connections are cut

/** Calls a function until it answers; its last parameter says that it may have been executed before. */
async function persistently(text: string, values: readonly unknown[], again = false): Promise<unknown> {
  for (let tries = 1; ; tries += 1) {
    try {
      const { rows } = await pool.query<{ answer: unknown }>(text, [...values, again || tries > 1]);
      return rows[0]?.answer;
    } catch (error) {
      if (tries === 20) throw error;
      await delay(100);
    }
  }
}

async function runJob(job: PulledJob): Promise<void> {
  const { flow, step, ms, fails, dies, hangs, grows, ...rest } = conduct.parse(job.payload);
  const { id, token } = job;
  try {
    const retries = await note({ id, flow, step }, 'begin');
    await checkNeeds(job, flow, retries);
    await delay(hangs && job.tries === 0 && job.crashes === 0 ? hangMs : ms);
    if (dies > retries) {
      await puller.nack(job, new Error(`until ${dies} retries`));
      return;
    }
    if (job.tries < fails) throw new Error(`fails ${fails} times`);
    if (grows?.how === 'fan_out') {
      await note({ id, flow, step }, 'ok');
      const jobs = JSON.stringify(childrenOf({ flow, step, ms, ...rest }, grows.children));
      for (let times = grows.twice ? 2 : 1; times > 0; times -= 1) {
        await persistently('select pgqueue.fan_out($1, $2, null, $3::jsonb) as answer, $4::boolean', [
          id,
          token,
          jobs,
        ]);
      }
      await puller.ack(job); // stale: this is only for the puller to let go of it
      return;
    }
    if (grows !== undefined) {
      // each attempt adds its own
      const children: readonly Child[] = grows.children.map((child) => ({ ...child, id: randomUUID() }));
      const jobs = JSON.stringify(childrenOf({ flow, step, ms, ...rest }, children));
      for (let times = grows.twice ? 2 : 1; times > 0; times -= 1) {
        const text = 'select pgqueue.add_jobs($1, $2, $3::jsonb, $4) as answer';
        const held = await persistently(text, [id, token, jobs], grows.twice && times === 1);
        if (held !== true) return;
      }
    }
    await note({ id, flow, step }, 'ok');
    await puller.ack(job, { by: actorName });
  } catch (error) {
    await puller.nack(job, error).catch(() => 'stale');
  }
}

/** Looks at what the job's step has waited for, as its handler would. */
async function checkNeeds({ id, token }: PulledJob, flow: string, retries: number): Promise<void> {
  const { rows } = await pool.query<{ step: number; condition: string; outcome: string | null }>(
    'select step, condition, outcome from pgqueue.needs_of($1, $2)',
    [id, token],
  );
  // after a retry, a step that has run may be open again
  if (rows.length === 0 || retries > 0) return;
  const met = rows.map(({ condition, outcome }) => {
    if (condition === 'ended') return outcome !== null;
    return condition === 'done' ? outcome === 'done' : outcome === 'failed' || outcome === 'cancelled';
  });
  if (!met.includes(true)) await noteWrong(flow, `job ${id} began before its needs: ${JSON.stringify(rows)}`);
}

const stopping = new AbortController();
async function pull(): Promise<void> {
  while (!stopping.signal.aborted) {
    try {
      const jobs = await puller.claim({ max: 10 - puller.held, waitMs: 500 });
      for (const job of jobs) void runJob(job);
    } catch {
      await delay(100);
    }
    while (puller.held >= 10 && !stopping.signal.aborted) await delay(10);
  }
}

let pulling: Promise<void> | undefined;
await run({
  start: () => {
    pulling = pull();
    return Promise.resolve();
  },
  stop: async () => {
    stopping.abort();
    await pulling;
    await puller.close();
    await pool.end();
    await closeLedger();
  },
});
