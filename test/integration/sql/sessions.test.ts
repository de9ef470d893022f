import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { leadershipLostState, openLone } from '@pgqueue/postgres/internal';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { useDatabase } from '../../support/database.ts';
import { emptying, jobTables } from '../../support/empty.ts';
import { createNodeSessions } from '../../../packages/scheduler/src/sweeps/node-sessions.ts';
import { until } from '../../support/until.ts';

const own = useDatabase();
const { database } = own;
const sessions: pg.Client[] = [];
beforeEach(async () => {
  await sql(emptying([...jobTables, 'node_session', 'leader_session']));
  await sql(`update pgqueue.scheduler_lease set leader = null, expires = '-infinity'`);
});
afterEach(() => Promise.all(sessions.splice(0).map((session) => session.end())));

const sql = (text: string, values?: readonly unknown[]): Promise<readonly Record<string, unknown>[]> =>
  database.query(text, values ?? []);

interface Session {
  readonly pid: number;
  readonly sql: typeof sql;
  /** As when its process is killed. */
  readonly die: () => Promise<void>;
}

async function session(): Promise<Session> {
  const client = new pg.Client({ connectionString: own.url });
  client.on('error', () => {});
  await client.connect();
  sessions.push(client);
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
  const pid = rows[0]?.pid ?? 0;
  return {
    pid,
    sql: async (text, values) =>
      (await client.query<Record<string, unknown>>(text, [...(values ?? [])])).rows,
    die: async () => {
      await sql('select pg_terminate_backend($1)', [pid]);
      await until('its end', async () => {
        const rest = await sql('select from pg_stat_activity where pid = $1', [pid]);
        return rest.length === 0;
      });
    },
  };
}

const gone = async (): Promise<unknown> => (await sql('select pgqueue.leader_gone() as gone'))[0]?.['gone'];
const lead = (by: Pick<Session, 'sql'>, leader: string, pid: number | null): ReturnType<typeof sql> =>
  by.sql('select leads, epoch::integer as epoch from pgqueue.lead($1, 600000, $2)', [leader, pid]);

