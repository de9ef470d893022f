// The database's own record of a run: triggers that write down each life of a work item in the same
// transaction, a check of the invariants every second, and the final state of every job.
import { setTimeout as delay } from 'node:timers/promises';
import { breaches, fromPg, invariants } from '@pgqueue/postgres/internal';
import pg from 'pg';
import type { Write } from './record.ts';

/**
 * Each job of a batch has a life of its own, in the order of the batch. When a batch is taken apart, its old
 * row is deleted, and the lives of its jobs continue in the new rows, which have the number of the same
 * dispatch. `began` and `over` are drawn from one sequence: `began` when the row is written, `over` by a
 * deferred constraint trigger right before the commit that removes the row. The stretch between them is the
 * widest possible, and no clock affects their order.
 */
const ddl = `
  create schema chaos;
  create table chaos.witness (job uuid not null);
  create table chaos.application (op text primary key);
  create sequence chaos.moment;
  create table chaos.item (
    position float8 not null, place bigint not null, id uuid not null, queue text not null, key text not null, tenant text not null, seq bigint not null,
    tries integer not null, began bigint not null, over bigint, dispatched timestamptz not null);
  create index on chaos.item (place);
  create index on chaos.item (id);
  create function chaos.on_insert() returns trigger language plpgsql as $$
  begin
    update chaos.item i set place = new.position
    where i.id = any (coalesce(new.jobs, array[new.id])) and i.dispatched = new.dispatched and i.over is null
      and not exists (select from pgqueue.work_queue w where w.position = i.place);
    insert into chaos.item (position, place, id, queue, key, tenant, seq, tries, began, dispatched)
    select new.position + (u.n - 1) * 0.001, new.position, q.id, q.queue, q.key, coalesce(q.attributes ->> 'tenant', ''), q.seq, q.tries,
           nextval('chaos.moment'), new.dispatched
    from unnest(coalesce(new.jobs, array[new.id])) with ordinality u (id, n) join pgqueue.queue q on q.id = u.id
    where not exists (select from chaos.item i where i.id = u.id and i.place = new.position);
    return null;
  end $$;
  create function chaos.on_delete() returns trigger language plpgsql as $$
  begin
    update chaos.item set over = nextval('chaos.moment') where place = old.position and over is null;
    return null;
  end $$;
  create trigger chaos_insert after insert on pgqueue.work_queue for each row execute function chaos.on_insert();
  create constraint trigger chaos_delete after delete on pgqueue.work_queue deferrable initially deferred
    for each row execute function chaos.on_delete();
`;

export async function installAudit(url: string): Promise<void> {
  await withClient(url, (client) => client.query(ddl));
}

/** Application name of the bench's own sessions: no fault ends them on purpose. */
export const benchName = 'chaos bench';

async function withClient<Result>(
  url: string,
  work: (client: pg.Client) => Promise<Result>,
): Promise<Result> {
  const client = new pg.Client({
    connectionString: url,
    application_name: benchName,
    connectionTimeoutMillis: 3_000,
    query_timeout: 120_000,
  });
  client.on('error', () => {}); // faults stop and kill the server: the next query reports it
  try {
    await client.connect();
    return await work(client);
  } finally {
    await client.end().catch(() => {});
  }
}

/** Selects the number of jobs left, and the age of the oldest job that could run. */
const sampleSql = `
  select (select count(*)::integer from pgqueue.queue) as jobs,
         (select count(*)::integer from pgqueue.work_item where lock_key is not null) as running,
         coalesce((select extract(epoch from clock_timestamp() - min(q.created))::float8 * 1000 from pgqueue.queue q
                   where q.run_after is null and q.tries = 0 and q.id not in (select w.id from pgqueue.work_item w where w.lock_key is not null)), 0) as oldest`;

/**
 * The invariants that are cheap enough for every second: the one left out reads all of HISTORY, and would
 * soon take more of the machine than the load does.
 */
const quick = invariants.filter(({ name }) => name !== 'jobs_in_two_places');
const wholeEvery = 15;

/**
 * Checks the invariants every second, each time in one snapshot of the database, until told to stop. Skips a
 * check while the database does not answer.
 */
export async function watch(url: string, write: Write, stopped: AbortSignal): Promise<void> {
  let looks = 0;
  while (!stopped.aborted) {
    await withClient(url, async (client) => {
      while (!stopped.aborted) {
        looks += 1;
        await client.query('begin isolation level repeatable read read only');
        const checked = looks % wholeEvery === 0 ? invariants : quick;
        const found = await breaches({ ...fromPg(client), schema: 'pgqueue' }, checked);
        const { rows } = await client.query<{ jobs: number; running: number; oldest: number }>(sampleSql);
        await client.query('commit');
        write({
          type: 'snapshot',
          broken: found.map(
            ({ name, count, samples }) => `${name}: ${count} (${samples.slice(0, 3).join(', ')})`,
          ),
        });
        const [sample] = rows;
        if (sample !== undefined) {
          const { jobs, running, oldest } = sample;
          write({ type: 'sample', waiting: jobs - running, running, oldestMs: Math.round(oldest) });
        }
        await pause(1_000, stopped);
      }
    }).catch(() => pause(300, stopped));
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, undefined, { signal }).catch(() => {});
}

/** Returns the number of jobs that have not ended; undefined while the database does not answer. */
export async function jobsLeft(url: string): Promise<number | undefined> {
  try {
    return await withClient(url, async (client) => {
      const { rows } = await client.query<{ n: number }>('select count(*)::integer as n from pgqueue.queue');
      return rows[0]?.n;
    });
  } catch {
    return undefined;
  }
}

const finalSql = `
  select f.id, f.task, f.state, f.token, coalesce(w.n, 0)::integer as witnesses
  from (select id, task, 'open' as state, null::uuid as token from pgqueue.queue
        union all select id, task, outcome, token from pgqueue.history
        union all select id, task, 'dead', token from pgqueue.dead_letter) f
  left join (select job, count(*) as n from chaos.witness group by job) w on w.job = f.id`;

const itemsSql = `
  select id, position, queue, key, tenant as group, seq::float8 as seq, tries, began::float8 as "from", over::float8 as "to",
         extract(epoch from dispatched)::float8 * 1000 as "dispatchedMs"
  from chaos.item`;

/** Writes the last lines of a history. */
export async function exportAudit(url: string, write: Write): Promise<void> {
  await withClient(url, async (client) => {
    for (const row of (await client.query(finalSql)).rows) write({ type: 'final', ...row });
    for (const row of (await client.query(itemsSql)).rows) write({ type: 'item', ...row });
  });
}
