import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { cost, region } from '../../testing/limits.ts';
import { aJob, anItem, aPool, aSnapshot, lanesOf, nowMs, snapshots } from '../../testing/snapshots.ts';
import { policy } from './compose.ts';
import type { Gate } from '../gate.ts';
import { circuitBreaker } from '../gates/circuit-breaker/circuit-breaker.ts';
import { concurrency } from '../gates/concurrency.ts';
import { gate as custom } from '../gates/custom.ts';
import { rate } from '../gates/rate.ts';
import { standardGates } from '../gates/standard.ts';
import type { Order } from '../order.ts';
import { fairShare } from '../orders/fair-share/fair-share.ts';
import { fifo, turns } from '../orders/ranked.ts';
import type { Plan } from '../plan.ts';
import { planWith } from '../planning/make-plan.ts';
import type { Policy } from '../policy.ts';
import type { PolicyState } from '../plan.ts';
import type { InFlight, Lane, Snapshot } from '../snapshot.ts';
import { poolOf } from '../snapshot.ts';

/**
 * Compares plans that judge the jobs of one kind together with plans of the same parts in which each gate is
 * asked about each job.
 */

const gatesOf = (): Readonly<Record<string, Gate>> => ({
  region: concurrency({ name: 'region', by: region, limit: 2 }),
  resources: concurrency({
    name: 'resources',
    by: ({ task }) => task,
    limit: { memory: 7, calls: 4 },
    cost: (job) => ({ memory: cost(job), calls: 1 }),
  }),
  api: rate({ name: 'api', by: region, perSecond: 20, burst: 6, cost }),
  all: concurrency({ name: 'all', limit: 6 }),
  breaker: circuitBreaker({
    name: 'breaker',
    by: region,
    errorRate: 0.5,
    minimum: 1,
    windowMs: 60_000,
    openMs: 10,
  }),
  failing: concurrency({
    name: 'failing',
    limit: 3,
    by: (job) => {
      if (cost(job) === 5) throw new Error('it fails');
      return job.task;
    },
  }),
  own: custom({ name: 'own', admits: (job) => cost(job) !== 4 || 'not this one' }),
});

/** Makes plans in which every gate is asked about every job. */
function plain(gates: readonly Gate[], order: Order): Policy['plan'] {
  const each = [...standardGates(), ...gates].map((gate): Gate => {
    const { groups: _, ...alone } = gate;
    return alone;
  });
  const parts = { gates: each, order, coalesce: [], recall: false };
  return (snapshot, state) => planWith(parts, snapshot, { state, faults: [], kinds: null });
}

/** Returns the snapshot that the scheduler would see next. Lanes without changes are the same objects. */
function after(snapshot: Snapshot, plan: Plan, { ended, laterMs }: Step): Snapshot {
  const went = new Map(plan.dispatch.map((planned) => [planned.id, planned]));
  const items: InFlight[] = [];
  const lanes = snapshot.lanes.flatMap((lane): readonly Lane[] => {
    const left = lane.jobs.filter(({ id }) => !went.has(id));
    if (left.length === lane.jobs.length) return [lane];
    for (const job of lane.jobs) {
      if (!went.has(job.id)) continue;
      const pool = poolOf(snapshot, job.queue);
      items.push({ ...job, pool, state: 'running', node: 'node1', dispatchedMs: nowMs, bundle: null });
    }
    return left.length === 0 ? [] : [{ ...lane, jobs: left }];
  });
  const inFlight = [...snapshot.inFlight, ...items].filter((_, at) => at % 3 !== ended);
  return { ...snapshot, nowMs: snapshot.nowMs + laterMs, lanes, inFlight, settled: [] };
}

interface Step {
  readonly ended: number;
  readonly laterMs: number;
}

const steps = fc.array(fc.record({ ended: fc.nat({ max: 3 }), laterMs: fc.constantFrom(0, 50, 1_000) }), {
  minLength: 1,
  maxLength: 4,
});

const heldIn = ({ held }: Plan): number =>
  Object.values(held).reduce(
    (sum, counts) => sum + Object.values(counts).reduce((all, one) => all + one, 0),
    0,
  );

/** Returns the parts of a plan that are compared. */
function told(plan: Plan, state: PolicyState): unknown {
  const { dispatch, faults = [] } = plan;
  return { dispatch, state, held: heldIn(plan), faults: faults.map(({ part }) => part) };
}

const orders: Readonly<Record<string, () => Order>> = {
  fifo,
  turns,
  'fair share': fairShare,
};

