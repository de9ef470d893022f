import type pg from 'pg';
import { flowTables } from '../../support/empty.ts';

/** Tables that statements of flows read. */
export const readTables = [...flowTables, 'queue'] as const;

async function vacuum(client: pg.Client): Promise<void> {
  for (const table of readTables) await client.query(`vacuum analyze pgqueue.${table}`);
}

/**
 * Inserts open flows of ten steps, each of which waits for the one before: the first has a job in QUEUE, the
 * others keep theirs. A fifth of the flows has a tally, a fifth is to be stopped, and each has a result.
 */
async function load(client: pg.Client, flows: number): Promise<void> {
  const run = (sql: string): Promise<unknown> => client.query(sql, [flows]);
  await client.query(`create temp table made (id uuid, n integer); `);
  await run(`insert into made select pgqueue.uuid_v7(), n from generate_series(1, $1::integer) n`);
  await client.query(`
    insert into pgqueue.flow (id, name, unique_key, deadline)
      select id, 'f', 'u' || id, clock_timestamp() + (n - 50) * interval '1 second' from made;
    insert into pgqueue.flow_step (flow, step, name, kind, state, needs, feeds, conditions, open_needs, added, delay, due, stop, unreleased, jobs)
      select id, s, 's' || s, case when s = 5 then 'timer' else 'jobs' end, case when s = 0 then 'open' else 'blocked' end,
             case when s > 0 then array[s - 1] else '{}' end, case when s < 9 then array[s + 1] else '{}' end, case when s < 9 then array['done'] else '{}' end, (s > 0)::integer,
             case when s = 5 then 0 else 1 end, case when s = 5 then interval '1 day' end, null, s = 0 and n % 5 = 0,
             (s not in (0, 5))::integer, case when s not in (0, 5) then '{"[{\\"task\\": \\"t\\"}]"}'::jsonb[] end
      from made, generate_series(0, 9) s;
    insert into pgqueue.flow_result (flow, step, job, outcome, result) select id, 0, pgqueue.uuid_v7(), 'done', '{}' from made;
    insert into pgqueue.flow_tally (flow, step, done) select id, 0, 1 from made where n % 5 = 1;
    insert into pgqueue.queue (task, queue, key, flow, step) select 't', 'q', 'k' || n % 100, id, 0 from made where n % 5 <> 1;
    drop table made`);
}

/** States of the tables, and of the statistics on them. */
export const states: Readonly<Record<string, (client: pg.Client) => Promise<void>>> = {
  empty: vacuum,
  stale: async (client) => {
    await load(client, 20);
    await vacuum(client);
    await load(client, 20_000);
  },
  'stale, seen empty': async (client) => {
    await vacuum(client);
    await load(client, 20_000);
  },
  'stale, seen ended': async (client) => {
    await load(client, 2_000);
    await client.query(`
      update pgqueue.flow_step set state = 'ended', outcome = 'done', ended = clock_timestamp(), stop = false, unreleased = 0, jobs = null;
      update pgqueue.flow set state = 'done', ended = clock_timestamp();
      delete from pgqueue.flow_tally; delete from pgqueue.flow_result; delete from pgqueue.queue`);
    await vacuum(client);
    await load(client, 20_000);
  },
  // pages, and not one row in them: the planner compares plans that cost the same to it
  'stale, seen emptied': async (client) => {
    await load(client, 2_000);
    for (const table of readTables) await client.query(`delete from pgqueue.${table}`);
    for (const table of readTables) await client.query(`analyze pgqueue.${table}`);
    await load(client, 20_000);
  },
  large: async (client) => {
    await load(client, 20_000);
    await vacuum(client);
  },
};
