import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { NewJob } from '@pgqueue/core';
import { createOperator, migrate } from '@pgqueue/postgres';
import { createProducer } from '@pgqueue/producer';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { now } from '../../support/actors/messages.ts';
import { short } from '../../support/servers/actors/tasks.ts';
import type { Base } from '../../support/servers/machine.ts';
import { createBase } from '../../support/servers/machine.ts';
import type { Pair } from '../../support/servers/pair.ts';
import { startPair } from '../../support/servers/pair.ts';
import type { System } from '../../support/servers/system.ts';
import { startSystem } from '../../support/servers/system.ts';
import { lacks } from '../../support/tools.ts';
import { until } from '../../support/until.ts';

const missing = lacks('postgresql-15');

let base: Base;
let pair: Pair;
let system: System;
/** A file: the slow jobs end when it exists. */
let gate: string;

beforeAll(async () => {
  if (missing) return;
  base = createBase();
  gate = join(base.folder, 'gate');
  pair = await startPair({
    base,
    synchronous: false,
    prepare: (url) => migrate({ connectionString: url }),
  });
  system = await startSystem({ url: pair.address.url, directUrl: pair.directUrl, config: { charge: true } });
});

afterAll(async () => {
  if (missing) return;
  await system.stop();
  await pair.stop();
  await base.remove();
});

/** Enqueues jobs that are leased when the last log is shipped, and settled after that. */
async function enqueueSlow(): Promise<ReadonlySet<string>> {
  const producer = createProducer({ connectionString: pair.address.url });
  try {
    const payload = { ms: 0, tenant: 'slow', gate };
    const job = (): NewJob => short.job(payload, { timeout: '1h', priority: -1 });
    const enqueued = await producer.enqueueMany(Array.from({ length: 4 }, job));
    return new Set(enqueued.map(({ id }) => id));
  } finally {
    await producer.close();
  }
}

/** Waits until the standby has received everything that the primary has written up to this call. */
async function shippedAll(): Promise<boolean> {
  const [row] = await pair.primary().query<{ at: string }>('select pg_current_wal_insert_lsn()::text as at');
  return until('the standby to have it', async () => {
    const [has] = await pair
      .standby()
      .query<{ all: boolean }>(`select pg_last_wal_receive_lsn() >= '${row?.at}'::pg_lsn as all`);
    return has?.all;
  });
}

/** Rows of a table on the server that is the primary now. */
async function count(from: string): Promise<number> {
  const [row] = await pair
    .primary()
    .query<{ n: number }>(`select count(*)::integer as n from pgqueue.${from}`);
  return row?.n ?? NaN;
}

describe.skipIf(missing)('asynchronous replication, under load', () => {
  test('what was not shipped is lost, and counted; all that is left ends, and the doctor finds nothing that stays', async () => {
    await system.goesOn(now()); // everything has begun
    const settled = await enqueueSlow();
    const ends = (): number =>
      new Set(system.witnessed().flatMap(({ what, id }) => (what === 'end' && settled.has(id) ? [id] : [])))
        .size;
    const starts = (): number =>
      new Set(system.witnessed().flatMap(({ id }) => (settled.has(id) ? [id] : []))).size;
    await until('slow jobs to start', () => starts() === settled.size);
    await until('their claims to be shipped', shippedAll);
    // as readers of reports do, on the standby
    const [seen] = await pair
      .standby()
      .query<{ n: number }>('select count(*)::integer as n from pgqueue.job');
    expect(seen?.n).toBeGreaterThanOrEqual(settled.size);
    pair.partition();
    writeFileSync(gate, '');
    await until('slow jobs to end', () => ends() === settled.size);
    const shipped = system.acknowledged().length;
    await until(
      'jobs to be acknowledged that are not shipped',
      () => system.acknowledged().length >= shipped + 100,
    );
    const acknowledgedBefore = new Set(system.acknowledged().map(({ id }) => id));
    const failedMs = now();
    await pair.failOver();
    const recoveryMs = await system.goesOn(failedMs);
    // the feed of ended attempts is unlogged, and so empty after a promotion: it goes on, and so does the state that rests on it
    expect(await count('scheduler_lease where feed')).toBe(1);
    const saved = `policy_state where saved > to_timestamp(${failedMs / 1_000})`;
    await until('the policy to save its state', async () => (await count(saved)) > 0);
    await until('the feed to be read', async () => (await count('settlement')) < 500);

    const operator = createOperator({ connectionString: pair.directUrl() });
    try {
      // mended once, right after the failover, while everything runs
      const { findings, healthy } = await operator.doctor({ mend: true });
      expect({ findings, healthy }).toMatchObject({ healthy: true });
      await system.finish();
      const { lost, acknowledged, ranAgain, ...verdict } = await system.judge();
      console.log(
        JSON.stringify({
          acknowledged,
          lost: lost.length,
          ranAgain,
          recoveryMs,
          found: findings.map(({ check }) => check),
        }),
      );
      expect(verdict).toMatchObject({ twice: [], dead: 0, died: [] });
      expect(lost.length).toBeGreaterThanOrEqual(50);
      // the new primary believes that they run: their nodes release them, and they run again
      expect(ranAgain).toBeGreaterThanOrEqual(settled.size);
      expect(lost.filter((id) => !acknowledgedBefore.has(id))).toEqual([]);
      expect(await count('queue')).toBe(0);
      expect(await count('work_queue')).toBe(0);
      expect(await operator.doctor()).toMatchObject({ healthy: true });
    } finally {
      await operator.close();
    }
  });
});
