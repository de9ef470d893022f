import { coalescingHold } from './coalescing.ts';
import type { Order } from '../order.ts';
import type { Parts } from '../parts.ts';
import { createHeads } from './lane-heads.ts';
import { openGates } from './open-gates.ts';
import type { Explanation, Hold, Watch } from '../policy.ts';
import type { PolicyState } from '../plan.ts';
import { isOwnPart } from '../own-parts.ts';
import { openSlots } from './slots.ts';
import type { JobFacts, Lane, Snapshot } from '../snapshot.ts';
import { own, poolOf } from '../snapshot.ts';

/** Asks the parts of a policy about one job, with the same code that plans. */
export function explainWith(
  parts: Parts,
  asked: {
    readonly snapshot: Snapshot;
    readonly state: PolicyState;
    readonly job: JobFacts;
    /** The job's lane. It need not show the job. */
    readonly lane: Lane;
    readonly watch?: Watch | undefined;
  },
): Explanation {
  const { snapshot, state, job, lane, watch } = asked;
  if (watch !== undefined) watch.part = parts.order.name;
  const gates = openGates(parts.gates, snapshot, { state, faults: [], watch });
  const coalesces = coalescingHold(parts.coalesce, { job, lane, snapshot }) ?? [];
  const ahead = countAhead(parts, asked);
  const holds = [...places(snapshot, job), ...gates.why(job, lane)].concat(coalesces, ahead.holds);
  return { holds, ahead: ahead.count };
}

function places(snapshot: Snapshot, job: JobFacts): readonly Hold[] {
  const pool = poolOf(snapshot, job.queue);
  const fit = openSlots(snapshot).fit(pool, job);
  if (fit === 'fits') return [];
  if (fit === 'no_capable_node') {
    const message = `no live node of pool ${pool} runs task ${job.task} with payloads of version ${job.version}`;
    return [{ gate: fit, message, untilMs: null }];
  }
  const groups = own(snapshot.pools, pool)?.groups ?? [];
  const slots = groups.reduce((sum, group) => sum + group.slots, 0);
  const taken = snapshot.inFlight.filter((item) => item.pool === pool);
  const running = taken.filter(({ state }) => state === 'running').length;
  const ready = taken.length - running;
  const message = `${running} ${running === 1 ? 'job runs' : 'jobs run'} in the ${slots} ${slots === 1 ? 'slot' : 'slots'} of pool ${pool}, ${ready} more ${ready === 1 ? 'is' : 'are'} ready`;
  return [{ gate: fit, message, untilMs: null, paced: true }];
}

interface Ahead {
  readonly count: number | null;
  readonly holds: readonly Hold[];
}

/**
 * Counts the jobs that the order chooses before this one when no rule holds any. Null when the order fails,
 * or never comes to the job. An order that ends before it comes to a job that its lane shows holds that job.
 */
function countAhead({ order }: Parts, asked: Parameters<typeof explainWith>[1]): Ahead {
  const { snapshot, state, job, watch } = asked;
  const unknown = { count: null, holds: [] };
  if (watch?.avoids(order.name, null) === true) return unknown;
  const heads = createHeads(snapshot.lanes);
  try {
    const open = order.open(snapshot, state[order.name] ?? order.initial ?? null, heads);
    let ahead = 0;
    for (;;) {
      const lane = open.next();
      const head = lane === undefined ? undefined : heads.of(lane);
      if (lane === undefined || head === undefined)
        return leavesOut(order, asked.lane, job) ? { count: null, holds: [endedBy(order)] } : unknown;
      if (head.id === job.id) return { count: ahead, holds: [] };
      if (heads.unknown(lane)) {
        heads.close(lane);
        open.passed(lane, head);
        continue;
      }
      heads.take(lane, head);
      open.taken(lane, head);
      ahead += 1;
    }
  } catch {
    return unknown;
  }
}

/** Reports whether an order that has ended should have come to the job: pgqueue's own orders offer all they are shown. */
function leavesOut(order: Order, { jobs }: Lane, { id }: JobFacts): boolean {
  return !isOwnPart(order) && jobs.some((job) => job.id === id);
}

function endedBy({ name }: Order): Hold {
  const message = `the order ${name} offered no more jobs before it came to this one: its next() must name a lane as long as one has a head`;
  return { gate: name, message, untilMs: null };
}
