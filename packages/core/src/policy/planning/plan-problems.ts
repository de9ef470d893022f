import type { Plan } from '../plan.ts';
import type { Candidate, Snapshot } from '../snapshot.ts';
import { openSlots } from './slots.ts';

/** Returns the problems of a plan, up to 5. Empty: the plan may be written. */
export function planProblems(snapshot: Snapshot, plan: Plan): readonly string[] {
  if (!Array.isArray(plan?.dispatch)) return ['the policy did not return a plan'];
  const problems: string[] = [];
  const dispatch: Plan['dispatch'] = plan.dispatch;
  if (plan.state === undefined || plan.state === null || typeof plan.state !== 'object') {
    problems.push('the plan has no state');
  }
  if (dispatch.length > snapshot.batchMax) {
    problems.push(`${dispatch.length} jobs, where ${snapshot.batchMax} are allowed`);
  }
  const waiting = new Map<string, Candidate>();
  for (const lane of snapshot.lanes) for (const job of lane.jobs) waiting.set(job.id, job);
  const slots = openSlots(snapshot);
  for (const { id, pool, bundle } of dispatch) {
    if (problems.length >= 5) break;
    const job = waiting.get(id);
    if (job === undefined) {
      problems.push(`job ${id} is no candidate, or is there twice`);
      continue;
    }
    waiting.delete(id);
    if (bundle !== undefined && bundle !== id) continue;
    const fit = slots.take(pool, job);
    if (fit !== 'fits') problems.push(`job ${id} has no place in pool ${pool}: ${fit}`);
  }
  return problems;
}
