import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { planProblems } from './plan.ts';
import type { Plan } from './plan.ts';
import type { Policy } from './policy.ts';
import type { RoundRobinState } from './round-robin.ts';
import { roundRobin } from './round-robin.ts';
import { openSlots } from './slots.ts';
import type { Candidate, Snapshot } from './snapshot.ts';
import { compareInKey, compareText, own, poolOf } from './snapshot.ts';

type RoundRobin = Policy<RoundRobinState>;

const keyNames = ['', 'a', 'b', 'ä', '\u{1F600}', '\uFFFD', 'constructor', '__proto__'];
const range = fc.constantFrom({ min: 1, max: 1 }, { min: 1, max: 3 }, { min: 2, max: 3 });

const candidateArb = fc.record({
  queue: fc.constantFrom('mail', 'video', '__proto__'),
  key: fc.constantFrom(...keyNames),
  priority: fc.integer({ min: -1, max: 1 }),
  task: fc.constantFrom('t', 'u', 'nobody'),
  version: fc.integer({ min: 1, max: 3 }),
});

const snapshotArb = fc
  .record({
    jobs: fc.array(candidateArb, { maxLength: 40 }),
    cursor: fc.constantFrom(...keyNames),
    groups: fc.array(
      fc.record({
        tasks: fc.dictionary(fc.constantFrom('t', 'u'), range),
        slots: fc.integer({ min: 0, max: 5 }),
        depth: fc.integer({ min: 0, max: 8 }),
      }),
      { maxLength: 8 },
    ),
    ready: fc.array(
      fc.record({
        task: fc.constantFrom('t', 'u'),
        version: fc.integer({ min: 1, max: 3 }),
        count: fc.integer({ min: 0, max: 4 }),
      }),
      { maxLength: 2 },
    ),
    batchMax: fc.integer({ min: 1, max: 30 }),
  })
  .map(({ jobs, cursor, groups, ready, batchMax }): Snapshot => {
    const candidates = jobs.map((job, seq): Candidate => ({
      ...job,
      id: `job${seq}`,
      seq,
      createdMs: 0,
      attributes: {},
    }));
    return {
      nowMs: 0,
      candidates,
      keys: keysOf(candidates, () => cursor),
      queues: { video: { pool: 'gpu', paused: false } },
      pools: { default: { groups, ready }, gpu: { groups: groups.slice(0, 2), ready: [] } },
      batchMax,
    };
  });

function keysOf(candidates: readonly Candidate[], cursor: (queue: string) => string): Snapshot['keys'] {
  const seen = new Map(candidates.map(({ queue, key }) => [JSON.stringify([queue, key]), { queue, key }]));
  return [...seen.values()].map((lane) => ({
    ...lane,
    ring: compareText(lane.key, cursor(lane.queue)) > 0 ? 0 : 1,
  }));
}

function same(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

/** What every round-robin must hold to. */
const properties = {
  'a plan can be written: never more than there are slots, nothing twice, nothing unknown': (policy) =>
    fc.property(snapshotArb, (snapshot) => {
      return planProblems(snapshot, policy.plan(snapshot, policy.initial)).length === 0;
    }),
  'work conserving: what is held finds no place, or the batch is full': (policy) =>
    fc.property(snapshotArb, (snapshot) => {
      const plan = policy.plan(snapshot, policy.initial);
      if (plan.dispatch.length >= snapshot.batchMax) return true;
      const slots = openSlots(snapshot);
      const waiting = new Map(snapshot.candidates.map((job) => [job.id, job]));
      for (const { id, pool } of plan.dispatch) {
        const job = waiting.get(id);
        if (job !== undefined) slots.take(pool, job);
        waiting.delete(id);
      }
      const counted = Object.values(plan.held).reduce((sum, count) => sum + count, 0);
      return (
        counted === waiting.size &&
        [...waiting.values()].every((job) => slots.fit(poolOf(snapshot, job.queue), job) !== 'fits')
      );
    }),
  'jobs of one kind leave their key in order': (policy) =>
    fc.property(snapshotArb, (snapshot) => {
      const plan = policy.plan(snapshot, policy.initial);
      const position = new Map(plan.dispatch.map(({ id }, index) => [id, index]));
      const lines = Map.groupBy(snapshot.candidates, ({ queue, key, task, version }) =>
        JSON.stringify([queue, key, task, version]),
      );
      return [...lines.values()].every((line) => {
        const places = line.toSorted(compareInKey).map(({ id }) => position.get(id) ?? Infinity);
        return places.every((place, index) => place >= (places[index - 1] ?? -1));
      });
    }),
  'the order of the input does not matter': (policy) =>
    fc.property(
      snapshotArb.chain((snapshot) =>
        fc.record({
          snapshot: fc.constant(snapshot),
          candidates: fc.shuffledSubarray([...snapshot.candidates], {
            minLength: snapshot.candidates.length,
          }),
          keys: fc.shuffledSubarray([...snapshot.keys], { minLength: snapshot.keys.length }),
        }),
      ),
      ({ snapshot, candidates, keys }) =>
        same(
          policy.plan({ ...snapshot, candidates, keys }, policy.initial),
          policy.plan(snapshot, policy.initial),
        ),
    ),
  'a restored state gives the same next plan': (policy) =>
    fc.property(snapshotArb, snapshotArb, (first, second) => {
      const { state } = policy.plan(first, policy.initial);
      const restored = policy.restore?.(JSON.parse(JSON.stringify(state))) ?? state;
      return same(policy.plan(second, restored), policy.plan(second, state));
    }),
  'no key is served twice before every other waiting key was served once': (policy) =>
    fc.property(
      fc.uniqueArray(fc.constantFrom(...keyNames), { minLength: 1 }),
      fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 30 }),
      fc.integer({ min: 1, max: 5 }),
      (keys, batches, window) => {
        const served = serve(policy, { keys, batches, window });
        const counts = keys.map((key) => served.filter((other) => other === key).length);
        return Math.max(...counts) - Math.min(...counts) <= 1;
      },
    ),
} satisfies Record<string, (policy: RoundRobin) => unknown>;

