import type { Database } from '@pgqueue/postgres';
import { expect, test } from 'vitest';
import { advanceOnce, createFlowMemory } from './advance.ts';

const leader = { leader: 'leader', epoch: 1 };

interface Asked {
  readonly from: number;
  readonly walk: string | null;
}

/** A database in which each call takes `ms`, and finds tallies up to a number. */
function slowly(ms: number): {
  readonly at: (nowMs: number, next: number, more?: boolean) => Promise<Asked>;
} {
  const memory = createFlowMemory();
  let [now, found, full] = [0, 0, false];
  const asked: Asked[] = [];
  const database = {
    schema: 'pgqueue',
    query: (_text: string, [, , input]: readonly unknown[]) => {
      asked.push(JSON.parse(String(input)) as Asked);
      now += ms;
      const answer = {
        next: found,
        more: full,
        put: 0,
        stops: false,
        due_ms: null,
        walked: null,
        open: true,
        ended: [],
      };
      return Promise.resolve([{ answer }]);
    },
  } as unknown as Database;
  return {
    at: async (nowMs, next, more = false) => {
      [now, found, full] = [nowMs, next, more];
      await advanceOnce(database, leader, { memory, observe: () => {}, now: () => now });
      return asked.at(-1) as Asked;
    },
  };
}

test('tallies are read on from the last, and all of them again now and then', async () => {
  const { at } = slowly(1);
  expect(await at(0, 10)).toMatchObject({ from: 0 });
  expect(await at(50, 20)).toEqual({ from: 10, max: 500, walk: null });
  expect(await at(600, 30)).toMatchObject({ from: 0 });
});

test('a tally that commits late is found soon, however long walks take', async () => {
  const { at } = slowly(400);
  expect(await at(0, 10)).toMatchObject({ from: 0 });
  // the next walk is seconds away
  const soon = [await at(700, 20), await at(1_400, 20)];
  expect(soon.map(({ from, walk }) => [from, walk])).toEqual([
    [0, null],
    [0, null],
  ]);
});

test('the short rescan leaves out what is older than some seconds', async () => {
  const { at } = slowly(400);
  await at(0, 1_000);
  await at(11_000, 2_000);
  await at(22_000, 3_000);
  const seen = [await at(22_700, 3_000), await at(23_400, 3_000)];
  expect(seen.map(({ from }) => from)).toEqual([2_000, 2_000]);
});

test('a rescan goes on behind a page that is full, and does not read it again: its flows may be locked', async () => {
  const { at } = slowly(1);
  await at(0, 9_000);
  expect(await at(600, 500, true)).toMatchObject({ from: 0 });
  expect(await at(601, 1_000, true)).toMatchObject({ from: 500 });
  expect(await at(602, 9_100)).toMatchObject({ from: 1_000 });
  expect(await at(603, 9_200)).toMatchObject({ from: 9_100 });
});