describe('the session of the leader', () => {
  test('while it is there nobody takes over; when it has ended the next one leads, long before the lease ends', async () => {
    const [leader, standby] = [await session(), await session()];
    const [{ epoch } = {}] = await lead(leader, 'a', leader.pid);
    expect(await gone()).toBe(false);
    expect(await lead(standby, 'b', standby.pid)).toMatchObject([{ leads: false, epoch }]);
    await leader.die();
    expect(await gone()).toBe(true);
    const answers = [await lead(standby, 'b', standby.pid), await lead(await session(), 'c', null)];
    const next = Number(epoch) + 1;
    expect(answers).toEqual([[{ leads: true, epoch: next }], [{ leads: false, epoch: next }]]);
    expect(await gone()).toBe(false);
    await expect(sql(`select pgqueue.assert_leader('a', $1)`, [epoch])).rejects.toMatchObject({
      code: leadershipLostState,
    });
  });

  test('a standby of an idle system waits for its end', async () => {
    const [leader, standby] = [await session(), await session()];
    await lead(leader, 'a', leader.pid);
    await standby.sql(`set deadlock_timeout = '10min'`); // or its answer comes in less than that
    const watch = async (seen: unknown, waitMs: number): Promise<{ gone?: unknown; seen?: unknown }> =>
      (
        await standby.sql('select gone, seen::text as seen from pgqueue.watch_leader($1, $2)', [seen, waitMs])
      )[0] ?? {};
    const first = await watch(null, 600_000);
    expect(first.gone).toBe(false);
    expect(await watch(first.seen, 50)).toEqual(first);
    await sql(`insert into pgqueue.queue (task) values ('t')`);
    const second = await watch(first.seen, 600_000); // something moves: nobody waits
    expect(second).toMatchObject({ gone: false });
    expect(second.seen).not.toBe(first.seen);
    const waiting = watch(second.seen, 600_000);
    await until('it to wait', async () => {
      const rows = await sql('select from pg_locks where not granted and pid = $1', [standby.pid]);
      return rows.length === 1;
    });
    await leader.die();
    expect(await waiting).toMatchObject({ gone: true });
    expect(await sql(`select from pg_locks where locktype = 'advisory' and pid = $1`, [standby.pid])).toEqual(
      [],
    );
    await sql('delete from pgqueue.queue');
  });

  test('two that find it gone at one moment do not both lead', async () => {
    const leader = await session();
    await lead(leader, 'a', leader.pid);
    await leader.die();
    const others = await Promise.all(Array.from({ length: 8 }, session));
    const answers = await Promise.all(others.map((other, n) => lead(other, `b${n}`, other.pid)));
    expect(answers.flat().filter(({ leads }) => leads)).toHaveLength(1);
  });

  test('a leader that connects anew keeps its epoch, and is watched in its new session', async () => {
    const [first, second] = [await session(), await session()];
    const [{ epoch } = {}] = await lead(first, 'a', first.pid);
    await first.die();
    expect(await lead(second, 'a', second.pid)).toEqual([{ leads: true, epoch }]);
    expect(await gone()).toBe(false);
    await second.die();
    expect(await gone()).toBe(true);
  });

  test('one that renews by another session than its own is not watched: only its lease ends', async () => {
    const leader = await session();
    await lead(leader, 'a', leader.pid);
    await lead(leader, 'a', null);
    await leader.die();
    expect(await gone()).toBeNull();
    expect(await lead(await session(), 'b', null)).toMatchObject([{ leads: false }]);
    // a pooler that gives out sessions by the transaction has told its client another number
    const pooled = await session();
    await lead(pooled, 'a', pooled.pid + 1);
    expect(await gone()).toBeNull();
    expect(await sql(`select from pg_locks where locktype = 'advisory' and pid = $1`, [pooled.pid])).toEqual(
      [],
    );
  });

  test('the end of all sessions with the server says nothing of the leader', async () => {
    const leader = await session();
    await lead(leader, 'a', leader.pid);
    await sql(`update pgqueue.leader_session set server = server - interval '1 second'`);
    await leader.die();
    expect(await gone()).toBeNull();
    expect(await lead(await session(), 'b', null)).toMatchObject([{ leads: false }]);
  });

  test('who holds the lock of a leader, dead or alive, changes nothing', async () => {
    const [leader, hostile] = [await session(), await session()];
    await lead(leader, 'a', leader.pid);
    const [{ key } = {}] = await sql('select key::text as key from pgqueue.leader_session');
    expect(await hostile.sql('select pg_try_advisory_lock($1) as held', [key])).toEqual([{ held: false }]);
    const waiting = hostile.sql('select pg_advisory_lock($1)', [key]);
    await until('it to wait', async () => {
      const rows = await sql('select from pg_locks where not granted and pid = $1', [hostile.pid]);
      return rows.length === 1;
    });
    expect(await gone()).toBe(false);
    await leader.die();
    await waiting;
    expect(await gone()).toBe(true);
    expect(await lead(await session(), 'b', null)).toMatchObject([{ leads: true }]);
  });
});

