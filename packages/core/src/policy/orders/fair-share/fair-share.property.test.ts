import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Backlog } from '../../../testing/service.ts';
import { run, serve } from '../../../testing/service.ts';
import { aJob, anItem, aPool, aSnapshot, lanesOf } from '../../../testing/snapshots.ts';
import { policy } from '../../compose/compose.ts';
import type { Order } from '../../order.ts';
import type { Candidate } from '../../snapshot.ts';
import type { FairShareOptions } from './fair-share.ts';
import { fairShare } from './fair-share.ts';

type Make = (options: FairShareOptions) => Order;

const weights: Readonly<Record<string, number>> = { a: 1, b: 2, c: 0.5, d: 10 };
const weightOf = (key: string): number => weights[key] ?? 1;
const costOf = ({ attributes }: { readonly attributes: Candidate['attributes'] }): number =>
  Number(attributes['cost']);

const backlogsArb = fc
  .subarray(['a', 'b', 'c', 'd'], { minLength: 2 })
  .chain((keys) =>
    fc.tuple(
      ...keys.map((key) =>
        fc
          .array(fc.integer({ min: 1, max: 8 }), { minLength: 1, maxLength: 4 })
          .map((costs): Backlog => ({ key, cost: (n) => costs[n % costs.length] ?? 1 })),
      ),
    ),
  );
const slotsArb = fc.array(fc.integer({ min: 0, max: 6 }), { minLength: 10, maxLength: 40 });

/**
 * Returns the widest range of the lead of one share over another, in service by weight, over any stretch of
 * time.
 */
function spread(served: readonly Candidate[], one: string, other: string): number {
  let [lead, least, most] = [0, 0, 0];
  for (const job of served) {
    if (job.key === one) lead += costOf(job) / weightOf(one);
    if (job.key === other) lead -= costOf(job) / weightOf(other);
    [least, most] = [Math.min(least, lead), Math.max(most, lead)];
  }
  return most - least;
}

const byKey = { by: 'key', weight: weightOf } as const;
const charge = { cost: costOf };
/** Tolerance: states are rounded. */
const slack = 1e-3;
const hash = (n: number): number => (Math.imul(n + 1, 2_654_435_761) >>> 0) / 2 ** 32;

const properties = {
  'of two shares with work throughout, neither is ever ahead by more than one largest cost by weight of each':
    (make: Make) =>
      fc.property(backlogsArb, slotsArb, (backlogs, slots) => {
        const served = serve({ order: make({ levels: [byKey], charge }), backlogs, slots });
        const largest = ({ key, cost }: Backlog): number =>
          Math.max(...[0, 1, 2, 3].map((n) => cost?.(n) ?? 1)) / weightOf(key);
        return backlogs.every((one) =>
          backlogs.every(
            (other) =>
              one === other || spread(served, one.key, other.key) <= largest(one) + largest(other) + slack,
          ),
        );
      }),
  'the same where shares come and go, for those that stay': (make: Make) =>
    fc.property(slotsArb, fc.integer({ min: 1, max: 5 }), (slots, others) => {
      const guests = Array.from({ length: others }, (_, n): Backlog => ({
        key: `guest${n}`,
        cost: () => 3,
        from: 2 + n,
        to: 4 + 3 * n,
      }));
      const backlogs = [{ key: 'a', cost: () => 2 }, { key: 'b', cost: () => 5 }, ...guests];
      const served = serve({ order: make({ levels: [byKey], charge }), backlogs, slots });
      return spread(served, 'a', 'b') <= 2 / weightOf('a') + 5 / weightOf('b') + slack;
    }),
  'what the database refuses is given back': (make: Make) =>
    fc.property(slotsArb, fc.integer({ min: 2, max: 3 }), (slots, every) => {
      const served = serve({
        order: make({ levels: [{ by: 'key' }] }),
        backlogs: [{ key: 'a' }, { key: 'e' }],
        slots,
        refuses: ({ key }, tick) => key === 'a' && tick % every > 0,
      });
      // a plan counts on all of its jobs being written
      const inPlan = Math.max(...slots);
      const lead = served.map(({ key }) => (key === 'a' ? 1 : -1)).reduce((sum, one) => sum + one, 0);
      return lead >= -2 * inPlan - 2;
    }),
  'on each level, shares are shared out by weight': (make: Make) =>
    fc.property(fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 40, maxLength: 60 }), (slots) => {
      const regions: Readonly<Record<string, string>> = { a: 'eu', b: 'eu', c: 'us', d: 'us' };
      const backlogs = Object.keys(regions).map((key): Backlog => ({
        key,
        attributes: { region: regions[key] ?? '' },
        cost: () => 1,
      }));
      const order = make({
        levels: [
          {
            name: 'region',
            by: ({ attributes }) => attributes['region'],
            weight: (region) => (region === 'eu' ? 3 : 1),
          },
          byKey,
        ],
        charge,
      });
      const served = serve({ order, backlogs, slots });
      const had = (test: (key: string) => boolean): number => served.filter(({ key }) => test(key)).length;
      const eu = had((key) => regions[key] === 'eu') / 3 - had((key) => regions[key] === 'us');
      const inEu = spread(
        served.filter(({ key }) => regions[key] === 'eu'),
        'a',
        'b',
      );
      return Math.abs(eu) <= 1 + 1 / 3 + slack && inEu <= 1 + 1 / 2 + slack;
    }),
  'a guaranteed minimum goes first, and a burst maximum holds': (make: Make) =>
    fc.property(
      fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 12 }),
      fc.array(fc.constantFrom('a', 'b', 'c', 'd'), { minLength: 1, maxLength: 20 }),
      fc.integer({ min: 1, max: 10 }),
      (flying, waiting, free) => {
        const least: Readonly<Record<string, number>> = { a: 3, b: 1 };
        const most: Readonly<Record<string, number>> = { a: 4, c: 2 };
        const order = make({
          levels: [
            { by: 'queue' },
            { by: 'key', min: (key) => least[key] ?? 0, max: (key) => most[key] ?? null },
          ],
        });
        const jobs = waiting.map((key, seq) => aJob({ seq, key, queue: key === 'b' ? 'other' : 'default' }));
        const inFlight = flying.map((key, index) =>
          anItem({ seq: 100 + index, key, queue: key === 'b' ? 'other' : 'default', state: 'running' }),
        );
        const made = policy({ order });
        const plan = made.plan(
          aSnapshot({ lanes: lanesOf(jobs), inFlight, pools: { default: aPool(free) } }),
          made.initial,
        );
        const counts = new Map<string, number>();
        for (const key of flying) counts.set(key, (counts.get(key) ?? 0) + 1);
        let left = jobs;
        const needy = (key: string): boolean => (counts.get(key) ?? 0) < (least[key] ?? 0);
        return plan.dispatch.every(({ id }) => {
          const key = jobs.find((job) => job.id === id)?.key ?? '';
          const first = needy(key) || !left.some((job) => needy(job.key));
          counts.set(key, (counts.get(key) ?? 0) + 1);
          left = left.filter((job) => job.id !== id);
          return first && (counts.get(key) ?? 0) <= (most[key] ?? Infinity);
        });
      },
    ),
  'by time: what tenants have of it is within 5 % of their weights, however long their jobs': (make: Make) =>
    fc.property(
      fc.constantFrom(
        (n: number): number => 2_500 + (n % 2),
        (n: number): number => 500 + 4_000 * hash(n),
        // one job in ten takes 20 times as long as the others
        (n: number): number => (hash(n) < 0.1 ? 20_000 : 1_000),
      ),
      fc.constantFrom(1, 3),
      (long, weight) => {
        const order = make({
          levels: [{ by: 'key', weight: (key) => (key === 'long' ? weight : 1) }],
          charge: 'time',
        });
        const backlogs: Backlog[] = [
          { key: 'long', runMs: long },
          { key: 'short', runMs: () => 50 },
        ];
        const busy = run({ order, backlogs, slots: 20, forMs: 120_000, tickMs: 50 });
        const all = (busy.get('long') ?? 0) + (busy.get('short') ?? 0);
        const part = (busy.get('long') ?? 0) / all / (weight / (weight + 1));
        return part > 0.95 && part < 1.05;
      },
    ),
} satisfies Record<string, (make: Make) => unknown>;

