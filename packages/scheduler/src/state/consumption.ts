import type { JobKind, NodeGroup, PoolSeen } from '@pgqueue/core';
import { canRun } from '@pgqueue/core';
import type { TickState } from '@pgqueue/postgres';

/** Nodes that take work, with the number of items each runs, and the ready work items by pool and kind. */
export interface Load {
  readonly now: number;
  readonly nodes: readonly (TickState['nodes'][number] & { readonly running: number })[];
  readonly ready: readonly (JobKind & { readonly pool: string; readonly count: number })[];
}

/** Measures how fast nodes take work items, by pool and kind. Sampled between ticks and smoothed. */
export interface Consumption {
  /** Takes a sample: compares the ready items with the last sample plus everything dispatched since. */
  readonly sample: (load: Load) => void;
  readonly dispatched: (jobs: readonly Places[]) => void;
  /** Work items per second. */
  readonly rates: () => readonly (JobKind & { readonly pool: string; readonly perSecond: number })[];
  /** Call when the outcome of a write is unknown: drops the last sample, but keeps the rates. */
  readonly forget: () => void;
}

/** A number of work items of one kind. Default: one. */
export interface Places extends JobKind {
  readonly pool: string;
  readonly count?: number;
}

interface Flow extends JobKind {
  readonly pool: string;
  waiting: number;
  perSecond: number;
}

const smoothingMs = 300;

export function measureConsumption(): Consumption {
  const flows = new Map<string, Flow>();
  let sampledAt: number | undefined;

  const flowOf = ({ pool, task, version }: JobKind & { readonly pool: string }): Flow => {
    const name = JSON.stringify([pool, task, version]);
    const flow = flows.get(name) ?? { pool, task, version, waiting: 0, perSecond: 0 };
    flows.set(name, flow);
    return flow;
  };

  return {
    sample: ({ now, ready }) => {
      const elapsedMs = sampledAt === undefined ? 0 : now - sampledAt;
      const counts = new Map(ready.map((item) => [flowOf(item), item.count]));
      for (const [name, flow] of flows) {
        const count = counts.get(flow) ?? 0;
        // skip the sample if the database's clock was set back
        if (elapsedMs > 0) {
          const weight = 1 - Math.exp(-elapsedMs / smoothingMs);
          const perSecond = (Math.max(0, flow.waiting - count) * 1_000) / elapsedMs;
          flow.perSecond += (perSecond - flow.perSecond) * weight;
        }
        flow.waiting = count;
        if (count === 0 && flow.perSecond < 0.01) flows.delete(name);
      }
      sampledAt = now;
    },
    dispatched: (jobs) => {
      let last: Flow | undefined;
      for (const job of jobs) {
        if (last?.task !== job.task || last.version !== job.version || last.pool !== job.pool)
          last = flowOf(job);
        last.waiting += job.count ?? 1;
      }
    },
    rates: () => [...flows.values()],
    forget: () => {
      sampledAt = undefined;
    },
  };
}

/**
 * Computes how many ready work items each group of nodes should have: its free slots plus its consumption
 * within the horizon. More would commit to an order too early, so a late urgent job would wait behind them.
 * Fewer would leave slots idle between ticks.
 */
export function poolsSeen(
  load: Load,
  rates: ReturnType<Consumption['rates']>,
  horizonMs: number,
): Readonly<Record<string, PoolSeen>> {
  const pools = Map.groupBy(load.nodes, ({ pool }) => pool);
  const ready = Map.groupBy(load.ready, ({ pool }) => pool);
  return Object.fromEntries(
    [...pools].map(([pool, nodes]) => {
      const groups = [...Map.groupBy(nodes, capability).values()].flatMap((alike): NodeGroup[] => {
        const [first] = alike;
        if (first === undefined) return [];
        const slots = alike.reduce((sum, node) => sum + node.slots, 0);
        const free = alike.reduce((sum, node) => sum + Math.max(0, node.slots - node.running), 0);
        return [{ tasks: tasksOf(first), slots, depth: free }];
      });
      const extra = groups.map(() => 0);
      for (const rate of rates) {
        if (rate.pool !== pool) continue;
        const able = groups.map((group) => canRun(group, rate.task, rate.version));
        const slots = groups.reduce((sum, group, at) => sum + (able[at] ? group.slots : 0), 0);
        groups.forEach((group, at) => {
          if (able[at] && slots > 0)
            extra[at] = (extra[at] ?? 0) + (((rate.perSecond * horizonMs) / 1_000) * group.slots) / slots;
        });
      }
      return [
        pool,
        {
          groups: groups.map((group, at) => ({
            ...group,
            depth: group.depth + Math.floor(extra[at] ?? 0),
          })),
          ready: (ready.get(pool) ?? []).map(({ task, version, count }) => ({ task, version, count })),
        },
      ] as const;
    }),
  );
}

function tasksOf({ tasks }: TickState['nodes'][number]): NodeGroup['tasks'] {
  return Object.fromEntries(
    Object.entries(tasks).map(([task, { min, max, batch }]) => [
      task,
      batch === true ? { min, max } : { min, max, single: true },
    ]),
  );
}

/** Returns a text that is equal for nodes that can run the same tasks. Timeouts are ignored. */
export function capability(node: TickState['nodes'][number]): string {
  const ranges = Object.entries(node.tasks).map(([task, { min, max, batch }]) => [
    task,
    min,
    max,
    batch === true,
  ]);
  return JSON.stringify(ranges.toSorted(([a], [b]) => (String(a) < String(b) ? -1 : 1)));
}
