// A handler whose waits hold no slot, and what must be true of them under faults.
import { randomUUID } from 'node:crypto';
import { PgQueueError } from '@pgqueue/core';
import type { JobContext } from '@pgqueue/core';
import type { conduct } from '../conduct.ts';
import { noteDrawn, noteWrong, tell } from './ledger.ts';
import { flowKid } from './tasks.ts';
import type { z } from 'zod';

type Conduct = z.output<typeof conduct>;

/** Waits as its payload says. `retried`: its flow was, which makes a dead job begin without its memo. */
export async function waitAsTold(
  { job, ...ctx }: Pick<JobContext, 'job' | 'step' | 'sleep' | 'all' | 'waitForSignal'>,
  { flow, durable }: Conduct,
  retried: boolean,
): Promise<void> {
  if (durable === undefined) return;
  const drawn = await ctx.step('draw', () => randomUUID());
  const values = await noteDrawn(job.id, drawn);
  if (values > 1 && !retried) await noteWrong(flow, `a step of job ${job.id} returned ${values} values`);
  await ctx.sleep('nap', durable.napMs);
  if (durable.waits) {
    const came = await ctx.waitForSignal('never', { timeout: '200ms' }).catch((error: unknown) => {
      if (error instanceof PgQueueError && error.code === 'signal_timeout') return undefined;
      throw error;
    });
    if (came !== undefined) await noteWrong(flow, `job ${job.id} got a signal that nobody sent`);
  }
  for (let n = 0; n < durable.told; n += 1) {
    void tell(job.id, `told-${n}`);
    const came = await ctx.waitForSignal(`told-${n}`);
    if (came !== 'now' && came !== 'late') await noteWrong(flow, `job ${job.id} was told ${String(came)}`);
  }
  const kids = Array.from({ length: durable.kids }, (_, n) => flowKid.job({ n }));
  const ends = await ctx.all('kids', kids);
  const told = ends.map((end) => (end.outcome === 'done' ? end.result.n : end.outcome));
  if (told.join() !== kids.map((_, n) => n).join()) {
    await noteWrong(flow, `job ${job.id} waited for ${kids.length} jobs, and was told ${told.join()}`);
  }
}
