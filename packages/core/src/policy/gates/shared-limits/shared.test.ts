import { describe, expect, test } from 'vitest';
import { aJob, aPool, aSnapshot, anItem, lanesOf } from '../../../testing/snapshots.ts';
import { policy } from '../../compose/compose.ts';
import { fifo } from '../../orders/ranked.ts';
import type { Policy } from '../../policy.ts';
import type { Plan, PolicyState } from '../../plan.ts';
import type { InFlight, JobFacts } from '../../snapshot.ts';
import type { Grant } from './grant.ts';
import { sharedConcurrency } from './shared-concurrency.ts';
import { sharedRate } from './shared-rate.ts';

const prepare = { everyMs: 1_000, deadlineMs: 1_000, fetch: () => Promise.resolve(null) };
const rules = { name: 'api', home: 'one', prepare };
const waiting = Array.from({ length: 40 }, (_, n) => aJob({ seq: 100 + n, key: 'k' }));

interface Seen {
  readonly grant?: Partial<Grant>;
  readonly nowMs?: number;
  readonly inFlight?: readonly InFlight[];
}

function seen({ grant, nowMs = 0, inFlight = [] }: Seen): ReturnType<typeof aSnapshot> {
  const whole = { number: 1, part: 5, rate: 0, size: 50, perSecond: null, fromMs: 0, ...grant };
  const prepared = grant === undefined ? {} : { api: { value: whole, atMs: nowMs } };
  return aSnapshot({ nowMs, inFlight, prepared, lanes: lanesOf(waiting), pools: { default: aPool(100) } });
}

/** Plans, and writes the whole plan at once. */
function go(made: Policy, state: PolicyState, at: Seen): { plan: Plan; after: PolicyState; jobs: number } {
  const plan = made.plan(seen(at), state);
  const ids = new Set(plan.dispatch.map(({ id }) => id));
  const after = made.written?.(plan.state, { atMs: at.nowMs ?? 0, ids }) ?? plan.state;
  return { plan, after, jobs: ids.size };
}

function why(made: Policy, state: PolicyState, at: Seen): string {
  const snapshot = seen(at);
  const [lane] = snapshot.lanes;
  const [job] = lane?.jobs ?? [];
  if (lane === undefined || job === undefined) throw new Error('a job waits');
  return (
    made
      .explain?.(snapshot, state, job, lane)
      .holds.map(({ message }) => message)
      .join('; ') ?? ''
  );
}

describe('a concurrency', () => {
  const made = policy({ gates: [sharedConcurrency(rules)], order: fifo() });

  test('lets as many go as the part has room for, and tells what is in flight under which answer', () => {
    const inFlight = [1, 2].map((seq) => anItem({ seq }));
    const { jobs, after } = go(made, made.initial, { grant: { number: 7 }, inFlight });
    expect(jobs).toBe(3);
    expect(after['api']).toEqual({ number: 7, inFlight: 5, held: true });
    const full = go(made, after, {
      grant: { number: 8, part: 2 },
      inFlight: [1, 2, 3].map((seq) => anItem({ seq })),
    });
    expect([full.jobs, full.after['api']]).toEqual([0, { number: 8, inFlight: 3, held: true }]);
  });

  test('holds without a lease, and a new leader begins without one', () => {
    const { jobs, after } = go(made, made.initial, { inFlight: [anItem({ seq: 1 })] });
    expect([jobs, after['api']]).toEqual([0, { number: 0, inFlight: 1, held: true }]);
    const led = go(made, after, { grant: { number: 9 } });
    const restored = made.restore?.({ api: { state: led.after['api'] ?? null, savedMs: 0 } });
    expect(restored?.['api']).toEqual({ number: 0, inFlight: 0, held: false });
  });

  test('counts a bundle once, and only jobs that it is for', () => {
    const inFlight = [1, 2, 3].map((seq) => ({ ...anItem({ seq }), bundle: 'b' }));
    expect(go(made, made.initial, { grant: {}, inFlight }).jobs).toBe(4);
    const some = policy({
      gates: [sharedConcurrency({ ...rules, when: ({ seq }: JobFacts) => seq % 2 === 0 })],
      order: fifo(),
    });
    const { jobs, after } = go(some, some.initial, {
      grant: { part: 3 },
      inFlight: [anItem({ seq: 1 }), anItem({ seq: 2 })],
    });
    expect([jobs, after['api']]).toEqual([22, { number: 1, inFlight: 3, held: true }]);
  });

  test('a job whose rule fails is held, and counts while it is in flight', () => {
    const broken = policy({
      gates: [
        sharedConcurrency({
          ...rules,
          when: ({ seq }: JobFacts) => {
            if (seq === 1 || seq === 100) throw new Error('no');
            return true;
          },
        }),
      ],
      order: fifo(),
    });
    const { jobs, after, plan } = go(broken, broken.initial, { grant: {}, inFlight: [anItem({ seq: 1 })] });
    expect(jobs).toBe(4);
    expect(after['api']).toMatchObject({ inFlight: 5 });
    expect(plan.dispatch.map(({ id }) => id)).not.toContain('job100');
  });

  test.each([
    [
      { grant: { part: 1 }, inFlight: [anItem({ seq: 1 })] },
      "this installation's part of the shared limit is 1 of 50, all in flight",
    ],
    [{ grant: { part: 0 } }, 'this installation has no part yet of the shared limit of 50'],
    [{ grant: { part: 0, size: 0 } }, 'the shared limit is 0'],
    [{}, 'this installation has no lease of the shared limit, because its home one has not answered'],
  ])('says why: %j', (at, told) => {
    expect(why(made, made.initial, at)).toContain(told);
  });
});