/** Keys with endless jobs, of which each snapshot shows a few; `batches`: free slots of each tick. Resolves to the keys served. */
function serve(
  policy: RoundRobin,
  {
    keys,
    batches,
    window,
  }: { readonly keys: readonly string[]; readonly batches: readonly number[]; readonly window: number },
): readonly string[] {
  let state = policy.initial;
  const taken = new Set<string>();
  const served: string[] = [];
  for (const depth of batches) {
    const candidates = keys.flatMap((key) =>
      Array.from({ length: 40 }, (_, seq): Candidate => ({
        id: `${key}${seq}`,
        queue: 'q',
        key,
        seq,
        priority: 0,
        task: 't',
        version: 1,
        createdMs: 0,
        attributes: {},
      }))
        .filter(({ id }) => !taken.has(id))
        .slice(0, window),
    );
    const cursors = policy.cursors(state);
    const lanes = keysOf(candidates, (queue) => own(cursors, queue) ?? '');
    const groups = [{ tasks: { t: { min: 1, max: 1 } }, slots: depth, depth: Math.min(depth, keys.length) }];
    const plan: Plan<RoundRobinState> = policy.plan(
      {
        nowMs: 0,
        candidates,
        keys: lanes,
        queues: {},
        pools: { default: { groups, ready: [] } },
        batchMax: 100,
      },
      state,
    );
    for (const { id } of plan.dispatch) {
      taken.add(id);
      served.push(id.replace(/\d+$/, ''));
    }
    state = plan.state;
  }
  return served;
}

type PropertyName = keyof typeof properties;

function check(name: PropertyName, policy: RoundRobin): void {
  const property = properties[name](policy) as fc.IProperty<unknown>;
  fc.assert(property, { numRuns: 300, seed: 7 });
}

describe('round-robin', () => {
  test.each(Object.keys(properties) as PropertyName[])('%s', (name) => {
    expect(() => check(name, roundRobin())).not.toThrow();
  });
});

describe('the properties can fail', () => {
  const right = roundRobin();
  const variants: Readonly<Record<string, { readonly policy: RoundRobin; readonly caughtBy: PropertyName }>> =
    {
      'forgets its cursor': {
        policy: {
          ...right,
          plan: (snapshot, state) => ({ ...right.plan(snapshot, state), state: right.initial }),
        },
        caughtBy: 'no key is served twice before every other waiting key was served once',
      },
      'takes a slot too many': {
        policy: {
          ...right,
          plan: (snapshot, state) => {
            const plan = right.plan(snapshot, state);
            const chosen = new Set(plan.dispatch.map(({ id }) => id));
            const extra = snapshot.candidates.filter(({ id }) => !chosen.has(id)).slice(0, 1);
            return {
              ...plan,
              dispatch: [...plan.dispatch, ...extra.map(({ id }) => ({ id, pool: 'default' }))],
            };
          },
        },
        caughtBy: 'a plan can be written: never more than there are slots, nothing twice, nothing unknown',
      },
      'dispatches one job at a time': {
        policy: { ...right, plan: (snapshot, state) => right.plan({ ...snapshot, batchMax: 1 }, state) },
        caughtBy: 'work conserving: what is held finds no place, or the batch is full',
      },
      'newest first': {
        policy: {
          ...right,
          plan: (snapshot, state) =>
            right.plan(
              { ...snapshot, candidates: snapshot.candidates.map((job) => ({ ...job, seq: -job.seq })) },
              state,
            ),
        },
        caughtBy: 'jobs of one kind leave their key in order',
      },
      'as they come': {
        policy: {
          ...right,
          plan: (snapshot, state) =>
            right.plan(
              {
                ...snapshot,
                candidates: snapshot.candidates.map((job, seq) => ({ ...job, seq, priority: 0 })),
              },
              state,
            ),
        },
        caughtBy: 'the order of the input does not matter',
      },
      'loses its state': {
        policy: {
          ...right,
          restore: () => right.initial,
        },
        caughtBy: 'a restored state gives the same next plan',
      },
    };

  test.each(Object.entries(variants))('%s', (_, { policy, caughtBy }) => {
    expect(() => check(caughtBy, policy)).toThrow(/Property failed/);
  });
});
