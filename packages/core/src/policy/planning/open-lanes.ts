import type { Held } from './hold-counts.ts';
import type { LaneKinds, Standing } from './kinds.ts';
import { onlyKind } from './kinds.ts';
import type { KindsOfPlan } from './kind-memory.ts';
import type { OpenGates } from './open-gates.ts';
import type { Judged } from '../gate.ts';
import type { ClosedLane, ClosedLanes } from '../plan.ts';
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
 * for it: they are counted, and need not be gone through. Lanes whose jobs are all of one kind are judged together.
 */
export function findOpen(
  { lanes }: Snapshot,
  by: Obstacles,
  held: Pick<Held, 'closed' | 'count'>,
): readonly Lane[] {
  const { gates } = by;
  const { kinds } = gates;
  if (kinds === null) return lanes;
  const whyOf = createWhy(by);
  const found: Standing[] = [];
  for (const kind of kinds.kinds) {
    const { first } = kind;
    const judged = first === undefined ? undefined : whyOf(first.lane, first.own, 0);
    kinds.judge(kind, judged);
    if (judged === undefined) for (const standing of kind.stands) found.push(standing);
    else held.count(kind.queue, judged.gate, kind.jobs);
  }
  const mixed = new Map<Lane, ClosedLane>();
  for (const standing of kinds.mixed) {
    const { lane, own } = standing;
    const closed = closedLane(lane, own, (at) => whyOf(lane, own, at));
    if (closed === undefined) found.push(standing);
    else {
      mixed.set(lane, closed);
      for (const [reason, jobs] of closed.counts) held.count(lane.queue, reason, jobs);
    }
  }
  if (found.length === lanes.length) return lanes;
  held.closed(closedLanes(lanes, kinds, mixed));
  return inOrder(found, kinds).map(({ lane }) => lane);
}

/** Why a kind of a lane can't go, by its number there. */
function createWhy({
  gates,
  slots,
  poolOf,
  recall,
}: Obstacles): (lane: Lane, own: LaneKinds, at: number) => Judged | undefined {
  const fits = placesFor(slots, recall);
  let [queue, pool, asks]: [string | undefined, string, boolean] = [undefined, '', false];
  return (lane, { kinds, firsts }, at) => {
    const [kind, first] = [kinds[at], firsts[at]];
    if (kind === undefined || first === undefined) return undefined;
    if (lane.queue !== queue) {
      [queue, pool] = [lane.queue, poolOf(lane.queue)];
      asks = recall || slots.left(pool) > 0;
    }
    return asks ? (fits(pool, first) ?? gates.closes(lane, kind, first)) : undefined;
  };
}

/** With more of all lanes, it is faster to go through all than to sort those that were found. */
const sortedShare = 1 / 16;

/** In the order of the snapshot: the same lanes in the same places from plan to plan. */
function inOrder(found: Standing[], { plan, stands }: KindsOfPlan): readonly Standing[] {
  if (found.length <= stands.length * sortedShare) return found.sort((a, b) => a.slot - b.slot);
  for (const standing of found) standing.openIn = plan;
  return stands.filter(({ openIn }) => openIn === plan);
}

/** Made of what does not change any more, so that it stays true when other plans have been made. `mixed`: those with jobs of several kinds. */
function closedLanes(
  lanes: readonly Lane[],
  { of: kindsOf, closed: closedKinds }: KindsOfPlan,
  mixed: ReadonlyMap<Lane, ClosedLane>,
): ClosedLanes {
  const closed = closedKinds();
  const of = (lane: Lane): ClosedLane | undefined => {
    const own = kindsOf(lane);
    const kind = own === undefined ? undefined : onlyKind(own);
    const judged = kind === undefined ? undefined : closed.get(kind);
    return own === undefined || judged === undefined ? mixed.get(lane) : closedLane(lane, own, () => judged);
  };
  return {
    of,
    *all() {
      for (let slot = 0; slot < lanes.length; slot += 1) {
        const lane = lanes[slot];
        const own = lane === undefined ? undefined : of(lane);
        if (own !== undefined) yield own;
      }
    },
  };
}

/** Undefined: some kind of its jobs may go. */
function closedLane(
  lane: Lane,
  own: LaneKinds,
  why: (at: number) => Judged | undefined,
): ClosedLane | undefined {
  const { kinds, closed: before } = own;
  // made only where something differs from the last plan
  let judged: Judged[] | undefined = before?.lane.lane === lane ? undefined : [];
  for (let at = 0; at < kinds.length; at += 1) {
    const one = why(at);
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
