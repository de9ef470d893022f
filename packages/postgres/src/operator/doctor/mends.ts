import type { Database } from '../../connection/database.ts';
import { endlessFlows, idleSteps, tablesOfFlows } from './checks.ts';
import { jobsOfItems } from './invariants.ts';

/**
 * Mends of the doctor, by the name of the check. Each runs in a transaction of its own. It skips rows that
 * another session has locked, which are being changed at this moment, and finds nothing to do when repeated.
 * Work items are locked before jobs, as everywhere.
 */
export const mends: Readonly<Record<string, (schema: string) => readonly string[]>> = {
  // Every other statement removes both rows at once, so an item without its job is not a job that is just
  // ending.
  orphan_items: (schema) => [
    takeApart(schema, `not exists (select from ${schema}.queue q where q.id = u.id)`),
    `delete from ${schema}.work_queue where position = any (array(
       select w.position from ${schema}.work_queue w
       where w.id is not null and not exists (select from ${schema}.queue q where q.id = w.id) for update skip locked))`,
  ],
  items_of_delayed_jobs: (schema) => [
    ...takeBack(schema, 'q.run_after is not null'),
    `update ${schema}.queue set run_after = null where id = any (array(
       select q.id from ${schema}.queue q
       where q.run_after is not null and q.id in (select w.id from ${jobsOfItems(schema)} w)
       for update skip locked))`,
  ],
  items_that_differ: (schema) => takeBack(schema, '(w.task <> q.task or w.version <> q.payload_version)'),
  jobs_in_two_items: (schema) => [partDoubles(schema)],
  items_behind_front: (schema) => [`delete from ${schema}.work_front`],
  jobs_in_two_places: (schema) => [
    `select ${schema}.recall(array(select q.id from ${schema}.queue q where ${isDone(schema, 'q')}))`,
    `with gone as (
       delete from ${schema}.queue where id = any (array(
         select q.id from ${schema}.queue q
         where ${isDone(schema, 'q')} and q.id not in (select w.id from ${jobsOfItems(schema)} w)
         for update skip locked)) returning *)
     ${toHistory(schema, 'waited, and is done already')}`,
    `with gone as (
       delete from ${schema}.dead_letter d
       where exists (select from ${schema}.queue q where q.id = d.id and q.created <= d.died) or ${isDone(schema, 'd')}
       returning *)
     ${toHistory(schema, 'was dead, and waits, runs or is done as well')}`,
  ],
  leases_of_ended_nodes: (schema) => [
    `select r.* from (
       select distinct w.lock_key from ${schema}.work_queue w
       where w.lock_key is not null
         and not exists (select from ${schema}.node n where n.id = w.lock_key and n.state in ('alive', 'draining'))) gone,
     lateral ${schema}.reset_node(gone.lock_key) r`,
  ],
  expired_leases: (schema) => [`select count(*) from ${schema}.reap(100000)`],
  history_partitions: (schema) => [
    `select ${schema}.maintain_history(p_default_bytes => ${Number.MAX_SAFE_INTEGER})`,
  ],
  jobs_of_gone_flows: (schema) => [
    `update ${schema}.queue set flow = null, step = null where id = any (array(
       select q.id from ${schema}.queue q
       where q.flow is not null and not exists (select from ${schema}.flow_step s where s.flow = q.flow and s.step = q.step)
       for update skip locked))`,
  ],
  // The counts only tell the leader when to look for jobs: if it finds none, the step has ended.
  idle_steps: (schema) => [
    `with idle as materialized (${idleSteps(schema)} for update of s skip locked),
     counted as (
       update ${schema}.flow_step s set added = s.done + s.failed + s.other
       from idle i where s.flow = i.flow and s.step = i.step)
     insert into ${schema}.flow_tally (flow) select distinct i.flow from idle i`,
  ],
  endless_flows: (schema) => [`insert into ${schema}.flow_tally (flow) ${endlessFlows(schema)}`],
  rows_of_gone_flows: (schema) =>
    tablesOfFlows.map(
      (table) =>
        `delete from ${schema}.${table} t where not exists (select from ${schema}.flow f where f.id = t.flow)`,
    ),
  open_to_public: (schema) => [
    `revoke all on all tables in schema ${schema} from public`,
    `revoke all on all functions in schema ${schema} from public`,
    `revoke all on all sequences in schema ${schema} from public`,
  ],
};

