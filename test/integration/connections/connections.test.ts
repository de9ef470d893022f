import dns from 'node:dns';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createOperator, migrate } from '@pgqueue/postgres';
import { channelName, createHints, openDatabase, openLone, startListener } from '@pgqueue/postgres/internal';
import type { Executor } from '@pgqueue/postgres';
import type { Listener } from '@pgqueue/postgres/internal';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { useDatabase } from '../../support/database.ts';
import { until } from '../scheduler/support.ts';

const own = useDatabase();
let admin: pg.Client;
beforeAll(async () => {
  admin = new pg.Client({ connectionString: own.url });
  await admin.connect();
});
afterAll(() => admin.end());

/** Ends the backends of that name; how many there were. */
async function terminate(name: string, state = '%'): Promise<number> {
  const { rowCount } = await admin.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
     where application_name = $1 and datname = current_database() and state like $2`,
    [name, state],
  );
  return rowCount ?? 0;
}

test('a database that is closed has no connection left, so that its server can stop without an error', async () => {
  const errors: unknown[] = [];
  for (let round = 0; round < 20; round += 1) {
    const database = openDatabase({
      connectionString: own.url,
      applicationName: 'closes',
      onError: (error) => errors.push(error),
    });
    await Promise.all(Array.from({ length: 4 }, () => database.query('select 1', [])));
    await database.close();
    expect(await terminate('closes')).toBe(0);
  }
  expect(errors).toEqual([]);
});

test('an address of several that all refuse is told with each of them', async () => {
  const { lookup } = dns;
  onTestFinished(() => void (dns.lookup = lookup));
  const addresses = ['127.0.0.1', '127.0.0.2'].map((address) => ({ address, family: 4 }));
  dns.lookup = ((_host: string, _options: unknown, tell: (error: null, found: unknown) => void) =>
    tell(null, addresses)) as typeof lookup;
  const at = {
    connectionString: 'postgres://several.example:1/none',
    schema: 'pgqueue',
    applicationName: 'a',
  };
  const told = expect.objectContaining({
    message: 'connect ECONNREFUSED 127.0.0.1:1; connect ECONNREFUSED 127.0.0.2:1',
  }) as unknown;
  const database = openDatabase(at);
  const lone = openLone({ ...at, queryTimeoutMs: 30_000 });
  const failed = Promise.withResolvers<unknown>();
  const listener = startListener({ ...at, channels: [], onHint: () => {}, onError: failed.resolve });
  const errors = [
    database.query('select 1', []),
    database.transaction((client) => client.query('select 1')),
    lone.query('select 1', []),
  ].map((one: Promise<unknown>) => one.catch((error: unknown) => error));
  expect(await Promise.all([...errors, failed.promise])).toEqual([told, told, told, told]);
  await Promise.all([database.close(), listener.stop()]);
});

test('a Unix socket is named as the driver takes it', async () => {
  const { hostname, port, username, pathname } = new URL(own.url);
  const folder = mkdtempSync(join(tmpdir(), 'pgqueue-socket-'));
  // the server of the tests listens on no socket of its own
  const relay = createServer((socket) => {
    const server = connect(Number(port), hostname);
    socket.pipe(server).pipe(socket);
    for (const end of [socket, server]) end.on('error', () => [socket, server].map((each) => each.destroy()));
  });
  await new Promise<void>((done) => relay.listen(join(folder, '.s.PGSQL.5731'), done));
  try {
    for (const connectionString of [
      `postgres://${username}@${pathname}?host=${folder}&port=5731`,
      `postgresql://${username}@${pathname}?host=${encodeURIComponent(folder)}&port=5731`,
      `socket://${username}@${folder}?db=${pathname.slice(1)}&port=5731`,
    ]) {
      const operator = createOperator({ connectionString });
      await expect(operator.check()).resolves.toBeUndefined();
      await operator.close();
    }
  } finally {
    relay.close();
    rmSync(folder, { recursive: true });
  }
});

test('an onError that throws ends no process: the broken connection is replaced', async () => {
  const errors: unknown[] = [];
  const database = openDatabase({
    connectionString: own.url,
    applicationName: 'tells',
    onError: (error) => {
      errors.push(error);
      throw new Error('and again');
    },
  });
  await database.query('select 1', []);
  expect(await terminate('tells')).toBe(1);
  await until('onError', () => errors.length > 0);
  expect(await database.query('select 1 as one', [])).toEqual([{ one: 1 }]);
  await database.close();
});

describe('listener', () => {
  const channel = channelName('pgqueue', 'work');

  async function listening(
    run: (heard: string[], errors: unknown[], listener: Listener) => Promise<void>,
  ): Promise<void> {
    const heard: string[] = [];
    const errors: unknown[] = [];
    const listener = startListener({
      connectionString: own.url,
      channels: [channel, channelName('pgqueue', 'done')],
      onHint: (name, payload) => heard.push(`${name} ${payload}`),
      onError: (error) => errors.push(error),
      applicationName: 'ears',
      heartbeatMs: 100,
    });
    try {
      await run(heard, errors, listener);
    } finally {
      await listener.stop();
    }
  }

  test('hints once on every channel when it connects, hears notifications, and stops at once', async () => {
    await listening(async (heard, errors, listener) => {
      await until('both hints', () => heard.length === 2);
      expect(heard).toEqual([`${channel} `, 'pgqueue:done ']);
      await admin.query(`select pg_notify($1, 'pool')`, [channel]);
      await until('the notification', () => heard.length === 3);
      expect(heard[2]).toBe(`${channel} pool`);
      expect(listener.hearing()).toBe(true);
      await listener.stop();
      expect(listener.hearing()).toBe(false);
      await admin.query(`select pg_notify($1, 'late')`, [channel]);
      expect([heard.length, errors]).toEqual([3, []]);
    });
  });

  test('reconnects after its backend was killed, and hints for what it missed', async () => {
    await listening(async (heard, errors) => {
      await until('both hints', () => heard.length === 2);
      expect(await terminate('ears')).toBe(1);
      await until('hints after the reconnect', () => heard.length === 4);
      expect(errors).toHaveLength(1);
      await admin.query(`select pg_notify($1, 'again')`, [channel]);
      await until('a notification on the new connection', () => heard.at(-1) === `${channel} again`);
    });
  });

  test('goes on trying while there is no server, and can be stopped meanwhile', async () => {
    const errors: unknown[] = [];
    const listener = startListener({
      connectionString: 'postgres://postgres@127.0.0.1:1/none',
      channels: [channel],
      onHint: () => {},
      onError: (error) => errors.push(error),
    });
    await until('two attempts', () => errors.length >= 2);
    await listener.stop();
    expect(errors[0]).toMatchObject({ code: 'ECONNREFUSED' });
  });
});

