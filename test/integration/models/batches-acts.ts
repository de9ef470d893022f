import { randomUUID } from 'node:crypto';
import type { Lease, RowLease } from '@pgqueue/postgres/internal';
import {
  cancel,
  claimRows,
  extend,
  heartbeatNode,
  leaveNode,
  loseNodes,
  promote,
  reap,
  release,
  releaseRows,
  reportProgressOfAll,
  resetNode,
  saveCheckpoint,
  settleRows,
  takeApart,
  takeBack,
  takeOut,
} from '@pgqueue/postgres/internal';
import { expect } from 'vitest';
import { batchesOn } from '../sql/batches-support.ts';
import type { Item, Job, Model } from './batches-support.ts';
import {
  apart,
  claimed,
  crash,
  die,
  dispatched,
  end,
  itemOf,
  maxCrashes,
  maxTries,
  newJob,
  pendingOf,
  release as giveBack,
  spread,
  spreadNode,
  takeBack as takenBack,
} from './batches-support.ts';
import type { Ground, Member } from '../sql/support.ts';

/** Chooses among values, by the random numbers that were drawn for the step. */
export type Pick = <Value>(from: readonly Value[]) => Value | undefined;

interface Real {
  readonly ground: Ground;
  readonly nodes: Map<string, Member>;
  readonly pick: Pick;
  /** Names of the results seen so far, in addition to the names of the steps. */
  readonly seen: Set<string>;
}

/**
 * Applies one operation to the database and to the model, and compares the answers. Resolves to the
 * operation's name; undefined if there was nothing to do.
 */
type Act = (model: Model, real: Real) => Promise<string | undefined>;

const idsOf = (jobs: readonly Job[]): readonly string[] => jobs.map(({ id }) => id);
const lease = ({ position, token }: Item): RowLease => ({ position, token: token ?? randomUUID() });
const leaseOf = (job: Job, item: Item | undefined): Lease => ({
  id: job.id,
  token: item?.token ?? randomUUID(),
});
const held = ({ items }: Model): readonly Item[] => items.filter(({ node }) => node !== null);
const batchesOf = (model: Model): readonly Item[] => held(model).filter(({ batch }) => batch);
/** Picks an item: mostly batches, and among these those left after others were taken out, which are rare. */
function choose(pick: Pick, items: readonly Item[]): Item | undefined {
  const batches = items.filter(({ batch }) => batch);
  const rest = batches.filter(({ position }) => position % 256 > 0);
  const some = pick([rest, batches, batches, items]) ?? items;
  return pick(some.length > 0 ? some : items);
}
const member = (model: Model, pick: Pick): { readonly job: Job; readonly item: Item } | undefined => {
  const item = choose(pick, model.items);
  const job = item === undefined ? undefined : pick(item.jobs);
  return item === undefined || job === undefined ? undefined : { job, item };
};
const kindOf = ({ batch, node, position }: Item): string =>
  `${node === null ? 'ready' : 'held'} ${batch ? (position % 256 > 0 ? 'rest' : 'batch') : 'job'}`;

/** Cuts a list into rows, as the numbers say. */
function cut(jobs: readonly Job[], pick: Pick): readonly (readonly Job[])[] {
  const rows: (readonly Job[])[] = [];
  for (let at = 0; at < jobs.length;) {
    const size = pick([3, 1, 4, 2, 5, 3]) ?? 1;
    rows.push(jobs.slice(at, at + size));
    at += size;
  }
  return rows;
}

const enqueue: Act = async (model, { ground, pick }) => {
  const jobs = Array.from({ length: pick([1, 2, 3, 4, 6]) ?? 1 }, newJob);
  for (const { id } of jobs) await ground.insert({ id, max_tries: maxTries, max_crashes: maxCrashes });
  model.jobs.push(...jobs);
  return 'enqueue';
};

