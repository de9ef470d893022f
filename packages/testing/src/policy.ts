/**
 * Snapshots to plan on by hand: for tests of policies, without a database and without a scheduler. Times are
 * Unix milliseconds by the database's clock; all of them start at 0 unless you give others.
 */
import type {
  Candidate,
  Explanation,
  InFlight,
  JobFacts,
  Json,
  Lane,
  Plan,
  Policy,
  PolicyState,
  PoolSeen,
  ReadyItems,
  Snapshot,
  VersionRange,
} from '@pgqueue/core';
import { PgQueueError, compareInKey, laneName, poolOf } from '@pgqueue/core';

/**
 * Makes a waiting job with the id `job-SEQ`. Defaults: queue `default`, key `''`, task `work`, version 1,
 * priority 0, enqueued at 0, no attributes, no tries, never expires.
 * @param seq order of enqueuing, over all queues
 * @param facts whatever differs from the defaults
 */
export function job(seq: number, facts: Partial<Candidate> = {}): Candidate {
  const plain = { queue: 'default', key: '', task: 'work', version: 1, priority: 0, tries: 0 };
  return { id: `job-${seq}`, seq, createdMs: 0, expiresMs: null, attributes: {}, ...plain, ...facts };
}

/**
 * Makes a job in flight that runs on node `node-1` of pool `default`, alone. For a job of a bundle or of
 * another pool, spread it: `{ ...running(job(1)), bundle: 'job-1' }`.
 * @param dispatchedMs time of the dispatch. Default 0
 */
export function running(waited: Candidate, dispatchedMs = 0): InFlight {
  return { ...ready(waited, dispatchedMs), state: 'running', node: 'node-1' };
}

/**
 * Makes a job in flight that no node has leased yet, in pool `default`, alone.
 * @param dispatchedMs time of the dispatch. Default 0
 */
export function ready(waited: Candidate, dispatchedMs = 0): InFlight {
  const { alone: _, ...facts } = waited;
  return { ...facts, pool: 'default', state: 'ready', node: null, dispatchedMs, bundle: null };
}

/** Parts of a snapshot that differ from the defaults of {@link see}. */
export type SeenParts = Omit<Partial<Snapshot>, 'prepared'> & {
  /** Slots of each pool, and most jobs that may be ready there. Default 100. */
  readonly slots?: number;
  /** Values that gates and orders would have fetched at that time, by their names: as `simulate` takes them. */
  readonly prepared?: Readonly<Record<string, Json>>;
};

/**
 * Makes the snapshot that a scheduler would plan on. Defaults: the time is 0, nothing is in flight, queues
 * have no settings, and each pool has one group of nodes that runs every task of the given jobs.
 * @param waiting jobs in any order; each lane shows all of its jobs
 * @param seen parts of the snapshot that differ from the defaults
 */
export function see(
  waiting: readonly Candidate[],
  { slots = 100, prepared = {}, ...seen }: SeenParts = {},
): Snapshot {
  const { nowMs = 0, inFlight = [], queues = {} } = seen;
  return {
    nowMs,
    lanes: lanesOf(waiting),
    inFlight,
    settled: [],
    queues,
    pools: poolsOf(waiting, { inFlight, queues, slots }),
    health: null,
    prepared: Object.fromEntries(
      Object.entries(prepared).map(([name, value]) => [name, { value, atMs: nowMs }]),
    ),
    batchMax: 1_000,
    ...seen,
  };
}

/** Returns the ids of the jobs that a plan dispatches, in their order, separated by spaces. */
export function ids(plan: Plan): string {
  return plan.dispatch.map(({ id }) => id).join(' ');
}

/**
 * Returns the state with which the next plan begins, after all jobs of this plan were written. Rates are
 * charged then.
 * @param atMs time of the write
 */
export function afterWrite(policy: Policy, plan: Plan, atMs: number): PolicyState {
  const { dispatch, state } = plan;
  const written = { atMs, ids: new Set(dispatch.map(({ id }) => id)) };
  return policy.written?.(state, written) ?? state;
}

/**
 * Returns the state with which the next leader begins: saved as JSON, then restored.
 * @param savedMs time at which it was saved. Default 0
 */
export function restored(policy: Policy, state: PolicyState, savedMs = 0): PolicyState {
  const saved = JSON.parse(JSON.stringify(state)) as PolicyState;
  const parts = Object.entries(saved).map(([name, part]) => [name, { state: part, savedMs }] as const);
  return policy.restore?.(Object.fromEntries(parts)) ?? saved;
}

/**
 * Asks a policy about a waiting job: which gates hold it, and how many jobs would go before it. Jobs that a plan of this
 * snapshot dispatches are not in flight in it: give a snapshot in which they are, to see what they hold.
 * @param state state after a plan, or `policy.initial`
 * @param id of a job that waits in the snapshot, such as `job-1`
 * @throws {PgQueueError} `not_found` if no such job waits; `configuration` if the policy has no `explain`
 */
export function explain(policy: Policy, snapshot: Snapshot, state: PolicyState, id: string): Explanation {
  for (const lane of snapshot.lanes) {
    const waits = lane.jobs.find((one) => one.id === id);
    if (waits === undefined) continue;
    const explained = policy.explain?.(snapshot, state, waits, lane);
    if (explained !== undefined) return explained;
    throw new PgQueueError('configuration', `policy ${policy.name} has no explain`);
  }
  throw new PgQueueError('not_found', `no job ${id} waits in this snapshot`);
}

function lanesOf(waiting: readonly Candidate[]): readonly Lane[] {
  return [...Map.groupBy(waiting, laneName).values()].flatMap((jobs): readonly Lane[] => {
    const [first] = jobs;
    if (first === undefined) return [];
    const { queue, key } = first;
    return [{ queue, key, jobs: jobs.toSorted(compareInKey), more: false, retryDueMs: null, fresh: true }];
  });
}

interface Given extends Pick<Snapshot, 'inFlight' | 'queues'> {
  readonly slots: number;
}

function poolsOf(
  waiting: readonly Candidate[],
  { inFlight, queues, slots }: Given,
): Readonly<Record<string, PoolSeen>> {
  const tasks = tasksOf([...waiting, ...inFlight]);
  const named = waiting.map(({ queue }) => poolOf({ queues }, queue));
  const names = new Set(['default', ...named, ...inFlight.map(({ pool }) => pool)]);
  return Object.fromEntries(
    [...names].map((name) => {
      const items = inFlight.filter(({ pool, state }) => pool === name && state === 'ready');
      return [name, { groups: [{ tasks, slots, depth: slots }], ready: readyOf(items) }];
    }),
  );
}

/** Returns the versions of each task that the jobs have. */
function tasksOf(jobs: readonly JobFacts[]): Readonly<Record<string, VersionRange>> {
  const byTask = Map.groupBy(jobs, ({ task }) => task);
  return Object.fromEntries(
    [...byTask].map(([task, alike]) => {
      const versions = alike.map(({ version }) => version);
      return [task, { min: Math.min(...versions), max: Math.max(...versions) }];
    }),
  );
}

/** Counts work items: the jobs of a bundle are in one. */
function readyOf(items: readonly InFlight[]): readonly ReadyItems[] {
  const single = new Map(items.map((item) => [item.bundle ?? item.id, item]));
  return [...single.values()].map(({ task, version }) => ({ task, version, count: 1 }));
}
