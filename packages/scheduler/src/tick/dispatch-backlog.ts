import type { Snapshot } from '@pgqueue/core';
import { laneName, openSlots, own, poolOf } from '@pgqueue/core';
import type { BacklogDispatched, Leader } from '@pgqueue/postgres/internal';
import { dispatchBacklog } from '@pgqueue/postgres/internal';
import type { Load } from '../state/consumption.ts';
import type { Flying, Item } from '../state/items/item.ts';
import { createFlying } from '../state/items/item.ts';
import type { Backlog } from '../state/backlog.ts';
import { isUnlimited } from '../state/backlog.ts';
import type { LeaderState } from '../state/leader-state.ts';
import type { PlannedRow } from './work-items.ts';
import { fullBatch } from './work-items.ts';
import type { Writing } from './write-plan.ts';
import { giveUp } from './write-plan.ts';

/** Work items and nodes of a tick that reads no waiting jobs. */
export interface BacklogTick {
  readonly leader: Leader;
  readonly load: Load;
  readonly snapshot: Snapshot;
  /** Work items before this tick. */
  readonly flying: Flying;
}

/**
 * Dispatches as many jobs of the backlog as have a slot. Resolves to the slots and the work items it created; undefined: the
 * waiting jobs must be read, and the backlog is forgotten.
 */
export async function dispatchMore(
  options: Pick<Writing, 'database' | 'onUnknown'>,
  state: LeaderState,
  backlog: Backlog,
  tick: BacklogTick,
): Promise<{ readonly room: number; readonly written: Flying } | undefined> {
  const { snapshot, load, flying, leader } = tick;
  const { queue, key, priority, task, version } = backlog.template;
  const pool = poolOf(snapshot, queue);
  const room = roomFor(snapshot, pool, { task, version });
  const { size, slots } = fullBatch(pool, task, state.nodes);
  if (snapshot.moving !== undefined || !isUnlimited(own(snapshot.queues, queue)) || size === 1) {
    state.backlog = undefined;
    return undefined;
  }
  const ready = flying.items.filter((item) => item.node === null && item.pool === pool).length;
  // each slot has its next item: a part of a batch would cost as much as a whole one, which soon has room
  if (room === 0 || (room < size && ready >= slots)) return { room, written: createFlying([]) };
  const job = { ...backlog.template, rowVersion: '', crashes: 0 };
  const planned: PlannedRow = { id: '', pool, rowVersion: null, bundle: null, job };
  const row = Array.from({ length: size }, () => planned);
  const rows = Array.from({ length: Math.ceil(room / size) }, () => row);
  const wake = state.wakes.choose(rows, { ...load, items: flying.items });
  const { after } = backlog;
  const jobs = { queue, key, priority, after, task, version, pool, jobs: room, size, slots };
  try {
    const made = await dispatchBacklog(options.database, { ...leader, ...jobs, wake });
    state.writtenAt = made.atMs;
    state.laneCache.usedUp(laneName(backlog.template));
    backlog.after = made.last;
    if (!made.more) state.backlog = undefined;
    return { room, written: itemsOf(state, backlog, { ...made, pool }) };
  } catch (error) {
    return giveUp(options, state, { leader, error });
  }
}

/** Returns how many jobs of a kind a pool has slots for, up to the size of a batch. */
function roomFor(
  snapshot: Snapshot,
  pool: string,
  kind: { readonly task: string; readonly version: number },
): number {
  const slots = openSlots(snapshot);
  let room = 0;
  while (room < snapshot.batchMax && slots.take(pool, kind) === 'fits') room += 1;
  return room;
}

/** Records and returns the work items that were created. Their jobs share one object, without an id. */
function itemsOf(
  { inFlight, consumption }: LeaderState,
  { template }: Backlog,
  { atMs, items, last, pool }: BacklogDispatched & { readonly pool: string },
): Flying {
  // behind the cursor of the lane, so that reads of it look for items
  const facts = { ...template, id: '', seq: last };
  const made = items.map(({ position, size }): Item => {
    const jobs = Array.from({ length: size }, () => facts);
    return inFlight.wrote({ jobs, pool, bundle: null, dispatchedMs: atMs }, position);
  });
  const { task, version } = template;
  const flying = createFlying(made);
  consumption.dispatched([{ pool, task, version, count: flying.count }]);
  return flying;
}
