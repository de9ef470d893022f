import { randomUUID } from 'node:crypto';
import { openDatabase } from '@pgqueue/postgres/internal';
import { expect, test } from 'vitest';
import { load } from '../../proofs/fleet.ts';
import { breachesOf, limitsRun } from '../../proofs/limits.ts';
import { record, recordedItems } from '../../proofs/recorder.ts';
import { useDatabase } from '../../support/database.ts';

const database = useDatabase({ each: true });

test('limit 5 by tenant over three queues: 8 processes, killed and frozen like their leader, never have more', async () => {
  const { breaches, twice, findings, ...report } = await limitsRun({
    url: database.url,
    seconds: 12,
    seed: 1,
  });
  expect({ breaches, twice, findings }).toEqual({ breaches: [], twice: [], findings: [] });
  expect(report.done).toBe(report.enqueued);
  // each limit was reached, so it could have been broken
  expect(Object.values(report.most)).toEqual([5, 5, 5, 5]);
}, 600_000);

test('one work item too many, written past the scheduler, is seen', async () => {
  const admin = openDatabase({ connectionString: database.url });
  try {
    await record(admin);
    await load(admin, { count: 6, tenant: 'north' });
    const write = (count: number): Promise<unknown> =>
      admin.query(
        `insert into pgqueue.work_queue (id, version, pool, task)
         select q.id, 1, 'default', q.task from pgqueue.queue q
         where not exists (select from pgqueue.work_queue w where w.id = q.id) order by q.seq limit $1`,
        [count],
      );
    await write(5);
    expect(breachesOf(await recordedItems(admin))).toEqual([]);
    await write(1);
    expect(breachesOf(await recordedItems(admin))).toEqual([expect.stringContaining('north: 6 at')]);
    // an item that ended first would have made room; what a transaction takes back never was
    await admin.query(
      'delete from pgqueue.work_queue where position = (select min(position) from pgqueue.work_queue)',
      [],
    );
    const client = await admin.pool.connect();
    await client.query('begin');
    await client.query(
      `insert into pgqueue.work_queue (id, version, pool, task) values ($1, 1, 'default', 'work')`,
      [randomUUID()],
    );
    await client.query('rollback');
    client.release();
    const items = await recordedItems(admin);
    expect(items).toHaveLength(6);
    expect(items[0]?.endedMs).toBeGreaterThan(items[5]?.insertedMs ?? Infinity);
  } finally {
    await admin.close();
  }
});