const dispatchRows: Act = async (model, { ground, pick }) => {
  const pending = pendingOf(model);
  // dispatch leaves out jobs that have an item already
  const other = pick(model.jobs);
  const more = other === undefined || pending.includes(other) ? [] : [other];
  const rows = cut([...pending, ...more], pick);
  if (rows.length === 0) return undefined;
  const last = model.items.at(-1)?.position ?? 0;
  const positions = await batchesOn(ground).dispatch(rows.map(idsOf));
  expect([...positions.keys()]).toEqual(idsOf(pending));
  for (const position of positions.values()) {
    expect(position % 256).toBe(0);
    expect(position).toBeGreaterThan(last);
  }
  dispatched(model, rows, ({ id }) => positions.get(id));
  return more.length > 0 ? 'dispatch of what is there' : 'dispatch';
};

const claim: Act = async (model, { ground, nodes, pick, seen }) => {
  const node = pick([...nodes.keys()]) ?? '';
  const [max, token] = [pick([1, 2, 3]) ?? 1, randomUUID()];
  const ahead = pick([0, 1, 2, null, 1]) ?? null;
  const taken = claimed(model, node, { max, ahead });
  const who = nodes.get(node) ?? { id: node, incarnation: '' };
  const input = { node: who.id, incarnation: who.incarnation, max, token, from: 0, reap: false };
  const rows =
    ahead === null
      ? (await ground.claim(who, max, token)).map((job) => ({
          position: job.position,
          size: 1,
          jobs: [job],
          suspect: job.crashes > 0,
        }))
      : (await claimRows(ground.database, { ...input, ahead })).rows;
  expect(rows.map(({ position, size, jobs }) => [position, size, jobs.map(({ id }) => id)])).toEqual(
    taken
      .toSorted((a, b) => a.position - b.position)
      .map(({ position, jobs }) => [position, jobs.length, idsOf(jobs)]),
  );
  for (const item of taken) Object.assign(item, { node, token });
  if (taken.some(({ suspect }) => suspect)) seen.add('claim of a suspect');
  if (taken.length > max) seen.add('claim ahead');
  return ahead === null ? 'claim' : 'claim of rows';
};

/** Each result names its job. */
const settleRow: Act = async (model, { ground, pick }) => {
  const item = choose(pick, held(model));
  if (item === undefined) return undefined;
  const stale = pick([0, 1, 2, 0, 0]);
  const told = stale === 1 ? { ...lease(item), token: randomUUID() } : lease(item);
  const jobs = stale === 2 ? item.jobs.slice(1) : item.jobs;
  const row = { ...told, busyMs: jobs.map(() => 1), data: jobs.map(({ id }) => JSON.stringify(id)) };
  const done = item.batch && (stale === 0 || stale === undefined);
  const settled = await settleRows(ground.database, [row]);
  expect([...settled]).toEqual(done ? [item.position] : []);
  const what = kindOf(item);
  if (done) {
    end(model, item, 'done');
    expect((await settleRows(ground.database, [row])).size).toBe(0);
  }
  return done ? `settle ${what}` : 'settle refused';
};

export const outcomes = ['done', 'retry', 'snooze', 'dead'] as const;

const settleJob: Act = async (model, { ground, pick }) => {
  const item = choose(pick, held(model));
  const job = item === undefined ? undefined : pick(item.jobs);
  if (item === undefined || job === undefined) return undefined;
  const outcome = pick(outcomes) ?? 'done';
  const verdicts = await ground.settle([leaseOf(job, item)], outcome, { delayMs: 0, data: job.id });
  if (item.batch) {
    expect(verdicts.size).toBe(0);
    return 'settle of a member';
  }
  if (outcome === 'retry' || outcome === 'dead') job.tries += 1;
  const again = outcome === 'retry' && job.tries >= maxTries ? 'dead' : 'delayed';
  const state = outcome === 'done' || outcome === 'dead' ? outcome : item.told ? 'cancelled' : again;
  end(model, item, state);
  expect([...verdicts.values()]).toEqual([state === 'delayed' ? outcome : state]);
  return `settle ${outcome}`;
};

