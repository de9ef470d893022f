import { randomUUID } from 'node:crypto';
import {
  amend,
  cancel,
  claim,
  erase,
  releaseRows,
  settle,
  takeApart,
  takeOut,
} from '@pgqueue/postgres/internal';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import { batchesOn } from './batches-support.ts';
import type { Member } from './support.ts';
import { openGround, settlement } from './support.ts';

const ground = opened(openGround);
let node: Member;
const batches = batchesOn(ground);
beforeEach(async () => {
  await ground.reset();
  node = await ground.node();
});
afterEach(() => ground.sound());

const idsOf = async (): Promise<readonly (readonly string[])[]> =>
  (await batches.work()).map(({ ids }) => ids);
const history = () =>
  ground.sql(
    `select id, outcome, result, tries, node, token, round(extract(epoch from finished - started) * 1000)::integer as ran
     from pgqueue.history order by id`,
  );
/** As {@link history} lists them: ids of one millisecond are in no order. */
const byId = <Row extends { readonly id: unknown }>(rows: readonly Row[]): readonly Row[] =>
  rows.toSorted((a, b) => (String(a.id) < String(b.id) ? -1 : 1));

describe('dispatch', () => {
  test('writes batches in the order of the plan, and single jobs between them', async () => {
    const [a = '', b = '', c = '', d = '', e = ''] = await batches.insert(5);
    const positions = await batches.dispatch([[c, a], [e], [d, b]]);
    expect(await idsOf()).toEqual([[c, a], [e], [d, b]]);
    expect(positions.get(c)).toBe(positions.get(a));
    const work = await batches.work();
    expect([c, e, b].map((id) => positions.get(id))).toEqual(work.map(({ position }) => position));
  });

  test('writes no job that is in a batch already, and of a plan that names it the others', async () => {
    const [a = '', b = '', c = '', d = ''] = await batches.insert(4);
    await batches.dispatch([[a, b]]);
    const positions = await batches.dispatch([[b, c], [a], [d]]);
    expect([...positions.keys()].toSorted()).toEqual([c, d].toSorted());
    expect(await idsOf()).toEqual([[a, b], [c], [d]]);
    const work = await batches.work();
    expect([c, d].map((id) => positions.get(id))).toEqual(work.slice(1).map(({ position }) => position));
  });

  test('writes no job of a batch that is being taken apart at this moment', async () => {
    const [a = '', b = '', c = ''] = await batches.insert(3);
    await batches.dispatch([[a, b]]);
    const session = await ground.session();
    await session.sql('begin');
    await session.sql('select pgqueue.spread($1)', [[a]]);
    expect([...(await batches.dispatch([[a, c], [b]])).keys()]).toEqual([c]);
    await session.sql('commit');
    await session.end();
    expect((await batches.dispatch([[a, b]])).size).toBe(0);
    expect((await idsOf()).flat().toSorted()).toEqual([a, b, c].toSorted());
  });

  test('leaves a job out that an open transaction has locked; its batch has the others', async () => {
    const [a = '', b = '', c = ''] = await batches.insert(3);
    const session = await ground.session();
    await session.sql('begin');
    await session.sql('select from pgqueue.queue where id = $1 for update', [b]);
    expect([...(await batches.dispatch([[a, b, c]])).keys()]).toEqual([a, c]);
    await session.sql('rollback');
    await session.end();
    expect(await idsOf()).toEqual([[a, c]]);
  });
});

