// Leases of ten minutes and silences of an hour: what happens here in time, happens because a session has ended.
import { setTimeout as delay } from 'node:timers/promises';
import { migrate } from '@pgqueue/postgres';
import { openDatabase } from '@pgqueue/postgres/internal';
import type { Database } from '@pgqueue/postgres';
import { createProducer } from '@pgqueue/producer';
import { afterEach, describe, expect, test } from 'vitest';
import type { Actor } from '../../support/actors.ts';
import { startActor } from '../../support/actors.ts';
import { hold, quick } from '../../support/actors/tasks.ts';
import type { TestDatabase } from '../../support/database.ts';
import { createTestDatabase } from '../../support/database.ts';
import type { PgBouncer } from '../../support/pgbouncer.ts';
import { startPgBouncer } from '../../support/pgbouncer.ts';
import type { Base } from '../../support/servers/machine.ts';
import { createBase } from '../../support/servers/machine.ts';
import type { PostgresServer } from '../../support/servers/server.ts';
import { createPostgres } from '../../support/servers/server.ts';
import { lacks } from '../../support/tools.ts';
import { until } from '../../support/until.ts';

const noServer = lacks('postgresql-15'); // Debian's server, which a test can stop and start
const noPgBouncer = lacks('pgbouncer');

let url: string;
let database: Database;
let actors: Actor[] = [];
let ends: (() => Promise<unknown>)[] = [];

async function onDatabase(): Promise<TestDatabase> {
  const own = await createTestDatabase();
  ends.push(() => own.drop());
  open(own.url);
  return own;
}

function open(at: string): void {
  url = at;
  const opened = openDatabase({ connectionString: url, connectionsMax: 2 });
  database = opened;
  ends.push(() => opened.close());
}

afterEach(async () => {
  await Promise.all(actors.map((actor) => actor.stop()));
  for (const end of ends.toReversed()) await end();
  actors = [];
  ends = [];
});

async function start(kind: 'scheduler' | 'worker', name: string, at = url): Promise<Actor> {
  const options =
    kind === 'worker' ? { lostAfterMs: 3_600_000, holds: name === 'holder' } : { leaseMs: 600_000 };
  const actor = await startActor(kind, { url: at, name, options });
  actors.push(actor);
  return actor;
}

const sql = (text: string, values: readonly unknown[] = []): Promise<readonly Record<string, unknown>[]> =>
  database.query(text, values);

const leader = async (): Promise<Record<string, unknown>> => {
  const [row] = await sql(
    `select split_part(leader, '-', 1) as name, epoch::integer as epoch from pgqueue.scheduler_lease`,
  );
  return row ?? {};
};

async function leads(name: string): Promise<void> {
  await until(`${name} to lead`, async () => (await leader())['name'] === name);
}

const heard = (actor: Actor, type: string): Actor['heard'] =>
  actor.heard.filter((said) => said.type === type);

const nodeSession = async (node = 'holder'): Promise<unknown> =>
  (await sql('select pid from pgqueue.node_session where node = $1', [node]))[0]?.['pid'];

/** Another node is killed, and found: so long the scheduler has looked at all of them. */
async function untilOneIsLost(): Promise<void> {
  const doomed = await start('worker', 'doomed');
  await until('its session to be known', async () => (await nodeSession('doomed')) !== undefined);
  doomed.signal('SIGKILL');
  await until('it to be lost', async () => {
    const [row] = await sql(`select state from pgqueue.node where id = 'doomed'`);
    return row?.['state'] === 'lost';
  });
}

/** Three jobs, which the one node holds. */
async function jobsHeld(): Promise<Actor> {
  const holder = await start('worker', 'holder');
  await enqueue(3);
  await until('three jobs to be held', () => heard(holder, 'started').length === 3);
  await until('its session to be known', async () => (await nodeSession()) !== undefined);
  return holder;
}

async function enqueue(count: number): Promise<void> {
  const producer = createProducer({ connectionString: url });
  await producer.enqueueMany(Array.from({ length: count }, (_, n) => hold.job({ n })));
  await producer.close();
}

