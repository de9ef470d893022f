import fc from 'fast-check';
import type { Order } from '../policy/order.ts';
import { policy } from '../policy/compose/compose.ts';
import { standardGates } from '../policy/gates/standard.ts';
import { openGates } from '../policy/planning/open-gates.ts';
import type { Plan } from '../policy/plan.ts';
import { planProblems } from '../policy/planning/plan-problems.ts';
import type { Policy } from '../policy/policy.ts';
import type { PolicyState } from '../policy/plan.ts';
import { openSlots } from '../policy/planning/slots.ts';
import type { Candidate, Settlement, Snapshot } from '../policy/snapshot.ts';
import { compareInKey, poolOf } from '../policy/snapshot.ts';
import { aJob, aPool, aSnapshot, lanesOf, nowMs, shuffled, snapshots } from './snapshots.ts';

/** Returns JSON as PostgreSQL's jsonb may: with the names of objects in another order. */
export function throughJsonb<Value>(value: Value): Value {
  return JSON.parse(JSON.stringify(value), (_name, part: unknown) => {
    if (typeof part !== 'object' || part === null || Array.isArray(part)) return part;
    return Object.fromEntries(Object.entries(part).toReversed());
  }) as Value;
}

/** Returns the state with which another leader goes on. */
export function restored(policyOf: Policy, state: PolicyState): PolicyState {
  const saved = Object.entries(throughJsonb(state)).map(
    ([name, part]) => [name, { state: part, savedMs: nowMs }] as const,
  );
  return policyOf.restore?.(Object.fromEntries(saved)) ?? state;
}

/** Reports whether two plans are the same, and leave the order in the same state. */
function same(order: Order, one: Plan, other: Plan): boolean {
  const comparable = ({ dispatch, held, nextMs, state, forecast }: Plan): string =>
    canonical([dispatch, held, nextMs, state[order.name], forecast]);
  return comparable(one) === comparable(other);
}

/** Returns JSON with the names of objects sorted. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_name, part: unknown) => {
    if (typeof part !== 'object' || part === null || Array.isArray(part)) return part;
    return Object.fromEntries(Object.entries(part).toSorted(([a], [b]) => (a < b ? -1 : 1)));
  });
}

/** Removes hidden jobs from a snapshot: a plan ends where it would need to see them. */
function whole(snapshot: Snapshot): Snapshot {
  return { ...snapshot, lanes: snapshot.lanes.map((lane) => ({ ...lane, more: false })) };
}

/** Returns the shown jobs that could still go after a plan. */
export function admissibleLeft(order: Order, snapshot: Snapshot, plan: Plan): readonly Candidate[] {
  const slots = openSlots(snapshot);
  const gates = openGates([...standardGates(), ...(order.gates ?? [])], snapshot, { state: {}, faults: [] });
  const waiting = new Map(snapshot.lanes.flatMap((lane) => lane.jobs.map((job) => [job.id, { job, lane }])));
  for (const { id, pool } of plan.dispatch) {
    const found = waiting.get(id);
    if (found === undefined) continue;
    slots.take(pool, found.job);
    // a gate is asked about a job before it is told that it goes
    gates.judge(found.job, found.lane, false);
    gates.take(found.job, found.lane, false);
    waiting.delete(id);
  }
  return [...waiting.values()].flatMap(({ job, lane }) => {
    const fits = slots.fit(poolOf(snapshot, job.queue), job) === 'fits';
    return fits && gates.judge(job, lane, false).verdict === 'admit' ? [job] : [];
  });
}