describe('claim', () => {
  test('by nodes of ours gives batches whole, in order; beyond the free slots batches up to the next single job', async () => {
    const [elsewhere = ''] = await batches.insert(1, { task: 'elsewhere' }); // the node can't run it
    const ids = await batches.insert(9);
    const [a = '', b = '', c = '', d = '', e = '', f = '', g = '', h = '', i = ''] = ids;
    await batches.dispatch([[a, b], [elsewhere], [c, d], [e], [f, g], [h, i]]);
    const take = async (max: number, ahead: number) =>
      (await batches.claim(node, { max, ahead })).flatMap(({ jobs }) => jobs.map(({ id }) => id));
    expect(await take(1, 3)).toEqual([a, b, c, d]);
    // behind a single job that waits for a slot, none is taken: it would be passed by again and again
    expect(await take(0, 3)).toEqual([]);
    expect(await take(1, 1)).toEqual([e, f, g]);
    expect(await take(5, 5)).toEqual([h, i]);
  });

  test('tells of each job of a batch its own names and payload, however they are written', async () => {
    const odd = { queue: 'mail', key: 'a "quoted" \\ 100% %s', payload: { text: '%s %1$s "\\' } };
    const own = [{ ...odd, key: '' }, odd, { ...odd, queue: 'other', key: '' }, { ...odd, key: '' }];
    const ids = await Promise.all(own.map(async (job) => ground.insert(job)));
    await batches.dispatch([ids]);
    const [row] = await batches.claim(node);
    expect(row?.jobs).toMatchObject(own.map((job, n) => ({ ...job, id: ids[n] })));
  });

  test('brings about 1,000 jobs at most, and says so: then there may be more than its rows', async () => {
    const ids = await batches.insert(1_150);
    await batches.dispatch(Array.from({ length: 12 }, (_, n) => ids.slice(n * 100, n * 100 + 100)));
    const first = await batches.claimUpTo(node, { max: 5, ahead: 10 });
    const second = await batches.claimUpTo(node, { max: 5, ahead: 10 });
    expect([first.rows.length, first.full]).toEqual([10, true]);
    expect([second.rows.map(({ size }) => size), second.full]).toEqual([[100, 50], false]);
  });

  test('that was cut by its bytes says so, too', async () => {
    const ids = await batches.insert(170, { payload: { text: 'x'.repeat(250_000) } });
    await batches.dispatch(Array.from({ length: 17 }, (_, n) => ids.slice(n * 10, n * 10 + 10)));
    const { rows, full } = await batches.claimUpTo(node, { max: 20 });
    expect([rows.length, full]).toEqual([14, true]);
  });

  test('by workers in other languages gives single jobs, no more than asked for', async () => {
    const ids = await batches.insert(6);
    await batches.dispatch([ids.slice(0, 3), ids.slice(3)]);
    const claimed = [];
    for (const max of [1, 2, 3]) {
      const jobs = await ground.claim(node, max);
      expect(jobs).toHaveLength(max);
      claimed.push(...jobs.map(({ id }) => id));
    }
    expect(claimed).toEqual(ids);
    expect(await ground.claim(node, 10)).toEqual([]);
  });

  test('that takes batches apart leaves each of their jobs before what was dispatched later', async () => {
    const ids = await batches.insert(6);
    await batches.dispatch([ids.slice(0, 2), ids.slice(2, 4), ids.slice(4)]);
    await cancel(ground.database, [ids[1] ?? '']);
    const rows = await batches.claim(node);
    expect(rows.flatMap(({ jobs }) => jobs.map(({ id }) => id))).toEqual(ids.toSpliced(1, 1));
  });

  test('leases a batch until the longest timeout in it can have passed', async () => {
    const [own = ''] = await batches.insert(1, { timeout: '1 hour' });
    const [short = ''] = await batches.insert(1, { timeout: '2 s' });
    const [other = '', another = ''] = await batches.insert(2);
    const leaseS = async (): Promise<number> =>
      Number(
        await ground.one(`select extract(epoch from max(lock_timeout - started)) from pgqueue.work_queue`),
      );
    await batches.dispatch([[own, other]]);
    const [mixed] = await batches.claim(node);
    expect(await leaseS()).toBe(3_601);
    expect(mixed?.jobs.map(({ leaseMs }) => leaseMs)).toEqual([3_600_000, 60_000]);
    await batches.dispatch([[short, another]]);
    await batches.claim(node);
    await ground.sql('delete from pgqueue.work_queue where $1 = any (jobs)', [own]);
    expect(await leaseS()).toBe(61);
  });
});

