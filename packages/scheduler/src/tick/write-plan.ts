import type { JobFacts, Settlement, Snapshot } from '@pgqueue/core';
import { laneName, own } from '@pgqueue/core';
import { canRun } from '@pgqueue/core/internal';
import type { Database } from '@pgqueue/postgres';
import type { DispatchInput, Leader } from '@pgqueue/postgres/internal';
import { dispatch, takeBack, wasRolledBack } from '@pgqueue/postgres/internal';
import type { Load, Places } from '../state/consumption.ts';
import type { Flying, Item } from '../state/items/item.ts';
import { createFlying } from '../state/items/item.ts';
import type { InFlightItems } from '../state/items/in-flight.ts';
import type { LeaderState } from '../state/leader-state.ts';
import type { Planner, SafePlan } from '../policy/planner.ts';
import type { PlannedRow } from './work-items.ts';
import { toRows } from './work-items.ts';

export interface Writing {
  readonly database: Database;
  readonly planner: Planner;
  /** Call when a write may have happened or may still happen: nothing more may be planned in this epoch. */
  readonly onUnknown: (leader: Leader) => void;
}

/**
 * Thresholds at which settlements are removed without a plan to write: `unsavedMax` of them, or `unsavedMs`
 * since the last write.
 */
const unsavedMax = 100;
const unsavedMs = 1_000;

const nothing = createFlying([]);

/**
 * Writes a plan and updates the leader's state. Resolves to the work items it created; null: the plan's
 * assumptions do not hold, and nothing was written.
 */
export async function writePlan(
  options: Writing,
  state: LeaderState,
  {
    leader,
    snapshot,
    planned,
    supposed,
    load,
    flying,
  }: {
    readonly leader: Leader;
    readonly snapshot: Snapshot;
    readonly planned: SafePlan;
    readonly supposed: DispatchInput['supposed'];
    readonly load: Load;
    /** Work items before this plan. */
    readonly flying: Flying;
  },
): Promise<Flying | null> {
  const { database, planner } = options;
  const { laneCache, inFlight, consumption } = state;
  const back = planned.recall.length > 0 ? planned.recall : strandedBundles(inFlight, snapshot.pools);
  if (back.length > 0) {
    planner.dropped();
    await recall(database, state, { leader, ids: back, nowMs: snapshot.nowMs });
    return nothing;
  }
  const settled = inFlight.unsaved();
  const waitedMs = snapshot.nowMs - state.writtenAt;
  const overdue = settled.length >= unsavedMax || (state.settled.length > 0 && waitedMs > unsavedMs);
  const nothingEnded = snapshot.settled.length === 0;
  // parts of the state that could be saved late and are now due
  const owed = planned.parts !== null && nothingEnded;
  if (planned.dispatch.length === 0 && !overdue && !owed) {
    // ended attempts count only together with a write; without any, the plan's state counts as it is (a
    // bucket may start to fill at a new rate)
    if (nothingEnded) planner.written({ atMs: snapshot.nowMs, ids: new Set() });
    else planner.dropped();
    return nothing;
  }
  const rows = rowsOf(state, planned, flying.count);
  const jobs = rows.flat();
  const front = advancesFront(state, snapshot.nowMs);
  try {
    const { atMs, positions } = await dispatch(database, {
      ...leader,
      supposed,
      jobs,
      parts: planned.parts,
      settled,
      front,
      notify: true,
      wake: state.wakes.choose(rows, { ...load, items: flying.items }),
    });
    if (atMs === null) {
      planner.dropped();
      return null;
    }
    state.writtenAt = atMs;
    state.settled = [];
    inFlight.saved(settled);
    planner.written({ atMs, ids: new Set(positions.keys()) });
    const items = itemsOf(inFlight, rows, { atMs, positions });
    laneCache.wrote(
      jobs.map(({ id }) => id),
      positions,
    );
    consumption.dispatched(items.flatMap(placesOf));
    return createFlying(items);
  } catch (error) {
    planner.dropped();
    return giveUp(options, state, { leader, error });
  }
}

