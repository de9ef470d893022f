// How the home divides a limit.
import { leaseLimit, readSharedLimits } from '@pgqueue/postgres/internal';
import type { LeasedPart, LeaseRequest } from '@pgqueue/postgres/internal';
import { expect, test } from 'vitest';
import { useDatabase } from '../../support/database.ts';
import { createLeaseLimitAt } from './virtual-time.ts';

const own = useDatabase({ each: true });
const seen = new Map<number, number>();

/** Leases for an installation that keeps to its last answer, and confirms it. `wants` null: jobs are held. */
async function lease(installation: number, asked: Partial<LeaseRequest> = {}): Promise<LeasedPart> {
  const part = await leaseLimit(own.database, {
    limit: 'api',
    installation,
    epoch: 1,
    size: 100,
    perSecond: null,
    seen: seen.get(installation) ?? 0,
    inFlight: 0,
    wants: null,
    leaseMs: 60_000,
    ...asked,
  });
  seen.set(installation, part.number);
  return part;
}

const inOrder = (parts: readonly number[]): readonly number[] => parts.toSorted((a, b) => a - b);

/** Parts after each of them has asked a few times, by installation. */
async function settled(
  wants: Readonly<Record<number, number | null>>,
  asked: Partial<LeaseRequest> = {},
): Promise<readonly number[]> {
  const parts = new Map<string, number>();
  for (let round = 0; round < 4; round += 1)
    for (const [installation, wanted] of Object.entries(wants))
      parts.set(installation, (await lease(Number(installation), { wants: wanted, ...asked })).part);
  return Object.keys(wants).map((installation) => parts.get(installation) ?? 0);
}

test.each([
  [
    'one with load gets nearly all, and idle ones one each',
    { 1: null, 2: 0, 3: 0, 4: 0 },
    100,
    [97, 1, 1, 1],
  ],
  ['a small limit keeps nothing for idle ones', { 1: null, 2: 0, 3: 0, 4: 0 }, 20, [20, 0, 0, 0]],
  [
    'several with load get even parts, and one what it wants',
    { 1: null, 2: null, 3: 10, 4: 0 },
    100,
    [44, 45, 10, 1],
  ],
  ['what nobody wants stays in the home', { 1: 5, 2: 5 }, 100, [5, 5]],
  ['nothing of nothing', { 1: null, 2: null }, 0, [0, 0]],
])('%s', async (_, wants, size, parts) => {
  const got = await settled(wants, { size });
  expect(inOrder(got)).toEqual(inOrder(parts));
});

test('a rate is divided as its burst is', async () => {
  const limit = { limit: 'texts', size: 40, perSecond: 100 };
  await settled({ 1: null, 2: 0 }, limit);
  expect(await lease(1, limit)).toMatchObject({ part: 39, rate: 97.5, size: 40, perSecond: 100 });
});

test('rates of holders that tell different bursts add up to no more than the rate', async () => {
  const limit = { limit: 'texts', perSecond: 100 };
  const silent = { ...limit, size: 60, leaseMs: 1 };
  await lease(1, silent);
  expect(await lease(1, silent)).toMatchObject({ part: 60, rate: 100 });
  const other = { ...limit, size: 120 };
  await lease(2, other);
  expect(await lease(2, other)).toMatchObject({ part: 60, rate: 0, size: 120 });
  // it comes back, and both share
  const rates = [0, 0];
  for (let round = 0; round < 6; round += 1)
    for (const installation of [1, 2]) {
      rates[installation - 1] = (await lease(installation, { ...other, leaseMs: 60_000 })).rate;
      expect((rates[0] ?? 0) + (rates[1] ?? 0)).toBeLessThanOrEqual(100);
    }
  expect(rates).toEqual([50, 50]);
});

