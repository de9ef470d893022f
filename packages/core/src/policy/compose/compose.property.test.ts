import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { breaking, breaksOn, crowded, faulty, holding } from '../../testing/faults.ts';
import { snapshots } from '../../testing/snapshots.ts';
import type { PolicyOptions } from './compose.ts';
import type { Coalesce } from '../parts.ts';
import { policy } from './compose.ts';
import type { Gate } from '../gate.ts';
import type { Order } from '../order.ts';
import { fifo, turns } from '../orders/ranked.ts';
import type { Plan } from '../plan.ts';
import { planProblems } from '../planning/plan-problems.ts';
import type { Policy } from '../policy.ts';
import type { Candidate, Snapshot } from '../snapshot.ts';
import { compareInKey, laneName } from '../snapshot.ts';

type Make = (options: PolicyOptions) => Policy;

const planOf = (made: Policy, snapshot: Snapshot): Plan => made.plan(snapshot, made.initial);
const idsOf = ({ dispatch }: Plan): readonly string[] => dispatch.map(({ id }) => id);
const same = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other);
const jobsOf = ({ lanes }: Snapshot): ReadonlyMap<string, Candidate> =>
  new Map(lanes.flatMap(({ jobs }) => jobs.map((job) => [job.id, job])));

const ruleArb = fc.record({ max: fc.integer({ min: 2, max: 5 }), ageMs: fc.constantFrom(0, 1_000, 50_000) });
const coalesce = (rule: Omit<Coalesce, 'when'>): readonly Coalesce[] => [
  { ...rule, when: ({ task }) => task === 't' },
];

const properties = {
  'a limit that fails holds just the jobs that it fails on, and is named': (make: Make) =>
    fc.property(snapshots, (snapshot) => {
      const plan = planOf(make({ gates: [faulty('hold')], order: turns() }), snapshot);
      const held = planOf(policy({ gates: [holding], order: turns() }), snapshot);
      const failed = [...(plan.reasons?.values() ?? [])].some((reason) => reason === 'faulty');
      return (
        same(idsOf(plan), idsOf(held)) &&
        same(plan.held, held.held) &&
        same(
          plan.faults?.map(({ part }) => part),
          failed ? ['faulty'] : [],
        )
      );
    }),
  'a rule that fails, and is no limit, is left out': (make: Make) =>
    fc.property(snapshots, (snapshot) => {
      const plan = planOf(make({ gates: [faulty('ignore')], order: turns() }), snapshot);
      const without = planOf(make({ order: turns() }), snapshot);
      return same(idsOf(plan), idsOf(without)) && same(plan.held, without.held);
    }),
  'an order that fails is replaced, and named': (make: Make) =>
    fc.property(
      snapshots,
      fc.constantFrom('next', 'taken', 'passed', 'open', 'state'),
      fc.nat({ max: 5 }),
      (snapshot, where, after) => {
        const plan = planOf(make({ order: breaking(where, after) }), snapshot);
        const whole = same(idsOf(plan), idsOf(planOf(policy({ order: fifo() }), snapshot)));
        const instead = same(idsOf(plan), idsOf(planOf(policy({ order: turns() }), snapshot)));
        return plan.faults?.length === 0 ? whole : instead && plan.faults?.[0]?.part === 'breaking';
      },
    ),
  'an order that chooses what is not there is replaced': (make: Make) =>
    fc.property(snapshots, (snapshot) => {
      let offered = false;
      const order: Order = {
        ...fifo(),
        name: 'dreaming',
        open: (seen, state, heads) => {
          const open = fifo().open(seen, state, heads);
          const dreamt = (lane: Snapshot['lanes'][number]): Snapshot['lanes'][number] => ({ ...lane });
          return {
            ...open,
            next: () => {
              const lane = open.next();
              offered ||= lane !== undefined;
              return lane === undefined ? undefined : dreamt(lane);
            },
          };
        },
      };
      const plan = planOf(make({ order }), snapshot);
      return (
        plan.faults?.length === (offered ? 1 : 0) &&
        same(idsOf(plan), idsOf(planOf(policy({ order: turns() }), snapshot)))
      );
    }),
  'a bundle has jobs of one lane, task and version, in their order, one after the other, and no more than allowed':
    (make: Make) =>
      fc.property(crowded, ruleArb, (snapshot, rule) => {
        const plan = planOf(make({ order: turns(), coalesce: coalesce(rule) }), snapshot);
        const jobs = jobsOf(snapshot);
        const bundles = Map.groupBy(
          plan.dispatch.map((planned, index) => ({ ...planned, index, job: jobs.get(planned.id) })),
          ({ bundle, id }) => bundle ?? `alone ${id}`,
        );
        return (
          planProblems(snapshot, plan).length === 0 &&
          [...bundles].every(([name, members]) => {
            const [first] = members;
            if (first?.job === undefined) return false;
            const { job, index } = first;
            const alike = members.every(
              (member, place) =>
                member.index === index + place &&
                member.job !== undefined &&
                laneName(member.job) === laneName(job) &&
                member.job.task === job.task &&
                member.job.version === job.version,
            );
            const line = members.flatMap((member) => member.job ?? []);
            return (
              alike &&
              members.length <= rule.max &&
              same(line, line.toSorted(compareInKey)) &&
              (members.length === 1 || (job.task === 't' && name === job.id))
            );
          })
        );
      }),
  'a bundle waits until it is full or old, and the next plan is made when it is': (make: Make) =>
    fc.property(crowded, ruleArb, (snapshot, rule) => {
      const plan = planOf(make({ order: turns(), coalesce: coalesce(rule) }), snapshot);
      const jobs = jobsOf(snapshot);
      const young = ({ createdMs }: Candidate): boolean => createdMs + rule.ageMs > snapshot.nowMs;
      const bundles = Map.groupBy(plan.dispatch, ({ id, bundle }) => bundle ?? id);
      const early = [...bundles.values()].filter((members) => {
        const own = members.flatMap(({ id }) => jobs.get(id) ?? []);
        return own[0]?.task === 't' && own.length < rule.max && own.every(young);
      });
      const waits = [...(plan.reasons ?? [])]
        .filter(([, reason]) => reason === 'coalescing')
        .flatMap(([id]) => jobs.get(id) ?? []);
      const read = (job: Candidate): boolean => plan.deepen?.has(laneName(job)) === true;
      const dueMs = waits
        .filter((job) => young(job) && !read(job))
        .map(({ createdMs }) => createdMs + rule.ageMs);
      const full = plan.dispatch.length >= snapshot.batchMax;
      // the last bundle of a full batch goes with the jobs that there is room for
      return (
        (early.length === 0 || full) &&
        (dueMs.length === 0 || (plan.nextMs ?? Infinity) <= Math.min(...dueMs))
      );
    }),
  'a full batch is what holds the rest, no free slot what holds where none is': (make: Make) =>
    fc.property(snapshots, fc.boolean(), (seen, closed) => {
      const pools = Object.fromEntries(
        Object.entries(seen.pools).map(([name, pool]) => [
          name,
          closed ? { ...pool, groups: pool.groups.map((group) => ({ ...group, depth: 0 })) } : pool,
        ]),
      );
      const snapshot = { ...seen, pools };
      const plan = planOf(make({ order: turns() }), snapshot);
      const reasons = new Set(Object.values(plan.held).flatMap((held) => Object.keys(held)));
      if (closed)
        return plan.dispatch.length === 0 && !reasons.has('batch_full') && !reasons.has('queue_rate');
      return plan.dispatch.length <= snapshot.batchMax;
    }),
} satisfies Record<string, (make: Make) => unknown>;