describe('settle_rows', () => {
  test('writes history with results and run times, and removes the batch and its jobs', async () => {
    const held = await batches.held(node, 3);
    await ground.sql(`update pgqueue.work_queue set started = started - interval '10 s'`);
    expect([...(await batches.settle(held, ['{"n": 1}', null, '[2]']))]).toEqual([held.position]);
    const rows = await history();
    const shared = { outcome: 'done', tries: 0, node: node.id, token: held.token, ran: 1 };
    expect(rows).toEqual(
      byId([
        { id: held.ids[0], result: { n: 1 }, ...shared },
        { id: held.ids[1], result: null, ...shared },
        { id: held.ids[2], result: [2], ...shared },
      ]),
    );
    expect([await ground.one('select count(*) from pgqueue.queue'), await idsOf()]).toEqual(['0', []]);
  });

  test('with another token, of another size, or of a batch that was taken apart changes nothing', async () => {
    const held = await batches.held(node, 3);
    const before = await batches.work();
    expect((await batches.settle({ ...held, token: randomUUID() })).size).toBe(0);
    expect((await batches.settle({ ...held, ids: held.ids.slice(1) })).size).toBe(0);
    expect(await batches.work()).toEqual(before);
    await takeApart(ground.database, held);
    expect((await batches.settle(held)).size).toBe(0);
    expect([await history(), (await batches.work()).length]).toEqual([[], 3]);
  });

  test('of a job that is gone settles the others', async () => {
    const held = await batches.held(node, 3);
    await ground.sql('delete from pgqueue.queue where id = $1', [held.ids[1]]);
    expect((await batches.settle(held, ['1', '2', '3'])).size).toBe(1);
    expect((await history()).map(({ id, result }) => ({ id, result }))).toEqual(
      byId([
        { id: held.ids[0], result: 1 },
        { id: held.ids[2], result: 3 },
      ]),
    );
  });

  test('of several batches keeps their results apart, also where one of them is lost', async () => {
    const lost = await batches.held(node, 2);
    const held = await batches.held(node, 3);
    await ground.sql('select pgqueue.reset_node($1)', [node.id]);
    node = await ground.node();
    const again = await batches.claim(node);
    expect(again).toHaveLength(1); // a node runs one suspect at a time
    expect((await batches.settle(lost)).size + (await batches.settle(held)).size).toBe(0);
    expect(await history()).toEqual([]);
  });

  test('told twice (a reply was lost): the jobs are known to be done under that token', async () => {
    const held = await batches.held(node, 2);
    expect((await batches.settle(held)).size).toBe(1);
    expect((await batches.settle(held)).size).toBe(0);
    const leases = held.ids.map((id) => settlement({ id, token: held.token }, 'done'));
    expect([...(await settle(ground.database, leases, { repeat: true })).values()]).toEqual([
      'repeated',
      'repeated',
    ]);
    expect(await history()).toHaveLength(2);
  });
});

describe('take_out', () => {
  test('gives jobs rows under the same token, and leaves the others together', async () => {
    const held = await batches.held(node, 4);
    const [a = '', b = '', c = '', d = ''] = held.ids;
    const rest = await takeOut(ground.database, held, [b, d]);
    const work = await batches.work();
    expect(work.map(({ ids, batch, token }) => [ids, batch, token])).toEqual([
      [[b], false, held.token],
      [[d], false, held.token],
      [[a, c], true, held.token],
    ]);
    const left = { ...held, position: rest ?? 0, ids: [a, c] };
    expect((await batches.settle(left)).size).toBe(1);
    const others = [b, d].map((id) => settlement({ id, token: held.token }, 'snooze', { delayMs: 1_000 }));
    expect([...(await settle(ground.database, others)).values()]).toEqual(['snooze', 'snooze']);
  });

  test('under another token leaves the batch as it is', async () => {
    const held = await batches.held(node, 2);
    await takeApart(ground.database, { ...held, token: randomUUID() });
    expect(await idsOf()).toEqual([held.ids]);
  });

  test('told twice (a reply was lost) answers the same; told of all then, it finds those that stayed together', async () => {
    const held = await batches.held(node, 4);
    const [, b = ''] = held.ids;
    const rest = await takeOut(ground.database, held, [b]);
    expect(await takeOut(ground.database, held, [b])).toBe(rest);
    await takeApart(ground.database, held);
    expect(await idsOf()).toEqual([[b], ...held.ids.filter((id) => id !== b).map((id) => [id])]);
    const leases = held.ids.map((id) => settlement({ id, token: held.token }, 'done'));
    expect([...(await settle(ground.database, leases)).values()]).toEqual(['done', 'done', 'done', 'done']);
  });
});

