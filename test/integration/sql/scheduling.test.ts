import { randomUUID } from 'node:crypto';
import type { LaneRead, TickInput, TickRead } from '@pgqueue/postgres/internal';
import {
  dispatch,
  leadershipLostState,
  readItemFacts,
  readTick,
  setFeed,
  sqlState,
  takeBack,
} from '@pgqueue/postgres/internal';
import { beforeEach, describe, expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import { batchesOn } from './batches-support.ts';
import { openGround } from './support.ts';

const ground = opened(openGround);
beforeEach(() => ground.reset());

const look = (over: Partial<TickInput> = {}): Promise<TickRead> =>
  readTick(ground.database, {
    after: { queue: '', key: '' },
    keys: 100,
    want: 100,
    starts: {},
    ranges: {},
    lookahead: 1,
    lanes: [],
    created: null,
    settled: false,
    itemsFrom: 0,
    items: [],
    due: false,
    ...over,
  });

const names = ({ lanes }: TickRead, only = (_lane: LaneRead): boolean => true): string =>
  lanes
    .filter(only)
    .map(({ queue, key }) => `${queue}/${key}`)
    .join(' ');

const jobsOf = ({ lanes }: TickRead): LaneRead['jobs'] => lanes.flatMap(({ jobs }) => jobs);

const enqueue = async (queue: string, key: string, count = 1): Promise<void> => {
  for (let job = 0; job < count; job += 1) await ground.insert({ queue, key });
};

const write = (jobs: LaneRead['jobs'], settled: readonly number[] = []) =>
  dispatch(ground.database, {
    ...ground.leader(),
    jobs: jobs.map(({ id, rowVersion }) => ({ id, pool: 'default', rowVersion, bundle: null })),
    parts: { fair: { n: 1 } },
    settled,
    notify: false,
  });

describe('look', () => {
  test('walks over the lanes page by page, wraps around, and passes over paused queues', async () => {
    for (const key of ['1', '2', '3']) for (const queue of ['a', 'b', 'c']) await enqueue(queue, key);
    await ground.sql(
      `insert into pgqueue.queue_config (queue, paused) values ('b', true), ('0', true), ('z', true)`,
    );
    await enqueue('0', '1');
    await enqueue('z', '1');
    expect(names(await look({ keys: 4 }))).toBe('a/1 a/2 a/3 c/1');
    expect(names(await look({ keys: 4, after: { queue: 'c', key: '1' } }))).toBe('c/2 c/3 a/1 a/2');
    expect(names(await look({ keys: 100, after: { queue: 'b', key: '2' } }))).toBe('c/1 c/2 c/3 a/1 a/2 a/3');
    expect(names(await look({ keys: 2, after: { queue: 'z', key: 'z' } }))).toBe('a/1 a/2');
    await ground.sql(`delete from pgqueue.queue where queue in ('a', 'c')`);
    expect((await look()).lanes).toEqual([]);
  });

  test('leaves queues out of the page that are to be skipped, but not out of the lanes that are named', async () => {
    for (const queue of ['a', 'b', 'c']) for (const key of ['1', '2']) await enqueue(queue, key);
    const read = await look({ keys: 3, skip: ['a', 'c'], lanes: [{ queue: 'a', key: '2', depth: 1 }] });
    expect(names(read, ({ paged }) => paged)).toBe('b/1 b/2');
    expect(names(read, ({ paged }) => !paged)).toBe('a/2');
  });

  test('shares the jobs out over the page, looks deeper in lanes that are named, and further on where told', async () => {
    for (const key of ['1', '2', '3', '4']) await enqueue('q', key, 6);
    const { lanes } = await look({
      keys: 3,
      want: 6,
      lanes: [
        { queue: 'q', key: '2', depth: 5 },
        { queue: 'q', key: '4', depth: 3 },
      ],
    });
    expect(lanes.map(({ key, jobs, paged, wanted }) => [key, jobs.length, paged, wanted])).toEqual([
      ['1', 2, true, 2],
      ['2', 5, true, 5],
      ['3', 2, true, 2],
      ['4', 3, false, 3],
    ]);
    const third = lanes[1]?.jobs[2];
    const on = await look({ starts: { q: { 2: [0, third?.seq ?? 0] } }, lookahead: 2, want: 1 });
    const seqs = (jobs: LaneRead['jobs'] = []) => jobs.map(({ seq }) => seq - (third?.seq ?? 0));
    const second = on.lanes.find(({ key }) => key === '2');
    expect([seqs(second?.jobs), seqs(second?.ahead)]).toEqual([[-2], [1, 2]]);
  });

  test('finds the lanes of jobs that were just enqueued, wherever the page stands', async () => {
    for (const key of ['1', '2', '3', '4', '5']) await enqueue('q', key);
    const now = (await look()).state.now;
    const fresh = await look({ keys: 1, created: { fromMs: now - 60_000, toMs: now + 1_000 } });
    expect(names(fresh, ({ paged }) => paged)).toBe('q/1');
    expect(
      names(fresh, ({ paged }) => !paged)
        .split(' ')
        .toSorted(),
    ).toEqual(['q/2', 'q/3', 'q/4', 'q/5']);
    const old = await look({ keys: 1, created: { fromMs: now - 60_000, toMs: now - 50_000 } });
    expect(names(old)).toBe('q/1');
  });

  test('says when the first retry of a lane is due; a delay is none', async () => {
    const node = await ground.node();
    const lease = await ground.running(node, { queue: 'q', key: 'k' });
    await enqueue('q', 'k');
    await ground.insert({ queue: 'q', key: 'k', run_after: '2999-01-01' });
    expect((await look()).lanes[0]?.retryDueMs).toBeNull();
    await ground.settle([lease], 'retry', { delayMs: 60_000 });
    const { state, lanes } = await look();
    expect((lanes[0]?.retryDueMs ?? 0) - state.now).toBeGreaterThan(50_000);
    expect((lanes[0]?.retryDueMs ?? 0) - state.now).toBeLessThanOrEqual(60_000);
  });
});

describe('dispatch', () => {
  test('refuses a job that was changed since it was read, and says when it wrote the others', async () => {
    await enqueue('q', 'k', 3);
    const read = await look();
    const [{ state }, rows] = [read, jobsOf(read)];
    await ground.sql(`update pgqueue.queue set key = 'other' where id = $1`, [rows[1]?.id]);
    const { atMs, positions } = await write(rows);
    expect(new Set(positions.keys())).toEqual(new Set([rows[0]?.id, rows[2]?.id]));
    expect(atMs).toBeGreaterThanOrEqual(state.now);
    expect(
      await ground.one(
        `select count(*) from pgqueue.work_queue w, pgqueue.policy_state p
                        where p.part = 'fair' and p.saved = w.dispatched and abs(extract(epoch from w.dispatched) * 1000 - $1) < 1`,
        [atMs],
      ),
    ).toBe('2');
    expect((await write(rows)).positions.size).toBe(0);
  });

  test('items are named by what their jobs are, and by who holds them', async () => {
    await ground.insert({ queue: 'q', key: 'k', attributes: { region: 'eu' }, priority: 3 });
    const rows = jobsOf(await look());
    const [position] = (await write(rows)).positions.values();
    const [item] = await readItemFacts(ground.database, [position ?? 0, 999]);
    expect(item).toMatchObject({
      position,
      id: rows[0]?.id,
      queue: 'q',
      key: 'k',
      priority: 3,
      attributes: { region: 'eu' },
    });
    expect((await look()).state.items).toEqual([{ pool: 'default', node: null, positions: [position] }]);
    const node = await ground.node();
    await ground.claim(node);
    expect((await look()).state.items).toEqual([{ pool: 'default', node: node.id, positions: [position] }]);
  });

  test('what is ready can be taken back, by the leader only; what is leased stays', async () => {
    await enqueue('q', 'k', 3);
    const rows = jobsOf(await look());
    await write(rows);
    const node = await ground.node();
    await ground.claim(node, 1);
    const ids = rows.map(({ id }) => id);
    const refused: unknown = await takeBack(ground.database, { ...ground.leader(), epoch: 0 }, ids).catch(
      (error: unknown) => error,
    );
    expect(sqlState(refused)).toBe(leadershipLostState);
    expect(await takeBack(ground.database, ground.leader(), ids)).toEqual(new Set(ids.slice(1)));
    expect(jobsOf(await look()).map(({ id }) => id)).toEqual(ids.slice(1));
    await ground.sound();
  });
});

describe('ended attempts', () => {
  test('are recorded only while a scheduler asks for it, with what became of each and how long it took', async () => {
    const node = await ground.node();
    const before = await ground.running(node, {});
    await ground.settle([before], 'done');
    expect((await look({ settled: true })).state.settled).toEqual([]);
    await setFeed(ground.database, ground.leader(), true);
    const leases = [];
    for (const max_tries of [1, 5, 5]) leases.push(await ground.running(node, { max_tries }));
    await ground.sql(`update pgqueue.work_queue set started = started - interval '2 seconds'`);
    const { state } = await look();
    await ground.settle(leases.slice(0, 2), 'retry', { delayMs: 1 });
    await ground.sql(`update pgqueue.work_queue set lock_timeout = clock_timestamp()`);
    await ground.sql('select * from pgqueue.reap()');
    const told = (await look({ settled: true })).state;
    expect(told.settled.map(({ verdicts }) => verdicts?.toSorted())).toEqual([['dead', 'retry'], ['crash']]);
    expect(new Set(told.settled.flatMap(({ positions }) => positions))).toEqual(
      new Set(state.items.flatMap(({ positions }) => positions)),
    );
    for (const busyMs of told.settled.flatMap((batch) => batch.busyMs)) {
      expect(busyMs).toBeGreaterThanOrEqual(2_000);
      expect(busyMs).toBeLessThan(30_000);
    }
    await write(
      [],
      told.settled.map(({ n }) => n),
    );
    expect((await look({ settled: true })).state.settled).toEqual([]);
    await setFeed(ground.database, ground.leader(), false);
  });

  test('tells the scheduler which batches ended, with their sizes and the run time of each job', async () => {
    await setFeed(ground.database, ground.leader(), true);
    const node = await ground.node();
    const batches = batchesOn(ground);
    const [one, lost, two] = [
      await batches.held(node, 2),
      await batches.held(node, 3),
      await batches.held(node, 4),
    ];
    await ground.sql(
      `select pgqueue.settle_rows($1::bigint[], $2::uuid[], '{2,3,4}', '{1,2,9,9,9,3,4,5,6}')`,
      [
        [one.position, lost.position, two.position],
        [one.token, randomUUID(), two.token],
      ],
    );
    expect(
      await ground.sql('select positions::float8[], sizes, verdicts, busy_ms from pgqueue.settlement'),
    ).toEqual([
      { positions: [one.position, two.position], sizes: [2, 4], verdicts: null, busy_ms: [1, 2, 3, 4, 5, 6] },
    ]);
    await setFeed(ground.database, ground.leader(), false);
  });

  test('an item that is gone from a snapshot has its settlement there, whatever commits meanwhile', async () => {
    await setFeed(ground.database, ground.leader(), true);
    const node = await ground.node();
    const known = new Set<number>();
    const told = new Set<number>();
    const open = new Set(['work']);
    const work = (async () => {
      for (let round = 0; round < 60; round += 1) {
        const lease = await ground.running(node, {});
        await ground.settle([lease], round % 2 === 0 ? 'done' : 'retry', { delayMs: 3_600_000 });
      }
      open.clear();
    })();
    while (open.size > 0) {
      const { state } = await look({ settled: true });
      const present = new Set(state.items.flatMap(({ positions }) => positions));
      for (const { positions } of state.settled) for (const position of positions) told.add(position);
      for (const position of known) expect(present.has(position) || told.has(position)).toBe(true);
      for (const position of present) {
        known.add(position);
        expect(told.has(position)).toBe(false);
      }
    }
    await work;
    expect(known.size).toBeGreaterThan(5);
    await setFeed(ground.database, ground.leader(), false);
  });
});
