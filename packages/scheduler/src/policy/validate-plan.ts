import { types } from 'node:util';
import type { HeldCounts, Holds, Plan, PlannedJob, PolicyState, Snapshot } from '@pgqueue/core';
import { own } from '@pgqueue/core';
import { noneClosed, planProblems, takesBundles } from '@pgqueue/core/internal';

/** A plan with every member present and of the right type. */
export interface CleanPlan {
  readonly dispatch: readonly PlannedJob[];
  readonly held: HeldCounts;
  readonly state: PolicyState;
  readonly recall: readonly string[];
  readonly nextMs: number | null;
  readonly holds: Holds;
  readonly stale: readonly string[];
  readonly deepen: ReadonlyMap<string, number>;
  readonly forecast: Readonly<Record<string, number>> | null;
}

/**
 * Completes the plan of a policy made of parts. Only members passed through from its parts unchanged can have
 * a wrong type.
 */
export function completePlan(plan: Plan): CleanPlan {
  return {
    dispatch: plan.dispatch,
    held: plan.held,
    state: plan.state,
    recall: plan.recall ?? [],
    nextMs: plan.nextMs ?? null,
    holds: plan.holds ?? holdsOf(plan),
    stale: plan.stale ?? [],
    deepen: plan.deepen ?? new Map<string, number>(),
    forecast: plan.forecast === undefined ? null : numbersOf(plan.forecast),
  };
}

/** Builds holds from the per-job and per-lane reasons. */
function holdsOf({ reasons, laneReasons }: Plan): Holds {
  return { jobs: new Map(reasons), lanes: new Map(laneReasons), closed: noneClosed };
}

/**
 * Validates and copies the plan of a policy written as a whole, so that it can't change or run code
 * afterwards.
 * @throws {Error} the plan can't be written for this snapshot
 */
export function cleanPlan(snapshot: Snapshot, returned: Plan): CleanPlan {
  refusePromise(returned, 'plan');
  if (Array.isArray(returned?.dispatch) && !returned.dispatch.every(isPlanned)) {
    throw new Error('each job to dispatch must be an object with id and pool');
  }
  const problems = planProblems(snapshot, returned);
  if (problems.length > 0) throw new Error(problems.join('; '));
  const wrong = Object.entries(kinds).find(([name, is]) => !is(returned[name as keyof Plan]));
  if (wrong !== undefined) throw new Error(`its ${wrong[0]} is not what it should be`);
  const dispatch = returned.dispatch.map(({ id, pool, bundle }): PlannedJob =>
    bundle === undefined ? { id, pool } : { id, pool, bundle },
  );
  const problem = bundleProblem(snapshot, dispatch) ?? recallProblem(snapshot, returned.recall ?? []);
  if (problem !== undefined) throw new Error(problem);
  const plan = completePlan(returned);
  return {
    ...plan,
    dispatch,
    held: heldOf(plan.held),
    state: stateOf(plan.state),
    recall: [...plan.recall],
    holds: holdsOf(returned),
    stale: [...plan.stale],
    deepen: new Map(plan.deepen),
  };
}

/** Rejects a promise returned by a synchronous function. @throws {Error} it is a promise */
export function refusePromise(returned: unknown, called: string): void {
  if (!types.isPromise(returned)) return;
  // an unhandled rejection would end the process
  returned.catch(() => {});
  throw new Error(
    `${called}() returned a promise: policies are synchronous; what they have to wait for goes into prepare`,
  );
}

/** Copies a state, but not its parts. @throws {Error} it is not a valid state */
export function stateOf(state: PolicyState): PolicyState {
  refusePromise(state, 'written');
  if (typeof state !== 'object' || state === null || Array.isArray(state)) {
    throw new Error('its state must be an object, with one member for each part');
  }
  const copy = { ...state };
  const names = Object.keys(copy);
  if (names.length > 1_000) throw new Error('its state has more than 1000 parts');
  if (!names.every(isStorableName)) {
    throw new Error(
      'a part of its state must have a name of 1 to 100 characters, without U+0000 and half a surrogate pair',
    );
  }
  return copy;
}