describe('the session of a node', () => {
  const incarnation = randomUUID();
  const beat = (by: Pick<Session, 'sql'>, pid: number | null): ReturnType<typeof sql> =>
    by.sql('select alive from pgqueue.heartbeat_node($1, $2, p_pid => $3)', ['n', incarnation, pid]);
  let epoch: unknown;
  beforeEach(async () => {
    const [led] = await lead({ sql }, 'l', null);
    epoch = led?.['epoch'];
    await sql(`select pgqueue.register_node('n', '{}', p_incarnation => $1)`, [incarnation]);
  });
  const look = async (): ReturnType<typeof sql> => {
    const seen = await sql('select missing, changed from pgqueue.missing_nodes()');
    await sql(`select pgqueue.note_missing_nodes('l', $1)`, [epoch]);
    return seen;
  };
  const lose = (wellMs: number): ReturnType<typeof sql> =>
    sql(`select node_id from pgqueue.lose_nodes('l', $1, $2)`, [epoch, wellMs]);
  const later = (): ReturnType<typeof sql> =>
    sql(`update pgqueue.node_session set missed = missed - interval '3 seconds'`);

  test('once it has been missing for 3 s, and the leader was well as long, the node is lost', async () => {
    const node = await session();
    await beat(node, node.pid);
    expect(await look()).toEqual([{ missing: 0, changed: false }]);
    await node.die();
    expect(await look()).toEqual([{ missing: 1, changed: true }]);
    expect(await look()).toEqual([{ missing: 1, changed: false }]);
    expect(await lose(3_600_000)).toEqual([]);
    await later();
    expect(await lose(2_999)).toEqual([]);
    expect(await lose(3_000)).toEqual([{ node_id: 'n' }]);
    expect(await beat(await session(), null)).toEqual([{ alive: false }]);
  });

  test('a leader that can not connect anew says of none that it is lost', async () => {
    const node = await session();
    await beat(node, node.pid);
    await node.die();
    await look();
    await sql(`update pgqueue.node_session set missed = missed - interval '1 minute'`);
    let port = '1';
    const { look: lookFor } = createNodeSessions(database, ({ queryTimeoutMs }) => {
      const at = new URL(own.url);
      if (port !== '') at.port = port;
      return openLone({
        connectionString: at.href,
        schema: 'pgqueue',
        applicationName: 'look',
        queryTimeoutMs,
      });
    });
    const lost: number[] = [];
    const again = (): Promise<number> =>
      lookFor({ leader: 'l', epoch: Number(epoch) }, true, (wellMs) => {
        lost.push(wellMs);
        return Promise.resolve();
      });
    await expect(again()).rejects.toThrow(/ECONNREFUSED/);
    port = '';
    // well only from now on
    const beganAt = performance.now();
    while (lost.length === 0) await delay(await again());
    expect(performance.now() - beganAt).toBeGreaterThan(2_900);
    expect(lost[0]).toBeGreaterThanOrEqual(3_000);
  });

  test('a heartbeat from another one clears the suspicion, before it was looked at and after', async () => {
    const [first, second] = [await session(), await session()];
    await beat(first, first.pid);
    await first.die();
    await look();
    await later();
    await beat(second, second.pid);
    expect(await lose(3_600_000)).toEqual([]);
    expect(await look()).toEqual([{ missing: 0, changed: false }]);
    expect(await sql('select missed, pid from pgqueue.node_session')).toEqual([
      { missed: null, pid: second.pid },
    ]);
  });

  test('a heartbeat in no session of its own leaves silence alone to count', async () => {
    const node = await session();
    await beat(node, node.pid);
    await beat({ sql }, null);
    await node.die();
    expect(await look()).toEqual([{ missing: 0, changed: false }]);
    await beat(await session(), node.pid);
    expect(await sql('select from pgqueue.node_session')).toEqual([]);
  });

  test('a node that beats at this moment is not lost', async () => {
    const [first, second] = [await session(), await session()];
    await beat(first, first.pid);
    await first.die();
    await look();
    await later();
    await second.sql('begin');
    await beat(second, second.pid);
    expect(await lose(3_600_000)).toEqual([]);
    await second.sql('rollback');
    expect(await lose(3_600_000)).toEqual([{ node_id: 'n' }]);
  });

  test('a restart of the server, orderly or not, loses no node', async () => {
    const node = await session();
    await beat(node, node.pid);
    await sql(`update pgqueue.node_session set server = server - interval '1 second', missed = '-infinity'`);
    await node.die();
    expect(await look()).toEqual([{ missing: 0, changed: false }]);
    expect(await lose(3_600_000)).toEqual([]);
    expect(
      await sql(
        `select distinct relpersistence as kept from pg_class where relname in ('node_session', 'leader_session')`,
      ),
    ).toEqual([{ kept: 'u' }]); // a crash empties them
  });

  test('leaving takes it along, and the next incarnation has its own', async () => {
    const node = await session();
    await beat(node, node.pid);
    await sql(`select pgqueue.leave_node('n', $1)`, [incarnation]);
    expect(await sql('select from pgqueue.node_session')).toEqual([]);
    await beat(node, node.pid); // refused
    expect(await sql('select from pgqueue.node_session')).toEqual([]);
  });
});
