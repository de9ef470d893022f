import { createOperator, migrate } from '@pgqueue/postgres';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { now } from '../../support/actors/messages.ts';
import type { Base } from '../../support/servers/machine.ts';
import { createBase } from '../../support/servers/machine.ts';
import type { Cluster } from '../../support/servers/patroni.ts';
import { patroniLog, startPatroni } from '../../support/servers/patroni.ts';
import type { System } from '../../support/servers/system.ts';
import { startSystem } from '../../support/servers/system.ts';
import { lacks } from '../../support/tools.ts';
import { until } from '../../support/until.ts';

const missing = [lacks('postgresql-15'), lacks('patroni'), lacks('etcd')].includes(true);

let base: Base;
let cluster: Cluster;
let system: System;

beforeAll(async () => {
  if (missing) return;
  base = createBase();
  cluster = await startPatroni(base, ['one', 'two']);
  await migrate({ connectionString: cluster.address.url });
  system = await startSystem({ url: cluster.address.url, directUrl: cluster.directUrl });
});

afterAll(async () => {
  if (missing) return;
  await system.stop();
  await cluster.stop();
  await base.remove();
});

describe.skipIf(missing)('Patroni with synchronous_mode, under load', () => {
  test('the primary and its Patroni die: work goes on by itself, nothing is lost', async () => {
    await system.goesOn(now()); // everything has begun
    const before = system.acknowledged().length;
    const killedMs = now();
    const killed = await cluster.killPrimary();
    const recoveryMs = await system.goesOn(killedMs).catch((error: unknown) => {
      throw new Error(patroniLog(base, killed === 'one' ? 'two' : 'one'), { cause: error });
    });
    expect(cluster.primary()).not.toBe(killed);
    await until('more jobs to be acknowledged', () => system.acknowledged().length > before + 50);

    await system.finish();
    const { acknowledged, ...verdict } = await system.judge();
    console.log(JSON.stringify({ acknowledged, recoveryMs }));
    expect(verdict).toMatchObject({ lost: [], twice: [], dead: 0, died: [] });
    const operator = createOperator({ connectionString: cluster.directUrl() });
    try {
      expect(await operator.doctor()).toMatchObject({ healthy: true });
    } finally {
      await operator.close();
    }
  });
});
