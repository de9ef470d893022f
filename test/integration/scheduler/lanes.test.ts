import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import { openBench, ticks, until } from './support.ts';

const bench = opened(openBench);

test('of more keys than one look shows, each job goes once, and those of one key in order', async () => {
  const [keys, jobs] = [1_500, 6];
  const node = await bench.node({ slots: 300 });
  await bench.database.query(
    `insert into pgqueue.queue (task, key, payload)
     select 't', 'k' || (n % $1), '{}' from generate_series(1, $1::integer * $2::integer) n order by n`,
    [keys, jobs],
  );
  await bench.database.query(
    `create table claimed (n bigint generated always as identity, id uuid unique, key text, seq bigint)`,
    [],
  );
  const scheduler = await bench.scheduler();
  let done = 0;
  const all = async (): Promise<boolean> => {
    const leased = await node.claim(300);
    // a job that is there a second time would break the table's unique id
    await bench.database.query(
      `insert into claimed (id, key, seq)
       select q.id, q.key, q.seq from pgqueue.queue q join pgqueue.work_queue w on w.id = q.id
       where q.id = any ($1) order by w.position`,
      [leased.map(({ id }) => id)],
    );
    await node.done(leased);
    done += leased.length;
    return done >= keys * jobs;
  };
  await until('all jobs', all);
  expect(await bench.count('queue')).toBe(0);
  const [found] = await bench.database.query<{ readonly disorder: number; readonly claimed: number }>(
    `select count(*) filter (where seq < before)::integer as disorder, count(*)::integer as claimed
     from (select seq, lag(seq) over (partition by key order by n) as before from claimed) c`,
    [],
  );
  expect(found).toEqual({ disorder: 0, claimed: keys * jobs });
  // fair: nobody's last job goes before everybody's first
  const [turns] = await bench.database.query<{ readonly lastFirst: number; readonly firstLast: number }>(
    `select max(n) filter (where first)::integer as "lastFirst", min(n) filter (where last)::integer as "firstLast" from (
       select n, lag(n) over k is null as first, lead(n) over k is null as last from claimed window k as (partition by key order by n)) c`,
    [],
  );
  expect(turns?.lastFirst).toBeLessThan(turns?.firstLast ?? 0);
  const busy = ticks(scheduler).filter(({ dispatched }) => dispatched >= 50);
  expect(busy.length).toBeGreaterThan(10);
});

test('thousands of keys that wait for a full pool hide no job from a pool with free slots', async () => {
  await bench.clear();
  await bench.node({ slots: 1 });
  await bench.node({ id: randomUUID(), slots: 2, pool: 'other' });
  await bench.database.query(`insert into pgqueue.queue_config (queue, pool) values ('z', 'other')`, []);
  await bench.database.query(
    `insert into pgqueue.queue (queue, task, key, payload)
     select 'z', 't', 'z' || n, '{}'::jsonb from generate_series(1, 2) n
     union all select 'a', 't', 'k' || n, '{}' from generate_series(1, 9000) n`,
    [],
  );
  const scheduler = await bench.scheduler();
  const went = async () => (await bench.items()).filter(({ key }) => key.startsWith('z')).length === 2;
  await until('the jobs of the other pool', went);
  // one at a time, pages of all keys show them after 18 ticks; more of them may follow before this process has looked
  let sent = 0;
  const needed = ticks(scheduler).findIndex(({ dispatched }) => (sent += dispatched) >= 3);
  expect(needed).toBeGreaterThanOrEqual(0);
  expect(needed).toBeLessThan(10);
  // with nothing to dispatch, ticks are rare again
  await bench.database.query(
    `delete from pgqueue.work_queue where id in (select id from pgqueue.queue where queue = 'z')`,
    [],
  );
  await bench.database.query(`delete from pgqueue.queue where queue = 'z'`, []);
  const before = ticks(scheduler).length;
  await new Promise((resolve) => setTimeout(resolve, 3_000));
  expect(ticks(scheduler).length - before).toBeLessThan(40);
});
