// The arithmetic of shared limits, with the real function of the home and the real gates, in virtual time: whatever is
// lost, late, silent, restarted or frozen, the parts never exceed the limit, and no window does.
import fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import { useDatabase } from '../../support/database.ts';
import type { LimitKind } from './holders.ts';
import { Holder } from './holders.ts';
import { createLeaseLimitAt } from './virtual-time.ts';

const own = useDatabase();
beforeAll(() => createLeaseLimitAt(own.database));

type Step = readonly [kind: string, holder: number, amount: number];

const step: fc.Arbitrary<Step> = fc.tuple(
  fc.oneof(
    { weight: 6, arbitrary: fc.constant('round') },
    { weight: 6, arbitrary: fc.constant('cycle') },
    ...[
      'ask',
      'askLost',
      'answer',
      'answerLost',
      'late',
      'plan',
      'stale',
      'write',
      'end',
      'wait',
      'restart',
      'resize',
    ].map((kind) => ({ weight: kind.startsWith('re') ? 1 : 2, arbitrary: fc.constant(kind) })),
  ),
  fc.nat({ max: 3 }),
  fc.nat({ max: 30 }),
);

const kinds: fc.Arbitrary<LimitKind> = fc.record({
  size: fc.integer({ min: 0, max: 60 }),
  perSecond: fc.option(fc.oneof(fc.integer({ min: 0, max: 15 }), fc.integer({ min: 0, max: 200 })), {
    nil: null,
    freq: 1,
  }),
});

interface Run {
  readonly holders: readonly Holder[];
  nowMs: number;
  /** Greatest size that was told. */
  most: number;
  readonly went: { readonly atMs: number; readonly jobs: number }[];
}

/**
 * A second or less of some schedulers, one after the other. One of them has load, the others are idle; jobs of all end.
 */
async function round(run: Run, loaded: number, amount: number): Promise<void> {
  for (const [index, holder] of run.holders.entries()) {
    const loads = index === loaded % run.holders.length;
    if (!loads && ((amount >> index) & 1) === 0) continue;
    holder.end((amount % 4) * 8);
    await cycle(run, holder, { amount, waiting: loads ? 60 : 0 });
  }
}

/** One scheduler asks, and plans twice. Snapshots may be older than the answer. */
async function cycle(
  run: Run,
  holder: Holder,
  { amount, waiting }: { readonly amount: number; readonly waiting: number },
): Promise<void> {
  holder.ask(run.nowMs, false);
  run.nowMs += amount;
  await holder.answer(run.nowMs, false);
  for (let tick = 0; tick < 2; tick += 1) {
    holder.plan(run.nowMs - (amount % 3) * 100, waiting);
    run.nowMs += amount / 4;
    write(run, holder);
  }
}

function write(run: Run, holder: Holder): void {
  run.went.push({ atMs: run.nowMs, jobs: holder.write(run.nowMs) });
}

async function take(run: Run, [kind, index, amount]: Step): Promise<void> {
  const holder = run.holders[index % run.holders.length];
  if (holder === undefined) return;
  switch (kind) {
    case 'round':
      return round(run, index, amount);
    case 'cycle':
      return cycle(run, holder, { amount, waiting: amount });
    case 'ask':
    case 'askLost':
      return holder.ask(run.nowMs, kind === 'askLost');
    case 'answer':
    case 'answerLost':
      return holder.answer(run.nowMs, kind === 'answerLost');
    case 'late':
      return holder.arriveLate(run.nowMs);
    case 'plan':
      return holder.plan(run.nowMs, amount);
    case 'stale':
      // on a snapshot that took long to read
      return holder.plan(run.nowMs - amount * 50, amount);
    case 'write':
      return write(run, holder);
    case 'end':
      return holder.end(amount);
    case 'restart':
      return holder.restart();
    case 'resize':
      holder.size = amount * 2;
      run.most = Math.max(run.most, holder.size);
      return;
    default:
      // now and then longer than a lease
      run.nowMs += amount > 20 ? 6_000 : amount * 40;
  }
}