const takeSome: Act = async (model, { ground, pick }) => {
  const item = choose(pick, batchesOf(model));
  if (item === undefined) return undefined;
  const what = kindOf(item);
  const token = pick([item.token, item.token, randomUUID()]) ?? '';
  const ids = idsOf(item.jobs.filter((_job, n) => n === 0 || pick([0, 1]) === 1));
  // also reported by the old position, if they stay together
  const rest = await takeOut(ground.database, { position: item.position, token }, ids);
  const left = token === item.token ? apart(model, item, ids) : undefined;
  expect(rest).toBe(left?.position ?? null);
  if (left === undefined) return token === item.token ? `take out all of ${what}` : 'take out refused';
  expect(await takeOut(ground.database, { position: item.position, token }, ids)).toBe(rest);
  return `take out of ${what}`;
};

const takeAll: Act = async (model, { ground, pick }) => {
  const item = choose(pick, batchesOf(model));
  if (item === undefined) return undefined;
  await takeApart(ground.database, lease(item));
  apart(model, item);
  return 'take apart';
};

const releaseRow: Act = async (model, { ground, pick }) => {
  const item = choose(pick, batchesOf(model));
  if (item === undefined) return undefined;
  const token = pick([item.token, randomUUID()]) ?? '';
  const given = await releaseRows(ground.database, [{ position: item.position, token }]);
  expect(given).toBe(token === item.token ? 1 : 0);
  if (given === 0) return 'release refused';
  giveBack(model, item);
  return 'release of rows';
};

const releaseJob: Act = async (model, { ground, pick }) => {
  const item = choose(pick, held(model));
  const job = item === undefined ? undefined : pick(item.jobs);
  if (item === undefined || job === undefined) return undefined;
  const what = kindOf(item);
  expect(await release(ground.database, [leaseOf(job, item)])).toEqual(new Set([job.id]));
  spread(model, [job]);
  const own = itemOf(model, job);
  if (own !== undefined) giveBack(model, own);
  return `release from a ${what}`;
};

/**
 * Tries operations that need a row of their own: for a job of a batch they are refused and change nothing.
 */
const ofOne: Act = async (model, { ground, pick }) => {
  const found = member(model, pick);
  if (found === undefined) return undefined;
  const { job, item } = found;
  const own = leaseOf(job, item);
  const holds = item.node !== null && !item.batch;
  expect((await extend(ground.database, [{ ...own, ms: 60_000 }])).get(job.id)).toEqual(
    holds ? { cancelled: item.told } : undefined,
  );
  expect((await reportProgressOfAll(ground.database, [{ ...own, progress: '{"n": 1}' }])).size === 1).toBe(
    holds,
  );
  expect(await saveCheckpoint(ground.database, own, '{"n": 1}')).toBe(holds);
  return `extend of a ${kindOf(item)}`;
};

const cancelOne: Act = async (model, { ground, pick }) => {
  const waits = model.jobs.filter(({ state }) => state === 'waiting' || state === 'delayed');
  const job = pick([member(model, pick)?.job, member(model, pick)?.job, pick(waits)]) ?? pick(waits);
  if (job === undefined) return undefined;
  const before = itemOf(model, job);
  const what = before === undefined ? 'job without an item' : kindOf(before);
  spread(model, [job]);
  const item = itemOf(model, job);
  const runs = item !== undefined && item.node !== null;
  expect([...(await cancel(ground.database, [job.id])).values()]).toEqual([runs ? 'signalled' : 'cancelled']);
  if (item === undefined) job.state = 'cancelled';
  else if (runs) item.told = true;
  else end(model, item, 'cancelled');
  return `cancel of a ${what}`;
};

const takeThemBack: Act = async (model, { ground, pick }) => {
  const jobs = [member(model, pick)?.job, member(model, pick)?.job].filter((job) => job !== undefined);
  if (jobs.length === 0) return undefined;
  const back = await takeBack(ground.database, ground.leader(), idsOf(jobs));
  expect(back).toEqual(new Set(takenBack(model, jobs)));
  return back.size > 0 ? 'take back' : 'take back refused';
};

