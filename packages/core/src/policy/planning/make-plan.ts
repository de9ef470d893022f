import { answerOf } from '../answer.ts';
import type { Json } from '../../job/job.ts';
import type { Coalesce, Parts } from '../parts.ts';
import { createHeads } from './lane-heads.ts';
import { countHeld, reasonsOf } from './hold-counts.ts';
import type { KindMemory } from './kind-memory.ts';
import type { LaneKinds } from './kinds.ts';
import type { OpenGates } from './open-gates.ts';
import type { Judged } from '../gate.ts';
import { openGates } from './open-gates.ts';
import { findOpen, noPlace } from './open-lanes.ts';
import type { OpenOrder, Order } from '../order.ts';
import { isOwnPart } from '../own-parts.ts';
import type { Plan, PlannedJob, PolicyFault } from '../plan.ts';
import type { Watch } from '../policy.ts';
import type { PolicyState } from '../plan.ts';
import { findOutranked } from './recall.ts';
import type { Slots } from './slots.ts';
import { openSlots, takesBundles } from './slots.ts';
import type { Candidate, Lane, Snapshot } from '../snapshot.ts';
import { laneName, own, poolOf } from '../snapshot.ts';

/** State of a plan while it is made. */
interface Making {
  readonly parts: Parts;
  readonly snapshot: Snapshot;
  readonly slots: Slots;
  readonly gates: OpenGates;
  /** Lanes of which something may go, as far as gates know when the plan begins. */
  readonly lanes: readonly Lane[];
  readonly heads: ReturnType<typeof createHeads>;
  readonly order: OpenOrder;
  readonly watch: Watch | undefined;
  readonly dispatch: PlannedJob[];
  readonly held: ReturnType<typeof countHeld>;
  /** Pools whose first admitted job outranked no ready work item. */
  readonly recallAsked: Set<string>;
  /** Pools without a free slot, of which the order offers no more lanes. */
  readonly full: Set<string>;
  /** Returns the pool of a queue, from a cache. */
  readonly poolOf: (queue: string) => string;
  /** Tasks and versions, by lane, whose jobs wait for more jobs of their kind. */
  readonly gathering: Map<Lane, Set<string>>;
  /** Number of jobs that the next snapshot must show of a lane, by {@link laneName}. */
  readonly deepen: Map<string, number>;
  nextMs: number | null;
}

/** Input of a plan besides its snapshot. Faults are added to `faults`. */
interface PlanOptions {
  readonly state: PolicyState;
  readonly faults: PolicyFault[];
  readonly watch?: Watch | undefined;
  readonly kinds: KindMemory | null;
}

/**
 * Makes one plan of a policy made of parts.
 * @throws errors of its order
 */
export function planWith(parts: Parts, snapshot: Snapshot, options: PlanOptions): Plan {
  const { state, faults, watch } = options;
  const { order: part } = parts;
  const isKnown = createKnown(part, snapshot);
  if (watch !== undefined) [watch.part, watch.job] = [part.name, null];
  const making = begin(parts, snapshot, options);
  const { heads } = making;
  if (!parts.recall) for (const pool of Object.keys(snapshot.pools)) closeIfFull(making, pool);
  let stopped: string | undefined;
  for (;;) {
    if (making.dispatch.length >= snapshot.batchMax) stopped = 'batch_full';
    else if (watch?.late() === true) stopped = 'out_of_time';
    if (stopped !== undefined) break;
    const lane = making.order.next();
    if (lane === undefined) {
      if (!isOwnPart(part) && offersMore(making)) stopped = 'order_ended';
      break;
    }
    // a made-up lane has no head either, and must not end the plan as if nothing were left
    if (!isKnown(lane)) throw new Error(`order ${part.name} chose a lane that is not in the snapshot`);
    const job = heads.of(lane);
    if (job === undefined) {
      if (offersMore(making)) throw new Error(`order ${part.name} chose a lane of which nothing is left`);
      break;
    }
    if (heads.unknown(lane)) {
      if (closeUnknown(making, lane, job)) continue;
      stopped = 'batch_full';
      break;
    }
    const recall = consider(making, lane, job);
    if (recall !== undefined) return { dispatch: [], held: {}, state, recall };
  }
  making.held.rest(making.lanes, heads, (queue) =>
    making.full.has(making.poolOf(queue)) ? 'no_free_slot' : stopped,
  );
  return finish(making, state, faults);
}

