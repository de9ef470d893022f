import type { HintedJob, TickRead } from '@pgqueue/postgres/internal';
import { expect, test } from 'vitest';
import type { ItemMade } from '../state/items/item.ts';
import { createLeaderState } from '../state/leader-state.ts';
import type { News } from './plan-from-hints.ts';
import { nothingWaits, suppose, withoutKnown } from './plan-from-hints.ts';

const ids = ['00000000-0000-7000-8000-00000000000a', '00000000-0000-7000-8000-00000000000b'] as const;

const itemOf = (id: string): ItemMade => ({
  jobs: [
    {
      id,
      queue: 'q',
      key: 'k',
      task: 't',
      version: 1,
      priority: 0,
      seq: 1,
      createdMs: 0,
      expiresMs: null,
      attributes: {},
      tries: 0,
    },
  ],
  pool: 'default',
  bundle: null,
  dispatchedMs: 0,
});

const paused: TickRead['state']['queues'][string] = {
  pool: 'default',
  paused: true,
  concurrency: null,
  keyConcurrency: null,
  rate: null,
  keyRate: null,
  weight: 1,
};

const read: TickRead = {
  state: {
    now: 5_000,
    nodes: [],
    items: [],
    queues: { paused },
    settled: [],
    expiredLeases: true,
    lostNodes: true,
  },
  enqueuers: null,
  config: '1 7',
  tallies: 1,
  due: null,
  lanes: [],
  questions: [],
};

const hinted = (seq: number, other: Partial<HintedJob> = {}): HintedJob => ({
  id: `00000000-0000-7000-8000-0000000000${seq}`,
  queue: 'q',
  key: 'k',
  task: 't',
  version: 1,
  priority: 0,
  seq,
  createdMs: 4_000,
  attributes: {},
  rowVersion: '7',
  ...other,
});

/** A leader's state after a read that found nothing waiting. */
function stateOf() {
  const state = createLeaderState({ observe: () => {}, batchMax: 500 });
  ids.forEach((id, position) => state.inFlight.wrote(itemOf(id), position + 1));
  state.lastLook = { read, config: '1 7', atMs: 100 };
  state.caughtUp = true;
  state.unheard.heard([20], 0);
  state.unheard.read([]);
  return state;
}

const ended = (...some: readonly string[]): News => ({ ended: some, jobs: [] });
const enqueued = (...jobs: readonly HintedJob[]): News => ({ ended: [], jobs });

test('is the last look without what ended, by a clock that is not ahead of the database’s', () => {
  const state = stateOf();
  const guess = suppose(state, ended(ids[0]), 150);
  expect(guess?.flying.jobs().map(({ id }) => id)).toEqual([ids[1]]);
  expect(guess?.supposed).toEqual({ ended: [ids[0]], jobs: [], config: '1 7' });
  expect(guess?.read.state).toMatchObject({ now: 5_050, expiredLeases: false, lostNodes: false });
  expect(state.inFlight.flying().jobs()).toHaveLength(2);
  guess?.confirm();
  expect(
    state.inFlight
      .flying()
      .jobs()
      .map(({ id }) => id),
  ).toEqual([ids[1]]);
});

test('has the jobs that were enqueued since, in their order; undone, it has none', () => {
  const state = stateOf();
  const news = enqueued(hinted(23, { key: 'other' }), hinted(21), hinted(22, { priority: -1 }));
  const waiting = () => state.laneCache.lanes().map(({ key, jobs }) => [key, jobs.map(({ seq }) => seq)]);
  const guess = suppose(state, news, 150);
  expect(waiting()).toEqual([['k', [22, 21]], ['other', [23]]]); // prettier-ignore
  const first = Number.MIN_SAFE_INTEGER;
  expect(guess?.supposed.jobs.map(({ seq, after }) => [seq, after])).toEqual([[21, first], [22, first], [23, first]]); // prettier-ignore
  guess?.undo();
  expect(waiting()).toEqual([]);
  expect(state.unheard.highest()).toBe(20);
  suppose(state, news, 150)?.confirm();
  expect([state.unheard.highest(), state.unheard.dueAt()]).toEqual([23, Infinity]);
});

