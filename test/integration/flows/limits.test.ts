import { concurrency, fifo, policy } from '@pgqueue/core';
import { createSchedulerSteps } from '@pgqueue/scheduler/internal/steps';
import { expect, test } from 'vitest';
import { useDatabase } from '../../support/database.ts';

const own = useDatabase();
const { database } = own;

/** A node of a hundred slots that runs nothing. */
async function register(): Promise<void> {
  await database.query(
    `select pgqueue.register_node('n', '{"t": {"min": 1, "max": 1}}', 100, p_incarnation => gen_random_uuid())`,
    [],
  );
}

async function start(name: string, jobs: number): Promise<string> {
  const step = { name: 'a', jobs: Array.from({ length: jobs }, () => ({ task: 't', key: 'k' })) };
  const [row] = await database.query<{ id: string }>(
    `select flow_id as id from pgqueue.start_flow($1::jsonb)`,
    [JSON.stringify({ name, steps: [step] })],
  );
  return row?.id ?? '';
}

async function inFlight(): Promise<Record<string, number>> {
  const rows = await database.query<{ flow: string; jobs: number }>(
    `select coalesce(f.name, 'none') as flow, count(*)::integer as jobs
     from pgqueue.work_item w join pgqueue.queue q on q.id = w.id left join pgqueue.flow f on f.id = q.flow group by 1`,
    [],
  );
  return Object.fromEntries(rows.map(({ flow, jobs }) => [flow, jobs]));
}

test('a limit by flow counts the jobs of each flow, behind those of another flow in the same lane too', async () => {
  await register();
  await start('one', 30);
  await start('two', 30);
  await database.query(
    `insert into pgqueue.queue (task, key) select 't', 'k' from generate_series(1, 10)`,
    [],
  );
  const by = ({ flow }: { readonly flow?: string }): string | null => flow ?? null;
  const ofFlows = policy({
    name: 'of-flows',
    gates: [concurrency({ name: 'flow', by, limit: 3 })],
    order: fifo(),
  });
  const first = createSchedulerSteps({ connectionString: own.url, policy: ofFlows });
  await first.begin();
  const { held } = await first.step();
  await first.end();
  expect(await inFlight()).toEqual({ one: 3, two: 3, none: 10 });
  expect(Object.values(held['default'] ?? {})).toEqual([54]);
  // a leader that did not write the items counts them, too
  const second = createSchedulerSteps({ connectionString: own.url, policy: ofFlows });
  await second.begin();
  await second.step();
  await second.end();
  expect(await inFlight()).toEqual({ one: 3, two: 3, none: 10 });
});