/** Reports whether a lane has a head that a pool may have a place for. */
function offersMore({ lanes, heads, full, poolOf: poolFor }: Making): boolean {
  return lanes.some((lane) => heads.of(lane) !== undefined && !full.has(poolFor(lane.queue)));
}

/** Opens gates and order. Lanes of which gates already hold everything are counted as held, and left out. */
function begin(parts: Parts, snapshot: Snapshot, options: PlanOptions): Making {
  const { order: part } = parts;
  const { state, watch } = options;
  const slots = openSlots(snapshot);
  const queuePool = createPoolOf(snapshot);
  const held = countHeld();
  const hasPlace = parts.recall || Object.keys(snapshot.pools).some((pool) => slots.left(pool) > 0);
  // when no pool has a free slot, no kind of job is judged
  const gates = openGates(parts.gates, snapshot, { ...options, kinds: hasPlace ? options.kinds : null });
  const lanes = findOpen(snapshot, { gates, slots, poolOf: queuePool, recall: parts.recall }, held);
  const heads = createHeads(snapshot.lanes, lanes);
  return {
    parts,
    snapshot,
    slots,
    gates,
    lanes,
    heads,
    order: part.open(snapshot, state[part.name] ?? part.initial ?? null, heads),
    watch,
    dispatch: [],
    held,
    recallAsked: new Set(),
    full: new Set(),
    poolOf: queuePool,
    gathering: new Map(),
    deepen: new Map(),
    nextMs: null,
  };
}

/**
 * Handles the next turn of a lane whose shown jobs all went. Returns false when a job like the last one could
 * go. The plan then ends, and the next tick reads more of the lane at once; otherwise other lanes would get
 * more than their share. Returns true when the rest of the lane, or of the last job's kind, is held.
 */
function closeUnknown(making: Making, lane: Lane, last: Candidate): boolean {
  if (making.slots.left(making.poolOf(lane.queue)) === 0) {
    closeLane(making, lane, 'no_free_slot');
    return true;
  }
  const { verdict, gate } = making.gates.judge(last, lane, false);
  if (verdict === 'hold' && lane.unseen !== undefined) {
    // the last job's kind can't go, but other kinds behind it may
    making.held.job(last, gate, (own(lane.unseen, last.id) ?? 0) - 1);
    making.heads.settle(lane);
    making.order.passed(lane, last);
    return true;
  }
  if (verdict !== 'admit') {
    closeLane(making, lane, gate);
    return true;
  }
  // one plan has no use for more
  const most = Math.max(lane.jobs.length + 1, making.snapshot.batchMax);
  making.deepen.set(laneName(lane), Math.min(2 * lane.jobs.length, most));
  return false;
}

/**
 * Returns the check that a lane is one of the snapshot's. Lanes chosen by pgqueue's own orders always are.
 */
function createKnown(order: Order, { lanes }: Snapshot): (lane: Lane) => boolean {
  if (isOwnPart(order)) return () => true;
  let known: ReadonlySet<Lane> | undefined;
  return (lane) => (known ??= new Set(lanes)).has(lane);
}

function createPoolOf(snapshot: Snapshot): (queue: string) => string {
  const pools = new Map<string, string>();
  return (queue) => {
    const pool = pools.get(queue) ?? poolOf(snapshot, queue);
    pools.set(queue, pool);
    return pool;
  };
}

/**
 * Tells the order when a pool has no free slot left, so that it need not offer the pool's lanes one by one.
 * Returns whether it did.
 */
