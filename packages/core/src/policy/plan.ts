import type { Fit } from './slots.ts';
import { openSlots } from './slots.ts';
import type { Candidate, Snapshot } from './snapshot.ts';

/** Why a candidate is not in the plan; a policy may have reasons of its own. */
export type HoldReason = Exclude<Fit, 'fits'> | 'batch_full' | (string & {});

/** A job to dispatch, and where. */
export interface PlannedJob {
  readonly id: string;
  /** The pool whose nodes are to run it. */
  readonly pool: string;
}

/** A policy's answer to a snapshot. */
export interface Plan<State> {
  /** In the order in which the jobs are to be claimed. */
  readonly dispatch: readonly PlannedJob[];
  /** How many of the candidates are held, by reason. */
  readonly held: Readonly<Record<string, number>>;
  /** The state for the next plan: plain JSON. */
  readonly state: State;
}

/** What is wrong with a plan, at most the first few problems; empty for one that may be written. */
export function planProblems(snapshot: Snapshot, plan: Plan<unknown>): readonly string[] {
  const problems: string[] = [];
  if (!Array.isArray(plan?.dispatch)) return ['the policy did not return a plan'];
  const dispatch: readonly PlannedJob[] = plan.dispatch;
  if (plan.state === undefined) problems.push('the plan has no state');
  if (dispatch.length > snapshot.batchMax) {
    problems.push(`${dispatch.length} jobs, where ${snapshot.batchMax} are allowed`);
  }
  const waiting = new Map<string, Candidate>(snapshot.candidates.map((job) => [job.id, job]));
  const slots = openSlots(snapshot);
  for (const { id, pool } of dispatch) {
    if (problems.length >= 5) break;
    const job = waiting.get(id);
    if (job === undefined) {
      problems.push(`job ${id} is no candidate, or is there twice`);
      continue;
    }
    waiting.delete(id);
    const fit = slots.take(pool, job);
    if (fit !== 'fits') problems.push(`job ${id} has no place in pool ${pool}: ${fit}`);
  }
  return problems;
}
