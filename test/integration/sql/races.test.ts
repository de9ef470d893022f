import type { Lease } from '@pgqueue/postgres/internal';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import type { Member, Session } from './support.ts';
import { openGround } from './support.ts';

/** Interleavings of two transactions, staged: `first` does its part and stays open while `second` does its own. */
const ground = opened(openGround);
let node: Member;
let first: Session;
let second: Session;
let third: Session;
beforeEach(async () => {
  await ground.reset();
  node = await ground.node();
  [first, second, third] = await Promise.all([ground.session(), ground.session(), ground.session()]);
});
afterEach(async () => {
  await Promise.all([first, second, third].map((session) => session.end()));
  await ground.sound();
});

const a = '00000000-0000-7000-8000-00000000000a';
const b = '00000000-0000-7000-8000-00000000000b';
const c = '00000000-0000-7000-8000-00000000000c';

const dispatchOf = (...ids: string[]): string =>
  `select x.id from pgqueue.dispatch('leader', ${ground.leader().epoch}, array['${ids.join("','")}']::uuid[],
     null, '{"pool": "default"}', false) d, unnest(array['${ids.join("','")}']::uuid[]) x (id) where x.id <> all (d.missing)`;
const settleOf = (leases: readonly Lease[], outcomes: readonly string[], repeat = false): string =>
  `select job_id, verdict from pgqueue.settle(array['${leases.map(({ id }) => id).join("','")}']::uuid[],
     array['${leases.map(({ token }) => token).join("','")}']::uuid[], array['${outcomes.join("','")}'],
     array_fill(null::float8, array[${leases.length}]), array_fill(null::text, array[${leases.length}]), ${repeat}) order by 1`;
const cancelOf = (id: string): string => `select * from pgqueue.cancel(array['${id}']::uuid[])`;
const claimOf = ({ id, incarnation }: Member): string =>
  `select id, payload from pgqueue.claim('${id}', '${incarnation}', 10)`;
const expireLeases = (): Promise<unknown> =>
  ground.sql(`update pgqueue.work_queue set lock_timeout = clock_timestamp() - interval '1 s'`);

async function runningAll(ids: readonly string[], columns: object = {}): Promise<readonly Lease[]> {
  for (const id of ids) await ground.insert({ id, ...columns });
  await ground.dispatch(ids);
  const token = crypto.randomUUID();
  await ground.claim(node, 10, token);
  return ids.map((id) => ({ id, token }));
}

describe('dispatch', () => {
  test('× cancel: who cancels waits for the batch, and takes its item back', async () => {
    const id = await ground.insert();
    await first.sql('begin');
    expect(await first.sql(dispatchOf(id))).toEqual([{ id }]);
    const { answer } = await ground.waiting(second, cancelOf(id));
    await first.sql('commit');
    expect(await answer).toEqual([{ job_id: id, verdict: 'cancelled' }]);
  });

  test('× cancel: the batch passes over a job that is being cancelled', async () => {
    const id = await ground.insert();
    await first.sql('begin');
    await first.sql(cancelOf(id));
    expect(await second.sql(dispatchOf(id))).toEqual([]);
    await first.sql('commit');
    expect(await ground.job(id)).toMatchObject({ status: 'cancelled' });
  });

  test('× settle: a stale plan neither schedules a job that is being retried, nor waits for it', async () => {
    const leases = await runningAll([a]);
    await first.sql('begin');
    await first.sql(settleOf(leases, ['retry']));
    expect(await second.sql(dispatchOf(a))).toEqual([]);
    await first.sql('commit');
    expect(await second.sql(dispatchOf(a))).toEqual([]);
    expect(await ground.job(a)).toMatchObject({ status: 'delayed' });
  });

  test('× settle: no deadlock with one that has removed its items, and waits for another job', async () => {
    const leases = await runningAll([a, b]);
    await third.sql('begin');
    await third.sql('select from pgqueue.queue where id = $1 for update', [a]);
    const { answer } = await ground.waiting(first, settleOf(leases, ['done', 'done']));
    expect(await second.sql(dispatchOf(b))).toEqual([]);
    await third.sql('commit');
    expect(await answer).toHaveLength(2);
  });

  test('× lead: a standby takes over only when the batch is written; then the old epoch writes nothing', async () => {
    const [one, two] = [await ground.insert(), await ground.insert()];
    await first.sql('begin');
    await first.sql(dispatchOf(one));
    const { answer } = await ground.waiting(
      second,
      `update pgqueue.scheduler_lease set expires = '-infinity' returning epoch::integer`,
    );
    await first.sql('commit');
    await answer;
    await expect(first.sql(dispatchOf(two))).rejects.toMatchObject({ code: 'PQ002' });
    expect(await second.sql(`select leads, epoch::integer from pgqueue.lead('standby', 1000)`)).toEqual([
      { leads: true, epoch: ground.leader().epoch + 1 },
    ]);
    await expect(first.sql(dispatchOf(two))).rejects.toMatchObject({ code: 'PQ002' });
    expect(await ground.job(two)).toMatchObject({ status: 'pending' });
    await expect(ground.sql('select * from pgqueue.lead(null, 1000)')).rejects.toThrow('a leader has a name');
  });

  test('× dispatch: the same plan twice makes one item each', async () => {
    await ground.insert({ id: a });
    await first.sql('begin');
    await first.sql(dispatchOf(a));
    expect(await second.sql(dispatchOf(a))).toEqual([]);
    await first.sql('commit');
    expect(await second.sql(dispatchOf(a))).toEqual([]);
  });
});

