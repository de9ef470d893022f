// A worker process of the proof of flows.
import { setTimeout as delay } from 'node:timers/promises';
import { randomUUID } from 'node:crypto';
import type { NewJob } from '@pgqueue/core';
import { fanOut, giveUp, implement } from '@pgqueue/core';
import { createWorker } from '@pgqueue/worker';
import { actorName, run, url } from '../../../support/actors/messages.ts';
import type { Child, Conduct } from '../conduct.ts';
import { hangMs } from '../conduct.ts';
import { closeLedger, note, noteText } from './ledger.ts';
import { waitAsTold } from './durable.ts';
import { flowKid, flowStep } from './tasks.ts';

function jobsOf({ flow, step }: Conduct, children: readonly Child[]): readonly NewJob[] {
  return children.map(({ id, queue, ms }) => flowStep.job({ flow, step, ms }, { id, queue }));
}

const worker = createWorker({
  connectionString: url,
  node: actorName,
  concurrency: 20,
  heartbeatMs: 300,
  lostAfterMs: 1_500,
  queryTimeoutMs: 5_000,
  tasks: [
    implement(flowKid, ({ n }, { job }) => {
      if (n % 2 === 1 && job.tries === 0) throw new Error('an odd one fails once');
      return { n };
    }),
    implement(flowStep, async (conduct, ctx) => {
      const { job, signal, transaction, addJobs } = ctx;
      const { flow, step, ms, fails, dies, hangs, effect, grows } = conduct;
      const doing = { id: job.id, flow, step };
      const retries = await note(doing, 'begin');
      if (hangs && job.tries === 0 && job.crashes === 0) await delay(hangMs);
      else if (ms > 0) await delay(ms, undefined, { signal });
      if (dies > retries) return giveUp(`until ${dies} retries`);
      if (job.tries < fails) throw new Error(`fails ${fails} times`);
      await waitAsTold(ctx, conduct, retries > 0);
      if (grows?.how === 'add') {
        // each attempt adds its own
        const jobs = jobsOf(
          conduct,
          grows.children.map((child) => ({ ...child, id: randomUUID() })),
        );
        await addJobs(jobs);
      }
      await note(doing, 'ok');
      if (grows?.how === 'fan_out') return fanOut(jobsOf(conduct, grows.children), { by: actorName });
      if (effect) await transaction((client) => client.query(noteText, [job.id, flow, step, 'effect']));
      return job.tries % 2 === 0 ? { by: actorName } : undefined;
    }),
  ],
});
await run({
  start: () => worker.start(),
  stop: async () => {
    await worker.stop({ drainMs: 1_000 });
    await closeLedger();
  },
});
