import { createOperator } from '@pgqueue/postgres';
import { lead, writeReport } from '@pgqueue/postgres/internal';
import type { DashboardBench } from './support.ts';

/** One job of each status, by its status. */
export type Scene = Readonly<Record<string, string | undefined>>;

/**
 * Inserts jobs of every status, the counts and the report of a leading scheduler, a queue with settings, and
 * a schedule.
 */
export async function setScene(bench: DashboardBench): Promise<Scene> {
  const ids = await fill(bench);
  await report(bench);
  const admin = createOperator({ connectionString: bench.url, schema: bench.schema });
  await admin.queues.set('mail', { rate: { perSecond: 2 }, weight: 3, paused: true });
  await admin.schedules.set({
    name: 'nightly',
    cron: '0 3 * * *',
    timezone: 'Europe/Berlin',
    task: 'hello',
    payload: { secret: 1 },
  });
  await admin.close();
  return ids;
}

async function fill({ insert, claim, sql }: DashboardBench): Promise<Scene> {
  const hex = '0af7651916cd43dd8448eb211c80319c';
  const trace = { traceparent: `00-${hex}-b7ad6b7169203331-01` };
  const payload = { customer: { id: 42, card: '4000' }, flags: [true] };
  await insert({ key: 'acme', payload, trace });
  const [done] = await claim('node-1', 1);
  await sql(`select $schema.ack($1::uuid, $2::uuid, '{"ok": true}')`, [done?.id, done?.token]);
  await insert({ key: 'acme', maxTries: 1, task: 'hello' });
  const [dead] = await claim('node-1', 1);
  await sql(`select $schema.nack($1::uuid, $2::uuid, 'user 17 was not found')`, [dead?.id, dead?.token]);
  await insert({ key: 'globex' });
  const [running] = await claim('node-1', 1);
  await sql(`select $schema.report_progress($1::uuid, $2::uuid, '{"page": 3}')`, [
    running?.id,
    running?.token,
  ]);
  const [cancelled] = await insert({ key: 'globex' });
  await sql('select * from $schema.cancel(array[$1::uuid])', [cancelled]);
  const [delayed] = await insert({ queue: 'mail', delayMs: 600_000 });
  // lists are sorted by ids, whose time has a resolution of one millisecond
  await sql('select pg_sleep(0.002)');
  const [pending] = await insert({ queue: 'mail', key: 'acme', priority: 7, payload });
  return { done: done?.id, dead: dead?.id, running: running?.id, cancelled, delayed, pending };
}

/** Writes the counts and the report of a leading scheduler. */
async function report(bench: DashboardBench): Promise<void> {
  const leader = 'test-dispatcher';
  const { epoch } = await lead(bench.database, leader, 60_000);
  await bench.sql(
    `update $schema.history set finished = finished - interval '20 s', started = finished - interval '21 s', created = finished - interval '23 s'`,
  );
  await bench.sql('select $schema.count_activity($1, $2, 5000)', [leader, epoch]);
  await writeReport(
    bench.database,
    { leader, epoch },
    {
      policy: 'fair',
      held: { mail: { rate: 5, no_free_slot: 2 }, default: { rate: 1 } },
      ticks: { count: 9, p50Ms: 1, p99Ms: 2, lastBatch: 3, dispatched: 4 },
      lanes: 2,
      inFlight: 1,
      faults: [
        {
          policy: 'fair',
          part: 'rate',
          message: 'no',
          count: 1,
          firstMs: 1_000,
          atMs: 2_000,
          suspendedUntilMs: null,
        },
      ],
      forecast: null,
      shadow: null,
    },
  );
  const state = {
    unit: 'jobs',
    pools: {
      default: {
        names: ['mail', 'default'],
        ahead: [0.5, 0],
        below: [{ names: ['acme', 'globex'], ahead: [3, -2], below: null }, null],
      },
    },
  };
  await bench.sql(
    `insert into $schema.policy_state (part, state, saved) values ('fair_share', $1::jsonb, clock_timestamp())`,
    [JSON.stringify(state)],
  );
}
