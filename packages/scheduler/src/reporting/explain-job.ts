import type { Explanation, InFlight, JobFacts, Lane, PoolSeen, Snapshot } from '@pgqueue/core';
import { compareInKey, laneName, neverMs } from '@pgqueue/core';
import type { LeaderAnswer, WaitingFacts } from '@pgqueue/postgres';
import type { Target } from '@pgqueue/postgres/internal';
import { readWaitingJob } from '@pgqueue/postgres/internal';
import type { FlowMeter } from './throughput.ts';
import type { Flying } from '../state/items/item.ts';
import { attributesProblem, isFlat } from '../state/unreadable.ts';

/** State after a tick: its snapshot and the work items it wrote. */
export interface TickOutcome {
  readonly snapshot: Snapshot;
  readonly dispatched: Pick<Flying, 'jobs'>;
  /** Ended attempts that the policy's state does not include yet. */
  readonly settled: Snapshot['settled'];
  /** Jobs that ticks leave out for now, because they could not be written or can't be read. */
  readonly leftOut: ReadonlySet<string>;
}

export interface ExplainOptions {
  readonly database: Target;
  readonly policy: string;
  /** Asks the policy to explain a job; null: it has no explanation, or failed. */
  readonly explain: (snapshot: Snapshot, job: JobFacts, lane: Lane) => Explanation | null;
  readonly flow: Pick<FlowMeter, 'of'>;
}

/** Explains one job from the state after the last tick, using the policy code that plans. */
export async function explainNow(
  { database, policy, explain, flow }: ExplainOptions,
  id: string,
  left: () => TickOutcome,
): Promise<LeaderAnswer> {
  const facts = await readWaitingJob(database, id);
  // read `left` only after the query: a tick may have run meanwhile
  const outcome = left();
  const { snapshot, laneOf } = afterTick(outcome, facts);
  const answer = { policy, atMs: snapshot.nowMs, holds: [], ahead: null, failed: null };
  const none = { windowMs: 0, key: 0, queue: 0, all: 0 };
  if (facts === undefined || laneOf === undefined) return { ...answer, waits: false, flow: none };
  if (!facts.legible || !isFlat(facts.job.attributes))
    return { ...answer, waits: true, flow: none, holds: [unreadable] };
  const explained = explain(snapshot, facts.job, laneOf);
  return {
    ...answer,
    waits: true,
    flow: flow.of(facts.job),
    ...(explained ?? { failed: 'it gives no explanation, or failed when it was asked: see status' }),
    holds: [...(outcome.leftOut.has(facts.job.id) ? [locked] : []), ...(explained?.holds ?? [])],
  };
}

const locked = {
  gate: 'locked_row',
  message:
    "an application's transaction holds its row, or has just changed it: it is tried again within two seconds",
  untilMs: null,
};

const unreadable = {
  gate: 'unreadable',
  message: `ticks leave it out: ${attributesProblem}`,
  untilMs: neverMs,
};

/**
 * Returns the snapshot as it stands after the tick's writes, and the job's lane in it. The lane contains the
 * job even if it lies beyond the first few jobs a snapshot shows. The lane counts as fresh because `facts`
 * has just read when its key's first retry is due.
 */
export function afterTick(
  { snapshot, dispatched: written, settled }: Omit<TickOutcome, 'leftOut'>,
  facts: WaitingFacts | undefined,
): { readonly snapshot: Snapshot; readonly laneOf: Lane | undefined } {
  const dispatched = written.jobs();
  const gone = new Set(dispatched.map(({ id }) => id));
  const touched = new Set(dispatched.map(laneName));
  const own = facts === undefined ? undefined : laneName(facts.job);
  let laneOf: Lane | undefined;
  const lanes = snapshot.lanes.map((lane) => {
    const name = laneName(lane);
    const left = touched.has(name) ? { ...lane, jobs: lane.jobs.filter(({ id }) => !gone.has(id)) } : lane;
    if (facts === undefined || name !== own) return left;
    laneOf = withJob(left, facts);
    return laneOf;
  });
  if (facts !== undefined && laneOf === undefined) {
    const { queue, key } = facts.job;
    laneOf = withJob({ queue, key, jobs: [], more: true, retryDueMs: null, fresh: true }, facts);
    lanes.push(laneOf);
  }
  const inFlight = [...snapshot.inFlight, ...dispatched];
  const pools = withReady(snapshot, dispatched);
  return { snapshot: { ...snapshot, lanes, inFlight, settled, pools }, laneOf };
}

function withJob(lane: Lane, { job, firstId, retryDueMs }: WaitingFacts): Lane {
  const others = lane.jobs.filter(({ id }) => id !== job.id);
  // a placeholder stands for the first job of a lane that is not known, or that was left out: so this job does not
  // look like the first, and is told which job goes before it
  const hidden = others.length === 0 || (lane.skipped === true && others.every(({ id }) => id !== firstId));
  const first = hidden && firstId !== job.id ? [{ ...job, id: firstId, seq: job.seq - 1 }] : [];
  const jobs = [...first, ...[...others, job].toSorted(compareInKey)];
  return {
    ...lane,
    jobs,
    ...(lane.skipped === undefined ? {} : { skipped: false }),
    retryDueMs,
    fresh: true,
  };
}

/** Adds the dispatched items to each pool's ready items. Jobs of one bundle count as one item. */
function withReady({ pools }: Snapshot, dispatched: readonly InFlight[]): Snapshot['pools'] {
  if (dispatched.length === 0) return pools;
  const added = Map.groupBy(
    dispatched.filter(({ id, bundle }) => bundle === null || bundle === id),
    ({ pool }) => pool,
  );
  return Object.fromEntries(
    Object.entries(pools).map(([name, pool]): [string, PoolSeen] => {
      const items = (added.get(name) ?? []).map(({ task, version }) => ({ task, version, count: 1 }));
      return [name, { ...pool, ready: [...pool.ready, ...items] }];
    }),
  );
}