test('when more have load than there are units, each gets one now and then', async () => {
  await createLeaseLimitAt(own.database);
  const had = new Set<number>();
  const at = Date.parse('2027-01-01T00:00:00Z') / 1_000;
  for (let second = 0; second < 40; second += 1)
    for (const installation of [1, 2, 3]) {
      const [row] = await own.database.query<{ number: number; part: number }>(
        `select number::float8 as number, part from pgqueue.lease_limit_at(to_timestamp($1::float8), 'api', $2, 1, 2, null, $3, 0, null, 5000)`,
        [at + second, installation, seen.get(installation) ?? 0],
      );
      seen.set(installation, row?.number ?? 0);
      if ((row?.part ?? 0) > 0) had.add(installation);
    }
  expect(inOrder([...had])).toEqual([1, 2, 3]);
});

test('jobs in flight stay reserved until they end, and nobody else gets their part', async () => {
  await lease(1, { inFlight: 0 });
  await lease(1, { inFlight: 100 });
  expect((await lease(2)).part).toBe(0);
  expect((await lease(1, { inFlight: 100 })).part).toBe(50);
  expect((await lease(2)).part).toBe(0);
  await lease(1, { inFlight: 70 });
  expect((await lease(2)).part).toBe(30);
});

test('a leader of an earlier term is refused', async () => {
  await lease(1, { epoch: 5 });
  await expect(lease(1, { epoch: 4 })).rejects.toMatchObject({ code: 'PQ002' });
  expect((await lease(1, { epoch: 6 })).part).toBe(100);
});

test('after a failover that may have lost leases, nobody gets a part until all have told what is in flight', async () => {
  await lease(1);
  const before = await lease(2, { wants: 5 });
  await own.database.query(`update pgqueue.shared_limit set place = 'another timeline'`, []);
  // each had a part that the new server may not know
  expect((await lease(1, { seen: 0, inFlight: 60 })).part).toBe(0);
  expect((await lease(1, { inFlight: 60 })).part).toBe(0);
  const first = await lease(2, { seen: before.number, inFlight: 10 });
  expect(first.part).toBe(40);
  expect(first.number).toBeGreaterThan(before.number + 1_000);
  // 2 may still use a part that is forgotten here, until it tells the new number back
  expect((await lease(1, { inFlight: 20 })).part).toBe(0);
  await lease(2, { inFlight: 10, wants: 10 });
  await lease(2, { inFlight: 10, wants: 10 });
  expect((await lease(1, { inFlight: 20 })).part).toBe(90);
});

test('an answer with the same part has the same number, so that a slow holder confirms it', async () => {
  const first = await lease(1, { wants: 30 });
  expect(await lease(1, { wants: 30, inFlight: 30 })).toEqual(first);
  expect((await lease(1, { wants: 31, inFlight: 30 })).number).toBe(first.number + 1);
});

test('a limit is not removed while a silent installation had jobs in flight', async () => {
  await lease(1, { leaseMs: 1 });
  await lease(1, { leaseMs: 1, inFlight: 3 });
  await own.database.query(`update pgqueue.shared_limit_part set expires = '-infinity'`, []);
  const remove = `select pgqueue.remove_limit('api')`;
  await expect(own.database.query(remove, [])).rejects.toMatchObject({ code: '55000' });
  await own.database.query(`select pgqueue.forfeit_part('api', 1)`, []);
  await own.database.query(remove, []);
  expect(await readSharedLimits(own.database)).toEqual([]);
});

test('reads every limit with its parts', async () => {
  await lease(1, { inFlight: 3, wants: 4 });
  await lease(2, { limit: 'texts', size: 10, perSecond: 5 });
  expect(await readSharedLimits(own.database)).toMatchObject([
    {
      name: 'api',
      kind: 'concurrency',
      size: 100,
      perSecond: null,
      parts: [
        {
          installation: 1,
          part: 4,
          reserved: 4,
          inFlight: 3,
          silentMs: 0,
          told: { size: 100, perSecond: null },
        },
      ],
    },
    {
      name: 'texts',
      kind: 'rate',
      size: 10,
      perSecond: 5,
      parts: [{ installation: 2, part: 10, perSecond: 5 }],
    },
  ]);
});
