import { setTimeout as delay } from 'node:timers/promises';
import { dispatch, leadershipLostState, openDatabase, sqlState } from '@pgqueue/postgres/internal';
import { createScheduler } from '@pgqueue/scheduler';
import { afterEach, expect, test } from 'vitest';
import { startActor } from '../../support/actors.ts';
import { opened } from '../../support/database.ts';
import { openBench, until } from './support.ts';

const bench = opened(openBench);
afterEach(() => bench.clear());

const leaseMs = 1_000;

test('a standby takes over from a leader that was killed', async () => {
  const leader = await startActor('scheduler', { url: bench.test.url, name: 'doomed', options: { leaseMs } });
  await until('it leads', () => leader.heard.some(({ type }) => type === 'leader.elected'));
  const standby = await bench.scheduler({ leaseMs });
  expect(standby.leads).toBe(false);
  leader.signal('SIGKILL');
  await leader.stop();
  await until('the standby leads', () => standby.leads);
  await bench.node();
  await bench.enqueue({ count: 1 });
  await until('a job is dispatched', async () => (await bench.items()).length === 1);
});

test('standbys of an idle leader report no errors and stay ready, whatever their lease', async () => {
  const leader = await bench.scheduler({ leaseMs: 60_000 });
  await until('it leads', () => leader.leads);
  const health = { port: 0, host: '127.0.0.1' };
  const standbys = await Promise.all(
    [leaseMs, 5_000].map((lease) => bench.scheduler({ leaseMs: lease, health })),
  );
  const isReady = async ({ healthPort }: (typeof standbys)[number]): Promise<boolean> =>
    (await fetch(`http://127.0.0.1:${healthPort}/ready`)).ok;
  const errors = (): number =>
    standbys.flatMap(({ events }) => events.filter(({ type }) => type === 'database.error')).length;
  // one answer may come late on a busy machine; a wait that is too long fails in each of these periods
  await until('six seconds without a problem', async () => {
    const [before, endsAt] = [errors(), performance.now() + 6_000];
    while (performance.now() < endsAt) {
      if (errors() > before || (await Promise.all(standbys.map(isReady))).includes(false)) return false;
      await delay(100);
    }
    return true;
  });
  expect(standbys.map(({ leads }) => leads)).toEqual([false, false]);
});

test('a leader that stops resigns: a standby that listens leads at once', async () => {
  const leader = await bench.scheduler({ leaseMs: 60_000 });
  await until('it leads', () => leader.leads);
  const standby = await bench.scheduler({ leaseMs: 60_000 });
  await until('the standby listens', async () => {
    const listening = await bench.database.query(
      `select from pg_stat_activity where application_name = 'pgqueue scheduler listener' and query ilike 'listen %leader"'
       and datname = current_database() and state = 'idle'`,
      [],
    );
    return listening.length === 2;
  });
  const epoch = leader.epoch ?? 0;
  await leader.stop();
  await until('the standby leads', () => standby.leads);
  expect(standby.epoch).toBe(epoch + 1);
  expect(leader.events.at(-1)).toMatchObject({ type: 'leader.lost', epoch });
});

test('a scheduler leads again, and counts what ended, after somebody has emptied all tables', async () => {
  const scheduler = await bench.scheduler({ leaseMs });
  await until('it leads', () => scheduler.leads);
  await bench.database.query(
    'truncate pgqueue.scheduler_lease, pgqueue.leader_session, pgqueue.activity_mark',
    [],
  );
  await until(
    'it leads again',
    () => scheduler.leads && scheduler.events.some(({ type }) => type === 'leader.lost'),
  );
  await bench.node();
  await bench.enqueue({ count: 5 });
  await until('it dispatches', async () => (await bench.items()).length === 5);
  await expect.poll(() => bench.count('activity_mark', 'isfinite(counted_to)')).toBe(1);
});

test('a leader that was deposed writes nothing, goes back to standby, and may lead again', async () => {
  const scheduler = await bench.scheduler({ leaseMs });
  await until('it leads', () => scheduler.leads);
  const epoch = scheduler.epoch ?? 0;
  const [row] = await bench.database.query<{ leader: string }>(
    `update pgqueue.scheduler_lease set epoch = epoch + 1, leader = 'usurper', expires = clock_timestamp() + interval '1 s'
     returning (select leader from pgqueue.scheduler_lease) as leader`,
    [],
  );
  await bench.node();
  await bench.enqueue({ count: 5 });
  await bench.hint();
  await until('it knows', () => !scheduler.leads);
  expect(await bench.items()).toEqual([]);
  expect(scheduler.events).toContainEqual(expect.objectContaining({ type: 'leader.lost', epoch }));

  const jobs = await bench.database.query<{ id: string }>('select id from pgqueue.queue', []);
  const refused: unknown = await dispatch(bench.database, {
    leader: row?.leader ?? '',
    epoch,
    jobs: jobs.map(({ id }) => ({ id, pool: 'default', rowVersion: null, bundle: null })),
    parts: { fair: { written: 'by a deposed leader' } },
    settled: [],
    notify: false,
  }).catch((error: unknown) => error);
  expect(sqlState(refused)).toBe(leadershipLostState);
  expect(await bench.items()).toEqual([]);
  expect(await bench.count('policy_state', `state ? 'written'`)).toBe(0);

  await until('it leads again', () => (scheduler.epoch ?? 0) > epoch + 1);
  await until('it dispatches', async () => (await bench.items()).length === 5);
});

