import type { ClaimedJob, SingleTaskHandler } from '@pgqueue/core';
import { isIsolated } from '@pgqueue/core';
import type { Leased } from './attempt.ts';
import type { Unit } from './bundles.ts';
import { keptCheckpoint } from './checkpoint.ts';
import { contextOf } from './context.ts';
import { rejectionsTold } from './floating.ts';
import type { Ending } from './ending.ts';
import type { Checked, RunParts } from './run.ts';
import { checkPayload } from './run.ts';

/**
 * Runs the jobs of a unit one after another in their one slot. Mostly that is one: the database gives a node the jobs of a bundle one
 * by one where the task's handler takes no bundles. One function, since each that is awaited costs a small job a twentieth of its time.
 */
export async function runSingly(
  parts: RunParts,
  found: SingleTaskHandler | undefined,
  { unit, leased }: { readonly unit: Unit; readonly leased: Leased },
): Promise<void> {
  for (const job of unit) {
    const attempt = parts.begin(job, leased);
    let ending: Ending;
    try {
      const checking = found === undefined ? unknown(job) : checkPayload(found.task, job);
      const checked = 'kind' in checking ? checking : await checking;
      if (found === undefined || checked.kind !== 'payload') ending = checked as Exclude<Checked, Payload>;
      else {
        const { task, handler } = found;
        const { payload } = checked;
        const checkpoint = job.checkpoint === null ? null : await keptCheckpoint(parts, task, attempt);
        const context = contextOf(parts, attempt, { task, checkpoint });
        if (isIsolated(handler)) ending = await parts.isolation.run(handler, payload, context);
        else {
          const value: unknown = await parts.call([attempt], () => handler(payload, context));
          if (attempt.floats) await rejectionsTold();
          ending = { kind: 'returned', value };
        }
      }
    } catch (error) {
      ending = { kind: 'threw', error };
    }
    parts.end([{ attempt, ending }]);
    parts.leave(attempt);
  }
}

type Payload = Extract<Checked, { readonly kind: 'payload' }>;

function unknown({ task }: ClaimedJob): Exclude<Checked, Payload> {
  return { kind: 'invalid', problems: [`this node has no task ${task}`] };
}
