import type { InFlight, Settlement, Snapshot } from '@pgqueue/core';
import { laneName } from '@pgqueue/core';
import type { Database, DispatchInput, Leader } from '@pgqueue/postgres';
import { dispatch, takeBack, wasRolledBack } from '@pgqueue/postgres';
import type { Memory } from './memory.ts';
import type { Planner, SafePlan } from './planner.ts';
import { toRows } from './rows.ts';

export interface Writing {
  readonly database: Database;
  readonly planner: Planner;
  /** A write may have happened, or may still happen: nothing must be planned in this epoch any more. */
  readonly onUnknown: (leader: Leader) => void;
}

/** Settlements that wait to be removed: as many, or so long, and they are written without a plan. */
const unsavedMax = 100;
const unsavedMs = 1_000;

/** Writes a plan, and brings what is remembered to it. Resolves to the work items that it made; null: what it supposes is not so. */
export async function writePlan(
  { database, planner, onUnknown }: Writing,
  memory: Memory,
  {
    leader,
    snapshot,
    planned,
    supposed,
  }: {
    readonly leader: Leader;
    readonly snapshot: Snapshot;
    readonly planned: SafePlan;
    readonly supposed: DispatchInput['supposed'];
  },
): Promise<readonly InFlight[] | null> {
  const { view, ledger, consumption } = memory;
  if (planned.recall.length > 0) {
    planner.dropped();
    await recall(database, memory, { leader, ids: planned.recall, nowMs: snapshot.nowMs });
    return [];
  }
  const settled = ledger.unsaved();
  const waitedMs = snapshot.nowMs - memory.writtenAt;
  const overdue = settled.length >= unsavedMax || (memory.settled.length > 0 && waitedMs > unsavedMs);
  const nothingEnded = snapshot.settled.length === 0;
  // parts that could be late, and are owed now
  const owed = planned.parts !== null && nothingEnded;
  if (planned.dispatch.length === 0 && !overdue && !owed) {
    // ended attempts count together with what is written; else the plan counts as it is: a bucket begins to fill at a new rate
    if (nothingEnded) planner.written({ atMs: snapshot.nowMs, ids: new Set() });
    else planner.dropped();
    return [];
  }
  const jobs = toRows(
    planned.dispatch.map(({ id, pool, bundle }) => ({
      id,
      pool,
      rowVersion: view.find(id)?.rowVersion ?? null,
      bundle: bundle ?? null,
      job: view.find(id),
    })),
    { nodes: memory.nodes, ready: snapshot.inFlight.length, held: planned.held },
  );
  const front = frontOf(memory, snapshot.nowMs);
  try {
    const { atMs, positions } = await dispatch(database, {
      ...leader,
      supposed,
      jobs,
      parts: planned.parts,
      settled,
      front,
      notify: true,
    });
    if (atMs === null) {
      planner.dropped();
      return null;
    }
    memory.writtenAt = atMs;
    memory.settled = [];
    ledger.saved(settled);
    planner.written({ atMs, ids: new Set(positions.keys()) });
    const items = itemsOf(memory, jobs, { atMs, positions });
    view.wrote(
      jobs.map(({ id }) => id),
      positions,
    );
    consumption.dispatched(items.filter(({ id, bundle }) => bundle === null || bundle === id));
    return items;
  } catch (error) {
    memory.epoch = undefined;
    planner.dropped();
    if (!wasRolledBack(error)) onUnknown(leader);
    throw error;
  }
}

/** How often it is told where batches begin. */
const frontMs = 1_000;

function frontOf(memory: Memory, nowMs: number): number | undefined {
  if (Math.abs(nowMs - memory.frontAt) < frontMs) return undefined;
  memory.frontAt = nowMs;
  return memory.ledger.firstBatch();
}

/** The work items that were made. */
function itemsOf(
  { view, ledger }: Memory,
  jobs: DispatchInput['jobs'],
  { atMs, positions }: { readonly atMs: number; readonly positions: ReadonlyMap<string, number> },
): readonly InFlight[] {
  const sizes = Map.groupBy(positions.values(), (position) => position);
  return jobs.flatMap(({ id, pool, bundle }): InFlight[] => {
    const [job, position] = [view.find(id), positions.get(id)];
    if (job === undefined || position === undefined) return [];
    const row = (sizes.get(position)?.length ?? 1) > 1 ? { row: position } : {};
    const item: InFlight = { ...job, ...row, pool, bundle, dispatchedMs: atMs, state: 'ready', node: null };
    ledger.wrote(item, position);
    return [item];
  });
}

/** Their jobs wait again, and are planned at once together with what outranks them. */
async function recall(
  database: Database,
  memory: Memory,
  {
    leader,
    ids,
    nowMs,
  }: { readonly leader: Leader; readonly ids: readonly string[]; readonly nowMs: number },
): Promise<void> {
  const back = await takeBack(database, leader, ids).catch((error: unknown) => {
    // they may wait again, before the places that their lanes have come to
    memory.epoch = undefined;
    throw error;
  });
  const items = memory.ledger.tookBack(ids, back);
  const recalled = items.map((job): Settlement => ({ job, outcome: 'recalled', busyMs: 0, endedMs: nowMs }));
  if (memory.feeds) memory.settled = [...memory.settled, ...recalled];
  for (const item of items) memory.cursors.drop(laneName(item));
  memory.view.want(items.map((item) => [laneName(item), items.length] as const));
}