describe('a rate', () => {
  const made = policy({ gates: [sharedRate(rules)], order: fifo() });
  const grant = { part: 10, rate: 20, size: 20, perSecond: 40 };

  test('begins empty, and fills by its part', () => {
    const first = go(made, made.initial, { grant, nowMs: 1_000 });
    expect(first.jobs).toBe(0);
    const second = go(made, first.after, { grant, nowMs: 1_250 });
    expect(second.jobs).toBe(5);
    expect(go(made, second.after, { grant, nowMs: 9_000 }).jobs).toBe(10);
  });

  test('a smaller part cuts what has come together, and a greater one adds nothing at once', () => {
    const empty = go(made, made.initial, { grant, nowMs: 0 });
    const cut = go(made, empty.after, { grant: { ...grant, number: 2, part: 0, rate: 0 }, nowMs: 10_000 });
    expect([cut.jobs, cut.after['api']]).toMatchObject([0, { number: 2, part: 0 }]);
    const raised = go(made, cut.after, { grant: { ...grant, number: 3, part: 20, rate: 40 }, nowMs: 20_000 });
    expect([raised.jobs, raised.after['api']]).toMatchObject([0, { number: 3, part: 20, rate: 40 }]);
    expect(go(made, raised.after, { grant: { ...grant, part: 20, rate: 40 }, nowMs: 20_100 }).jobs).toBe(4);
  });

  test('a greater part counts from a time at which others surely had less', () => {
    const empty = go(made, made.initial, { grant, nowMs: 0 });
    const later = { ...grant, number: 2, part: 20, rate: 40, fromMs: 600 };
    const early = go(made, empty.after, { grant: later, nowMs: 500 });
    expect([early.jobs, early.plan.nextMs]).toEqual([10, 550]);
    expect(early.after['api']).toMatchObject({ number: 1, part: 10, rate: 20 });
    const then = go(made, early.after, { grant: later, nowMs: 600 });
    expect([then.jobs, then.after['api']]).toMatchObject([2, { number: 2, part: 20, rate: 40 }]);
  });

  test('holds without a lease, though tokens are left', () => {
    const empty = go(made, made.initial, { grant, nowMs: 0 });
    expect(go(made, empty.after, { nowMs: 5_000 }).jobs).toBe(0);
    expect(why(made, empty.after, { nowMs: 5_000 })).toContain('its home one has not answered');
  });

  test('says why', () => {
    const empty = go(made, made.initial, { grant, nowMs: 0 });
    expect(why(made, empty.after, { grant, nowMs: 10 })).toBe(
      "this installation's part of the shared limit is 10 at once and 20 a second, of 20 at once and 40 a second, all used",
    );
  });
});
