import type { LaneId } from '@pgqueue/postgres/internal';
import { noneClosed } from '@pgqueue/core/internal';
import { expect, test } from 'vitest';
import type { LaneRow } from '../../testing/lanes.ts';
import { aRow, lanesOf } from '../../testing/lanes.ts';
import type { LaneCache } from './lane-cache.ts';
import { createLaneCache } from './lane-cache.ts';

const row = (key: string, seq: number | null, over: Partial<LaneRow> = {}): LaneRow =>
  aRow({ key, wanted: 2, id: seq === null ? null : `${key}${seq}`, seq: seq ?? 0, ...over });

const shown = (cache: LaneCache) =>
  cache
    .lanes()
    .map(({ key, jobs, more, fresh }) => `${key}:${jobs.length}${more ? '+' : ''}${fresh ? '' : ' old'}`)
    .toSorted();
const none = { lanes: [], rows: 100 };

test('lanes that fit into a page are all there is', () => {
  const cache = createLaneCache({ went: () => {} });
  cache.see(lanesOf([row('a', 1), row('a', 2), row('b', 3), row('c', null)]), { keys: 10, nowMs: 0 });
  expect(shown(cache)).toEqual(['a:2+', 'b:1']);
  expect(cache.ask(1, none)).toEqual({ after: { queue: '', key: '' }, lanes: [], created: null });
  cache.see(lanesOf([row('b', 3)]), { keys: 10, nowMs: 0 });
  expect(shown(cache)).toEqual(['b:1']);
  expect(cache.find('a1')).toBeUndefined();
  expect(cache.find('b3')?.rowVersion).toBe('7');
});

test('what was read again as it was stays the same list of the same jobs; a row that has changed is another job', () => {
  const cache = createLaneCache({ went: () => {} });
  const rows = [row('a', 1), row('a', 2), row('b', 3)];
  const jobsOf = (key: string) => cache.lanes().find((lane) => lane.key === key)?.jobs ?? [];
  cache.see(lanesOf(rows), { keys: 10, nowMs: 0 });
  const [a, b] = [jobsOf('a'), jobsOf('b')];
  cache.see(lanesOf(structuredClone(rows)), { keys: 10, nowMs: 0 });
  expect(jobsOf('a')).toBe(a);
  cache.see(lanesOf([row('a', 1, { rowVersion: '8', priority: 5 }), row('a', 2), row('b', 3)]), {
    keys: 10,
    nowMs: 0,
  });
  expect(jobsOf('a')[0]).toMatchObject({ rowVersion: '8', priority: 5 });
  expect(jobsOf('a')[1]).toBe(a[1]);
  expect(jobsOf('b')).toBe(b);
  // the job has moved to another lane
  cache.see(lanesOf([row('a', 2), row('b', 1, { id: 'a1' }), row('b', 3)]), { keys: 10, nowMs: 0 });
  expect([jobsOf('a'), jobsOf('b')]).toMatchObject([[{ id: 'a2' }], [{ id: 'a1', key: 'b' }, { id: 'b3' }]]);
  expect(cache.find('a1')?.key).toBe('b');
});

test('beyond a page, the others stay as they were read, and the page moves on', () => {
  const cache = createLaneCache({ went: () => {} });
  cache.see(lanesOf([row('a', 1), row('b', 2)]), { keys: 2, nowMs: 0 });
  expect(cache.ask(1_000, none)).toMatchObject({ after: { queue: 'q', key: 'b' }, created: null });
  cache.see(lanesOf([row('c', 3), row('d', 4)]), { keys: 2, nowMs: 0 });
  expect(shown(cache)).toEqual(['a:1 old', 'b:1 old', 'c:1', 'd:1']);
  expect(cache.ask(2_000, none)).toMatchObject({
    after: { queue: 'q', key: 'd' },
    created: { fromMs: 800, toMs: 2_200 },
  });
  cache.see(lanesOf([row('e', 5), row('a', null), row('b', 6, { paged: false })]), { keys: 2, nowMs: 0 });
  expect(shown(cache)).toEqual(['b:1', 'c:1 old', 'd:1 old', 'e:1']);
});