const doneElsewhere = (): Promise<true> =>
  until('three jobs to be done elsewhere', async () => {
    const rows = await sql(`select from pgqueue.history where node = 'other' and outcome = 'done'`);
    return rows.length === 3;
  });

/** The node kept what it holds all that time, and ends it. */
async function keepsAll(holder: Actor): Promise<void> {
  expect(heard(holder, 'node.ended')).toEqual([]);
  expect(heard(holder, 'node.registered')).toHaveLength(1);
  holder.tell('finish');
  await until('its jobs to be done', async () => {
    const rows = await sql(`select node, outcome, crashes from pgqueue.history`);
    if (rows.length < 3) return false;
    expect(rows).toEqual(Array.from({ length: 3 }, () => ({ node: 'holder', outcome: 'done', crashes: 0 })));
    return true;
  });
}

describe('a process that is killed with -9', () => {
  test('a leader: the standby leads, and so does one that starts late', async () => {
    await onDatabase();
    const first = await start('scheduler', 'one');
    await leads('one');
    await start('scheduler', 'two');
    const { epoch } = await leader();
    first.signal('SIGKILL');
    await leads('two');
    expect(await leader()).toEqual({ name: 'two', epoch: Number(epoch) + 1 });
    actors.at(-1)?.signal('SIGKILL');
    await start('scheduler', 'late');
    await leads('late');
    expect(await leader()).toEqual({ name: 'late', epoch: Number(epoch) + 2 });
  });

  test('a leader, just when an idle system gets work: its standby had waited for long, and looks on', async () => {
    await onDatabase();
    const first = await start('scheduler', 'one');
    await leads('one');
    await start('scheduler', 'two');
    const waits = async (): Promise<boolean> => {
      const rows = await sql(`select from pg_locks where locktype = 'advisory' and not granted`);
      return rows.length > 0;
    };
    await until('the standby to wait', waits);
    await delay(1_500);
    await enqueue(1);
    await until('the standby to look', async () => !(await waits()));
    first.signal('SIGKILL');
    // a standby that took its wait for a slow look would look away for 5 s
    const beganMs = performance.now();
    await leads('two');
    expect(performance.now() - beganMs).toBeLessThan(3_500);
  });

  test('a node: others have its jobs', async () => {
    await onDatabase();
    await start('scheduler', 'one');
    const holder = await jobsHeld();
    await start('worker', 'other');
    holder.signal('SIGKILL');
    await doneElsewhere();
    expect(await sql('select distinct node, crashes from pgqueue.history')).toEqual([
      { node: 'other', crashes: 1 },
    ]);
  });

  test('a node and the leader at once: the next leader finds it', async () => {
    await onDatabase();
    const first = await start('scheduler', 'one');
    const holder = await jobsHeld();
    await start('scheduler', 'two');
    await start('worker', 'other');
    first.signal('SIGKILL');
    holder.signal('SIGKILL');
    await doneElsewhere();
    expect(await leader()).toMatchObject({ name: 'two' });
  });
});

describe('a process that lives, and loses only its session', () => {
  test('a node connects anew, and keeps its jobs', async () => {
    await onDatabase();
    await start('scheduler', 'one');
    const holder = await jobsHeld();
    for (let round = 0; round < 3; round += 1) {
      const before = await nodeSession();
      await sql('select pg_terminate_backend($1)', [before]);
      await until('another session', async () => ![undefined, before].includes(await nodeSession()));
    }
    await untilOneIsLost();
    expect(await sql(`select state from pgqueue.node where id = 'holder'`)).toEqual([{ state: 'alive' }]);
    await keepsAll(holder);
  });

  test('a leader: one leads afterwards, in one epoch, and goes on', async () => {
    await onDatabase();
    const schedulers = [await start('scheduler', 'one'), await start('scheduler', 'two')];
    await until('one to lead', async () => (await leader())['name'] !== null);
    await start('worker', 'other');
    for (let round = 0; round < 5; round += 1) {
      const before = await sql('select pid from pgqueue.leader_session');
      await sql('select pg_terminate_backend(pid) from pgqueue.leader_session');
      await until('another session', async () => {
        const rows = await sql('select pid from pgqueue.leader_session');
        return rows.length === 1 && rows[0]?.['pid'] !== before[0]?.['pid'];
      });
    }
    // it hears of a lost epoch with its next write or renewal
    await enqueue(3);
    await until('jobs to be done', async () => (await sql('select from pgqueue.history')).length === 3);
    const { epoch } = await leader();
    const elections = schedulers.flatMap((one) =>
      heard(one, 'leader.elected').map((said) => Number(said['epoch'])),
    );
    expect(elections.toSorted((a, b) => a - b)).toEqual(
      Array.from({ length: Number(epoch) }, (_, n) => n + 1),
    );
  });
});

