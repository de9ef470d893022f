import { setImmediate } from 'node:timers/promises';
import type { Candidate, InFlight, Lane, NodeGroup, PoolSeen, Snapshot } from '@pgqueue/core';
import { laneName, own, poolOf } from '@pgqueue/core';
import type { LanePlace, Target, TickState } from '@pgqueue/postgres/internal';
import { countBehind } from '@pgqueue/postgres/internal';
import { asIfRead } from '../policy/as-if-read.ts';
import type { CleanPlan } from '../policy/validate-plan.ts';
import type { Flying, Item } from '../state/items/item.ts';
import { batchSizeOf } from '../tick/work-items.ts';
import type { TickOutcome } from './explain-job.ts';

/** State after a tick, as far as the number of slots depends on it. */
export interface SlotsAsked extends Omit<TickOutcome, 'leftOut'> {
  /** Work items before this tick's dispatch. */
  readonly flying: Pick<Flying, 'items'>;
  readonly dispatched: Flying;
  readonly nodes: TickState['nodes'];
  /** Plans from the state after this tick, and after its own last plan; undefined: the policy failed. */
  readonly plan: (snapshot: Snapshot) => CleanPlan | undefined;
}

/** Slots by pool. */
export type WantedSlots = Readonly<Record<string, number>>;

/** Most waiting jobs of a pool that count. A pool that wants more is told so again when it has got these. */
export const jobsMax = 1_000;
/** Jobs that one plan goes through. Ticks run between two of them, so none waits longer than for this. */
const atOnceMax = 4_000;

/**
 * Counts the slots that each pool could use now: its work items, and those that its waiting jobs would make if
 * there were slots for them. The policy plans for endless slots, so that everything that holds jobs counts:
 * limits up to what they allow, rates by the tokens that are left. Null: the policy failed.
 */
export async function wantedSlots(database: Target, asked: SlotsAsked): Promise<WantedSlots | null> {
  const { snapshot, flying, dispatched, nodes, plan, settled } = asked;
  const slots = new Map<string, number>();
  const add = (pool: string, count: number): void => void slots.set(pool, (slots.get(pool) ?? 0) + count);
  for (const pool of slotsTaken([...flying.items, ...dispatched.items])) add(pool, 1);
  const counted = new Map<string, number>();
  let inFlight: readonly InFlight[] | undefined;
  for (const lanes of parts(snapshot.lanes, asked)) {
    const open = lanes.filter(({ queue }) => (counted.get(poolOf(snapshot, queue)) ?? 0) < jobsMax);
    if (open.length === 0) continue;
    inFlight ??= [...snapshot.inFlight, ...dispatched.jobs()].map(asRunning);
    const whole = await withHidden(database, snapshot, open);
    const seen = asIfRead({ ...snapshot, lanes: whole });
    const made = plan(withEndlessSlots({ ...snapshot, settled, inFlight, lanes: seen }));
    if (made === undefined) return null;
    const jobs = new Map(whole.flatMap((lane) => lane.jobs.map((job) => [job.id, job] as const)));
    for (const [pool, count] of slotsOf(made, jobs, nodes)) add(pool, count);
    for (const { pool } of made.dispatch) counted.set(pool, (counted.get(pool) ?? 0) + 1);
    inFlight = [...inFlight, ...planned(made, jobs, snapshot)];
    await setImmediate();
  }
  return Object.fromEntries(slots);
}

/** Yields the lanes as they are after the tick, in parts of up to {@link atOnceMax} jobs. */
function* parts(
  lanes: readonly Lane[],
  { dispatched }: Pick<SlotsAsked, 'dispatched'>,
): Generator<readonly Lane[]> {
  const gone = new Set(dispatched.items.flatMap(({ jobs }) => jobs.map(({ id }) => id)));
  let part: Lane[] = [];
  let count = 0;
  for (const lane of lanes) {
    const jobs = gone.size === 0 ? lane.jobs : lane.jobs.filter(({ id }) => !gone.has(id));
    if (jobs.length === 0) continue;
    part.push(jobs.length === lane.jobs.length ? lane : { ...lane, jobs });
    count += jobs.length;
    if (count < atOnceMax) continue;
    yield part;
    [part, count] = [[], 0];
  }
  if (part.length > 0) yield part;
}

/** A ready item counts as running, so that nothing is recalled for want of a slot. */
function asRunning(item: InFlight): InFlight {
  return item.state === 'ready' ? { ...item, state: 'running' } : item;
}

/** Returns the jobs of a plan as the next part's plan finds them. */
function planned(
  { dispatch }: CleanPlan,
  jobs: ReadonlyMap<string, Candidate>,
  { nowMs }: Snapshot,
): readonly InFlight[] {
  return dispatch.flatMap(({ id, pool, bundle = null }): InFlight[] => {
    const job = jobs.get(id);
    if (job === undefined) return [];
    return [{ ...job, pool, bundle, state: 'running', node: null, dispatchedMs: nowMs }];
  });
}