/** `change`: puts a bug into a gate that judges together. */
function sameAsEach(
  makeOrder: () => Order,
  change: (gate: Gate) => Gate = (gate) => gate,
): fc.IProperty<unknown> {
  const names = fc.subarray(Object.keys(gatesOf()));
  return fc.property(snapshots, names, steps, (first, chosen, all) => {
    const made = (): readonly Gate[] => {
      const gates = gatesOf();
      return chosen.flatMap((name) => gates[name] ?? []);
    };
    const together = policy({ gates: made().map(change), order: makeOrder() });
    const each = plain(made(), makeOrder());
    const limits = chosen.concat(standardGates().map(({ name }) => name));
    const own = ({ state }: Plan): PolicyState =>
      Object.fromEntries(limits.flatMap((name) => (state[name] === undefined ? [] : [[name, state[name]]])));
    let snapshot: Snapshot = { ...first, lanes: first.lanes.map(inOrder) };
    let state = together.initial;
    for (const step of [{ ended: 3, laterMs: 0 }, ...all]) {
      const one = together.plan(snapshot, state);
      const other = each(snapshot, state);
      expect(told(one, own(one))).toEqual(told(other, own(other)));
      const ids = new Set(one.dispatch.map(({ id }) => id));
      state = together.written?.(one.state, { atMs: snapshot.nowMs, ids }) ?? one.state;
      snapshot = after(snapshot, one, step);
    }
  });
}

/** Gives all jobs of a lane one priority: a held job in front must not decide how the jobs behind it rank. */
function inOrder(lane: Lane): Lane {
  return {
    ...lane,
    jobs: lane.jobs.map((job) => ({ ...job, priority: 0 })).toSorted((a, b) => a.seq - b.seq),
  };
}

describe('judged together, jobs go as if each had been asked about', () => {
  test.each(Object.entries(orders))('%s', (_name, makeOrder) => {
    expect(() => fc.assert(sameAsEach(makeOrder), { numRuns: 200, seed: 11 })).not.toThrow();
  });
});

describe('the property can fail', () => {
  const bugs: Readonly<Record<string, (gate: Gate) => Gate>> = {
    'takes jobs of different costs for alike': (gate) =>
      gate.name === 'resources' ? { ...gate, groups: { of: ({ task }) => task } } : gate,
    'holds all for one': (gate) => (gate.name === 'own' ? { ...gate, groups: { of: () => '' } } : gate),
    'is not concerned with jobs that it limits': (gate) =>
      gate.name === 'region' ? { ...gate, groups: { of: () => null } } : gate,
  };

  test.each(Object.entries(bugs))('%s', (_name, change) => {
    const check = (): void =>
      fc.assert(sameAsEach(fifo, change), { numRuns: 500, seed: 11, endOnFailure: true });
    expect(check).toThrow(/Property failed/);
  });
});

describe('what it costs to hold', () => {
  const groups = 20;
  /**
   * Makes `jobs` jobs in 200 keys, held by a limit with 20 groups. `asked` returns the calls of `admits` and
   * of `by` since it was called last.
   */
  const world = (
    jobs: number,
  ): {
    readonly plan: (snapshot: Snapshot) => Plan;
    readonly snapshot: Snapshot;
    readonly asked: () => readonly number[];
  } => {
    let [judged, told] = [0, 0];
    const inner = concurrency({
      name: 'much',
      limit: 1,
      by: ({ attributes }) => {
        told += 1;
        return attributes['group'];
      },
    });
    const counting: Gate = {
      ...inner,
      open: (snapshot, state) => {
        const open = inner.open(snapshot, state);
        return { ...open, admits: (...given) => ((judged += 1), open.admits(...given)) };
      },
    };
    const made = policy({ gates: [counting], order: fairShare() });
    const waiting = Array.from({ length: jobs }, (_, seq) =>
      aJob({ seq, key: `key ${seq % 200}`, attributes: { group: seq % groups } }),
    );
    const inFlight = Array.from({ length: groups }, (_, group) =>
      anItem({ seq: 1_000_000 + group, attributes: { group } }),
    );
    return {
      plan: (snapshot) => made.plan(snapshot, made.initial),
      snapshot: aSnapshot({ lanes: lanesOf(waiting), inFlight, pools: { default: aPool(1_000) } }),
      asked: () => [judged, told].map((count, at) => (at === 0 ? (judged = 0) : (told = 0), count)),
    };
  };

  test.each([100, 20_000])('with %i jobs, each group is asked about once a plan', (jobs) => {
    const { plan, snapshot, asked } = world(jobs);
    expect(plan(snapshot).held).toEqual({ default: { much: jobs } });
    // `by` once for each job, to learn its group
    expect(asked()).toEqual([groups, jobs + 2 * groups]);
    expect(plan(snapshot).dispatch).toEqual([]);
    expect(asked()).toEqual([groups, groups]);
    const ended = plan({ ...snapshot, inFlight: snapshot.inFlight.slice(1) });
    expect(ended.dispatch.map(({ id }) => id)).toEqual(['job0']);
    const [judged = 0, told = 0] = asked();
    // also for the job that goes, and for the first one behind it, which does not
    expect(judged).toBeLessThanOrEqual(groups + 2);
    expect(told).toBeLessThanOrEqual(2 * groups + 2);
  });
});