describe.skipIf(noServer)('where all sessions end at once', () => {
  let base: Base;
  let server: PostgresServer;

  async function onServer(): Promise<void> {
    base = createBase();
    ends.push(() => base.remove());
    server = await createPostgres({ base, name: 'restarting' });
    await server.start();
    await migrate({ connectionString: server.url });
    open(server.url);
  }

  const crash = async (): Promise<void> => {
    const [row] = await sql('select pid from pgqueue.node_session');
    process.kill(Number(row?.['pid']), 'SIGKILL'); // then the postmaster ends all others, and goes on
  };
  const restart = (mode: 'fast' | 'immediate') => async (): Promise<void> => {
    await server.stop(mode);
    await delay(4_000); // as long as a node could be missing
    await server.start();
  };

  test.each([
    ['an orderly restart', restart('fast')],
    ['a crash', restart('immediate')],
    ['a backend that crashes', crash],
  ])('%s: no node is lost, and the leader stays', async (_name, strike) => {
    await onServer();
    await start('scheduler', 'one');
    await leads('one');
    await start('scheduler', 'two');
    const holder = await jobsHeld();
    const before = await leader();
    const [session] = await sql('select pid, server::text from pgqueue.leader_session');
    await sql('checkpoint'); // claims don't wait for the disk: a crash may undo those of its last second
    await strike();
    await until('both sessions to be known again', async () => {
      const rows = await sql(
        `select l.pid, l.server::text from pgqueue.leader_session l, pgqueue.node_session n where n.server = l.server`,
      ).catch(() => []);
      return rows.length === 1 && JSON.stringify(rows[0]) !== JSON.stringify(session);
    });
    await untilOneIsLost();
    expect(await leader()).toEqual(before);
    await keepsAll(holder);
  });
});

describe.skipIf(noPgBouncer)('behind a pooler that gives out sessions by the transaction', () => {
  let bouncer: PgBouncer;

  test('no session is taken for a process: neither leader nor node is watched', async () => {
    const own = await onDatabase();
    bouncer = await startPgBouncer(own.url, 4);
    ends.push(() => bouncer.stop());
    await start('scheduler', 'one', bouncer.url);
    await leads('one');
    await start('worker', 'pooled', bouncer.url);
    const beats = new Set<unknown>();
    await until('five heartbeats', async () => {
      const [row] = await sql(`select heartbeat::text as beat from pgqueue.node where id = 'pooled'`);
      return beats.add(row?.['beat']).size > 5;
    });
    expect(await sql('select from pgqueue.leader_session')).toEqual([]);
    expect(await sql('select from pgqueue.node_session')).toEqual([]);
    expect(
      await sql(`select from pg_locks where locktype = 'advisory' and database =
        (select oid from pg_database where datname = current_database())`),
    ).toEqual([]);
    actors[0]?.signal('SIGKILL');
    // directly: but nothing tells it that the leader is gone
    const standby = await start('scheduler', 'two');
    expect(await sql('select pgqueue.leader_gone() as gone')).toEqual([{ gone: null }]);
    expect(heard(standby, 'leader.elected')).toEqual([]);
    await sql(`update pgqueue.scheduler_lease set expires = clock_timestamp()`);
    await sql(`select pg_notify('pgqueue:leader', '')`);
    await leads('two');
    const producer = createProducer({ connectionString: url });
    await producer.enqueue(quick, { n: 1, tenant: 't' });
    await producer.close();
    await until('the pooled node to work for it', async () => {
      const rows = await sql(`select from pgqueue.history where node = 'pooled'`);
      return rows.length === 1;
    });
  });
});
