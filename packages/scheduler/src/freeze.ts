import type { JobFacts, Lane, Snapshot } from '@pgqueue/core';

/**
 * Makes a snapshot read-only: the scheduler goes on with its lanes and work items after a policy has seen them, and a `sort` in
 * place would change what it knows. What it keeps from one tick to the next is frozen once. Measured: 6 ms for 40,000 jobs that are
 * new, 0.5 ms where they are known. `before`: lanes that are frozen; of those that stand in the same places nothing is looked at.
 */
export function freezeSnapshot(snapshot: Snapshot, before: readonly Lane[] = []): Snapshot {
  const { lanes, settled, queues, pools, prepared, health } = snapshot;
  for (let slot = 0; slot < lanes.length; slot += 1) {
    const lane = lanes[slot];
    if (lane !== undefined && lane !== before[slot]) freezeLane(lane);
  }
  freezeInFlight(snapshot);
  for (const ended of settled) {
    Object.freeze(ended);
    freezeJob(ended.job);
  }
  for (const list of [lanes, settled, prepared, health, snapshot]) Object.freeze(list);
  freezeAll(queues);
  freezeAll(pools);
  return snapshot;
}

/** Where it is made only when a policy asks, it is frozen as it is made. */
function freezeInFlight(snapshot: Snapshot): void {
  if (Object.getOwnPropertyDescriptor(snapshot, 'inFlight')?.get !== undefined) return;
  for (const item of snapshot.inFlight) freezeJob(item);
  Object.freeze(snapshot.inFlight);
}

function freezeLane(lane: Lane): void {
  if (Object.isFrozen(lane)) return;
  Object.freeze(lane);
  freezeJobs(lane.jobs);
}

/** Lists of which every job is frozen. */
const frozen = new WeakSet<readonly JobFacts[]>();

/** The jobs of a lane, and each of them; `from`: a list that they are a part of: where that is frozen, they are not looked at again. */
export function freezeJobs(jobs: readonly JobFacts[], from?: readonly JobFacts[]): void {
  if (frozen.has(jobs)) return;
  if (from === undefined || !frozen.has(from)) for (const job of jobs) freezeJob(job);
  frozen.add(Object.freeze(jobs));
}

function freezeJob(job: JobFacts): void {
  if (Object.isFrozen(job)) return;
  Object.freeze(job);
  freezeAll(job.attributes);
}

/** Of plain JSON. */
export function freezeAll(value: unknown): void {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return;
  Object.freeze(value);
  for (const own of Object.values(value)) freezeAll(own);
}