test('a lane is read out of turn when its known jobs are used up, when a job was refused, or when a plan asks', () => {
  const cache = createLaneCache({ went: () => {} });
  cache.see(
    lanesOf([row('a', 1), row('a', 2), row('b', 3), row('b', 4), row('c', 5), row('d', 6), row('d', 7)]),
    {
      keys: 4,
      nowMs: 0,
    },
  );
  cache.wrote(
    ['a1', 'a2', 'b3', 'c5', 'd6'],
    new Map([
      ['a1', 1],
      ['a2', 2],
      ['c5', 3],
      ['d6', 4],
    ]),
  );
  expect(shown(cache)).toEqual(['a:0+', 'b:1+ old', 'd:1+']);
  cache.want([['1:qd', 50]]);
  const asked = (lanes: readonly LaneId[] = []) =>
    cache.ask(1, { lanes, rows: 100 }).lanes.map(({ key, depth }) => `${key} ${depth}`);
  expect(asked([{ queue: 'q', key: 'z' }])).toEqual(['z 8', 'a 8', 'b 8', 'd 50']);
  expect(asked()).toEqual(['d 50']);
  cache.see(lanesOf([row('a', null, { paged: false }), ...['x', 'y', 'z', 'zz'].map((key) => row(key, 9))]), {
    keys: 4,
    nowMs: 0,
  });
  expect(shown(cache)).toEqual(['b:1+ old', 'd:1+ old', 'x:1', 'y:1', 'z:1', 'zz:1']);
});

test('a lane that used up what was known of it is read as deep as it needs, and less deep again when it does not', () => {
  const cache = createLaneCache({ went: () => {} });
  const read = (count: number): void =>
    cache.see(lanesOf(Array.from({ length: count }, (_, seq) => row('a', seq, { wanted: count }))), {
      keys: 10,
      nowMs: 0,
    });
  const take = (count: number): void => {
    const ids = Array.from({ length: count }, (_, seq) => `a${seq}`);
    cache.wrote(ids, new Map(ids.map((id, at) => [id, at])));
  };
  const asked = () => cache.ask(1, none).lanes.map(({ depth }) => depth);
  read(16);
  take(16);
  cache.want([['1:qa', 32]]);
  expect(asked()).toEqual([32]);
  read(32);
  take(20);
  expect(asked()).toEqual([32]);
  read(32);
  take(5);
  expect(asked()).toEqual([16]);
  read(16);
  take(1);
  expect(asked()).toEqual([]);
});

test('of jobs that were looked at further on, none is there twice, and they say nothing of whether more wait', () => {
  const cache = createLaneCache({ went: () => {} });
  cache.see(lanesOf([row('a', 1), row('a', 1, { ahead: true }), row('a', 9, { ahead: true })]), {
    keys: 10,
    nowMs: 0,
  });
  expect(shown(cache)).toEqual(['a:2']);
});

test('a job that is seen in another lane is no longer in the one where it was', () => {
  const cache = createLaneCache({ went: () => {} });
  const job = (key: string, rowVersion: string): LaneRow => row(key, 1, { id: 'job', rowVersion });
  cache.see(lanesOf([job('a', '7')]), { keys: 1, nowMs: 0 });
  cache.see(lanesOf([job('b', '8')]), { keys: 1, nowMs: 0 });
  expect(cache.lanes().flatMap(({ key, jobs }) => jobs.map(({ id }) => `${key}/${id}`))).toEqual(['b/job']);
  expect(cache.find('job')?.rowVersion).toBe('8');
});

test('a job that could not be written is left out for a while, and its lane says so', () => {
  const cache = createLaneCache({ went: () => {} });
  const read = (nowMs: number): void => cache.see(lanesOf([row('a', 1), row('a', 2)]), { keys: 10, nowMs });
  read(0);
  cache.wrote(['a1'], new Map());
  expect([...cache.leftOut()]).toEqual(['a1']);
  read(50);
  expect([...cache.leftOut()]).toEqual(['a1']);
  expect(cache.lanes().map(({ jobs, skipped }) => [jobs.map(({ id }) => id), skipped])).toEqual([
    [['a2'], true],
  ]);
  read(150);
  expect(cache.lanes().map(({ jobs, skipped }) => [jobs.length, skipped])).toEqual([[2, false]]);
});

