import { deepStrictEqual } from 'node:assert/strict';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { aJob, anItem, aPool, aSnapshot } from '../../testing/snapshots.ts';
import { policy } from '../compose/compose.ts';
import { concurrency } from '../gates/concurrency.ts';
import { fifo } from '../orders/ranked.ts';
import type { Plan } from '../plan.ts';
import type { Policy } from '../policy.ts';
import type { Candidate, Lane, Snapshot } from '../snapshot.ts';
import { defaultQueue } from '../snapshot.ts';

const groupOf = ({ attributes }: Pick<Candidate, 'attributes'>): string | null => {
  if (attributes['group'] === 'broken') throw new Error('it fails');
  return attributes['group'] as string | null;
};
const limited = (limit: number): Policy =>
  policy({ order: fifo(), gates: [concurrency({ name: 'limit', by: groupOf, limit })] });

function aLane(queue: string, key: string, groups: readonly string[], from: number): Lane {
  const jobs = groups.map((group, at) => {
    return aJob({ seq: from + at, queue, key, task: at % 3 === 2 ? 'u' : 't', attributes: { group } });
  });
  return { queue, key, jobs, more: false, retryDueMs: null, fresh: true };
}

/** Changes between two plans. */
const change = fc.oneof(
  fc.record({
    lane: fc.nat(7),
    to: fc.array(fc.constantFrom('a', 'a', 'b', 'c', 'broken'), { maxLength: 4 }),
  }),
  fc.record({ lane: fc.nat(7), to: fc.constantFrom('gone' as const, 'stale' as const, 'first' as const) }),
);
const step = fc.record({
  abortedAfter: fc.array(fc.nat(12), { maxLength: 2 }),
  changes: fc.array(change, { maxLength: 3 }),
  inFlight: fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 4 }),
  keyConcurrency: fc.constantFrom(null, null, 1),
  depth: fc.constantFrom(0, 3, 10),
});
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never;

function* snapshotsOf(steps: readonly Step[]): Generator<Snapshot> {
  const lanes: Lane[] = [];
  let seq = 1;
  for (const { changes, inFlight, keyConcurrency, depth } of steps) {
    for (const { lane: n, to } of changes) {
      const at = lanes.findIndex(({ key }) => key === `k${n}`);
      const found = lanes[at];
      if (typeof to !== 'string') {
        seq += to.length;
        lanes[at < 0 ? lanes.length : at] = aLane(`q${n % 2}`, `k${n}`, to, seq - to.length);
      } else if (found !== undefined) {
        lanes.splice(at, 1);
        if (to === 'stale') lanes.splice(at, 0, { ...found, fresh: false });
        if (to === 'first') lanes.unshift(found);
      }
    }
    yield aSnapshot({
      lanes: [...lanes],
      inFlight: inFlight.map((group, at) => anItem({ seq: 10_000 + at, key: 'k0', attributes: { group } })),
      queues: { q1: { ...defaultQueue, keyConcurrency } },
      pools: { default: aPool(depth, ['t']) },
    });
  }
}

const toldBy = ({ dispatch, held, reasons, laneReasons, nextMs }: Plan): unknown => ({
  dispatch,
  held,
  reasons: new Map(reasons),
  laneReasons: new Map(laneReasons),
  nextMs,
});

const aborted = new Error('aborted');

/** Begins a plan, and aborts it after that many calls of its gates. */
function planAborted(made: Policy, snapshot: Snapshot, calls: number): void {
  let left = calls;
  const avoids = (): boolean => {
    left -= 1;
    if (left < 0) throw aborted;
    return false;
  };
  try {
    made.plan(snapshot, made.initial, { part: '', job: null, avoids, late: () => false });
  } catch (error) {
    if (error !== aborted) throw error;
  }
}

describe('what is remembered of kinds', () => {
  test('changes no plan, whatever came before', () => {
    fc.assert(
      fc.property(
        fc.array(step, { minLength: 2, maxLength: 12 }),
        fc.integer({ min: 1, max: 3 }),
        (steps, limit) => {
          const remembers = limited(limit);
          const plans = [...snapshotsOf(steps)].map((snapshot, at) => {
            const anew = limited(limit);
            for (const calls of steps[at]?.abortedAfter ?? []) planAborted(remembers, snapshot, calls);
            const plan = remembers.plan(snapshot, remembers.initial);
            return { plan, expected: toldBy(anew.plan(snapshot, anew.initial)) };
          });
          // a plan's answers stay the same when later plans have been made
          for (const { plan, expected } of plans) expect(toldBy(plan)).toEqual(expected);
        },
      ),
      { numRuns: 300, seed: 20_261_125 },
    );
  });

  test('a first plan that is aborted again and again comes to its end', () => {
    let asked = 0;
    const by = (job: Candidate): string | null => ((asked += 1), groupOf(job));
    const made = policy({ order: fifo(), gates: [concurrency({ name: 'limit', by, limit: 0 })] });
    const lanes = Array.from({ length: 1_000 }, (_, n) => aLane('q', `k${n}`, [`g${n % 5}`], n));
    for (let plans = 0; plans < 12; plans += 1) planAborted(made, aSnapshot({ lanes }), 100);
    asked = 0;
    expect(made.plan(aSnapshot({ lanes }), made.initial).held).toEqual({ q: { limit: 1_000 } });
    // once for each group
    expect(asked).toBe(5);
  });

  test.each([100, 10_000])(
    'a plan reads the lanes that have changed, and no other of %i that are held',
    (count) => {
      let [read, asked] = [0, 0];
      const counted = (lane: Lane): Lane => {
        const { jobs, ...facts } = lane;
        return {
          ...facts,
          get jobs() {
            read += 1;
            return jobs;
          },
        };
      };
      const inner = concurrency({ name: 'limit', by: groupOf, limit: 0 });
      const counting = policy({
        order: fifo(),
        gates: [
          {
            ...inner,
            open: (snapshot, state) => {
              const open = inner.open(snapshot, state);
              return { ...open, admits: (...given) => ((asked += 1), open.admits(...given)) };
            },
          },
        ],
      });
      const held = (n: number): Lane => counted(aLane('q', `k${n}`, [`g${n % 5}`], n));
      const lanes = Array.from({ length: count }, (_, n) => held(n));
      const free = {
        ...aLane('q', 'free', ['none'], 0),
        jobs: [aJob({ seq: 0, queue: 'q', key: 'free', attributes: { group: null } })],
      };
      counting.plan(aSnapshot({ lanes }), counting.initial);
      [read, asked] = [0, 0];
      const plan = counting.plan(
        aSnapshot({ lanes: [...lanes.with(7, held(count)), free] }),
        counting.initial,
      );
      expect(plan.dispatch).toHaveLength(1);
      expect(plan.held).toEqual({ q: { limit: count } });
      expect(read).toBeLessThanOrEqual(10);
      // once for each group, and for the job that goes
      expect(asked).toBeLessThanOrEqual(7);
    },
  );
});

test('plans of one snapshot are deeply equal, as users compare them', () => {
  const seen = { lanes: [aLane('q0', 'k0', ['a', 'a'], 1), aLane('q1', 'k1', ['a', 'b'], 3)] };
  const [one, two] = [limited(0), limited(0)];
  expect(one.plan(aSnapshot(seen), one.initial).held).not.toEqual({});
  deepStrictEqual(one.plan(aSnapshot(seen), one.initial), two.plan(aSnapshot(seen), two.initial));
});
