// Connections that break, lost replies, a restart, a pooler.
import { setTimeout as delay } from 'node:timers/promises';
import type { CutProxy } from '../../support/cut-proxy.ts';
import { startCutProxy } from '../../support/cut-proxy.ts';
import { startPgBouncer } from '../../support/pgbouncer.ts';
import { createBase } from '../../support/servers/machine.ts';
import { createPostgres } from '../../support/servers/server.ts';
import { openGround, schema } from '../ground.ts';
import type { Stage } from '../stage.ts';
import { onStage } from '../stage.ts';
import type { Case } from './case.ts';
import { every, expectFacts, expectThat } from './case.ts';
import { expectAlive } from './leases.ts';

async function throughProxy(stage: Stage, act: (proxy: CutProxy) => Promise<void>): Promise<void> {
  const proxy = await startCutProxy(stage.ground.workerUrl);
  try {
    await act(proxy);
  } finally {
    await proxy.close();
  }
}

const lostReply: Case = {
  name: 'lost-reply',
  tasks: ['hold'],
  run: (stage) =>
    throughProxy(stage, async (proxy) => {
      await stage.start({ url: proxy.url });
      const { gate, open } = stage.gate();
      const job = await stage.enqueue('hold', { gate });
      await stage.effect(job, 'started');
      proxy.cutReplyOf(/\b(?:settle|settle_rows|ack)"?\(/);
      open();
      expectFacts('the job', await stage.ended(job), { outcome: 'done', tries: 0, crashes: 0 });
      await stage.until('the reply to be cut', () => proxy.cuts() > 0);
      await expectAlive(stage);
    }),
};

const cut: Case = {
  name: 'cut',
  tasks: ['hold'],
  run: (stage) =>
    throughProxy(stage, async (proxy) => {
      await stage.start({ url: proxy.url });
      const { gate, open } = stage.gate();
      const job = await stage.enqueue('hold', { gate });
      await stage.effect(job, 'started');
      proxy.reset();
      await delay(200);
      proxy.reset();
      open();
      expectFacts('the job', await stage.ended(job), { outcome: 'done', tries: 0, crashes: 0 });
      await expectAlive(stage);
    }),
};

const restart: Case = {
  name: 'restart',
  slow: true,
  tasks: ['hold'],
  tools: ['postgresql-15'],
  run: async ({ command, waitMs }) => {
    const base = createBase();
    try {
      const server = await createPostgres({ base, name: 'restarted' });
      await server.start();
      const ground = await openGround(server.url);
      try {
        await onStage({ ground, command, waitMs, name: 'restart' }, async (stage) => {
          await stage.start();
          const { gate, open } = stage.gate();
          const job = await stage.enqueue('hold', { gate });
          await stage.effect(job, 'started');
          await server.stop('fast');
          open(); // it settles while there is no server
          await delay(500);
          await server.start();
          expectFacts('the job', await stage.ended(job), { outcome: 'done', tries: 0, crashes: 0 });
          await expectAlive(stage);
        });
      } finally {
        await ground.close();
        await server.stop('fast');
      }
    } finally {
      await base.remove();
    }
  },
};

const pooler: Case = {
  name: 'pooler',
  tasks: ['ack', 'nack'],
  tools: ['pgbouncer'],
  run: async (stage) => {
    const bouncer = await startPgBouncer(stage.ground.workerUrl, 2);
    try {
      await stage.start({ url: bouncer.url, listen: false });
      const backoff = every(20);
      const failing = { message: 'once', times: 1 };
      const jobs = await Promise.all([
        ...Array.from({ length: 20 }, () => stage.enqueue('ack', { result: 'pooled' })),
        ...Array.from({ length: 5 }, () => stage.enqueue('nack', failing, { retry: backoff })),
      ]);
      for (const job of jobs) expectFacts('a job', await stage.ended(job), { outcome: 'done', crashes: 0 });
    } finally {
      await bouncer.stop();
    }
  },
};

const written = (stage: Stage, job: string): ReturnType<Stage['sql']> =>
  stage.sql('select value from conformance.written where job = $1', [job]);

const transaction: Case = {
  name: 'transaction',
  tasks: ['transaction'],
  run: async (stage) => {
    await stage.start();
    const backoff = every(20);
    const job = await stage.enqueue('transaction', { value: 7, times: 1 }, { retry: backoff });
    const row = await stage.ended(job);
    expectFacts('the job', row, { outcome: 'done', tries: 1, crashes: 0 });
    expectFacts('the writes', { rows: await written(stage, job) }, { rows: [{ value: 7 }] });
    const [made] = await stage.sql(
      `select h.xmin::text = w.xmin::text as together from ${schema}.history h join conformance.written w on w.job = h.id where h.id = $1`,
      [job],
    );
    expectThat(made?.['together'] === true, 'the write and the settlement are not of one transaction');
  },
};

const commit: Case = {
  name: 'commit',
  tasks: ['transaction', 'hold'],
  run: (stage) =>
    throughProxy(stage, async (proxy) => {
      await stage.start({ url: proxy.url });
      await expectAlive(stage);
      proxy.cutReplyOf(/\bcommit\b/i);
      const job = await stage.enqueue('transaction', { value: 8, times: 0 });
      await stage.until('the reply of the COMMIT to be cut', () => proxy.cuts() > 0);
      expectFacts('the job', await stage.ended(job), { outcome: 'done', tries: 0, crashes: 0 });
      expectFacts('the writes', { rows: await written(stage, job) }, { rows: [{ value: 8 }] });
      await expectAlive(stage);
    }),
};

export const connections: readonly Case[] = [lostReply, cut, restart, transaction, commit, pooler];