function isStorableName(name: string): boolean {
  return name.length >= 1 && name.length <= 100 && name.isWellFormed() && !name.includes('\u0000');
}

function isPlanned(planned: Partial<PlannedJob> | null | undefined): boolean {
  return (
    typeof planned?.id === 'string' &&
    typeof planned.pool === 'string' &&
    (planned.bundle === undefined || typeof planned.bundle === 'string')
  );
}

const absent = (value: unknown): boolean => value === undefined;
const texts = (value: unknown): boolean =>
  absent(value) || (Array.isArray(value) && value.every((one) => typeof one === 'string'));
const mapTo =
  (type: 'string' | 'number') =>
  (value: unknown): boolean =>
    absent(value) ||
    (types.isMap(value) &&
      [...value].every(([name, own]) => typeof name === 'string' && typeof own === type));

/** Type checks for the members of a plan. `dispatch` and `state` are checked separately. */
const kinds: Readonly<Partial<Record<keyof Plan, (value: unknown) => boolean>>> = {
  held: (value) => typeof value === 'object' && value !== null,
  recall: texts,
  nextMs: (value) => absent(value) || value === null || Number.isFinite(value),
  reasons: mapTo('string'),
  laneReasons: mapTo('string'),
  stale: texts,
  deepen: mapTo('number'),
  forecast: (value) => absent(value) || (typeof value === 'object' && value !== null),
};

/**
 * Checks bundles. The jobs of a bundle follow its first job and are of its kind, because they share one slot
 * and one handler call.
 */
function bundleProblem(snapshot: Snapshot, dispatch: readonly PlannedJob[]): string | undefined {
  if (!dispatch.some(({ bundle }) => bundle !== undefined)) return undefined;
  const jobs = new Map(snapshot.lanes.flatMap((lane) => lane.jobs.map((job) => [job.id, job] as const)));
  let first: PlannedJob | undefined;
  for (const planned of dispatch) {
    const { id, bundle } = planned;
    if (bundle === undefined) continue;
    if (bundle === id) first = planned;
    const [one, other] = [jobs.get(bundle), jobs.get(id)];
    const takes = other !== undefined && takesBundles(own(snapshot.pools, planned.pool), other);
    if (!takes || one?.alone === true || other.alone === true) {
      return `job ${id} can't be in a bundle: it must go alone, or not all nodes of its pool take bundles`;
    }
    const alike = one?.task === other?.task && one?.version === other?.version && one?.queue === other?.queue;
    if (first?.id !== bundle || first.pool !== planned.pool || !alike || one?.key !== other?.key) {
      return `job ${id} does not belong to bundle ${bundle}: jobs of a bundle follow its first, and share its queue, key, task and version`;
    }
  }
  return undefined;
}

function recallProblem({ inFlight }: Snapshot, recall: readonly string[]): string | undefined {
  if (recall.length === 0) return undefined;
  const ready = new Set(
    inFlight.flatMap(({ id, state, bundle }) => (state === 'ready' && bundle === null ? [id] : [])),
  );
  const odd = recall.find((id) => !ready.has(id));
  return odd === undefined
    ? undefined
    : `job ${odd} can't be recalled: it is not a work item, or has a lease`;
}

function heldOf(held: HeldCounts): HeldCounts {
  return Object.fromEntries(
    Object.entries(held).flatMap(([queue, reasons]) =>
      typeof reasons === 'object' && reasons !== null ? [[queue, numbersOf(reasons)] as const] : [],
    ),
  );
}

function numbersOf(record: Readonly<Record<string, unknown>>): Readonly<Record<string, number>> {
  return Object.fromEntries(
    Object.entries(record).flatMap(([name, value]) =>
      typeof value === 'number' && Number.isFinite(value) ? [[name, value] as const] : [],
    ),
  );
}