test('two schedulers dispatch every job once, while they depose one another', async () => {
  const node = await bench.node({ slots: 200 });
  await bench.enqueue({ count: 3_000, key: 'a' });
  await bench.enqueue({ count: 3_000, key: 'b' });
  const schedulers = await Promise.all([bench.scheduler(), bench.scheduler()]);
  let done = 0;
  let rounds = 0;
  while (done < 6_000) {
    const jobs = await until('work', async () => {
      const claimed = await node.claim(200);
      return claimed.length > 0 && claimed;
    });
    await node.done(jobs);
    done += jobs.length;
    rounds += 1;
    if (rounds % 5 === 0) {
      await bench.database.query(
        `update pgqueue.scheduler_lease set expires = '-infinity', leader = null`,
        [],
      );
      await bench.database.query(`select pg_notify('pgqueue:leader', '')`, []);
    }
  }
  expect(await bench.count('queue')).toBe(0);
  expect(await bench.count('work_queue')).toBe(0);
  const [row] = await bench.database.query<{ jobs: number; rows: number }>(
    'select count(distinct id)::integer as jobs, count(*)::integer as rows from pgqueue.history',
    [],
  );
  expect(row).toEqual({ jobs: 6_000, rows: 6_000 });
  const reigns = schedulers.flatMap(({ events }) => events.filter(({ type }) => type === 'leader.elected'));
  expect(reigns.length).toBeGreaterThan(2);
});

test('a database that is away is reported, and found again', async () => {
  const events: string[] = [];
  const away = createScheduler({
    connectionString: 'postgres://127.0.0.1:1/nowhere',
    observe: ({ type }) => events.push(type),
  });
  const starting = away.start();
  await until('two errors', () => events.filter((type) => type === 'database.error').length >= 2);
  await away.stop();
  await starting;
  expect(away.leads).toBe(false);

  const scheduler = await bench.scheduler();
  await until('it leads', () => scheduler.leads);
  await bench.node();
  await bench.database.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
     where datname = current_database() and application_name like 'pgqueue scheduler%'`,
    [],
  );
  await bench.enqueue({ count: 1 });
  await until('a job is dispatched', async () => (await bench.items()).length === 1);
});

test('a scheduler that was stopped refuses to start again: it would never lead', async () => {
  const scheduler = await bench.scheduler();
  await scheduler.stop();
  await expect(scheduler.start()).rejects.toMatchObject({
    code: 'configuration',
    message: 'this scheduler was stopped: create another one',
  });
  const never = createScheduler({ connectionString: bench.test.url });
  await never.stop();
  await expect(never.start()).rejects.toMatchObject({ code: 'configuration' });
});

test('a schema that does not fit is refused', async () => {
  const scheduler = createScheduler({ connectionString: bench.test.url, schema: 'elsewhere' });
  await expect(scheduler.start()).rejects.toMatchObject({ code: 'schema_version' });
  await scheduler.stop();
  expect(() => createScheduler({ connectionString: bench.test.url, leaseMs: 1, batchMax: 0 })).toThrow(
    /leaseMs[\s\S]*batchMax/,
  );
  expect(openDatabase({ connectionString: bench.test.url }).schema).toBe('pgqueue');
});

test('a scheduler that may not log in any more asks less and less often, and leads again when it may', async () => {
  const role = `rotated_${process.pid}`;
  const url = new URL(bench.test.url);
  url.username = role;
  await bench.database.query(`create role ${role} superuser login`, []);
  try {
    const scheduler = await bench.scheduler({ connectionString: url.href, leaseMs });
    await until('it leads', () => scheduler.leads);
    await bench.database.query(`alter role ${role} nologin`, []);
    // the cap of other errors is a third of the lease
    await until('a long pause', async () => {
      // again and again: a session that was about to begin is not listed yet, and would go on
      await bench.database.query(
        'select pg_terminate_backend(pid) from pg_stat_activity where usename = $1',
        [role],
      );
      return scheduler.events.some(
        (event) => event.type === 'database.error' && event.during === 'lead' && (event.retryMs ?? 0) > 1_000,
      );
    });
    await until('its lease to end', () => !scheduler.leads);
    await bench.database.query(`alter role ${role} login`, []);
    await until('it leads again', () => scheduler.leads);
    expect(scheduler.events.some(({ type }) => type === 'leader.lost')).toBe(true);
  } finally {
    await bench.clear();
    await bench.database.query(`drop role ${role}`, []);
  }
});