const beat: Act = async (model, { ground, nodes, pick }) => {
  const { id: node, incarnation } = pick([...nodes.values()]) ?? { id: '', incarnation: '' };
  const own = model.items.filter((item) => item.node === node);
  const leases = own.flatMap((item) => item.jobs.map((job) => leaseOf(job, item)));
  const other = { id: pick(model.jobs)?.id ?? randomUUID(), token: randomUUID() };
  const told = await heartbeatNode(ground.database, {
    node,
    incarnation,
    draining: false,
    leases: [...leases, other],
  });
  expect(told.lost).toEqual([other]);
  expect(told.cancelled.toSorted()).toEqual(
    own.flatMap((item) => (item.told ? idsOf(item.jobs) : [])).toSorted(),
  );
  return 'heartbeat';
};

const expireOne: Act = async (model, { ground, pick }) => {
  const item = choose(pick, held(model));
  if (item === undefined) return undefined;
  const what = kindOf(item);
  await ground.sql('update pgqueue.work_queue set lock_timeout = clock_timestamp() where position = $1', [
    item.position,
  ]);
  expect(await reap(ground.database)).toBe(item.jobs.length);
  const { jobs } = item;
  apart(model, item);
  for (const job of jobs) {
    const own = itemOf(model, job);
    if (own !== undefined) crash(model, own, true);
  }
  return `reap of a ${what}`;
};

/** A node ends in one of four ways, and comes back. */
const endNode: Act = async (model, { ground, nodes, pick }) => {
  const node = choose(pick, held(model))?.node ?? 'a';
  const how = pick(['reset', 'lose', 'leave', 'give a claim back'] as const) ?? 'reset';
  const own = model.items.filter((item) => item.node === node);
  const token = pick(own)?.token ?? randomUUID();
  const batch = own.some((item) => item.batch);
  if (how === 'reset') await resetNode(ground.database, node);
  else if (how === 'leave') await leaveNode(ground.database, node, nodes.get(node)?.incarnation ?? '');
  else if (how === 'lose') {
    await ground.sql(`update pgqueue.reached set since = '-infinity'`);
    await ground.sql(`update pgqueue.node set heartbeat = '-infinity' where id = $1`, [node]);
  }
  if (how === 'reset' || how === 'lose') {
    const jobs = die(model, node);
    if (how === 'lose') expect(await loseNodes(ground.database, ground.leader())).toEqual([{ node, jobs }]);
  } else {
    const incarnation = nodes.get(node)?.incarnation;
    if (how !== 'leave')
      await ground.sql('select pgqueue.release_claim($1, $2, $3)', [node, incarnation, token]);
    spreadNode(model, node);
    for (const item of model.items.filter((other) => other.node === node))
      if (how === 'leave' || item.token === token) giveBack(model, item);
  }
  if (how !== 'give a claim back') nodes.set(node, await ground.node(node));
  return batch ? `${how} with a batch` : how;
};

const promoteAll: Act = async (model, { ground }) => {
  await promote(ground.database, ground.leader(), 100);
  for (const job of model.jobs) if (job.state === 'delayed') job.state = 'waiting';
  return 'promote';
};

/** The operations: each with its frequency, its function, and the part of a name that its variants share. */
export const acts: Readonly<Record<string, readonly [number, Act, string?]>> = {
  enqueue: [3, enqueue],
  dispatch: [6, dispatchRows],
  claim: [8, claim],
  settleRow: [4, settleRow, 'settle held'],
  settleJob: [4, settleJob],
  takeSome: [5, takeSome, 'take out'],
  takeAll: [1, takeAll],
  releaseRow: [2, releaseRow, 'release'],
  releaseJob: [2, releaseJob],
  ofOne: [2, ofOne],
  cancelOne: [2, cancelOne, 'cancel'],
  takeThemBack: [2, takeThemBack],
  beat: [2, beat],
  expireOne: [1, expireOne, 'reap'],
  endNode: [2, endNode, 'with a batch'],
  promoteAll: [1, promoteAll],
};
