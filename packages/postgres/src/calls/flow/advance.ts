import type { Target } from '../../connection/target.ts';
import { ask } from '../../connection/target.ts';
import type { Leader } from '../sweeps.ts';

/** Input of {@link advanceFlows}. */
export interface AdvanceInput {
  /** Number from which to take tallies. */
  readonly from: number;
  /** Most tallies taken. */
  readonly max: number;
  /** The open flow behind which to look at all open steps, whatever their counts say; null: does not. */
  readonly walk: string | null;
}

/** Result of {@link advanceFlows}. */
export interface FlowsAdvanced {
  /** Number behind the last tally taken; null: none was taken. */
  readonly next: number | null;
  /** True if there is more to do at once. */
  readonly more: boolean;
  /** Jobs enqueued. */
  readonly put: number;
  /** True if jobs of some step are to be cancelled ({@link stopJobs}). */
  readonly stops: boolean;
  /** Milliseconds until the next timer or deadline; null: there is none. */
  readonly dueMs: number | null;
  /** The last flow that was looked at; null: the walk is at its end. */
  readonly walked: string | null;
  /** True if some flow is open. */
  readonly open: boolean;
  readonly ended: readonly { readonly id: string; readonly name: string; readonly state: string }[];
}

/**
 * Takes what has ended in flows to its consequences, in one transaction.
 * @throws PQ002 when this scheduler no longer leads in this epoch
 */
export async function advanceFlows(
  target: Target,
  { leader, epoch }: Leader,
  input: AdvanceInput,
): Promise<FlowsAdvanced> {
  const values = [leader, epoch, JSON.stringify(input)];
  const answer = await ask<FlowsAdvanced & { readonly due_ms: number | null }>(
    target,
    'advance_flows($1, $2, $3)',
    values,
  );
  if (answer === undefined) throw new Error('advance_flows came back without a row');
  const { due_ms: dueMs, ...advanced } = answer;
  return { ...advanced, dueMs };
}

/**
 * Cancels up to `max` jobs of steps that are to be stopped; resolves to their number.
 * @throws PQ002 when this scheduler no longer leads in this epoch
 */
export async function stopJobs(target: Target, { leader, epoch }: Leader, max: number): Promise<number> {
  return (await ask<number>(target, 'stop_jobs($1, $2, $3)', [leader, epoch, max])) ?? 0;
}

/** Deletes flows that ended more than seven days ago; resolves to their number. */
export async function trimFlows(target: Target): Promise<number> {
  return (await ask<number>(target, 'trim_flows()', [])) ?? 0;
}
