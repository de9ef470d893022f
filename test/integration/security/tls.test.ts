// Encrypted connections: made where the server is who it should be, and refused where it is not, for everything that connects.
import { fileURLToPath } from 'node:url';
import { defineTask, implement } from '@pgqueue/core';
import type { PgQueueEvent } from '@pgqueue/core';
import { createOperator, migrate } from '@pgqueue/postgres';
import { startListener } from '@pgqueue/postgres/internal';
import { createProducer } from '@pgqueue/producer';
import { createScheduler } from '@pgqueue/scheduler';
import { createPuller, createWorker } from '@pgqueue/worker';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { cli, startCli } from '../../support/cli.ts';
import type { TlsServer } from '../../support/tls-server.ts';
import { startTlsServer } from '../../support/tls-server.ts';
import { lacks } from '../../support/tools.ts';
import { until } from '../../support/until.ts';

const task = defineTask({ name: 'hello', payload: z.looseObject({}) });
const hello = implement(task, () => 'hello');
const tasksFile = fileURLToPath(new URL('../../support/modules/cli-tasks.ts', import.meta.url));

/** How Node's TLS says so, which depends on what the authorities have in common. */
const refusal = /certificate|signature/i;

async function thenClose(work: Promise<unknown>, close: () => Promise<unknown>): Promise<void> {
  try {
    await work;
  } finally {
    await close();
  }
}

/** Connects in each way; rejects with what the connection met. */
const ways: Readonly<Record<string, (connectionString: string) => Promise<void>>> = {
  producer: (connectionString) => {
    const producer = createProducer({ connectionString });
    return thenClose(producer.enqueue(task, {}), async () => producer.close());
  },
  scheduler: (connectionString) => {
    const scheduler = createScheduler({ connectionString });
    return thenClose(scheduler.start(), scheduler.stop);
  },
  worker: (connectionString) => {
    const worker = createWorker({ connectionString, tasks: [hello] });
    return thenClose(worker.start(), async () => worker.stop());
  },
  puller: (connectionString) => {
    const puller = createPuller({ connectionString, tasks: ['hello'] });
    return thenClose(puller.claim(), async () => puller.close());
  },
  operator: (connectionString) => {
    const operator = createOperator({ connectionString });
    return thenClose(operator.check(), operator.close);
  },
  migrator: async (connectionString) => void (await migrate({ connectionString })),
  listener: (connectionString) => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const listener = startListener({
      connectionString,
      channels: ['pgqueue:work'],
      onHint: () => resolve(),
      onError: reject,
    });
    return thenClose(promise, listener.stop);
  },
};