describe('what concerns one job of a batch', () => {
  test('cancel: of a ready batch only that job ends', async () => {
    const ids = await batches.insert(3);
    await batches.dispatch([ids]);
    expect(await cancel(ground.database, [ids[1] ?? ''])).toEqual(new Map([[ids[1], 'cancelled']]));
    expect(await idsOf()).toEqual([[ids[0]], [ids[2]]]);
  });

  test('cancel: of a batch that runs, that job is marked, and all keep their lease', async () => {
    const held = await batches.held(node, 3);
    expect(await cancel(ground.database, [held.ids[1] ?? ''])).toEqual(new Map([[held.ids[1], 'signalled']]));
    expect((await batches.work()).map(({ ids, token, cancelled }) => [ids, token, cancelled])).toEqual(
      held.ids.map((id, n) => [[id], held.token, n === 1]),
    );
  });

  test('cancel: while another session settles the batch, the job is busy', async () => {
    const held = await batches.held(node, 2);
    const session = await ground.session();
    await session.sql('begin');
    await session.sql(`select from pgqueue.work_queue where position = $1 for update`, [held.position]);
    expect(await cancel(ground.database, [held.ids[0] ?? ''])).toEqual(new Map([[held.ids[0], 'busy']]));
    await session.sql('rollback');
    await session.end();
    expect(await idsOf()).toEqual([held.ids]);
  });

  test('amend and erase take a job out of a ready batch, and leave alone what runs', async () => {
    const ids = await batches.insert(4);
    await batches.dispatch([ids]);
    const [a = '', b = '', c = '', d = ''] = ids;
    expect(await amend(ground.database, [b], { priority: -5 })).toEqual(new Set([b]));
    expect(await erase(ground.database, [c])).toEqual(new Set([c]));
    expect(await idsOf()).toEqual([[a], [d]]);
    expect([(await ground.job(b))['status'], (await ground.job(b))['priority']]).toEqual(['pending', -5]);
    const held = await batches.held(node, 2);
    expect((await amend(ground.database, [held.ids[0] ?? ''], { priority: -5 })).size).toBe(0);
    expect((await erase(ground.database, [held.ids[0] ?? ''])).size).toBe(0);
  });

  test('replace by unique key: a ready job is replaced and waits again; one that runs stays, and a new one is made', async () => {
    const [other = ''] = await batches.insert(1);
    const [id = ''] = await batches.insert(1, { unique_key: 'u' });
    await batches.dispatch([[other, id]]);
    const replace = async (n: number) =>
      ground.sql(`select job_id, outcome from pgqueue.enqueue_unique($1)`, [
        JSON.stringify([{ n: 1, task: 'hello', unique_key: 'u', mode: 'replace', payload: { n } }]),
      ]);
    expect(await replace(1)).toEqual([{ job_id: id, outcome: 'replaced' }]);
    expect(await idsOf()).toEqual([[other]]);
    await batches.dispatch([[id]]);
    const again = await batches.insert(1);
    await batches.claim(node);
    await batches.dispatch([again]);
    expect(await replace(2)).toEqual([{ job_id: expect.not.stringMatching(id), outcome: 'enqueued' }]);
  });

  test('release_rows gives a batch back in its old place, and only under its token', async () => {
    const held = await batches.held(node, 2);
    await releaseRows(ground.database, [{ ...held, token: randomUUID() }]);
    expect((await batches.work())[0]?.token).toBe(held.token);
    await releaseRows(ground.database, [held]);
    expect(await batches.work()).toMatchObject([{ position: held.position, token: null, ids: held.ids }]);
  });
});