function closeIfFull({ slots, order, full }: Making, pool: string): boolean {
  if (order.full === undefined || full.has(pool) || slots.left(pool) > 0) return false;
  full.add(pool);
  order.full(pool);
  return true;
}

/** Takes the head of a lane, or passes it over. Returns the ids of work items to recall first, if any. */
function consider(making: Making, lane: Lane, job: Candidate): readonly string[] | undefined {
  const { slots, gates, heads, snapshot } = making;
  const pool = making.poolOf(lane.queue);
  const asksRecall = making.parts.recall && !making.recallAsked.has(pool);
  if (slots.left(pool) === 0 && !asksRecall && own(snapshot.pools, pool) !== undefined) {
    return closeIfFull(making, pool) ? undefined : closeLane(making, lane, 'no_free_slot');
  }
  const fit = slots.fit(pool, job);
  if (noPlace(fit, asksRecall) !== undefined) return pass(making, lane, { job, reason: fit, pool });
  const kinds = gates.kinds?.of(lane);
  const kind = kinds === undefined ? undefined : kindAt(kinds, heads.place(lane));
  const { verdict, gate } = gates.judge(job, lane, false, kind);
  if (verdict === 'hold_lane') return closeLane(making, lane, gate);
  if (verdict === 'hold') return pass(making, lane, { job, reason: gate, pool });
  const bundle = gather(making, lane, { job, pool });
  if (bundle === 'coalescing') return pass(making, lane, { job, reason: bundle, pool });
  if (asksRecall) {
    making.recallAsked.add(pool);
    const outranked = findOutranked(making.parts.order, snapshot, { job, pool });
    if (outranked.length > 0) return outranked;
    if (fit === 'no_free_slot') return undefined;
  }
  take(making, { lane, job, pool, members: bundle ?? [] });
  return undefined;
}

function kindAt({ of, kinds }: LaneKinds, place: number): LaneKinds['kinds'][number] | undefined {
  return of === null ? kinds[0] : of[place];
}

/** Passes over the head of a lane, and the jobs right behind it that are already known to be held. */
function pass(
  making: Making,
  lane: Lane,
  { job, reason, pool }: { readonly job: Candidate; readonly reason: string; readonly pool: string },
): undefined {
  const { heads, held, order, gates, slots } = making;
  const kinds = gates.kinds?.of(lane);
  const known = (place: number): Judged | undefined => {
    const kind = kinds === undefined ? undefined : kindAt(kinds, place);
    return kind === undefined ? undefined : gates.closed(kind);
  };
  // hidden jobs of a held kind are held too
  const more = (one: Candidate): number => (lane.unseen === undefined ? 0 : (own(lane.unseen, one.id) ?? 0));
  held.job(job, reason, known(heads.place(lane)) === undefined ? 0 : more(job));
  heads.pass(lane);
  heads.skip(lane, (behind, place) => {
    const judged = known(place);
    if (judged === undefined) return false;
    held.job(behind, (noPlace(slots.fit(pool, behind), making.parts.recall) ?? judged).gate, more(behind));
    return true;
  });
  order.passed(lane, job);
  return undefined;
}

function closeLane(making: Making, lane: Lane, reason: string): undefined {
  const { heads, held, order } = making;
  const head = heads.of(lane);
  held.lane(lane, reason, heads.left(lane));
  heads.close(lane);
  if (head !== undefined) order.passed(lane, head);
  return undefined;
}

/** Longest time in milliseconds that a due bundle waits for more of its lane to be read. */
const readMs = 500;

/**
 * Returns the jobs that join the head's bundle. `coalescing`: the head waits for more jobs. Undefined: it
 * goes alone.
 */
