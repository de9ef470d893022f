import type { HandlerOf } from '@pgqueue/core';
import { defineTask } from '@pgqueue/core';
import { z } from 'zod';
import type { durableTask } from '../actors/durable-task.ts';

const leaf = defineTask({ name: 'leaf', payload: z.object({ n: z.int() }), retry: { maxTries: 1 } });

/** Has steps and waits of every kind, in a process of its own. */
export const handler: HandlerOf<typeof durableTask> = async (_payload, ctx) => {
  const step = await ctx.step('step', () => 'once');
  await ctx.sleep('sleep', 50);
  const leaves = await ctx.all('leaves', [leaf.job({ n: 1 }), leaf.job({ n: 9 })]);
  const ok = await ctx.waitForSignal('ok', { schema: z.object({ by: z.string() }) });
  return { step, leaves, ok, tries: ctx.job.tries };
};