describe('a batch whose node is lost', () => {
  const suspects = async () => (await batches.work()).map(({ ids, token, suspect }) => [ids, token, suspect]);
  const crashes = () =>
    ground
      .sql('select crashes from pgqueue.queue order by seq')
      .then((rows) => rows.map((row) => row['crashes']));

  test('reset: each job is by itself, a suspect, and charged where no suspect was there before', async () => {
    const held = await batches.held(node, 3);
    await ground.sql('select pgqueue.reset_node($1)', [node.id]);
    expect(await suspects()).toEqual(held.ids.map((id) => [[id], null, true]));
    expect(await crashes()).toEqual([1, 1, 1]);
  });

  test('beside a suspect: only that is charged', async () => {
    const [poison = ''] = await batches.insert(1, { crashes: 1 });
    await batches.dispatch([[poison]]);
    await batches.claim(node);
    const held = await batches.held(node, 2);
    await ground.sql('select pgqueue.reset_node($1)', [node.id]);
    expect(await suspects()).toEqual([poison, ...held.ids].map((id) => [[id], null, true]));
    expect(await crashes()).toEqual([2, 0, 0]);
  });

  test('by silence: the same, and what another session has locked is left for the next sweep', async () => {
    node = await ground.node('silent', { lostAfterMs: 100 });
    const held = await batches.held(node, 2);
    await ground.sql(
      `update pgqueue.node set heartbeat = clock_timestamp() - interval '1 h' where id = 'silent'`,
    );
    await ground.sql(`update pgqueue.reached set since = clock_timestamp() - interval '1 h'`);
    const { leader, epoch } = ground.leader();
    const lose = () => ground.sql('select * from pgqueue.lose_nodes($1, $2)', [leader, epoch]);
    const session = await ground.session();
    await session.sql('begin');
    await session.sql(`select from pgqueue.work_queue where position = $1 for update`, [held.position]);
    expect((await lose()).length).toBe(0);
    await session.sql('rollback');
    await session.end();
    expect(await lose()).toEqual([{ node_id: 'silent', jobs: '2' }]);
    expect(await crashes()).toEqual([1, 1]);
  });

  test('its lease runs out: each job is charged, and a late settlement of the batch changes nothing', async () => {
    const held = await batches.held(node, 3);
    await ground.sql(`update pgqueue.work_queue set lock_timeout = clock_timestamp() - interval '1 s'`);
    const other = await ground.node('other');
    const stolen = await batches.claim(other, { reap: true });
    expect(stolen).toHaveLength(1);
    expect(await crashes()).toEqual([1, 1, 1]);
    expect((await batches.settle(held)).size).toBe(0);
    const late = held.ids.map((id) => settlement({ id, token: held.token }, 'done'));
    expect((await settle(ground.database, late)).size).toBe(0);
    expect(await history()).toEqual([]);
  });

  test('a claim whose reply was lost is given back, batches and all', async () => {
    const ids = await batches.insert(3);
    await batches.dispatch([ids.slice(0, 2), ids.slice(2)]);
    const token = randomUUID();
    await batches.claim(node, { token });
    const release = 'select pgqueue.release_claim($1, $2, $3)';
    expect(await ground.one(release, [node.id, randomUUID(), token])).toBe(0);
    expect(await ground.one(release, [node.id, node.incarnation, token])).toBe(3);
    const rows = await claim(ground.database, {
      node: node.id,
      incarnation: node.incarnation,
      max: 10,
      token: randomUUID(),
    });
    expect(rows.map(({ id }) => id)).toEqual(ids);
  });
});