test('what ended while nothing waited counts with the next', () => {
  const state = stateOf();
  expect(nothingWaits(state, ended(ids[0]), 150)).toBe(true);
  const guess = suppose(state, enqueued(hinted(21)), 160);
  expect(guess?.supposed).toMatchObject({ ended: [ids[0]], jobs: [{ seq: 21 }] });
  expect(guess?.flying.jobs().map(({ id }) => id)).toEqual([ids[1]]);
  expect(nothingWaits(state, ended(ids[1]), 170)).toBe(false); // the added job waits until the plan is written
});

test('a job that a read saw before its hint came is no news', () => {
  const state = stateOf();
  state.laneCache.add({ ...hinted(19), expiresMs: null, tries: 0, crashes: 0 });
  const news = enqueued(hinted(1, { id: ids[0] }), hinted(18), hinted(19), hinted(21));
  expect(withoutKnown(state, news).jobs.map(({ seq }) => seq)).toEqual([18, 21]);
  state.laneCache.remove(hinted(19));
  expect(nothingWaits(state, withoutKnown(state, enqueued(hinted(1, { id: ids[0] }))), 150)).toBe(true);
});

test('jobs that hints pass over are read soon, unless their own hints come before', () => {
  const state = stateOf();
  suppose(state, enqueued(hinted(23)), 150)?.confirm();
  expect(state.unheard.dueAt()).toBe(170);
  suppose(state, enqueued(hinted(26), hinted(22)), 160)?.confirm();
  expect(state.unheard.dueAt()).toBe(170);
  expect(suppose(state, enqueued(hinted(27)), 170)).toBeUndefined();
  suppose(state, enqueued(hinted(21), hinted(24), hinted(25)), 165)?.confirm();
  expect(state.unheard.dueAt()).toBe(Infinity);
  expect(suppose(state, enqueued(hinted(27)), 170)).toBeDefined();
});

test('a job of which no read can tell, since its transaction was long, closes no gap', () => {
  const state = stateOf();
  suppose(state, enqueued(hinted(22), hinted(19)), 150)?.confirm();
  expect(state.unheard.dueAt()).toBe(170);
  state.unheard.read([]);
  expect([state.unheard.highest(), state.unheard.dueAt()]).toEqual([22, Infinity]);
});

test('a job goes before those of its key that were enqueued behind it', () => {
  const state = stateOf();
  state.laneCache.add({ ...hinted(22), expiresMs: null, tries: 0, crashes: 0 });
  suppose(state, enqueued(hinted(21)), 150);
  expect(state.laneCache.lanes().map(({ jobs }) => jobs.map(({ seq }) => seq))).toEqual([[21, 22]]);
});

test('nothing is skipped where jobs that are not named have ended, or where one waits', () => {
  const state = stateOf();
  expect(nothingWaits(state, { ended: null, jobs: [] }, 150)).toBe(false);
  state.laneCache.add({ ...hinted(19), expiresMs: null, tries: 0, crashes: 0 });
  expect(nothingWaits(state, ended(ids[0]), 150)).toBe(false);
});

test.each<[string, News, Partial<ReturnType<typeof stateOf>>?]>([
  ['nothing is said', ended()],
  ['what is said is of no work item', ended('x')],
  ['settlements are asked for', ended(ids[0]), { feeds: true }],
  ['a look is overdue', ended(ids[0]), { owesLook: true }],
  ['something is left to be looked for', enqueued(hinted(21)), { caughtUp: false }],
  ['its queue is paused', enqueued(hinted(21, { queue: 'paused' }))],
  ['many come at once', enqueued(...Array.from({ length: 65 }, (_, n) => hinted(21 + n)))],
])('is nothing where %s', (_name, news, change) => {
  const state = stateOf();
  Object.assign(state, change);
  expect(suppose(state, news, 150)).toBeUndefined();
  expect(state.laneCache.empty()).toBe(true);
});

test('is nothing where the last look is too old', () => {
  expect(suppose(stateOf(), ended(ids[0]), 2_601)).toBeUndefined();
});
