import type { NodeGroup, PoolSeen, ReadyItems, VersionRange } from '@pgqueue/core';
import { canRun, defaultPool, throwProblems } from '@pgqueue/core/internal';
import type { SimJob } from '../line.ts';

/** Worker nodes of a simulated fleet. */
export interface NodeOptions {
  /** Number of such nodes. Default 1. */
  readonly count?: number;
  /** Jobs that each node runs at once. */
  readonly slots: number;
  /** Default `default`. */
  readonly pool?: string;
  /** Tasks and payload versions that the node can run. Default: everything. */
  readonly tasks?: Readonly<Record<string, VersionRange>>;
}

/** A work item of the simulation. */
export interface SimItem {
  readonly job: SimJob;
  readonly pool: string;
  readonly bundle: string | null;
  /** Other jobs of its bundle, for the same handler call. */
  readonly members: SimJob[];
  readonly dispatchedMs: number;
  node: SimNode | null;
  /** The item waits to be claimed: no node has taken it, and it was not recalled. */
  ready: boolean;
}

export interface SimNode {
  readonly name: string;
  readonly group: Group;
  free: number;
}

interface Group {
  readonly tasks: NodeGroup['tasks'] | null;
  readonly nodes: SimNode[];
  slots: number;
  free: number;
}

/** A pool of nodes with its ready work items. */
export interface Pool {
  readonly groups: Group[];
  /**
   * Work items in the order of their dispatch, from `start` on. Items that are not ready any more are
   * skipped.
   */
  ready: SimItem[];
  start: number;
  readyCount: number;
  readonly kinds: Map<string, { readonly task: string; readonly version: number; count: number }>;
  free: number;
  /** Work items taken since the last plan. `perSecond`: the smoothed rate. */
  taken: number;
  perSecond: number;
}

export interface Fleet {
  readonly pools: ReadonlyMap<string, Pool>;
  readonly slots: number;
  readonly add: (item: SimItem) => void;
  /** Assigns ready items to free slots, in order. */
  readonly claim: (pool: Pool, start: (item: SimItem) => void) => void;
  readonly release: (item: SimItem) => void;
  readonly recall: (item: SimItem) => void;
  /** Returns the pools as a snapshot shows them. `sinceMs`: time since the last snapshot. */
  readonly seen: (sinceMs: number) => Readonly<Record<string, PoolSeen>>;
  /** Records a task's version of some job, so that nodes without `tasks` can run it. */
  readonly know: (task: string, version: number) => void;
  /** Returns the number of further work items that the pools have room for. */
  readonly room: () => number;
}

const smoothingMs = 300;

/** Creates a fleet. @throws {PgQueueError} `configuration` */
export function createFleet(nodes: readonly NodeOptions[], horizonMs: number): Fleet {
  throwProblems('configuration', 'the fleet', fleetProblems(nodes));
  const pools = poolsOf(nodes);
  const known: Record<string, { min: number; max: number }> = {};
  let everything: NodeGroup['tasks'] = {};
  const extraOf = ({ perSecond }: Pool): number => (perSecond * horizonMs) / 1_000;
  return {
    pools,
    slots: nodes.reduce((sum, { slots, count = 1 }) => sum + slots * count, 0),
    add: (item) => {
      const pool = pools.get(item.pool);
      if (pool === undefined) return;
      pool.ready.push(item);
      countReady(pool, item, 1);
    },
    claim,
    release: ({ node, pool }) => {
      if (node === null) return;
      node.free += 1;
      node.group.free += 1;
      const own = pools.get(pool);
      if (own !== undefined) own.free += 1;
    },
    recall: (item) => {
      item.ready = false;
      const pool = pools.get(item.pool);
      if (pool !== undefined) countReady(pool, item, -1);
    },
    seen: (sinceMs) =>
      Object.fromEntries(
        [...pools].map(([name, pool]) => {
          measure(pool, sinceMs);
          const slots = pool.groups.reduce((sum, group) => sum + group.slots, 0);
          const groups = pool.groups.map((group): NodeGroup => {
            const extra = slots === 0 ? 0 : Math.floor((extraOf(pool) * group.slots) / slots);
            return { tasks: group.tasks ?? everything, slots: group.slots, depth: group.free + extra };
          });
          const ready = pool.readyCount === 0 ? [] : readyKinds(pool);
          return [name, { groups, ready }] as const;
        }),
      ),
    know: (task, version) => {
      const range = Object.hasOwn(known, task) ? known[task] : undefined;
      if (range !== undefined && range.min <= version && version <= range.max) return;
      known[task] = {
        min: Math.min(version, range?.min ?? version),
        max: Math.max(version, range?.max ?? version),
      };
      everything = { ...known };
    },
    room: () => {
      let room = 0;
      for (const pool of pools.values()) {
        room += Math.max(0, pool.free + Math.floor(extraOf(pool)) - pool.readyCount);
      }
      return room;
    },
  };
}

