import { randomUUID } from 'node:crypto';
import { beforeEach, expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import { emptying, flowTables } from '../../support/empty.ts';
import { batchesOn } from './batches-support.ts';
import { dispatchBundles } from './bundles-support.ts';
import { openGround } from './support.ts';

/**
 * The leader's functions hold its lease FOR SHARE, so what they wait for, the renewal of the lease and every standby wait
 * for, too: they wait for no row that an application, an operator or a node can hold.
 */
const ground = opened(openGround);
const batches = batchesOn(ground);

/** Rows of these tables can be locked from outside. */
const tables = [
  'queue',
  'work_queue',
  'dead_letter',
  'node',
  'node_session',
  'flow',
  'schedule',
  'queue_config',
  'key_move',
] as const;

const past = `clock_timestamp() - interval '1 hour'`;

/** Something to do for each function, in each of these tables. */
async function busy(): Promise<Readonly<Record<string, string>>> {
  const [pending, ready, ...others] = await batches.insert(9);
  const leader = `'leader', (select epoch from pgqueue.scheduler_lease)`;
  const [one, two, three, four, delayed, expired, held] = others;
  await ground.dispatch([String(ready)]);
  await batches.dispatch([[String(one), String(two)]]);
  await dispatchBundles(ground.database, [[String(three), String(four)]]);
  const ids = `array['${[ready, one, two, three, four].join("','")}']::uuid[]`;
  for (const step of ['late', 'stopping']) {
    const job = { id: randomUUID(), task: 'hello' };
    const flow = { id: randomUUID(), name: step, steps: [{ name: 's', jobs: [job] }] };
    await ground.sql('select pgqueue.start_flow($1::jsonb)', [JSON.stringify(flow)]);
  }
  const dead = await ground.node('dead', { lostAfterMs: 1_000 });
  await ground.dispatch([String(held)]);
  await ground.sql(`update pgqueue.work_queue set lock_key = '${dead.id}', lock_token = gen_random_uuid(), started = ${past},
                      lock_timeout = clock_timestamp() + interval '1 hour' where id = '${held}'`);
  await ground.node('forgotten');
  await ground.node('ahead');
  await ground.sql(`
    update pgqueue.queue set run_after = ${past} where id = '${delayed}';
    update pgqueue.queue set expires_at = ${past} where id = '${expired}';
    update pgqueue.flow set deadline = ${past} where name = 'late';
    update pgqueue.flow_step set stop = true where flow = (select id from pgqueue.flow where name = 'stopping');
    update pgqueue.node set heartbeat = ${past} where id = 'dead';
    update pgqueue.node set state = 'lost', heartbeat = clock_timestamp() - interval '2 days' where id = 'forgotten';
    update pgqueue.node set heartbeat = clock_timestamp() + interval '1 hour' where id = 'ahead';
    delete from pgqueue.node_session;
    insert into pgqueue.node_session (node, incarnation, key, pid, server)
      select id, incarnation, 1, 1, pg_postmaster_start_time() from pgqueue.node where id = 'dead'
      union all select 'nobody', gen_random_uuid(), 2, 2, pg_postmaster_start_time();
    delete from pgqueue.key_move;
    insert into pgqueue.key_move (key, side, peer, version, held, opened) values ('moved', 'in', 1, 1, true, ${past});
    insert into pgqueue.queue_config (queue) values ('default');
    insert into pgqueue.dead_letter select id, queue, task, key, priority, 'gave_up', 0, 1, 0, 1, created, created, null, 1, null, null,
      null, '{}', '{}', null, null, '[]' from pgqueue.queue where id = '${held}';
    update pgqueue.queue set max_crashes = 1 where id = '${held}';
    insert into pgqueue.schedule (name, cron, task) values ('due', '* * * * *', 'hello')`);
  const plan = `'{"pool": "default", "parts": {"p": 1}, "front": true, "settled": [1]}'`;
  const slot = `jsonb_build_object('name', 'due', 'cron', '* * * * *', 'timezone', 'UTC', 'slot', now(), 'next', now())`;
  return {
    advance_flows: `${leader}, jsonb_build_object('from', 0, 'max', 100, 'walk', '00000000-0000-0000-0000-000000000000')`,
    answer_explain: `${leader}, 1, '{}'`,
    count_activity: `${leader}, 100`,
    dispatch: `${leader}, array['${pending}']::uuid[], null, ${plan}, true`,
    dispatch_backlog: `${leader}, '{"queue": "default", "key": "", "priority": 0, "after": -1, "task": "hello", "version": 1, "pool": "default", "jobs": 9, "size": 2, "slots": 1}'`,
    end_holds: `${leader}, '{moved}'`,
    expire: `${leader}, 100`,
    fire_schedule: `${leader}, ${slot}`,
    lead: `'leader', 600000`,
    lose_nodes: `${leader}, 3000`,
    note_missing_nodes: leader,
    promote: `${leader}, 100`,
    report: `${leader}, '{}'`,
    resign: leader,
    set_feed: `${leader}, true`,
    stop_jobs: `${leader}, 100`,
    take_back: `${leader}, ${ids}`,
  };
}

beforeEach(async () => {
  await ground.reset();
  await ground.sql(emptying(flowTables));
});

test('these are all functions of the leader', async () => {
  const named = await ground.sql(
    `select distinct proname as name from pg_proc
     where pronamespace = 'pgqueue'::regnamespace and 'p_leader' = any (proargnames) and proname not in ('assert_leader', 'keep_leader_session')
     order by 1`,
  );
  expect(Object.keys(await busy())).toEqual(named.map(({ name }) => name));
});

test.each(tables)('the leader waits for no row of %s', async (table) => {
  const calls = await busy();
  const [other, leader] = [await ground.session(), await ground.session()];
  try {
    await leader.sql(`set lock_timeout = '2s'`);
    await other.sql('begin');
    expect(await other.sql(`select 1 from pgqueue.${table} for update`)).not.toEqual([]);
    const waited: string[] = [];
    for (const [name, values] of Object.entries(calls)) {
      await leader.sql('begin');
      await leader.sql(`select * from pgqueue.${name}(${values})`).catch((error: unknown) => {
        waited.push(`${name}: ${String(error)}`);
      });
      await leader.sql('rollback');
    }
    expect(waited).toEqual([]);
  } finally {
    await Promise.all([other.end(), leader.end()]);
    await ground.sql(`delete from pgqueue.key_move; delete from pgqueue.node_session`);
  }
});

// A worker that does not know the incarnation and tokens of another node can't hold up that node by an open transaction.

const register = `select accepted from pgqueue.register_node('node', '{}',
  p_seen => (select heartbeat from pgqueue.node where id = 'node'))`;

const attempts: Readonly<Record<string, (held: { ids: string; token: string }) => readonly string[]>> = {
  'a registration that is refused': () => [register],
  'a release of its claim': ({ token }) => [
    `select pgqueue.release_claim('node', gen_random_uuid(), '${token}')`,
  ],
  'a release of its jobs beside an own batch': ({ ids, token }) => [
    `select pgqueue.release('${ids}'::uuid[], array_fill('${token}'::uuid, array[cardinality('${ids}'::uuid[])]))`,
  ],
};

test.each(Object.keys(attempts))('%s locks nothing of a node that lives', async (attempt) => {
  const node = await ground.node();
  const stranger = await ground.node('stranger');
  const held = await batches.held(node, 2);
  const { token } = await batches.held(stranger, 2);
  const [other, victim] = [await ground.session(), await ground.session()];
  try {
    await other.sql('begin');
    for (const text of attempts[attempt]?.({ ids: `{${held.ids.join(',')}}`, token }) ?? [])
      await other.sql(text);
    await victim.sql(`set lock_timeout = '2s'`);
    const beat = `select alive from pgqueue.heartbeat_node('node', '${node.incarnation}')`;
    expect(await victim.sql(beat)).toEqual([{ alive: true }]);
    const settle = `select pgqueue.settle_rows(array[${held.position}], array['${held.token}']::uuid[], '{2}', '{1, 1}') as settled`;
    expect(await victim.sql(settle)).toEqual([{ settled: [String(held.position)] }]);
  } finally {
    await Promise.all([other.end(), victim.end()]);
  }
});

test('a registration that is refused is told of the other heartbeat; one after its end is accepted', async () => {
  const { incarnation } = await ground.node();
  expect(await ground.sql(register)).toEqual([{ accepted: false }]);
  expect(await ground.one(`select pgqueue.leave_node('node', '${incarnation}')`)).toBe(true);
  expect(await ground.one(`select pgqueue.release_claim('node', '${randomUUID()}', '${randomUUID()}')`)).toBe(
    0,
  );
  expect(await ground.sql(register)).toEqual([{ accepted: true }]);
});