/** Ends what is known of a term in which a write failed: its items, if it was written after all, are not known. */
export function giveUp(
  { onUnknown }: Pick<Writing, 'onUnknown'>,
  state: LeaderState,
  { leader, error }: { readonly leader: Leader; readonly error: unknown },
): never {
  state.epoch = undefined;
  if (!wasRolledBack(error)) onUnknown(leader);
  throw error;
}

/** Divides the planned jobs into work items. `ready`: jobs that already have some. */
function rowsOf(
  { laneCache, nodes }: LeaderState,
  { dispatch: planned, held }: SafePlan,
  ready: number,
): ReturnType<typeof toRows> {
  const jobs = planned.map(({ id, pool, bundle = null }): PlannedRow => {
    const job = laneCache.find(id);
    return { id, pool, rowVersion: job?.rowVersion ?? null, bundle, job };
  });
  return toRows(jobs, { nodes, ready, held });
}

/**
 * Returns the jobs of ready bundles whose pool has only nodes left that take no bundles. They must be planned
 * again, one by one.
 */
function strandedBundles(inFlight: InFlightItems, pools: Snapshot['pools']): readonly string[] {
  return inFlight.flying().items.flatMap(({ jobs, pool, bundle, node, stuck }) => {
    const [first] = jobs;
    if (bundle === null || node !== null || stuck.size > 0 || first === undefined) return [];
    const { task, version } = first;
    const capable = own(pools, pool)?.groups.filter(({ tasks }) => canRun({ tasks }, task, version)) ?? [];
    const isStranded = capable.length > 0 && capable.every(({ tasks }) => own(tasks, task)?.single === true);
    return isStranded ? jobs.map(({ id }) => id) : [];
  });
}

/** Milliseconds between two updates of the positions where items and batches begin. */
const frontMs = 1_000;

function advancesFront(state: LeaderState, nowMs: number): boolean {
  if (Math.abs(nowMs - state.frontAt) < frontMs) return false;
  state.frontAt = nowMs;
  return true;
}

/** Records and returns the work items that were created. */
function itemsOf(
  inFlight: InFlightItems,
  rows: ReturnType<typeof toRows>,
  { atMs, positions }: { readonly atMs: number; readonly positions: ReadonlyMap<string, number> },
): readonly Item[] {
  const items: Item[] = [];
  for (const row of rows) {
    const jobs: JobFacts[] = [];
    let position: number | undefined;
    for (const { id, job } of row) {
      const at = positions.get(id);
      if (job === undefined || at === undefined) continue;
      position = at;
      jobs.push(job);
    }
    const [first] = row;
    if (position === undefined || first === undefined) continue;
    const { pool, bundle } = first;
    items.push(inFlight.wrote({ jobs, pool, bundle, dispatchedMs: atMs }, position));
  }
  return items;
}

/** Returns the slots an item takes. Jobs of one bundle share one slot. */
function placesOf({ jobs, pool, bundle }: Item): readonly Places[] {
  const [first] = jobs;
  if (first === undefined) return [];
  return [{ pool, task: first.task, version: first.version, count: bundle === null ? jobs.length : 1 }];
}

/**
 * Takes back work items. Their jobs wait again, and the next tick plans them together with the jobs that
 * outrank them.
 */
async function recall(
  database: Database,
  state: LeaderState,
  {
    leader,
    ids,
    nowMs,
  }: { readonly leader: Leader; readonly ids: readonly string[]; readonly nowMs: number },
): Promise<void> {
  const back = await takeBack(database, leader, ids).catch((error: unknown) => {
    // the jobs may wait again, below their lanes' cursors
    state.epoch = undefined;
    throw error;
  });
  const items = state.inFlight.tookBack(ids, back);
  state.consumption.forget();
  const recalled = items.map((job): Settlement => ({ job, outcome: 'recalled', busyMs: 0, endedMs: nowMs }));
  if (state.feeds) state.settled = [...state.settled, ...recalled];
  for (const item of items) state.cursors.drop(laneName(item));
  state.laneCache.want(items.map((item) => [laneName(item), items.length] as const));
}