test('a job that is left out behind the first one does not hold that one up', () => {
  const cache = createLaneCache({ went: () => {} });
  const rows = [row('a', 1), row('a', 2), row('a', 3)];
  const read = (unreadable: string): void =>
    cache.see(lanesOf(rows), { keys: 10, nowMs: 0, unreadable: new Set([unreadable]) });
  const seen = (): unknown => cache.lanes().map(({ jobs, skipped }) => [jobs.map(({ id }) => id), skipped]);
  read('a2');
  expect(seen()).toEqual([[['a1', 'a3'], false]]);
  read('a1');
  expect(seen()).toEqual([[['a2', 'a3'], true]]);
});

test('pages are large as long as they show lanes that are not known', () => {
  const cache = createLaneCache({ went: () => {} });
  expect(cache.discovers()).toBeGreaterThan(0);
  const page = (from: number): LaneRow[] =>
    Array.from({ length: 8 }, (_, at) => row(`k${from + at}`, from + at));
  cache.see(lanesOf(page(0)), { keys: 8, nowMs: 0 });
  expect(cache.discovers()).toBeGreaterThan(0);
  cache.see(lanesOf(page(6)), { keys: 8, nowMs: 0 });
  expect(cache.discovers()).toBeGreaterThan(0);
  cache.see(lanesOf(page(8)), { keys: 8, nowMs: 0 });
  expect(cache.discovers()).toBe(0);
  cache.see(lanesOf(page(0)), { keys: 9, nowMs: 0 });
  expect(cache.discovers()).toBeGreaterThan(0);
});

test('of more lanes than are remembered, a page brings those that there is room for, and the next begins with the first of the others', () => {
  const cache = createLaneCache({ went: () => {} }, 2);
  cache.ask(1_000, none);
  cache.see(lanesOf([row('a', 1), row('b', 2), row('c', 3), row('d', 4)]), { keys: 4, nowMs: 0 });
  expect(shown(cache)).toEqual(['a:1', 'b:1']);
  expect(cache.ask(1_100, none).after).toEqual({ queue: 'q', key: 'b' });
  // a new lane is admitted
  const created = { createdMs: 1_050, paged: false };
  cache.see(lanesOf([row('c', 3), row('d', 4), row('new', 5, created), row('a', 1), row('b', 2)]), {
    keys: 4,
    nowMs: 0,
  });
  expect(shown(cache)).toEqual(['a:1', 'b:1', 'new:1']);
  expect(cache.lanes().filter(({ found }) => found === false)).toMatchObject([{ key: 'new' }]);
  // lanes that were held make room, and so do lanes that were served a round ago
  cache.planned({
    holds: { lanes: new Map([['1:qb', 'limit']]), jobs: new Map([['a1', 'limit']]), closed: noneClosed },
    keeps: () => false,
  });
  cache.see(lanesOf([row('c', 3), row('d', 4)]), { keys: 2, nowMs: 0 });
  expect(shown(cache)).toEqual(['c:1', 'new:1 old']);
  cache.wrote(
    ['new5', 'c3'],
    new Map([
      ['new5', 1],
      ['c3', 2],
    ]),
  );
  expect(cache.discovers()).toBeGreaterThan(0);
});

test('a page without the lanes of full pools leaves those as they are, and finds room beside them', () => {
  const cache = createLaneCache({ went: () => {} }, 2);
  cache.ask(1_000, none);
  cache.see(lanesOf([row('a', 1), row('b', 2)]), { keys: 2, nowMs: 0 });
  const { after } = cache.ask(1_100, none);
  const open = { queue: 'open' };
  cache.see(lanesOf([row('x', 3, open), row('y', 4, open), row('c', 5, { paged: false })]), {
    keys: 9,
    nowMs: 0,
    open: true,
  });
  expect(shown(cache)).toEqual(['a:1 old', 'b:1 old', 'x:1', 'y:1']);
  expect([cache.whole(), cache.ask(1_200, none).after]).toEqual([false, after]);
});
