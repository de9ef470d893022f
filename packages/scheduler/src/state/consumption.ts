import type { JobKind, NodeGroup, PoolSeen } from '@pgqueue/core';
import { own } from '@pgqueue/core';
import { canRun } from '@pgqueue/core/internal';
import type { TickState } from '@pgqueue/postgres/internal';

/** Nodes that take work, with the number of items each runs, and the work items by pool and kind. */
export interface Load {
  readonly now: number;
  readonly nodes: readonly (TickState['nodes'][number] & { readonly running: number })[];
  /** `ready`: jobs without a lease; `inFlight`: all jobs with work items. A bundle counts as one job. */
  readonly items: readonly (Kind & { readonly ready: number; readonly inFlight: number })[];
}

/** Measures how fast nodes work jobs off, by pool and kind. Sampled between ticks and smoothed. */
export interface Consumption {
  /** Takes a sample: compares the jobs in flight with the last sample plus everything dispatched since. */
  readonly sample: (load: Load) => void;
  readonly dispatched: (jobs: readonly Places[]) => void;
  /** Jobs per second. */
  readonly rates: () => readonly (Kind & { readonly perSecond: number })[];
  /** Call when jobs left work items without having run: drops the last sample, but keeps the rates. */
  readonly forget: () => void;
}

interface Kind extends JobKind {
  readonly pool: string;
}

/** A number of work items of one kind. Default: one. */
export interface Places extends Kind {
  readonly count?: number;
}

interface Flow extends Kind {
  inFlight: number;
  perSecond: number;
  /** Time since which nothing ended, while something was in flight. */
  sinceMs: number;
}

const smoothingMs = 300;
/** Rate at which a flow may begin to grow, per slot: one more job for each slot within 50 ms. */
const firstPerSlot = 20;

export function measureConsumption(): Consumption {
  const flows = new Map<string, Flow>();
  let sampledAt: number | undefined;

  const flowOf = ({ pool, task, version }: Kind): Flow => {
    const name = JSON.stringify([pool, task, version]);
    const flow = flows.get(name) ?? {
      pool,
      task,
      version,
      inFlight: 0,
      perSecond: 0,
      sinceMs: sampledAt ?? 0,
    };
    flows.set(name, flow);
    return flow;
  };

  return {
    sample: ({ now, nodes, items }) => {
      const elapsedMs = sampledAt === undefined ? 0 : now - sampledAt;
      const seen = new Map(items.map((item) => [flowOf(item), item]));
      for (const [name, flow] of flows) {
        const { ready, inFlight } = seen.get(flow) ?? { ready: 0, inFlight: 0 };
        const ended = Math.max(0, flow.inFlight - inFlight);
        // skip the sample if the database's clock was set back
        if (elapsedMs > 0) {
          const weight = 1 - Math.exp(-elapsedMs / smoothingMs);
          flow.perSecond += ((ended * 1_000) / elapsedMs - flow.perSecond) * weight;
          if (ended > 0 && ready === 0) grow(flow, { ended, now, nodes });
        }
        if (ended > 0 || inFlight === 0 || elapsedMs <= 0) flow.sinceMs = now;
        flow.inFlight = inFlight;
        if (inFlight === 0 && flow.perSecond < 0.01) flows.delete(name);
      }
      sampledAt = now;
    },
    dispatched: (jobs) => {
      let last: Flow | undefined;
      for (const job of jobs) {
        if (last?.task !== job.task || last.version !== job.version || last.pool !== job.pool)
          last = flowOf(job);
        last.inFlight += job.count ?? 1;
      }
    },
    rates: () => [...flows.values()],
    forget: () => {
      sampledAt = undefined;
    },
  };
}

/**
 * Raises the rate of a flow whose nodes have free slots and nothing ready: they would have taken more, so the
 * rate of what ended is the least that they can do. Without this a backlog that appears at once took a second
 * until nodes had enough of it. It at most doubles, and only for tasks that nodes have measured to be short,
 * up to what their slots can do.
 */
function grow(
  flow: Flow,
  { ended, now, nodes }: Pick<Load, 'now' | 'nodes'> & { readonly ended: number },
): void {
  const { pool, task, version, perSecond, sinceMs } = flow;
  let [slots, free, runMs] = [0, 0, 0];
  for (const node of nodes) {
    if (node.pool !== pool || !canRun(node, task, version)) continue;
    slots += node.slots;
    free += Math.max(0, node.slots - node.running);
    runMs = Math.max(runMs, own(node.runs, task) ?? 0);
  }
  if (free === 0 || runMs <= 0 || now <= sinceMs) return;
  const most = Math.max(2 * perSecond, firstPerSlot * slots);
  const seen = Math.min((ended * 1_000) / (now - sinceMs), (slots * 1_000) / runMs);
  flow.perSecond = Math.max(perSecond, Math.min(most, seen));
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
  const items = Map.groupBy(load.items, ({ pool }) => pool);
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
          ready: (items.get(pool) ?? [])
            .filter(({ ready }) => ready > 0)
            .map(({ task, version, ready }) => ({ task, version, count: ready })),
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
