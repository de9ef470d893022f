import type { Target } from '../../connection/target.ts';
import { ask } from '../../connection/target.ts';

/**
 * Asks for the end of a flow; the leader cancels its jobs. `ended`: it has ended, or is being cancelled.
 */
export async function cancelFlow(
  target: Target,
  { flow, reason }: { readonly flow: string; readonly reason: string },
): Promise<'cancelling' | 'ended' | 'unknown'> {
  return (await ask(target, 'cancel_flow($1::uuid, $2)', [flow, reason])) ?? 'unknown';
}

/** Result of {@link retryFlow}. */
export interface FlowRetried {
  readonly outcome: 'retried' | 'nothing' | 'stopping' | 'key_taken' | 'unknown';
  /** Jobs that are back in QUEUE. */
  readonly jobs: number;
  /** Jobs that are not, since neither the dead letters nor history have them. */
  readonly gone: number;
}

/** Runs what failed in a flow again: all of it, or what failed in one step and behind it. */
export async function retryFlow(
  { query, schema }: Target,
  { flow, step }: { readonly flow: string; readonly step: string | null },
): Promise<FlowRetried> {
  const [row] = await query<FlowRetried>(
    `select outcome, jobs, gone from ${schema}.retry_flow($1::uuid, $2)`,
    [flow, step],
  );
  return row ?? { outcome: 'unknown', jobs: 0, gone: 0 };
}