describe('claim', () => {
  test('× reset: the reset waits for the claim, and takes back what it leased', async () => {
    const id = await ground.insert();
    await ground.dispatch([id]);
    await first.sql('begin');
    expect(await first.sql(claimOf(node))).toMatchObject([{ id }]);
    const { answer } = await ground.waiting(second, `select * from pgqueue.reset_node('node')`);
    await first.sql('commit');
    expect(await answer).toEqual([{ job_id: id, verdict: 'ready' }]);
  });

  test('× reset: a claim that waited for the reset is refused', async () => {
    await ground.dispatch([await ground.insert()]);
    await first.sql('begin');
    await first.sql(`select * from pgqueue.reset_node('node')`);
    const { answer } = await ground.waiting(second, claimOf(node));
    await first.sql('commit');
    await expect(answer).rejects.toMatchObject({ code: 'PQ001' });
  });

  test('× claim: two nodes share out what is ready', async () => {
    await ground.dispatch([await ground.insert(), await ground.insert()]);
    const other = await ground.node('other');
    await first.sql('begin');
    const [one] = await ground.sql(`select incarnation from pgqueue.node where id = 'other'`);
    expect(one?.['incarnation']).toBe(other.incarnation);
    await first.sql(`select * from pgqueue.claim('node', '${node.incarnation}', 1)`);
    expect(await second.sql(claimOf(other))).toHaveLength(1);
    await first.sql('commit');
  });

  test('× expire: a job that is being claimed has started in time', async () => {
    const id = await ground.insert({ expires_at: new Date(Date.now() + 3_600_000) });
    await ground.dispatch([id]);
    await first.sql('begin');
    expect(await first.sql(claimOf(node))).toHaveLength(1);
    await ground.sql(`update pgqueue.queue set expires_at = clock_timestamp()`);
    const expire = `select pgqueue.expire('leader', ${ground.leader().epoch}, 10) as n`;
    expect(await second.sql(expire)).toEqual([{ n: 0 }]);
    await first.sql('commit');
    expect(await second.sql(expire)).toEqual([{ n: 0 }]);
    expect(await ground.job(id)).toMatchObject({ status: 'running' });
  });

  test('× expire: an item that is being taken back is not claimed', async () => {
    const id = await ground.insert();
    await ground.dispatch([id]);
    await ground.sql(`update pgqueue.queue set expires_at = clock_timestamp()`);
    await first.sql('begin');
    expect(await first.sql(`select pgqueue.expire('leader', ${ground.leader().epoch}, 10) as n`)).toEqual([
      { n: 1 },
    ]);
    expect(await second.sql(claimOf(node))).toEqual([]);
    await first.sql('commit');
    expect(await ground.job(id)).toMatchObject({ status: 'expired' });
  });
});

