// Leases and nodes: heartbeats, cancellations, and processes that die, freeze, or are ended by others.
import { setTimeout as delay } from 'node:timers/promises';
import { schema } from '../ground.ts';
import type { Stage } from '../stage.ts';
import type { Case } from './case.ts';
import { every, expectFacts, expectThat } from './case.ts';

/** Runs one more job to its end: the worker goes on. */
export async function expectAlive(stage: Stage): Promise<void> {
  const { gate, open } = stage.gate();
  open();
  const row = await stage.ended(await stage.enqueue('hold', { gate }));
  expectFacts('the next job', row, { outcome: 'done', tries: 0, crashes: 0 });
}

/** Returns the token of a running job's lease. */
async function leaseOf(stage: Stage, job: string): Promise<unknown> {
  const [row] = await stage.sql(`select lock_token from ${schema}.work_item where id = $1`, [job]);
  return row?.['lock_token'];
}

const heartbeat: Case = {
  name: 'heartbeat',
  slow: true,
  tasks: ['hold'],
  run: async (stage) => {
    await stage.start({ lostAfterMs: 6_000 });
    const { gate, open } = stage.gate();
    const job = await stage.enqueue('hold', { gate });
    await stage.effect(job, 'started');
    await delay(8_000); // for longer than a silent node lives
    open();
    const row = await stage.ended(job);
    expectFacts('the job', row, { outcome: 'done', tries: 0, crashes: 0 });
  },
};

const timeout: Case = {
  name: 'timeout',
  tasks: ['hold'],
  run: async (stage) => {
    await Promise.all([stage.start(), stage.start()]);
    const { gate, open } = stage.gate();
    const backoff = every(10);
    const job = await stage.enqueue('hold', { gate }, { timeout: '2s', retry: backoff });
    await stage.effect(job, 'started', 2);
    open();
    const row = await stage.ended(job);
    const ended = Number(row['tries']) + Number(row['crashes']);
    expectThat(row['outcome'] === 'done', `the job is ${String(row['outcome'])}`);
    expectThat(ended >= 1, 'neither a try nor a crash was counted');
  },
};

const cancel: Case = {
  name: 'cancel',
  tasks: ['wait-cancelled', 'hold'],
  run: async (stage) => {
    await stage.start();
    const job = await stage.enqueue('wait-cancelled', {}, { timeout: '1h' });
    await stage.effect(job, 'started');
    await stage.ground.operator.jobs.cancel([job]);
    await stage.effect(job, 'cancelled');
    expectFacts('the job', await stage.ended(job), { outcome: 'cancelled', crashes: 0 });
    await expectAlive(stage);
  },
};

const kill: Case = {
  name: 'kill',
  slow: true,
  tasks: ['hold'],
  run: async (stage) => {
    const first = await stage.start({ lostAfterMs: 6_000 });
    const { gate, open } = stage.gate();
    const job = await stage.enqueue('hold', { gate }, { timeout: '1h' });
    await stage.effect(job, 'started');
    const second = await stage.start({ lostAfterMs: 6_000 });
    first.signal('SIGKILL');
    await stage.effect(job, 'started', 2);
    open();
    const row = await stage.ended(job);
    expectFacts('the job', row, { outcome: 'done', node: second.node, tries: 0, crashes: 1 });
  },
};

const freeze: Case = {
  name: 'freeze',
  slow: true,
  tasks: ['hold'],
  run: async (stage) => {
    const first = await stage.start();
    const { gate, open } = stage.gate();
    const job = await stage.enqueue('hold', { gate }, { timeout: '4s' });
    await stage.effect(job, 'started');
    first.signal('SIGSTOP');
    const second = await stage.start();
    await stage.effect(job, 'started', 2);
    open();
    expectFacts('the job', await stage.ended(job), { outcome: 'done', node: second.node, crashes: 1 });
    second.signal('SIGTERM');
    expectThat((await stage.exit(second)) === 0, 'the second worker failed');
    first.signal('SIGCONT'); // it finds the gate open, and settles what it has lost
    await expectAlive(stage);
    const rows = await stage.sql(`select node from ${schema}.history where id = $1`, [job]);
    expectFacts('the history', { rows }, { rows: [{ node: second.node }] });
  },
};

const reset: Case = {
  name: 'reset',
  tasks: ['hold'],
  run: async (stage) => {
    const worker = await stage.start();
    const { gate, open } = stage.gate();
    const job = await stage.enqueue('hold', { gate });
    await stage.effect(job, 'started');
    const token = await leaseOf(stage, job);
    await stage.ground.operator.nodes.reset(worker.node);
    await stage.until('the node to register again', async () => {
      const rows = await stage.sql(`select 1 from ${schema}.node where id = $1 and state = 'alive'`, [
        worker.node,
      ]);
      return rows.length > 0;
    });
    open();
    const row = await stage.ended(job);
    expectFacts('the job', row, { outcome: 'done', tries: 0, crashes: 1 });
    expectThat(row['token'] !== token, 'the stale lease has settled the job');
    await expectAlive(stage);
  },
};

const poison: Case = {
  name: 'poison',
  slow: true,
  tasks: ['poison', 'hold'],
  run: async (stage) => {
    const job = await stage.enqueue('poison', {});
    for (let deaths = 1; deaths <= 3; deaths += 1) {
      const worker = await stage.start();
      await stage.exit(worker);
      await stage.ground.operator.nodes.reset(worker.node);
    }
    const row = await stage.died(job);
    expectFacts('the job', row, { reason: 'crash_limit', crashes: 3 });
    await stage.start();
    await expectAlive(stage);
  },
};

export const leases: readonly Case[] = [heartbeat, timeout, cancel, kill, freeze, reset, poison];
