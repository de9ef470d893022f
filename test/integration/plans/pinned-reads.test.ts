import { randomUUID } from 'node:crypto';
import type { Database } from '@pgqueue/postgres';
import { claim, openDatabase, registerNode, settle } from '@pgqueue/postgres/internal';
import { createScheduler } from '@pgqueue/scheduler';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createTestDatabase } from '../../support/database.ts';
import { until } from '../../support/until.ts';
import type { Pages, Reading } from './pinned-support.ts';
import { openReadingPool, pagesOf, pin } from './pinned-support.ts';

/**
 * Dead rows that vacuum may not remove yet are still in the indexes. The pages that a queue reads for a job
 * must not depend on their number. The tests count pages instead of time: pages are the same on every
 * machine.
 */
const dead = 50_000;
const jobsOfRound = 60;
const claimMax = 30;
/** Tolerance in pages: the rows of a round are not stored in quite the same place each time. */
const slack = 60;
/**
 * Most pages of a look for late commits, which reads rows of the last half second. A look at all dead rows
 * would read 1,000 pages.
 */
const lateMax = 400;
/** Milliseconds within which each of these looks comes at least once. */
const lookMs = 1_200;

type Name = 'tick' | 'claim' | 'settle';
/** Pages that each call has read, by function. */
type Read = Readonly<Record<Name, readonly number[]>>;

const names: readonly Name[] = ['tick', 'claim', 'settle'];

interface AtWork {
  /** Enqueues some jobs, and runs them. */
  readonly round: () => Promise<void>;
  readonly take: () => Read;
  readonly database: Database;
  readonly end: () => Promise<void>;
}

/** Opens a queue under a held snapshot, with `deadRows` dead rows before those that will wait. */
async function atWork(deadRows: number, kind: 'reads' | 'wrote'): Promise<AtWork> {
  const own = await createTestDatabase();
  const holder = await pin(own.url, kind);
  const { pool, take } = openReadingPool(own.url);
  const database = openDatabase({ pool });
  await dispatchedLongAgo(database);
  await leaveDead(database, deadRows);
  const node = await startNode(database);
  const scheduler = createScheduler({ pool, pollMs: { min: 5, max: 20 } });
  await scheduler.start();
  return {
    round: async () => {
      await database.query(
        `insert into pgqueue.queue (task) select 't' from generate_series(1, $1::integer)`,
        [jobsOfRound],
      );
      await node.work(jobsOfRound);
    },
    take: () => readOf(take()),
    database,
    end: async () => {
      await scheduler.stop();
      await pool.end();
      await holder.end();
      await own.drop();
    },
  };
}

/** Inserts a work item that stays before all others, like that of a job that runs for hours. */
async function dispatchedLongAgo(database: Database): Promise<void> {
  await database.query(
    `with job as (insert into pgqueue.queue (queue, task) values ('slow', 'slow') returning id)
     insert into pgqueue.work_queue (id, version, pool, task) select id, 1, 'elsewhere', 'slow' from job`,
    [],
  );
}

/** Passes jobs through both tables; their dead rows stay for the session that holds the snapshot. */
async function leaveDead(database: Database, count: number): Promise<void> {
  await database.query(`insert into pgqueue.queue (task) select 't' from generate_series(1, $1::integer)`, [
    count,
  ]);
  await database.query(
    `insert into pgqueue.work_queue (id, version, pool, task) select id, 1, 'default', 't' from pgqueue.queue where task = 't'`,
    [],
  );
  await database.query("delete from pgqueue.work_queue where task = 't'", []);
  await database.query("delete from pgqueue.queue where task = 't'", []);
}

/** Registers a node that claims behind its low-water mark, as a worker's node does. */
async function startNode(database: Database): Promise<{ readonly work: (jobs: number) => Promise<void> }> {
  const [node, incarnation] = ['node', randomUUID()];
  const tasks = { t: { min: 1, max: 1, timeoutMs: null } };
  await registerNode(database, {
    node,
    incarnation,
    tasks,
    slots: claimMax,
    pool: 'default',
    heartbeatMs: 30_000,
    lostAfterMs: 60_000,
    software: 'test',
    seen: null,
  });
  let from = 0;
  return {
    work: async (jobs) => {
      let left = jobs;
      await until(`${jobs} jobs`, async () => {
        const claimed = await claim(database, {
          node,
          incarnation,
          max: claimMax,
          token: randomUUID(),
          from,
        });
        from = Math.max(from, ...claimed.map(({ position }) => position + 1));
        const done = { outcome: 'done', delayMs: null, data: null } as const;
        await settle(
          database,
          claimed.map(({ id, token }) => ({ id, token, ...done })),
        );
        left -= claimed.length;
        return left === 0;
      });
    },
  };
}

function readOf(readings: readonly Reading[]): Read {
  const of = (name: Name): readonly number[] =>
    readings.flatMap(({ query, pages }) => (query.includes(`.${name}(`) ? [pages] : []));
  // the number of claims that find nothing varies; one that finds jobs reads at least a page for each
  return { tick: of('tick'), claim: of('claim').filter((pages) => pages >= claimMax), settle: of('settle') };
}

/**
 * Resolves to the pages that each call reads in eight rounds, once the scheduler knows which keys are busy.
 */
async function steady({ round, take }: AtWork): Promise<Read> {
  for (let warm = 0; warm < 3; warm += 1) await round();
  take();
  for (let rounds = 0; rounds < 8; rounds += 1) await round();
  return take();
}

/** Returns the third quartile: of about three ticks in a round, one has work. */
const typical = (pages: readonly number[]): number =>
  pages.toSorted((a, b) => a - b)[Math.floor(pages.length * 0.75)] ?? NaN;

let without: Read;
beforeAll(async () => {
  const queue = await atWork(0, 'reads');
  try {
    without = await steady(queue);
  } finally {
    await queue.end();
  }
});

describe.each(['reads', 'wrote'] as const)(
  `under the snapshot of a transaction that only %s, and ${dead} dead rows`,
  (kind) => {
    let queue: AtWork;
    beforeAll(async () => {
      queue = await atWork(dead, kind);
    });
    afterAll(() => queue.end());

    test('ticks, claims and settles read as much as without', async () => {
      const under = await steady(queue);
      for (const name of names) {
        expect(under[name].length).toBeGreaterThan(2);
        expect(typical(under[name])).toBeLessThan(2 * typical(without[name]) + slack);
      }
    });

    test('so do, soon, ticks that look for late commits, and at all work items', async () => {
      const found = until(`ticks that read ${lateMax} pages at most`, async () => {
        const endsAt = performance.now() + lookMs;
        const pages: number[] = [];
        queue.take();
        while (performance.now() < endsAt) {
          await queue.round();
          pages.push(...queue.take().tick);
        }
        return Math.max(...pages) <= lateMax;
      });
      await expect(found).resolves.toBe(true);
    });

    test('a look at all of a key would read the dead rows, too', async () => {
      const [whole] = await queue.database.query<{ 'QUERY PLAN': readonly [{ readonly Plan: Pages }] }>(
        `explain (analyze, buffers, format json)
         select * from pgqueue.look('{"queue": "", "key": "", "keys": 10, "want": 10, "starts": {}, "lookahead": 0, "named": [], "ranges": {}}')`,
        [],
      );
      expect(whole === undefined ? 0 : pagesOf(whole['QUERY PLAN'][0].Plan)).toBeGreaterThan(
        4 * typical(without.tick) + 4 * slack,
      );
    });
  },
);
