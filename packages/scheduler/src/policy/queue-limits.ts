import type { Candidate, Lane, PlannedJob, PolicyState, Snapshot } from '@pgqueue/core';
import { openGates, standardGates } from '@pgqueue/core';

const gates = standardGates();
/** Names of the state parts that belong to the standard gates. */
export const limitNames: ReadonlySet<string> = new Set(gates.map(({ name }) => name));

/**
 * Returns a policy's state with the standard gates' parts taken from `limits`. A policy written as a whole
 * must not change those parts.
 */
export function withLimits(state: PolicyState, limits: PolicyState): PolicyState {
  const joined = { ...state };
  for (const name of limitNames) {
    const own = limits[name];
    if (own === undefined) delete joined[name];
    else joined[name] = own;
  }
  return joined;
}

/**
 * Checks a plan that was made without the standard gates, by asking the gates about each of its jobs in turn.
 * Returns `state` with the gates' parts after the plan. @throws {Error} the plan exceeds a limit
 */
export function keepLimits(
  snapshot: Snapshot,
  dispatch: readonly PlannedJob[],
  state: PolicyState,
): PolicyState {
  const open = openGates(gates, snapshot, { state, faults: [] });
  const planned = new Set(dispatch.map(({ id }) => id));
  const found = new Map<string, { readonly job: Candidate; readonly lane: Lane }>();
  for (const lane of snapshot.lanes) {
    for (const job of lane.jobs) if (planned.has(job.id)) found.set(job.id, { job, lane });
  }
  for (const { id, bundle } of dispatch) {
    const place = found.get(id);
    if (place === undefined) throw new Error(`job ${id} is no candidate`);
    const { job, lane } = place;
    const member = bundle !== undefined && bundle !== id;
    const { verdict, gate } = open.judge(job, lane, member);
    if (verdict !== 'admit') {
      const why = open.why(job, lane).find((hold) => hold.gate === gate);
      throw new Error(`job ${id} must be held by ${gate}: ${why?.message ?? 'it is beyond a limit'}`);
    }
    open.take(job, lane, member);
  }
  return { ...state, ...open.states() };
}
