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
  /** Index among the groups of its pool. */
  readonly index: number;
  readonly tasks: NodeGroup['tasks'] | null;
  readonly nodes: SimNode[];
  slots: number;
  free: number;
}

/** Slots of the nodes of a pool. Several fleets may share them. */
export interface Slots {
  readonly groups: Group[];
  total: number;
  free: number;
}

/** A pool of nodes with its ready work items. */
export interface Pool {
  readonly slots: Slots;
  /**
   * Slots that jobs of this fleet use, by group. A scheduler plans for all others: it knows nothing of other
   * installations that use them.
   */
  readonly used: number[];
  usedTotal: number;
  /**
   * Work items in the order of their dispatch, from `start` on. Items that are not ready any more are
   * skipped.
   */
  ready: SimItem[];
  start: number;
  readyCount: number;
  readonly kinds: Map<string, { readonly task: string; readonly version: number; count: number }>;
  /** Work items taken since the last plan. `perSecond`: the smoothed rate. */
  taken: number;
  perSecond: number;
}

export interface Fleet {
  readonly pools: ReadonlyMap<string, Pool>;
  readonly slots: number;
  readonly add: (item: SimItem) => void;
  /** Assigns ready items to free slots, in order: up to `max`, or all that there is room for. */
  readonly claim: (pool: Pool, start: (item: SimItem) => void, max?: number) => void;
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

/** Creates the slots of nodes, by pool. @throws {PgQueueError} `configuration` */
export function createSlots(nodes: readonly NodeOptions[]): ReadonlyMap<string, Slots> {
  throwProblems('configuration', 'the fleet', fleetProblems(nodes));
  return slotsOf(nodes);
}

/** Creates a fleet with the given slots. */
export function createFleet(slots: ReadonlyMap<string, Slots>, horizonMs: number): Fleet {
  const pools = new Map([...slots].map(([name, own]) => [name, emptyPool(own)]));
  const known: Record<string, { min: number; max: number }> = {};
  let everything: NodeGroup['tasks'] = {};
  const extraOf = ({ perSecond }: Pool): number => (perSecond * horizonMs) / 1_000;
  return {
    pools,
    slots: [...slots.values()].reduce((sum, { total }) => sum + total, 0),
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
      if (own === undefined) return;
      own.slots.free += 1;
      use(own, node.group, -1);
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
          const { groups: own, total } = pool.slots;
          const groups = own.map((group): NodeGroup => {
            const extra = total === 0 ? 0 : Math.floor((extraOf(pool) * group.slots) / total);
            const free = group.slots - (pool.used[group.index] ?? 0);
            return { tasks: group.tasks ?? everything, slots: group.slots, depth: free + extra };
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
        room += Math.max(0, pool.slots.total - pool.usedTotal + Math.floor(extraOf(pool)) - pool.readyCount);
      }
      return room;
    },
  };
}

function slotsOf(nodes: readonly NodeOptions[]): ReadonlyMap<string, Slots> {
  const pools = new Map<string, Slots>();
  nodes.forEach(({ count = 1, slots, pool: name = defaultPool, tasks = null }, kind) => {
    const pool = pools.get(name) ?? { groups: [], total: 0, free: 0 };
    pools.set(name, pool);
    const known = pool.groups.find((group) => JSON.stringify(group.tasks) === JSON.stringify(tasks));
    const group: Group = known ?? { index: pool.groups.length, tasks, nodes: [], slots: 0, free: 0 };
    if (known === undefined) pool.groups.push(group);
    for (let at = 0; at < count; at += 1) {
      group.nodes.push({ name: `${name}-${kind + 1}-${at + 1}`, group, free: slots });
      group.slots += slots;
      group.free += slots;
      pool.total += slots;
      pool.free += slots;
    }
  });
  return pools;
}

function emptyPool(slots: Slots): Pool {
  return {
    slots,
    used: slots.groups.map(() => 0),
    usedTotal: 0,
    ready: [],
    start: 0,
    readyCount: 0,
    kinds: new Map(),
    taken: 0,
    perSecond: 0,
  };
}

function use(pool: Pool, { index }: Group, change: 1 | -1): void {
  pool.used[index] = (pool.used[index] ?? 0) + change;
  pool.usedTotal += change;
}

function countReady(pool: Pool, { job }: SimItem, change: 1 | -1): void {
  pool.readyCount += change;
  const { task, version } = job.facts;
  const name = `${version} ${task}`;
  const kind = pool.kinds.get(name);
  if (kind === undefined) pool.kinds.set(name, { task, version, count: change });
  else kind.count += change;
}

function claim(pool: Pool, start: (item: SimItem) => void, max = Infinity): void {
  const { ready, slots } = pool;
  const until = pool.taken + max;
  for (let at = pool.start; at < ready.length && slots.free > 0 && pool.readyCount > 0; at += 1) {
    if (pool.taken >= until) break;
    const item = ready[at];
    if (item?.ready === true) {
      const node = nodeFor(pool, item);
      if (node === undefined) continue;
      item.ready = false;
      item.node = node;
      node.free -= 1;
      node.group.free -= 1;
      slots.free -= 1;
      use(pool, node.group, 1);
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
  for (const { tasks, free, nodes } of pool.slots.groups) {
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
