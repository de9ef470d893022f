import type { NewJob } from '@pgqueue/core';
import { migrate } from '@pgqueue/postgres';
import { createProducer } from '@pgqueue/producer';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { now } from '../../support/actors/messages.ts';
import { short } from '../../support/servers/actors/tasks.ts';
import type { Clock } from '../../support/servers/clock.ts';
import { createClock, wrongClock } from '../../support/servers/clock.ts';
import type { Base } from '../../support/servers/machine.ts';
import { createBase } from '../../support/servers/machine.ts';
import type { PostgresServer } from '../../support/servers/server.ts';
import { createPostgres } from '../../support/servers/server.ts';
import type { System } from '../../support/servers/system.ts';
import { startSystem } from '../../support/servers/system.ts';
import { lacks } from '../../support/tools.ts';
import { until } from '../../support/until.ts';

const missing = [lacks('postgresql-15'), lacks('faketime')].includes(true);
const hours = 3_600;

let base: Base;
let clock: Clock;
let server: PostgresServer;

beforeAll(async () => {
  if (missing) return;
  base = createBase();
  clock = createClock(base, 'server');
  server = await createPostgres({ base, name: 'clocked', env: clock.env });
  await server.start();
  await migrate({ connectionString: server.url });
});

afterAll(async () => {
  if (missing) return;
  await base.remove();
});

/** Jobs whose leases would last for an hour. */
async function enqueueHeld(): Promise<ReadonlySet<string>> {
  const producer = createProducer({ connectionString: server.url });
  try {
    const job = (): NewJob => short.job({ ms: 1_000, tenant: 'held' }, { timeout: '1h', priority: -1 });
    const enqueued = await producer.enqueueMany(Array.from({ length: 4 }, job));
    return new Set(enqueued.map(({ id }) => id));
  } finally {
    await producer.close();
  }
}

async function leaderOf(system: System): Promise<string> {
  return until('somebody to lead', async () => {
    const [row] = await server.query<{ leader: string | null }>('select leader from pgqueue.scheduler_lease');
    return [...system.actors.keys()].find((name) => row?.leader?.startsWith(`${name}-`) === true);
  });
}

describe.skipIf(missing)('wrong clocks', () => {
  test("two hours wrong on any node changes nothing: leases and due times are the database's", async () => {
    const [ahead, behind] = [wrongClock(2 * hours), wrongClock(-2 * hours)];
    const env = { leader: ahead, standby: behind, 'node-1': ahead, 'node-2': behind, producer: behind };
    // no machine is so busy that a leader is lost for it
    const config = { schedulerLeaseMs: 30_000, lostAfterMs: 60_000 };
    const system = await startSystem({ url: server.url, env, config });
    try {
      await until('jobs to run', () => system.witnessed().length > 200);
      await system.finish();
      expect(await system.judge()).toMatchObject({ lost: [], twice: [], dead: 0, ranAgain: 0, died: [] });
      const harm = ['node.lost', 'node.ended', 'leases.reaped', 'leader.lost', 'job.stale', 'job.timeout'];
      expect(system.told(harm)).toEqual([]);
    } finally {
      await system.stop();
    }
  });

  test("the database's clock goes a day ahead, then two hours back, while a leader and a node die: no stall, nothing lost", async () => {
    const system = await startSystem({ url: server.url, config: { heartbeatMs: 500, lostAfterMs: 5_000 } });
    const recoveryMs: { [what: string]: number } = {};
    try {
      await system.goesOn(now()); // everything has begun
      clock.set(24 * hours);
      recoveryMs['a day ahead'] = await system.goesOn(now());

      const held = await enqueueHeld();
      const holder = await until(
        'a node to run one of them',
        () => system.witnessed().find(({ id }) => held.has(id))?.node,
      );
      // neither of them says anything more once the clock is two hours behind
      const victims = [await leaderOf(system), holder];
      for (const name of victims) system.actors.get(name)?.signal('SIGSTOP');
      clock.set(22 * hours);
      for (const name of victims) system.actors.get(name)?.signal('SIGKILL');
      recoveryMs['two hours back'] = await system.goesOn(now());
      const backMs = now();
      await system.finish();
      recoveryMs["a dead node's jobs"] = Math.round(now() - backMs);

      const { died, ...verdict } = await system.judge();
      console.log(JSON.stringify({ acknowledged: verdict.acknowledged, recoveryMs }));
      expect(verdict).toMatchObject({ lost: [], twice: [], dead: 0 });
      expect(died.toSorted()).toEqual(victims.map((name) => `${name}: SIGKILL`).toSorted());
    } finally {
      await system.stop();
    }
  });
});
