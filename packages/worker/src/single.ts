import type { SingleTaskHandler } from '@pgqueue/core';
import { isIsolated } from '@pgqueue/core';
import type { Attempt } from './attempt.ts';
import type { Unit } from './bundles.ts';
import { keptCheckpoint } from './checkpoint.ts';
import { contextOf } from './context.ts';
import { rejectionsTold } from './floating.ts';
import type { Ending } from './ending.ts';
import type { RunParts } from './run.ts';
import { checkPayload, timeOut } from './run.ts';

/**
 * Runs the jobs of a unit one after another in their one slot. Mostly that is one: the database gives a node the jobs of a bundle one
 * by one where the task's handler takes no bundles.
 */
export async function runSingly(
  parts: RunParts,
  found: SingleTaskHandler | undefined,
  { unit, claimedAt }: { readonly unit: Unit; readonly claimedAt: number },
): Promise<void> {
  for (const job of unit) {
    const attempt = parts.begin(job, claimedAt, { timeout: (ended) => timeOut(parts, [ended]) });
    parts.end([{ attempt, ending: await handle(parts, found, attempt) }]);
    parts.leave(attempt);
  }
}

/** The payload on its way to the handler, and what the handler made of it; never throws. */
async function handle(
  parts: RunParts,
  found: SingleTaskHandler | undefined,
  attempt: Attempt,
): Promise<Ending> {
  const { job } = attempt;
  if (found === undefined) return { kind: 'invalid', problems: [`this node has no task ${job.task}`] };
  const checked = await checkPayload(found.task, job);
  if (checked.kind !== 'payload') return checked;
  try {
    const { payload } = checked;
    const checkpoint = await keptCheckpoint(parts, found.task, attempt);
    const context = contextOf(parts, attempt, { task: found.task, checkpoint });
    const { handler } = found;
    if (isIsolated(handler)) return await parts.isolation.run(handler, payload, context);
    const returned = parts.call([attempt], () => handler(payload, context));
    const value = await returned;
    if (attempt.floats) await rejectionsTold();
    return { kind: 'returned', value };
  } catch (error) {
    return { kind: 'threw', error };
  }
}