function poolsOf(nodes: readonly NodeOptions[]): Map<string, Pool> {
  const pools = new Map<string, Pool>();
  nodes.forEach(({ count = 1, slots, pool: name = defaultPool, tasks = null }, kind) => {
    const pool = pools.get(name) ?? emptyPool();
    pools.set(name, pool);
    const known = pool.groups.find((group) => JSON.stringify(group.tasks) === JSON.stringify(tasks));
    const group: Group = known ?? { tasks, nodes: [], slots: 0, free: 0 };
    if (known === undefined) pool.groups.push(group);
    for (let at = 0; at < count; at += 1) {
      group.nodes.push({ name: `${name}-${kind + 1}-${at + 1}`, group, free: slots });
      group.slots += slots;
      group.free += slots;
      pool.free += slots;
    }
  });
  return pools;
}

function emptyPool(): Pool {
  return {
    groups: [],
    ready: [],
    start: 0,
    readyCount: 0,
    kinds: new Map(),
    free: 0,
    taken: 0,
    perSecond: 0,
  };
}

function countReady(pool: Pool, { job }: SimItem, change: 1 | -1): void {
  pool.readyCount += change;
  const { task, version } = job.facts;
  const name = `${version} ${task}`;
  const kind = pool.kinds.get(name);
  if (kind === undefined) pool.kinds.set(name, { task, version, count: change });
  else kind.count += change;
}

function claim(pool: Pool, start: (item: SimItem) => void): void {
  const { ready } = pool;
  for (let at = pool.start; at < ready.length && pool.free > 0 && pool.readyCount > 0; at += 1) {
    const item = ready[at];
    if (item?.ready === true) {
      const node = nodeFor(pool, item);
      if (node === undefined) continue;
      item.ready = false;
      item.node = node;
      node.free -= 1;
      node.group.free -= 1;
      pool.free -= 1;
      pool.taken += 1;
      countReady(pool, item, -1);
      start(item);
    }
    if (at === pool.start) pool.start += 1;
  }
  if (pool.readyCount === 0) {
    ready.length = 0;
    pool.start = 0;
  } else if (pool.start > 256 && pool.start * 2 > ready.length) {
    pool.ready = ready.slice(pool.start);
    pool.start = 0;
  }
}

/** Returns the node with the most free slots that can run the item. */
function nodeFor(pool: Pool, { job }: SimItem): SimNode | undefined {
  let best: SimNode | undefined;
  for (const { tasks, free, nodes } of pool.groups) {
    if (free === 0 || (tasks !== null && !canRun({ tasks }, job.facts.task, job.facts.version))) continue;
    for (const node of nodes) if (node.free > (best?.free ?? 0)) best = node;
  }
  return best;
}

/** Measures the rate at which work items are taken, as the scheduler does. */
function measure(pool: Pool, sinceMs: number): void {
  if (sinceMs <= 0) return;
  const weight = 1 - Math.exp(-sinceMs / smoothingMs);
  pool.perSecond += ((pool.taken * 1_000) / sinceMs - pool.perSecond) * weight;
  pool.taken = 0;
}

function readyKinds({ kinds }: Pool): readonly ReadyItems[] {
  const found: ReadyItems[] = [];
  for (const { task, version, count } of kinds.values()) if (count > 0) found.push({ task, version, count });
  return found;
}

function fleetProblems(nodes: readonly NodeOptions[]): readonly string[] {
  const whole = (value: number, max: number): boolean =>
    Number.isInteger(value) && value >= 1 && value <= max;
  return [
    ...(nodes.length > 0 ? [] : ['it has no node']),
    ...nodes.flatMap(({ slots, count = 1 }, at) => [
      ...(whole(slots, 100_000) ? [] : [`slots of node ${at} must be a whole number from 1 to 100000`]),
      ...(whole(count, 10_000) ? [] : [`count of node ${at} must be a whole number from 1 to 10000`]),
    ]),
  ];
}