describe.skipIf(lacks('openssl'))('TLS', () => {
  let server: TlsServer;
  const full = (sslrootcert: string): string => server.url({ sslmode: 'verify-full', sslrootcert });

  beforeAll(async () => {
    server = await startTlsServer();
  });
  afterAll(() => server.stop());

  describe.each(Object.entries(ways))('verify-full: %s', (_name, connect) => {
    test('connects to the right host, by the right authority', async () => {
      await expect(connect(full(server.ca))).resolves.toBeUndefined();
    });

    test('refuses a certificate of another authority', async () => {
      await expect(connect(full(server.otherCa))).rejects.toMatchObject({
        message: expect.stringMatching(refusal),
      });
    });

    test('refuses one that the system’s authorities have not signed', async () => {
      await expect(connect(server.url({ sslmode: 'verify-full' }))).rejects.toMatchObject({
        code: 'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
      });
    });

    test('refuses an address that the certificate does not name', async () => {
      const url = server.url({ sslmode: 'verify-full', sslrootcert: server.ca }, '127.0.0.1');
      await expect(connect(url)).rejects.toMatchObject({ code: 'ERR_TLS_CERT_ALTNAME_INVALID' });
    });
  });

  describe('the command', () => {
    test('connects, or ends with 1 and says why', async () => {
      const address = server.url({ sslmode: 'verify-full', sslrootcert: server.ca }, '127.0.0.1');
      const [right, wrong, worker, host] = await Promise.all([
        cli(['status', '--database-url', full(server.ca)]),
        cli(['status', '--database-url', full(server.otherCa)]),
        cli(['worker', '--tasks', tasksFile, '--database-url', full(server.otherCa)]),
        cli(['status', '--database-url', address]),
      ]);
      expect(right).toMatchObject({ code: 0, stderr: '' });
      for (const { code, stderr } of [wrong, worker]) {
        expect({ code, stderr }).toEqual({
          code: 1,
          stderr: expect.stringMatching(refusal),
        });
      }
      expect(wrong.stderr).toContain('a file that is named there already is not that of its authority');
      expect(host).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('connect by a name that is in its certificate'),
      });
    });

    test('what runs, with its listener, has no session that is not encrypted', async () => {
      const started = ['scheduler', 'worker'].map((role) => {
        const tasks = role === 'worker' ? ['--tasks', tasksFile] : [];
        return startCli([role, ...tasks, '--database-url', full(server.ca)]);
      });
      await Promise.all(started.map(({ says }) => says('ready')));
      await until('both to listen', async () => {
        const { tls, plain } = await server.sessions();
        expect(plain).toEqual([]);
        return tls.filter((name) => name.includes('listener')).length === 2;
      });
      for (const { process } of started) process.kill('SIGTERM');
      for (const { ended } of started) expect((await ended).code).toBe(0);
    });
  });

  describe('other modes', () => {
    test.each(['prefer', 'require', 'verify-ca'])(
      '%s is taken as verify-full by this version of pg: it is never weaker than it says',
      async (sslmode) => {
        const { operator: connect } = ways;
        await connect?.(server.url({ sslmode, sslrootcert: server.ca }));
        await expect(connect?.(server.url({ sslmode, sslrootcert: server.otherCa }))).rejects.toThrow(
          refusal,
        );
        const address = server.url({ sslmode, sslrootcert: server.ca }, '127.0.0.1');
        await expect(connect?.(address)).rejects.toMatchObject({ code: 'ERR_TLS_CERT_ALTNAME_INVALID' });
      },
    );

    test('a mode that is mistyped is not weaker, either', async () => {
      const wrong = server.url({ sslmode: 'verify_full', sslrootcert: server.otherCa });
      await expect(ways['operator']?.(wrong)).rejects.toThrow(refusal);
    });

    test('a file of authorities that is not there is an error that names its option', () => {
      const missing = server.url({ sslmode: 'verify-full', sslrootcert: '/nowhere/ca.crt' });
      expect(() => ways['operator']?.(missing)).toThrow(/sslrootcert can't be read: ENOENT/);
    });

    test('without a mode, the connection is not encrypted', async () => {
      const operator = createOperator({ connectionString: server.url({}), applicationName: 'in the open' });
      await operator.check();
      expect((await server.sessions()).plain).toContain('in the open');
      await operator.close();
    });
  });

  test('a server that becomes another host is refused from then on, and the leader says so', async () => {
    const events: PgQueueEvent[] = [];
    const scheduler = createScheduler({ connectionString: full(server.ca), observe: (e) => events.push(e) });
    await scheduler.start();
    await until('it to lead', () => scheduler.leads);
    await server.present('elsewhere.example');
    await expect(ways['producer']?.(full(server.ca))).rejects.toMatchObject({
      code: 'ERR_TLS_CERT_ALTNAME_INVALID',
    });
    await server.end('pgqueue scheduler');
    const refused = (event: PgQueueEvent): boolean =>
      event.type === 'database.error' &&
      (event.error as { readonly code?: unknown }).code === 'ERR_TLS_CERT_ALTNAME_INVALID';
    await until('it to say why it can’t connect', () => events.some(refused));
    await server.present('localhost');
    await until('it to lead again', () => scheduler.leads);
    await scheduler.stop();
  });
});