async function leased(): Promise<{ readonly parts: number; readonly rates: number }> {
  const [row] = await own.database.query<{ parts: number; rates: number }>(
    `select coalesce(sum(part), 0)::integer as parts, coalesce(sum(rate), 0)::float8 as rates from pgqueue.shared_limit_part`,
    [],
  );
  return row ?? { parts: 0, rates: 0 };
}

/** Most that any window holds beyond the rate: the burst, if it is kept to. */
function excess({ went }: Run, perSecond: number): number {
  let [most, least, sum] = [0, Infinity, 0];
  for (const { atMs, jobs } of went) {
    const flow = (atMs * perSecond) / 1_000;
    least = Math.min(least, sum - flow);
    sum += jobs;
    most = Math.max(most, sum - flow - least);
  }
  return most;
}

/** Runs random sequences; resolves to what was exceeded, shrunk, or null. */
async function tried(
  numRuns: number,
  { found = { jobs: 0 }, endOnFailure = false } = {},
): Promise<string | null> {
  const property = fc.asyncProperty(
    kinds,
    fc.array(fc.integer({ min: -100_000, max: 100_000 }), { minLength: 2, maxLength: 4 }),
    fc.array(step, { minLength: 30, maxLength: 90, size: 'max' }),
    async (kind, offsets, steps) => {
      await own.database.query('delete from pgqueue.shared_limit', []);
      const holders = offsets.map((offsetMs, number) => new Holder(own.database, kind, { number, offsetMs }));
      const run: Run = { holders, nowMs: Date.parse('2027-01-01T00:00:00Z'), went: [], most: kind.size };
      for (const one of steps) {
        await take(run, one);
        const inFlight = holders.reduce((sum, holder) => sum + holder.inFlight.length, 0);
        const { parts, rates } = await leased();
        expect(Math.max(parts, kind.perSecond === null ? inFlight : 0)).toBeLessThanOrEqual(run.most);
        expect(rates).toBeLessThanOrEqual((kind.perSecond ?? 0) * (1 + 1e-9));
      }
      found.jobs += run.went.reduce((sum, { jobs }) => sum + jobs, 0);
      const { perSecond } = kind;
      expect(perSecond === null ? 0 : excess(run, perSecond)).toBeLessThanOrEqual(run.most + 1e-6);
    },
  );
  const { failed, counterexample, seed, errorInstance } = await fc.check(property, { numRuns, endOnFailure });
  return failed ? `${String(errorInstance)} ${seed} ${JSON.stringify(counterexample)}` : null;
}

test('the parts never add up to more than the limit, and neither do jobs in flight or any window', async () => {
  const found = { jobs: 0 };
  expect(await tried(80, { found })).toBeNull();
  expect(found.jobs).toBeGreaterThan(1_000);
});

test.each([
  ['a smaller part frees the rest before its holder keeps to it', 'p_seen = v_me.number', 'true'],
  ['jobs in flight above the part are not reserved', 'greatest(v_me.part, p_in_flight)', 'v_me.part'],
  ['a part grows into what others have reserved', 'v_size - v_others,', 'v_size - v_others / 2,'],
  [
    'a silent installation keeps nothing',
    'o.installation <> p_installation;',
    'o.installation <> p_installation and o.expires > v_now;',
  ],
])('finds the mistake: %s', async (_, from, to) => {
  const { database } = own;
  const [found] = await database.query<{ text: string }>(
    `select pg_get_functiondef(p.oid) as text from pg_proc p where p.proname = 'lease_limit_at'`,
    [],
  );
  const text = found?.text ?? '';
  expect(text).toContain(from);
  await database.query(text.replace(from, to), []);
  try {
    expect(await tried(2_000, { endOnFailure: true })).not.toBeNull();
  } finally {
    await database.query(text, []);
  }
});