/** Properties that every order must have. */
export const orderProperties = {
  'a plan can be written': (order: Order) =>
    fc.property(snapshots, (snapshot) => {
      const made = policy({ order });
      const plan = made.plan(snapshot, made.initial);
      return planProblems(snapshot, plan).length === 0 && (plan.faults ?? []).length === 0;
    }),
  'work conserving: what is held finds no place, is held by a gate, or the batch is full': (order: Order) =>
    fc.property(snapshots.map(whole), (snapshot) => {
      const made = policy({ order });
      const plan = made.plan(snapshot, made.initial);
      if (plan.dispatch.length >= snapshot.batchMax) return true;
      return admissibleLeft(order, snapshot, plan).length === 0;
    }),
  'every visible job is dispatched or counted': (order: Order) =>
    fc.property(snapshots, (snapshot) => {
      const made = policy({ order });
      const { held, dispatch } = made.plan(snapshot, made.initial);
      const reasons = Object.values(held).flatMap((of) => Object.entries(of));
      // an order must not leave jobs out, so those are not counted
      const counts = reasons.flatMap(([reason, count]) => (reason === 'order_ended' ? [] : count));
      const jobs = snapshot.lanes.reduce((sum, lane) => sum + lane.jobs.length, 0);
      return counts.reduce((sum, count) => sum + count, dispatch.length) === jobs;
    }),
  'jobs of one kind leave their key in order': (order: Order) =>
    fc.property(snapshots, (snapshot) => {
      const made = policy({ order });
      const plan = made.plan(snapshot, made.initial);
      const position = new Map(plan.dispatch.map(({ id }, index) => [id, index]));
      const lines = Map.groupBy(
        snapshot.lanes.flatMap(({ jobs }) => jobs),
        ({ queue, key, task, version, attributes }) =>
          JSON.stringify([queue, key, task, version, attributes['region']]),
      );
      return [...lines.values()].every((line) => {
        const places = line.toSorted(compareInKey).map(({ id }) => position.get(id) ?? Infinity);
        return places.every((place, index) => place >= (places[index - 1] ?? -1));
      });
    }),
  'the order of the input does not matter': (order: Order) =>
    fc.property(
      snapshots.chain((snapshot) => fc.tuple(fc.constant(snapshot), shuffled(snapshot), snapshots)),
      ([snapshot, other, next]) => {
        const made = policy({ order });
        const [one, two] = [snapshot, other].map((seen) => made.plan(seen, made.initial)) as [Plan, Plan];
        return same(order, one, two) && same(order, made.plan(next, one.state), made.plan(next, two.state));
      },
    ),
  'a restored state gives the same next plan': (order: Order) =>
    fc.property(snapshots, snapshots, snapshots, (first, second, third) => {
      const made = policy({ order });
      const plan = made.plan(first, made.initial);
      const ids = new Set(plan.dispatch.filter((_, index) => index % 3 > 0).map(({ id }) => id));
      const state = made.written?.(plan.state, { atMs: first.nowMs, ids }) ?? plan.state;
      const [kept, taken] = [made.plan(second, state), made.plan(second, restored(made, state))];
      return (
        same(order, kept, taken) &&
        same(order, made.plan(third, kept.state), made.plan(third, restored(made, taken.state)))
      );
    }),
  'a key does not starve, whatever comes after its jobs': (order: Order) =>
    fc.property(
      fc.record({
        slots: fc.integer({ min: 1, max: 4 }),
        victims: fc.integer({ min: 1, max: 3 }),
        rivals: fc.integer({ min: 0, max: 3 }),
        newKeys: fc.boolean(),
      }),
      (world) => starved(order, world) === 0,
    ),
} satisfies Record<string, (order: Order) => unknown>;

/**
 * Runs victims (one key each, two jobs of the worst priority) against rivals (one key each, 20 older jobs).
 * Meanwhile, jobs of the best priority arrive faster than the slots can take them, in new keys or in one key.
 * Returns the number of the victims' jobs that still wait after 160 ticks.
 */
function starved(
  order: Order,
  world: {
    readonly slots: number;
    readonly victims: number;
    readonly rivals: number;
    readonly newKeys: boolean;
  },
): number {
  const { slots, victims, rivals, newKeys } = world;
  const made = policy({ order });
  let { initial: state } = made;
  let seq = 0;
  const add = (key: string, priority: number, createdMs: number): Candidate =>
    aJob({ seq: (seq += 1), key, priority, createdMs });
  let waiting: Candidate[] = [];
  let settled: Settlement[] = [];
  for (let index = 0; index < rivals; index += 1) {
    for (let job = 0; job < 20; job += 1) waiting.push(add(`rival${index}`, 1, nowMs - 1));
  }
  for (let index = 0; index < victims; index += 1) {
    for (let job = 0; job < 2; job += 1) waiting.push(add(`victim${index}`, 2, nowMs));
  }
  for (let tick = 0; tick < 160; tick += 1) {
    const at = nowMs + tick * 1_000;
    for (let job = tick % 4 === 0 ? -1 : 0; job < slots; job += 1)
      waiting.push(add(newKeys ? `new${seq}` : 'new', 0, at));
    const snapshot = aSnapshot({
      nowMs: at,
      lanes: lanesOf(waiting, 3),
      settled,
      pools: { default: aPool(slots) },
    });
    const plan = made.plan(snapshot, state);
    const ids = new Set(plan.dispatch.map(({ id }) => id));
    state = made.written?.(plan.state, { atMs: at, ids }) ?? plan.state;
    settled = waiting
      .filter(({ id }) => ids.has(id))
      .map((job) => ({ job, outcome: 'done', busyMs: 1_000, endedMs: at + 1_000 }));
    waiting = waiting.filter(({ id }) => !ids.has(id));
  }
  return waiting.filter(({ key }) => key.startsWith('victim')).length;
}

export type OrderProperty = keyof typeof orderProperties;

export const orderPropertyNames: readonly OrderProperty[] = Object.keys(orderProperties) as OrderProperty[];

/**
 * Checks a property of an order. `endOnFailure`: without shrinking.
 * @throws an error with the smallest example that breaks the property; with `endOnFailure`, with the first
 * one
 */
export function checkOrder(name: OrderProperty, order: Order, endOnFailure = false): void {
  const property = orderProperties[name](order) as fc.IProperty<unknown>;
  const numRuns = name === 'a key does not starve, whatever comes after its jobs' ? 4 : 40;
  fc.assert(property, { numRuns, seed: 7, endOnFailure });
}
