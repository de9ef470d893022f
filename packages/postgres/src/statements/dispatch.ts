import type { Target } from './target.ts';

/** One plan: the jobs to schedule, and the state of the policy that chose them. */
export interface DispatchInput {
  readonly leader: string;
  readonly epoch: number;
  /** In the order in which they are to be claimed. */
  readonly jobs: readonly { readonly id: string; readonly pool: string }[];
  readonly policy: string;
  /** The policy's state after this plan, saved in the same transaction; null: as it was. */
  readonly state: unknown;
  /** Whether to wake listening workers. */
  readonly notify: boolean;
}

/**
 * Writes one plan: the SQL function `dispatch` (migration 0003 says why it is safe). Resolves to the ids that were scheduled;
 * the others were taken, locked, moved or ended since the snapshot.
 * @throws PQ002 when this scheduler no longer leads in this epoch: nothing was written
 */
export async function dispatch(target: Target, input: DispatchInput): Promise<ReadonlySet<string>> {
  const rows = await target.query<{ id: string }>(
    `select dispatch as id from ${target.schema}.dispatch($1, $2, $3::uuid[], $4::text[], $5, $6::jsonb, $7)`,
    [
      input.leader,
      input.epoch,
      input.jobs.map(({ id }) => id),
      input.jobs.map(({ pool }) => pool),
      input.policy,
      input.state === null ? null : JSON.stringify(input.state),
      input.notify,
    ],
  );
  return new Set(rows.map(({ id }) => id));
}

/** The state that the last leader saved for a policy, or undefined. */
export async function loadPolicyState(target: Target, policy: string): Promise<unknown> {
  const rows = await target.query<{ state: unknown }>(
    `select state from ${target.schema}.policy_state where policy = $1`,
    [policy],
  );
  return rows[0]?.state;
}
