import type { HoldCounts } from './hold-counts.ts';
import type { Kind, LaneKinds, Standing } from './kinds.ts';
import { onlyKind } from './kinds.ts';
import type { KindsOfPlan } from './kind-memory.ts';
import type { OpenGates } from './open-gates.ts';
import type { Judged } from '../gate.ts';
import type { ClosedLane, ClosedLanes } from '../plan.ts';
import type { Fit, Slots } from './slots.ts';
import type { Candidate, Lane, Snapshot } from '../snapshot.ts';

/** Everything that can keep a job from going. */
export interface Obstacles {
  readonly gates: OpenGates;
  readonly slots: Slots;
  readonly poolOf: (queue: string) => string;
  /** Set when work items may be recalled for a job, which then needs no free slot. */
  readonly recall: boolean;
}

/**
 * Returns the lanes of which something may go when a plan begins. In the other lanes, gates hold each kind of
 * job, or no node has a place for it; these jobs are counted as held, and the plan need not go through them.
 * Lanes whose jobs are all of one kind are judged together.
 */
export function findOpen(
  { lanes }: Snapshot,
  by: Obstacles,
  held: Pick<HoldCounts, 'closed' | 'count'>,
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
  held.closed(new ClosedByKind(lanes, kinds, mixed));
  return inOrder(found, kinds).map(({ lane }) => lane);
}

/** Returns a function that tells why a kind of a lane can't go, by the kind's index there. */
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

/** Share of all lanes above which filtering all of them is faster than sorting those that were found. */
const sortedShare = 1 / 16;

/** Puts lanes into the order of the snapshot, in which they keep their places from plan to plan. */
function inOrder(found: Standing[], { plan, stands }: KindsOfPlan): readonly Standing[] {
  if (found.length <= stands.length * sortedShare) return found.sort((a, b) => a.slot - b.slot);
  for (const standing of found) standing.openIn = plan;
  return stands.filter(({ openIn }) => openIn === plan);
}

/**
 * Closed lanes of a plan. Made only of data that later plans do not change, so it stays valid. A class, so that
 * users can compare plans by `deepEqual`: it has no function or list of its own that would differ.
 */
class ClosedByKind implements ClosedLanes {
  readonly #lanes: readonly Lane[];
  readonly #kindsOf: KindsOfPlan['of'];
  readonly #closed: ReadonlyMap<Kind, Judged>;
  /** Closed lanes with jobs of several kinds. */
  readonly #mixed: ReadonlyMap<Lane, ClosedLane>;

  constructor(lanes: readonly Lane[], kinds: KindsOfPlan, mixed: ReadonlyMap<Lane, ClosedLane>) {
    this.#lanes = lanes;
    this.#kindsOf = kinds.of;
    this.#closed = kinds.closed();
    this.#mixed = mixed;
  }

  of(lane: Lane): ClosedLane | undefined {
    const own = this.#kindsOf(lane);
    const kind = own === undefined ? undefined : onlyKind(own);
    const judged = kind === undefined ? undefined : this.#closed.get(kind);
    if (own === undefined || judged === undefined) return this.#mixed.get(lane);
    return closedLane(lane, own, () => judged);
  }

  *all(): Iterable<ClosedLane> {
    for (let slot = 0; slot < this.#lanes.length; slot += 1) {
      const lane = this.#lanes[slot];
      const own = lane === undefined ? undefined : this.of(lane);
      if (own !== undefined) yield own;
    }
  }
}

/** Returns the lane as closed. Undefined: some kind of its jobs may go. */
function closedLane(
  lane: Lane,
  own: LaneKinds,
  why: (at: number) => Judged | undefined,
): ClosedLane | undefined {
  const { kinds, closed: before } = own;
  // a new list is made only if something differs from the last plan
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

/**
 * Returns the verdict on a job with that fit. A plan that may recall work items also considers jobs without a
 * free slot.
 */
export function noPlace(fit: Fit, recall: boolean): Judged | undefined {
  if (fit === 'fits') return undefined;
  if (fit === 'no_capable_node') return noNode;
  return recall ? undefined : noSlot;
}

/**
 * Same as {@link noPlace}, with the last result reused for jobs of the same pool, task and version. Valid
 * until a job takes a place.
 */
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