describe('hints', () => {
  test('a thousand wishes make a few notifications: the first at once, one at the end', async () => {
    const database = openDatabase({ connectionString: own.url, connectionsMax: 2 });
    const heard: string[] = [];
    await admin.query('listen "pgqueue:queue"');
    admin.on('notification', ({ channel }) => heard.push(channel));
    const hints = createHints(database, 'pgqueue', 'queue', 20);
    for (let wish = 0; wish < 1_000; wish += 1) hints.send();
    await until('the first and the last', () => heard.length === 2);
    await hints.stop();
    hints.send();
    await admin.query('unlisten *');
    await database.close();
    expect(heard).toHaveLength(2);
  });

  test('a slow database has one hint under way, not one per interval', async () => {
    let underWay = 0;
    let most = 0;
    let sent = 0;
    const gate = Promise.withResolvers<void>();
    const slow: Executor = {
      query: async <Row>() => {
        underWay += 1;
        sent += 1;
        most = Math.max(most, underWay);
        if (sent === 1) await gate.promise;
        underWay -= 1;
        if (sent === 3) throw new Error('lost: costs a polling interval');
        return [] as readonly Row[];
      },
    };
    const hints = createHints(slow, 'pgqueue', 'queue', 1);
    const wishes = setInterval(() => hints.send(), 1);
    let turns = 0;
    await until('some intervals to pass', () => (turns += 1) > 10);
    expect([sent, most]).toEqual([1, 1]);
    gate.resolve();
    await until('more hints, also after one that failed', () => sent > 4);
    clearInterval(wishes);
    await hints.stop();
    expect(most).toBe(1);
  });
});

describe('pools', () => {
  const pools = {
    'its own': () =>
      openDatabase({ connectionString: own.url, applicationName: 'victim', connectionsMax: 2 }),
    given: () => {
      const pool = new pg.Pool({ connectionString: own.url, application_name: 'victim', max: 2 });
      pool.on('error', () => {});
      return { ...openDatabase({ pool }), close: () => pool.end() };
    },
  } as const;

  test.each(Object.entries(pools))(
    'a backend that is killed within a transaction fails it, not the process: pool %s',
    async (_name, open) => {
      const database = open();
      const failed = database.transaction(async (client) => {
        await client.query('select 1');
        expect(await terminate('victim', 'idle in transaction')).toBe(1);
        await until(
          'the client to hear of it',
          async () =>
            (await admin.query(`select 1 from pg_stat_activity where application_name = 'victim'`))
              .rowCount === 0,
        );
        await new Promise((resolve) => setImmediate(resolve));
        await client.query('select 2');
      });
      await expect(failed).rejects.toThrow(/terminat|not queryable|closed/i);
      expect(await database.query('select 3 as n', [])).toEqual([{ n: 3 }]);
      await database.close();
    },
  );

  test('an idle connection that breaks is reported, and replaced', async () => {
    const errors: Error[] = [];
    const database = openDatabase({
      connectionString: own.url,
      applicationName: 'idler',
      onError: (error) => errors.push(error),
    });
    await database.query('select 1', []);
    await terminate('idler');
    await until('the error', () => errors.length > 0);
    expect(await database.query('select 2 as n', [])).toEqual([{ n: 2 }]);
    await database.close();
  });

  test('a connection that does not answer in time is destroyed at once, not asked for a rollback', async () => {
    const database = openDatabase({
      connectionString: own.url,
      applicationName: 'wedged',
      queryTimeoutMs: 500,
      connectionsMax: 1,
    });
    const wedged = async (): Promise<void> => {
      await expect(database.transaction((client) => client.query('select pg_sleep(60)'))).rejects.toThrow(
        'Query read timeout',
      );
    };
    await wedged();
    expect(database.pool.totalCount).toBe(0);
    expect(await database.query('select 1 as n', [])).toEqual([{ n: 1 }]);
    await expect(database.query('select pg_sleep(60)', [])).rejects.toThrow('Query read timeout');
    expect(await database.query('select 2 as n', [])).toEqual([{ n: 2 }]);
    await database.close();
    // the server notices only when it has slept; the session in order may still be on its way out
    expect(await terminate('wedged', 'active')).toBe(2);
  });

  test('a transaction is read committed, whatever the default', async () => {
    await admin.query(`alter database ${own.test.name} set default_transaction_isolation = 'serializable'`);
    const database = openDatabase({ connectionString: own.url, connectionsMax: 1 });
    const level = await database.transaction((client) => client.query('show transaction_isolation'));
    await database.close();
    await migrate({ connectionString: own.url });
    await admin.query(`alter database ${own.test.name} reset default_transaction_isolation`);
    expect(level.rows).toEqual([{ transaction_isolation: 'read committed' }]);
  });
});