function gather(
  making: Making,
  lane: Lane,
  { job, pool }: { readonly job: Candidate; readonly pool: string },
): readonly Candidate[] | 'coalescing' | undefined {
  if (job.alone === true) return undefined;
  const rule = making.parts.coalesce.find(({ when }) => answerOf('when', when(job)));
  if (rule === undefined || !takesBundles(own(making.snapshot.pools, pool), job)) return undefined;
  // the first job of a kind decides for all jobs of that kind in the lane
  const kind = `${job.version} ${job.task}`;
  if (making.gathering.get(lane)?.has(kind) === true) return 'coalescing';
  const kin = making.heads
    .rest(lane)
    .filter((other) => other !== job && other.task === job.task && other.version === job.version);
  // no job goes before an earlier one of its kind that goes alone
  const ends = kin.findIndex(({ alone }) => alone === true);
  const alike = kin.slice(0, ends < 0 ? rule.max - 1 : Math.min(ends, rule.max - 1));
  const room = making.snapshot.batchMax - making.dispatch.length - 1;
  if (alike.length + 1 >= rule.max || goesNow(making, lane, { rule, jobs: [job, ...alike] })) {
    if (alike.length <= room || making.dispatch.length === 0) return alike.slice(0, room);
    // the next plan has room for all of it
    making.nextMs = making.snapshot.nowMs;
  }
  const kinds = making.gathering.get(lane) ?? new Set<string>();
  making.gathering.set(lane, kinds.add(kind));
  return 'coalescing';
}

/** Reports whether a bundle that is not full goes because its oldest job is due. */
function goesNow(
  making: Making,
  lane: Lane,
  { rule, jobs }: { readonly rule: Coalesce; readonly jobs: readonly Candidate[] },
): boolean {
  const { nowMs } = making.snapshot;
  const dueMs = jobs.reduce((first, { createdMs }) => Math.min(first, createdMs), Infinity) + rule.ageMs;
  const unseen = lane.more && lane.jobs.length < rule.max;
  if (unseen) making.deepen.set(laneName(lane), rule.max);
  // jobs still to be read may fill the bundle; it waits for them no longer than `readMs`
  if (nowMs >= dueMs && (!unseen || nowMs >= dueMs + readMs)) return true;
  if (nowMs < dueMs) making.nextMs = Math.min(making.nextMs ?? Infinity, dueMs);
  return false;
}

function take(
  making: Making,
  goes: {
    readonly lane: Lane;
    readonly job: Candidate;
    readonly pool: string;
    readonly members: readonly Candidate[];
  },
): void {
  const { slots, gates, heads, order, dispatch } = making;
  const { lane, job, pool, members } = goes;
  slots.take(pool, job);
  gates.take(job, lane, false);
  heads.take(lane, job);
  const bundle = members.length > 0 ? { bundle: job.id } : {};
  dispatch.push({ id: job.id, pool, ...bundle });
  order.taken(lane, job);
  for (const member of members) {
    if (gates.judge(member, lane, true).verdict !== 'admit') break;
    gates.take(member, lane, true);
    heads.take(lane, member);
    dispatch.push({ id: member.id, pool, ...bundle });
    order.taken(lane, member, true);
  }
}

function finish(making: Making, before: PolicyState, faults: readonly PolicyFault[]): Plan {
  const { gates, order, parts, dispatch, held } = making;
  const state: Record<string, Json> = { ...before, ...gates.states() };
  const ordered = order.state?.();
  if (ordered !== undefined) state[parts.order.name] = ordered;
  const times = [making.nextMs, gates.nextMs()].filter((time) => time !== null);
  const forecast = order.forecast?.();
  const holds = held.holds();
  let reasons: ReturnType<typeof reasonsOf> | undefined;
  return {
    dispatch,
    held: held.counts(),
    state,
    nextMs: times.length === 0 ? null : Math.min(...times),
    holds,
    get reasons() {
      return (reasons ??= reasonsOf(holds)).reasons;
    },
    get laneReasons() {
      return (reasons ??= reasonsOf(holds)).laneReasons;
    },
    deepen: making.deepen,
    stale: [...new Set(gates.unread().map(laneName))],
    faults,
    ...(forecast === undefined ? {} : { forecast }),
  };
}