describe('settle', () => {
  test('× reap: an expired lease that is being settled is left to its holder', async () => {
    const leases = await runningAll([a]);
    await expireLeases();
    await first.sql('begin');
    await first.sql(settleOf(leases, ['done']));
    expect(await second.sql('select * from pgqueue.reap()')).toEqual([]);
    await first.sql('commit');
    expect(await ground.job(a)).toMatchObject({ status: 'done', crashes: 0 });
  });

  test('× reap: a settlement that comes during the takeover is stale', async () => {
    const leases = await runningAll([a]);
    await expireLeases();
    await first.sql('begin');
    expect(await first.sql('select verdict from pgqueue.reap()')).toEqual([{ verdict: 'ready' }]);
    const { answer } = await ground.waiting(second, settleOf(leases, ['done']));
    expect(await third.sql('select * from pgqueue.reap()')).toEqual([]); // two reaps
    await first.sql('commit');
    expect(await answer).toEqual([]);
    expect(await ground.job(a)).toMatchObject({ status: 'ready', crashes: 1 });
  });

  test('× itself: a repeat that overtakes the first call waits for it, and knows it', async () => {
    const leases = await runningAll([a, b]);
    await first.sql('begin');
    await first.sql(settleOf(leases, ['done', 'retry']));
    const { answer } = await ground.waiting(second, settleOf(leases, ['done', 'retry'], true));
    await first.sql('commit');
    expect(await answer).toEqual([
      { job_id: a, verdict: 'repeated' },
      { job_id: b, verdict: 'repeated' },
    ]);
  });

  test('× reset of a live node: items are locked in one order, whatever their positions', async () => {
    const leases = await runningAll([c, b, a]); // positions against ids
    await third.sql('begin');
    await third.sql('select from pgqueue.work_queue where id = $1 for update', [b]);
    const settling = await ground.waiting(first, settleOf(leases, ['done', 'done', 'done']));
    const resetting = await ground.waiting(second, `select * from pgqueue.reset_node('node')`);
    await third.sql('commit');
    expect(await settling.answer).toHaveLength(3);
    expect(await resetting.answer).toEqual([]);
  });

  test('× an operator: jobs that end and jobs that go back are locked in one order', async () => {
    const leases = await runningAll([a, b]);
    await second.sql('begin');
    await second.sql('select from pgqueue.queue where id = $1 for update', [a]);
    const { answer } = await ground.waiting(first, settleOf(leases, ['retry', 'done']));
    await second.sql('select from pgqueue.queue where id = $1 for update', [b]);
    await second.sql('commit');
    expect(await answer).toEqual([
      { job_id: a, verdict: 'retry' },
      { job_id: b, verdict: 'done' },
    ]);
  });
});

describe('sweeps', () => {
  test('two promotes share out what is due', async () => {
    for (const id of [a, b]) await ground.insert({ id, run_after: new Date(0) });
    const promote = (max: number): string =>
      `select promoted from pgqueue.promote('leader', ${ground.leader().epoch}, ${max})`;
    await first.sql('begin');
    expect(await first.sql(promote(1))).toEqual([{ promoted: 1 }]);
    expect(await second.sql(promote(9))).toEqual([{ promoted: 1 }]);
    await first.sql('commit');
  });

  test('none waits for an application that has a job locked; the next sweep finds it', async () => {
    await runningAll([a, b]);
    await expireLeases();
    await ground.sql(`update pgqueue.node set heartbeat = clock_timestamp() - interval '1 hour'`);
    await first.sql('begin');
    await first.sql('select from pgqueue.queue where id = $1 for update', [a]);
    const lose = `select jobs::integer from pgqueue.lose_nodes('leader', ${ground.leader().epoch})`;
    const state = 'select state from pgqueue.node';
    expect(await second.sql('select job_id from pgqueue.reap()')).toEqual([{ job_id: b }]);
    expect(await second.sql(lose)).toEqual([]);
    expect(await second.sql(state)).toEqual([{ state: 'alive' }]); // every lease has a node that has not ended
    await first.sql('commit');
    expect(await second.sql(lose)).toEqual([{ jobs: 1 }]);
    expect(await second.sql(state)).toEqual([{ state: 'lost' }]);
    expect(await ground.job(a)).toMatchObject({ status: 'ready', crashes: 1 });
  });

  test('a sweep waits for no node that claims, and ends none that beats', async () => {
    await ground.sql(`update pgqueue.node set heartbeat = clock_timestamp() - interval '1 hour'`);
    const lose = `select node_id from pgqueue.lose_nodes('leader', ${ground.leader().epoch})`;
    await first.sql('begin');
    await first.sql(claimOf(node));
    expect(await second.sql(lose)).toEqual([]);
    await first.sql('commit');
    await first.sql('begin');
    await first.sql(`select from pgqueue.heartbeat_node('node', '${node.incarnation}')`);
    expect(await second.sql(lose)).toEqual([]);
    await first.sql('commit');
    expect(await second.sql(lose)).toEqual([]);
  });

  test('a beat that waited for the next incarnation is told that its own has ended', async () => {
    await ground.sql(`update pgqueue.node set heartbeat = clock_timestamp() - interval '1 hour'`);
    await first.sql('begin');
    expect(await first.sql(`select accepted from pgqueue.register_node('node', '{}')`)).toEqual([
      { accepted: true },
    ]);
    const { answer } = await ground.waiting(
      second,
      `select alive from pgqueue.heartbeat_node('node', '${node.incarnation}')`,
    );
    await first.sql('commit');
    expect(await answer).toEqual([{ alive: false }]);
  });
});