/** Yields the pool of each slot that work items take. Parts of one bundle on a node share a slot. */
function* slotsTaken(items: readonly Item[]): Generator<string> {
  const bundles = new Set<string>();
  for (const { pool, bundle, node } of items) {
    const part = bundle === null ? '' : JSON.stringify([bundle, node]);
    if (bundle !== null && bundles.has(part)) continue;
    bundles.add(part);
    yield pool;
  }
}

/**
 * Adds the jobs that wait behind the shown ones. They are taken to be like the last shown job of their lane.
 * Pools of which enough jobs are shown need no more.
 */
async function withHidden(
  database: Target,
  snapshot: Snapshot,
  lanes: readonly Lane[],
): Promise<readonly Lane[]> {
  const shown = new Map<string, number>();
  for (const { queue, jobs } of lanes) {
    const pool = poolOf(snapshot, queue);
    shown.set(pool, (shown.get(pool) ?? 0) + jobs.length);
  }
  const places = lanes.flatMap(({ queue, key, jobs, more }): LanePlace[] => {
    const last = jobs.at(-1);
    if (!more || last === undefined || (shown.get(poolOf(snapshot, queue)) ?? 0) >= jobsMax) return [];
    return [{ queue, key, priority: last.priority, seq: last.seq }];
  });
  const each = Math.ceil((2 * jobsMax) / Math.max(1, places.length));
  const counts = places.length === 0 ? [] : await countBehind(database, places, each);
  const hidden = new Map(places.map((place, at) => [laneName(place), counts[at]]));
  return lanes.map((lane) => {
    if (!lane.more) return lane;
    const count = hidden.get(laneName(lane)) ?? 0;
    return { ...lane, jobs: [...lane.jobs, ...likeLast(lane, count)], more: false };
  });
}

function likeLast({ jobs }: Lane, count: number): readonly Candidate[] {
  const last = jobs.at(-1);
  if (last === undefined) return [];
  const { id, seq } = last;
  return Array.from({ length: count }, (_, n) => ({ ...last, id: `${id}+${n + 1}`, seq: seq + n + 1 }));
}

/**
 * Gives each pool room for {@link jobsMax} more jobs on its present nodes. Nodes of a pool that has none are
 * taken to run any task.
 */
function withEndlessSlots(snapshot: Snapshot): Snapshot {
  const tasks = new Map<string, Set<string>>();
  for (const { queue, jobs } of snapshot.lanes) {
    const pool = poolOf(snapshot, queue);
    const known = tasks.get(pool) ?? new Set<string>();
    for (const { task } of jobs) known.add(task);
    tasks.set(pool, known);
  }
  const pools = [...tasks].map(([pool, names]): [string, PoolSeen] => {
    const seen = own(snapshot.pools, pool)?.groups ?? [];
    const groups = seen.length > 0 ? seen : [anyTask(names)];
    return [pool, { groups: groups.map((group) => ({ ...group, depth: jobsMax })), ready: [] }];
  });
  return {
    ...snapshot,
    pools: Object.fromEntries(pools),
    batchMax: jobsMax * Math.max(1, pools.length),
  };
}

function anyTask(names: ReadonlySet<string>): NodeGroup {
  const versions = { min: 0, max: Number.MAX_SAFE_INTEGER };
  return {
    tasks: Object.fromEntries([...names].map((task) => [task, versions])),
    slots: jobsMax,
    depth: jobsMax,
  };
}

/** Counts the work items that a plan's jobs make, by pool: a bundle is one, and so is a batch of short jobs. */
function slotsOf(
  { dispatch }: CleanPlan,
  jobs: ReadonlyMap<string, Candidate>,
  nodes: TickState['nodes'],
): ReadonlyMap<string, number> {
  const slots = new Map<string, number>();
  const kinds = new Map<string, { readonly pool: string; readonly size: number; jobs: number }>();
  for (const { id, pool, bundle } of dispatch) {
    const job = jobs.get(id);
    if (job === undefined || (bundle !== undefined && bundle !== id)) continue;
    const { task, version, alone, expiresMs } = job;
    const name = JSON.stringify([pool, task, version]);
    const kind = kinds.get(name) ?? { pool, size: batchSizeOf(pool, task, nodes), jobs: 0 };
    kinds.set(name, kind);
    // in work items: a job that goes alone is as many jobs as a batch has
    kind.jobs += bundle !== undefined || alone === true || expiresMs !== null ? kind.size : 1;
  }
  for (const { pool, size, jobs: count } of kinds.values())
    slots.set(pool, (slots.get(pool) ?? 0) + Math.ceil(count / size));
  return slots;
}
