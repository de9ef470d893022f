import type { QueueSeen, Rate } from '@pgqueue/core';
import { defaultPool, homeOf } from '@pgqueue/core/internal';
import type { Arrival } from '../workloads/arrival.ts';
import type { NodeOptions } from '../workloads/fleet.ts';
import type { FlowArrival } from '../workloads/flow-arrival.ts';

/** Sends each arrival to the home of its key, as a router does: those without a key in turn, flows by the flow's key. */
export function byHome(
  arrivals: Iterable<Arrival | FlowArrival>,
  numbers: readonly number[],
): readonly (readonly (Arrival | FlowArrival)[])[] {
  const homes = numbers.map((): (Arrival | FlowArrival)[] => []);
  const known = new Map<string, number>();
  let turn = 0;
  for (const arrival of arrivals) {
    const { key = '' } = arrival;
    let home = known.get(key);
    if (key === '') home = turn = (turn + 1) % numbers.length;
    else if (home === undefined) known.set(key, (home = numbers.indexOf(homeOf(key, numbers))));
    homes[home]?.push(arrival);
  }
  return homes;
}

/** Nodes of each installation, and what is wrong with so many. */
export interface Shares {
  readonly fleets: readonly (readonly NodeOptions[])[];
  readonly problems: readonly string[];
}

/**
 * Divides nodes among installations: whole nodes as far as they go, then the slots of the nodes that are left. No
 * installation gets more than one slot more than another of each kind of node.
 */
export function divideFleet(fleet: readonly NodeOptions[], count: number): Shares {
  const fleets = Array.from({ length: count }, (): NodeOptions[] => []);
  // so that the same installations do not get the odd slot of every kind of node
  let turn = 0;
  for (const { count: nodes = 1, slots, ...node } of fleet) {
    const whole = Math.floor(nodes / count);
    const left = (nodes - whole * count) * slots;
    for (const [index, own] of fleets.entries()) {
      if (whole > 0) own.push({ ...node, slots, count: whole });
      const odd = (index - turn + count) % count < left % count ? 1 : 0;
      const part = Math.floor(left / count) + odd;
      if (part > 0) own.push({ ...node, slots: part });
    }
    turn = (turn + left) % count;
  }
  const pools = new Set(fleet.map(({ pool = defaultPool }) => pool));
  const problems = [...pools]
    .filter((pool) => fleets.some((own) => own.every((node) => (node.pool ?? defaultPool) !== pool)))
    .map((pool) => `pool ${pool} has too few slots for ${count} installations: each needs one at least`);
  return { fleets, problems };
}

/**
 * Divides the limits of queues, so that those of all installations together are the given ones: of a concurrency at
 * least 1 for each. Limits of a key stay, as a key has one home.
 * @param index number of the installation among them, from 0
 */
export function divideLimits(
  queues: Readonly<Record<string, Partial<QueueSeen>>>,
  { index, count }: { readonly index: number; readonly count: number },
): Readonly<Record<string, Partial<QueueSeen>>> {
  return Object.fromEntries(
    Object.entries(queues).map(([name, queue]) => {
      const { concurrency = null, rate = null } = queue;
      const own = {
        ...queue,
        concurrency: concurrency === null ? null : partOf(concurrency, { index, count }),
        rate: rate === null ? null : partOfRate(rate, count),
      };
      return [name, own];
    }),
  );
}

function partOf(limit: number, { index, count }: { readonly index: number; readonly count: number }): number {
  if (limit === 0) return 0;
  return Math.max(1, Math.floor(limit / count) + (index < limit % count ? 1 : 0));
}

function partOfRate({ perSecond, burst }: Rate, count: number): Rate {
  return { perSecond: perSecond / count, burst: Math.max(Math.min(1, burst), burst / count) };
}
