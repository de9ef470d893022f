import { canRun } from '@pgqueue/core/internal';
import type { Load } from './consumption.ts';
import type { Item } from './items/item.ts';
import type { KnownJob } from './lanes/known-job.ts';

/**
 * Chooses the nodes that a dispatch wakes: as many as have slots for what is ready, in turn, and a spare one. If all were woken for each
 * job, twenty idle nodes would make twenty claims of it, nineteen of them in vain.
 */
export interface Wakes {
  /** Returns the nodes that are to claim; null: all of the pools. `rows`: the work items that are written. */
  readonly choose: (rows: readonly Row[], seen: Seen) => readonly string[] | null;
  /**
   * Reports whether an item has waited for nodes that did not claim it, although they were woken: they hang, or do not listen. Then all
   * must be woken, and those are not named for a while. Call after a read. `nowMs`: the database's time.
   */
  readonly overlooked: (items: readonly Item[], nowMs: number) => boolean;
}

/** Jobs of a work item to be written, the first of which tells what it needs. */
type Row = readonly {
  readonly pool: string;
  readonly bundle: string | null;
  readonly job: KnownJob | undefined;
}[];

/** Nodes and work items, as the leader knows them when it plans. */
interface Seen extends Pick<Load, 'now' | 'nodes'> {
  /** Items in flight before this dispatch. */
  readonly items: readonly Item[];
}

/** Batches that a node claims for each of its slots: one runs, and one is prefetched. */
const batchesPerSlot = 2;
/** Nodes that are woken beyond those needed: one may hang. */
const spareNodes = 1;
/** Most bytes of the list of names: a notification has less than 8,000. */
const namesMax = 6_000;
/** Time within which a woken node claims, in milliseconds. */
const claimMs = 100;
/** Time for which a node is not named after it was woken in vain, in milliseconds. */
const deafMs = 30_000;

export function createWakes(): Wakes {
  let turn = 0;
  /** Nodes that were named, by pool, since all of it were woken. */
  const called = new Map<string, Set<string>>();
  /** Nodes that were woken in vain, and until when they are not named. */
  const deaf = new Map<string, number>();
  const all = (pool: string): null => {
    called.delete(pool);
    return null;
  };
  return {
    choose: (rows, { now, nodes, items }) => {
      const pool = rows[0]?.[0]?.pool;
      if (pool === undefined) return null;
      for (const [id, untilMs] of deaf) if (untilMs <= now) deaf.delete(id);
      const able = ableTo(rows, nodes)?.filter(({ id }) => !deaf.has(id));
      if (able === undefined || able.length <= 1 + spareNodes) return all(pool);
      const perSlot = rows.some((row) => row.length > 1) ? batchesPerSlot : 1;
      const first = turn % able.length;
      const free = [...able.slice(first), ...able.slice(0, first)]
        .map(({ id, slots, running }) => ({ id, room: slots * perSlot - running }))
        .filter(({ room }) => room > 0);
      let open = rows.length + items.filter((item) => item.node === null && item.pool === pool).length;
      let needed = 0;
      for (const { room } of free) {
        if (open <= 0) break;
        open -= room;
        needed += 1;
      }
      const named = free.slice(0, needed + spareNodes).map(({ id }) => id);
      const isEnough = open <= 0 && named.length === needed + spareNodes;
      if (!isEnough || Buffer.byteLength(JSON.stringify(named)) > namesMax) return all(pool);
      turn += needed;
      called.set(pool, new Set([...(called.get(pool) ?? []), ...named]));
      return named;
    },
    overlooked: (items, nowMs) => {
      if (called.size === 0) return false;
      const late = items.find(
        ({ node, pool, dispatchedMs }) => node === null && dispatchedMs < nowMs - claimMs && called.has(pool),
      );
      if (late === undefined) return false;
      for (const id of called.get(late.pool) ?? []) deaf.set(id, nowMs + deafMs);
      called.clear();
      return true;
    },
  };
}

/** Returns the nodes that can run all of these items; undefined: some need a node of a certain kind. */
function ableTo(rows: readonly Row[], nodes: Load['nodes']): Load['nodes'] | undefined {
  let able = nodes;
  const kinds = new Set<string>();
  for (const [row] of rows) {
    if (row?.job === undefined || row.bundle !== null || row.job.crashes > 0) return undefined;
    const { pool, job } = row;
    const kind = JSON.stringify([pool, job.task, job.version]);
    if (kinds.has(kind)) continue;
    kinds.add(kind);
    able = able.filter((node) => node.pool === pool && canRun(node, job.task, job.version));
  }
  return able;
}