type PropertyName = keyof typeof properties;

/** Checks a property. `endOnFailure`: a seeded bug needs no smallest example. */
function check(name: PropertyName, make: Make, endOnFailure = false): void {
  const numRuns = name.startsWith('by time') ? 3 : 40;
  fc.assert(properties[name](make) as fc.IProperty<unknown>, { numRuns, seed: 7, endOnFailure });
}

describe('fair share', () => {
  test.each(Object.keys(properties) as PropertyName[])('%s', (name) => {
    expect(() => check(name, fairShare)).not.toThrow();
  });
});

describe('the properties can fail', () => {
  const changed =
    (change: (order: ReturnType<typeof fairShare>) => Partial<Order>): Make =>
    (options) => {
      const order = fairShare(options);
      return { ...order, ...change(order) };
    };
  const seeded: Readonly<Record<string, { readonly make: Make; readonly caughtBy: PropertyName }>> = {
    'forgets who had more': {
      make: changed((order) => ({
        open: (snapshot, _state, heads) => order.open(snapshot, order.initial as never, heads),
      })),
      caughtBy:
        'of two shares with work throughout, neither is ever ahead by more than one largest cost by weight of each',
    },
    'counts jobs': {
      make: (options) => fairShare({ ...options, charge: 'jobs' }),
      caughtBy:
        'of two shares with work throughout, neither is ever ahead by more than one largest cost by weight of each',
    },
    'half-forgets too fast': {
      make: (options) => fairShare({ ...options, halfLifeMs: 1 }),
      caughtBy: 'the same where shares come and go, for those that stay',
    },
    'charges what was never written': {
      make: changed(() => ({ written: (state) => state })),
      caughtBy: 'what the database refuses is given back',
    },
    'knows one level only': {
      make: (options) => fairShare({ ...options, levels: (options.levels ?? []).slice(-1) }),
      caughtBy: 'on each level, shares are shared out by weight',
    },
    'guarantees nothing': {
      make: (options) =>
        fairShare({
          ...options,
          levels: (options.levels ?? []).map((level) => ({ ...level, min: () => 0 })),
        }),
      caughtBy: 'a guaranteed minimum goes first, and a burst maximum holds',
    },
    'bursts without end': {
      make: changed(() => ({ gates: [] })),
      caughtBy: 'a guaranteed minimum goes first, and a burst maximum holds',
    },
    'counts jobs, not time': {
      make: (options) => fairShare({ ...options, charge: 'jobs' }),
      caughtBy: 'by time: what tenants have of it is within 5 % of their weights, however long their jobs',
    },
    'never hears how long they took': {
      make: changed((order) => ({
        open: (snapshot, state, heads) => order.open({ ...snapshot, settled: [] }, state as never, heads),
      })),
      caughtBy: 'by time: what tenants have of it is within 5 % of their weights, however long their jobs',
    },
  };

  test.each(Object.entries(seeded))('%s', (_name, { make, caughtBy }) => {
    expect(() => check(caughtBy, make, true)).toThrow(/Property failed/);
  });
});