/** Runs the mend of a check in one transaction. Waits up to 5 s for each lock. */
export async function mend({ schema, transaction }: Database, name: string): Promise<void> {
  const statements = mends[name]?.(schema) ?? [];
  await transaction(async (client) => {
    await client.query("set local lock_timeout = '5s'");
    for (const statement of statements) await client.query(statement);
  });
}

/** Returns SQL that takes apart the batches with a job for which `broken` is true; `u.id` is the job. */
function takeApart(schema: string, broken: string): string {
  return `select ${schema}.take_apart(array(
    select w.position from ${schema}.work_queue w
    where w.jobs is not null and exists (select from unnest(w.jobs) as u (id) where ${broken}) for update skip locked))`;
}

function takeBack(schema: string, broken: string): readonly string[] {
  return [
    takeApart(
      schema,
      `w.lock_key is null and exists (select from ${schema}.queue q where q.id = u.id and ${broken})`,
    ),
    `delete from ${schema}.work_queue where position = any (array(
       select w.position from ${schema}.work_queue w join ${schema}.queue q on q.id = w.id
       where w.lock_key is null and ${broken} for update of w skip locked))`,
  ];
}

/**
 * Returns SQL that removes all but one of the places of each job that is in several work items: a leased one
 * stays, else the first. The other jobs of a batch that loses a job get rows of their own, with the same
 * lease, at the positions where take_apart would put them.
 */
function partDoubles(schema: string): string {
  return `with places as materialized (
      select w.position, u.n, count(*) over (partition by u.id) as places,
             row_number() over (partition by u.id order by w.lock_key is null, w.position, u.n) as place
      from ${schema}.work_queue w cross join lateral unnest(coalesce(w.jobs, array[w.id])) with ordinality as u (id, n)
    ),
    doubles as materialized (select p.position, p.n from places p where p.places > 1 and p.place > 1),
    gone as (
      delete from ${schema}.work_queue where position = any (array(
        select w.position from ${schema}.work_queue w where w.position in (select d.position from doubles d) for update skip locked))
      returning *
    )
    insert into ${schema}.work_queue (position, id, version, pool, task, dispatched, lock_key, lock_token, lock_timeout, started)
    overriding system value
    select g.position + u.n, u.id, g.version, g.pool, g.task, g.dispatched, g.lock_key, g.lock_token, g.lock_timeout, g.started
    from gone g cross join lateral unnest(g.jobs) with ordinality as u (id, n)
    where (g.position, u.n) not in (select d.position, d.n from doubles d)
    order by g.position, u.n`;
}

/**
 * Returns SQL that tests whether the job of a row is done as well. A job that was created later only shares
 * its id with the done one.
 */
function isDone(schema: string, row: 'q' | 'd'): string {
  return `exists (select from ${schema}.history h
                  where h.id = ${row}.id and h.outcome = 'done' and h.finished >= ${row}.created)`;
}

/** Returns SQL that keeps the removed rows in HISTORY, as cancelled by the doctor: no job disappears. */
function toHistory(schema: string, why: string): string {
  const error = `jsonb_build_object('message', 'removed by the doctor: this job ${why}')`;
  return `insert into ${schema}.history
      (id, queue, task, key, priority, outcome, tries, crashes, created, finished, payload_version, unique_key, attributes, payload, errors, trace)
    select g.id, g.queue, g.task, g.key, g.priority, 'cancelled', g.tries, g.crashes, g.created, clock_timestamp(), g.payload_version,
           g.unique_key, g.attributes, g.payload, ${schema}.with_error(g.errors, ${error}, null, g.tries, clock_timestamp()), g.trace
    from gone g`;
}
