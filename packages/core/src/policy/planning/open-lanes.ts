import type { Held } from './hold-counts.ts';
import type { LaneKinds } from './kinds.ts';
import type { OpenGates } from './open-gates.ts';
import type { Judged } from '../gate.ts';
import type { ClosedLane } from '../plan.ts';
import type { Fit, Slots } from './slots.ts';
import type { Candidate, Lane, Snapshot } from '../snapshot.ts';

/** What says that a job can't go. */
export interface Obstacles {
  readonly gates: OpenGates;
  readonly slots: Slots;
  readonly poolOf: (queue: string) => string;
  /** Whether work items may be recalled for it: then a free slot is not needed. */
  readonly recall: boolean;
}

/**
 * The lanes of which something may go when a plan begins. Of the others, gates hold each kind of their jobs, or no node has a place
 * for it: they are counted, and need not be gone through.
 */
export function findOpen({ lanes }: Snapshot, by: Obstacles, held: Pick<Held, 'closed'>): readonly Lane[] {
  const { gates, slots, poolOf, recall } = by;
  const { kinds } = gates;
  if (kinds === null) return lanes;
  const fits = placesFor(slots, recall);
  const open: Lane[] = [];
  let [queue, pool, asks]: [string | undefined, string, boolean] = [undefined, '', false];
  for (let slot = 0; slot < lanes.length; slot += 1) {
    const [lane, own] = [lanes[slot], kinds.lanes[slot]];
    if (lane === undefined || own === undefined) continue;
    if (lane.queue !== queue) {
      [queue, pool] = [lane.queue, poolOf(lane.queue)];
      asks = recall || slots.left(pool) > 0;
    }
    const closed = asks ? closedLane(lane, own, { fits, gates, pool }) : undefined;
    if (closed === undefined) open.push(lane);
    else held.closed(closed);
  }
  return open.length === lanes.length ? lanes : open;
}

interface Asking {
  readonly fits: (pool: string, job: Candidate) => Judged | undefined;
  readonly gates: OpenGates;
  readonly pool: string;
}

/** Undefined: some kind of its jobs may go. */
function closedLane(lane: Lane, own: LaneKinds, { fits, gates, pool }: Asking): ClosedLane | undefined {
  const { kinds, firsts, closed: before } = own;
  // made only where something differs from the last plan: there may be thousands of lanes
  let judged: Judged[] | undefined = before?.lane.lane === lane ? undefined : [];
  for (let at = 0; at < kinds.length; at += 1) {
    const [kind, first] = [kinds[at], firsts[at]];
    if (kind === undefined || first === undefined) return undefined;
    const one = fits(pool, first) ?? gates.closes(lane, kind, first);
    if (one === undefined) return undefined;
    if (judged === undefined && before?.judged[at] !== one) judged = before?.judged.slice(0, at) ?? [];
    judged?.push(one);
  }
  if (judged === undefined && before !== null) return before.lane;
  own.closed = { lane: { lane, ...reasonsOf(own, judged ?? []) }, judged: judged ?? [] };
  return own.closed.lane;
}

function reasonsOf(
  { kinds, of, counts: jobs }: LaneKinds,
  judged: readonly Judged[],
): Omit<ClosedLane, 'lane'> {
  const [first] = judged;
  const whole = judged.every(({ verdict, gate }) => verdict === 'hold_lane' && gate === first?.gate);
  const counts = new Map<string, number>();
  judged.forEach(({ gate }, at) => counts.set(gate, (counts.get(gate) ?? 0) + (jobs[at] ?? 0)));
  return {
    gate: whole ? (first?.gate ?? null) : null,
    counts,
    reasonOf: (place) => {
      const kind = of?.[place];
      return (kind === undefined ? first : judged[kinds.indexOf(kind)])?.gate ?? '';
    },
  };
}

const noNode: Judged = { verdict: 'hold', gate: 'no_capable_node' };
const noSlot: Judged = { verdict: 'hold', gate: 'no_free_slot' };

/** Why a job that fits so has no place. A plan that may recall work items asks about jobs without a free slot, too. */
export function noPlace(fit: Fit, recall: boolean): Judged | undefined {
  if (fit === 'fits') return undefined;
  if (fit === 'no_capable_node') return noNode;
  return recall ? undefined : noSlot;
}

/** The same for the jobs of one pool, task and version after the other, before any of them takes a place. */
function placesFor(slots: Slots, recall: boolean): (pool: string, job: Candidate) => Judged | undefined {
  let [pool, task, version]: [string | null, string, number] = [null, '', 0];
  let found: Judged | undefined;
  return (name, job) => {
    if (pool !== name || task !== job.task || version !== job.version) {
      [pool, task, version] = [name, job.task, job.version];
      found = noPlace(slots.fit(name, job), recall);
    }
    return found;
  };
}
