import { coalescingHold } from './coalescing.ts';
import type { Parts } from '../parts.ts';
import { createHeads } from './lane-heads.ts';
import { openGates } from './open-gates.ts';
import type { Explanation, Hold, Watch } from '../policy.ts';
import type { PolicyState } from '../plan.ts';
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
  const holds = [...places(snapshot, job), ...gates.why(job, lane)].concat(coalesces);
  return { holds, ahead: countAhead(parts, asked) };
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

/**
 * Counts the jobs that the order chooses before this one when no rule holds any. Null when the order fails,
 * or never comes to the job.
 */
function countAhead({ order }: Parts, asked: Parameters<typeof explainWith>[1]): number | null {
  const { snapshot, state, job, watch } = asked;
  if (watch?.avoids(order.name, null) === true) return null;
  const heads = createHeads(snapshot.lanes);
  try {
    const open = order.open(snapshot, state[order.name] ?? order.initial ?? null, heads);
    let ahead = 0;
    for (;;) {
      const lane = open.next();
      const head = lane === undefined ? undefined : heads.of(lane);
      if (lane === undefined || head === undefined) return null;
      if (head.id === job.id) return ahead;
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
    return null;
  }
}