type PropertyName = keyof typeof properties;

/** Checks a property. `endOnFailure`: no shrinking, since a seeded bug needs no smallest example. */
function check(name: PropertyName, make: Make, endOnFailure = false): void {
  fc.assert(properties[name](make) as fc.IProperty<unknown>, { numRuns: 100, seed: 7, endOnFailure });
}

describe('policies made of parts', () => {
  test.each(Object.keys(properties) as PropertyName[])('%s', (name) => {
    expect(() => check(name, policy)).not.toThrow();
  });
});

describe('the properties can fail', () => {
  const withGates =
    (change: (gate: Gate) => Gate): Make =>
    (options) =>
      policy({ ...options, gates: (options.gates ?? []).map(change) });
  const withPlan =
    (change: (plan: Plan, snapshot: Snapshot) => Plan): Make =>
    (options) => {
      const made = policy(options);
      return { ...made, plan: (snapshot, state) => change(made.plan(snapshot, state), snapshot) };
    };
  const withRule =
    (change: (rule: Coalesce) => Coalesce): Make =>
    (options) =>
      policy({ ...options, coalesce: (options.coalesce ?? []).map(change) });
  const seeded: Readonly<Record<string, { readonly make: Make; readonly caughtBy: PropertyName }>> = {
    'lets a job go on which a limit failed': {
      make: withGates((gate) => ({ ...gate, onError: 'ignore' })),
      caughtBy: 'a limit that fails holds just the jobs that it fails on, and is named',
    },
    'holds a lane for one job': {
      make: withGates((gate) => ({
        ...gate,
        open: () => ({
          admits: (job) => (breaksOn(job) ? 'hold_lane' : 'admit'),
          why: () => ({ message: '', untilMs: null }),
        }),
      })),
      caughtBy: 'a limit that fails holds just the jobs that it fails on, and is named',
    },
    'holds where it should leave out': {
      make: withGates((gate) => ({ ...gate, onError: 'hold' })),
      caughtBy: 'a rule that fails, and is no limit, is left out',
    },
    'says nothing of it': {
      make: withPlan((plan) => ({ ...plan, faults: [] })),
      caughtBy: 'an order that fails is replaced, and named',
    },
    'stops where an order failed': {
      make: withPlan((plan) => (plan.faults?.length === 0 ? plan : { ...plan, dispatch: [] })),
      caughtBy: 'an order that chooses what is not there is replaced',
    },
    'one too many in a bundle': {
      make: withRule((rule) => ({ ...rule, max: rule.max + 1 })),
      caughtBy:
        'a bundle has jobs of one lane, task and version, in their order, one after the other, and no more than allowed',
    },
    'bundles across tasks': {
      make: withRule((rule) => ({ ...rule, when: () => true })),
      caughtBy:
        'a bundle has jobs of one lane, task and version, in their order, one after the other, and no more than allowed',
    },
    'does not wait for others': {
      make: withRule((rule) => ({ ...rule, ageMs: 0 })),
      caughtBy: 'a bundle waits until it is full or old, and the next plan is made when it is',
    },
    'forgets when a bundle is due': {
      make: withPlan((plan) => ({ ...plan, nextMs: null })),
      caughtBy: 'a bundle waits until it is full or old, and the next plan is made when it is',
    },
    'calls everything a full batch': {
      make: withPlan((plan) => ({ ...plan, held: { all: { batch_full: 1 } } })),
      caughtBy: 'a full batch is what holds the rest, no free slot what holds where none is',
    },
  };

  test.each(Object.entries(seeded))('%s', (_name, { make, caughtBy }) => {
    expect(() => check(caughtBy, make, true)).toThrow(/Property failed/);
  });
});
