import { migrate } from '@pgqueue/postgres';
import { createProducer } from '@pgqueue/producer';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { now } from '../../support/actors/messages.ts';
import { long } from '../../support/servers/actors/tasks.ts';
import type { Base } from '../../support/servers/machine.ts';
import { createBase } from '../../support/servers/machine.ts';
import type { Pair } from '../../support/servers/pair.ts';
import { failOverFault, startPair } from '../../support/servers/pair.ts';
import type { System } from '../../support/servers/system.ts';
import { startSystem } from '../../support/servers/system.ts';
import { lacks } from '../../support/tools.ts';
import { until } from '../../support/until.ts';

const missing = lacks('postgresql-15');
/** A job of two hours, scaled down: so long it takes, through everything that happens here. */
const longMs = Number(process.env['PGQUEUE_LONG_JOB_MS'] ?? 24_000);
/** Longer than any of it takes on a busy machine, and shorter than the job. */
const leaseMs = 20_000;

let base: Base;
let pair: Pair;
let system: System;

beforeAll(async () => {
  if (missing) return;
  base = createBase();
  const prepare = (url: string): Promise<unknown> => migrate({ connectionString: url });
  pair = await startPair({ base, synchronous: true, prepare });
  system = await startSystem({ url: pair.address.url, directUrl: pair.directUrl });
});

afterAll(async () => {
  if (missing) return;
  await system.stop();
  await pair.stop();
  await base.remove();
});

async function enqueueLong(): Promise<string> {
  const producer = createProducer({ connectionString: pair.address.url });
  try {
    return (await producer.enqueue(long, { ms: longMs, leaseMs }, { timeout: `${leaseMs}ms` })).id;
  } finally {
    await producer.close();
  }
}

async function leader(): Promise<string> {
  const [row] = await pair.primary().query<{ leader: string }>('select leader from pgqueue.scheduler_lease');
  return ['leader', 'standby'].find((name) => row?.leader.startsWith(name) === true) ?? 'nobody';
}

describe.skipIf(missing)('synchronous replication, under load', () => {
  test('three restarts of the primary, a new leader and a failover: nothing lost, a long job runs once', async () => {
    const job = await enqueueLong();
    // claims commit asynchronously: one of the last second may be gone with the server
    const old = (): boolean => system.witnessed('long').some(({ atMs }) => atMs < now() - 1_500);
    await until('the long job to have run for a while', old);
    const recoveryMs: Record<string, number> = {};

    for (const how of ['immediate', 'kill', 'fast'] as const) {
      await (how === 'kill' ? pair.primary().kill() : pair.primary().stop(how));
      await pair.primary().start();
      recoveryMs[how] = await system.goesOn(now());
    }

    const killed = await leader();
    system.actors.get(killed)?.signal('SIGKILL');
    recoveryMs['leader-kill'] = await system.goesOn(now());

    const { start, heal } = failOverFault(pair, { synchronous: true }).make(() => 0);
    for (const what of ['failover', 'failover of the new one']) {
      const failedMs = now();
      await start();
      recoveryMs[what] = await system.goesOn(failedMs);
      await heal();
    }

    await system.finish(longMs + 300_000);
    const { acknowledged, ...verdict } = await system.judge();
    console.log(JSON.stringify({ acknowledged, recoveryMs }));
    expect(acknowledged).toBeGreaterThan(100);
    expect(verdict).toMatchObject({ lost: [], twice: [], dead: 0, died: [`${killed}: SIGKILL`] });
    const lines = system.witnessed('long').map(({ what, id }) => `${what} ${id}`);
    expect(lines).toEqual([`start ${job}`, `end ${job}`]);
    const ended = await pair
      .primary()
      .query(`select outcome, tries, crashes from pgqueue.history where id = '${job}'`);
    expect(ended).toEqual([{ outcome: 'done', tries: 0, crashes: 0 }]);
  });
});
