import { answerOf } from '../answer.ts';
import type { Coalesce } from '../parts.ts';
import type { Hold } from '../policy.ts';
import { takesBundles } from './slots.ts';
import type { Candidate, Lane, Snapshot } from '../snapshot.ts';
import { own, poolOf } from '../snapshot.ts';

/**
 * Returns the hold of a job that waits for others to form a bundle with, or undefined. A bundle goes when it
 * is full, or by the age of its oldest job.
 */
export function coalescingHold(
  rules: readonly Coalesce[],
  { job, lane, snapshot }: { readonly job: Candidate; readonly lane: Lane; readonly snapshot: Snapshot },
): Hold | undefined {
  const { nowMs } = snapshot;
  if (job.alone === true || !takesBundles(own(snapshot.pools, poolOf(snapshot, job.queue)), job))
    return undefined;
  const rule = rules.find(({ when }) => answerOf('when', when(job)));
  if (rule === undefined) return undefined;
  const others = lane.jobs.filter(
    ({ id, task, version, alone }) =>
      id !== job.id && task === job.task && version === job.version && alone !== true,
  );
  const count = others.length + 1;
  const firstMs = others.reduce((first, { createdMs }) => Math.min(first, createdMs), job.createdMs);
  const untilMs = firstMs + rule.ageMs;
  if (count >= rule.max || untilMs <= nowMs) return undefined;
  const message = `it waits for more jobs of task ${job.task} and its key, to go together: ${count} of ${rule.max} are there`;
  return { gate: 'coalescing', message, untilMs };
}
