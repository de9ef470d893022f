import { randomUUID } from 'node:crypto';
import { createScheduler } from '@pgqueue/scheduler';
import { expect, onTestFinished, test } from 'vitest';
import { useDatabase } from '../../support/database.ts';
import { until } from '../../support/until.ts';

const own = useDatabase();

test('a flow whose start commits after the leader has looked for it ends, though nothing else happens', async () => {
  let ticks = 0;
  const scheduler = createScheduler({
    connectionString: own.url,
    observe: ({ type }) => void (ticks += type === 'tick' ? 1 : 0),
  });
  onTestFinished(() => scheduler.stop());
  await scheduler.start();
  await until('it to lead', () => scheduler.leads);
  const id = randomUUID();
  const client = await own.database.pool.connect();
  try {
    await client.query('begin');
    await client.query('select * from pgqueue.start_flow($1::jsonb)', [
      JSON.stringify({ id, name: 'late', steps: [{ name: 'empty', jobs: [] }] }),
    ]);
    // ticks see that a number was drawn
    const from = ticks;
    await until('ticks to pass', () => ticks > from + 5);
    await client.query('commit');
  } finally {
    client.release();
  }
  const state = await until('the flow to end', async () => {
    const [row] = await own.sql('select state from pgqueue.flow where id = $1', [id]);
    return row?.state !== 'open' && String(row?.state);
  });
  expect(state).toBe('done');
});
