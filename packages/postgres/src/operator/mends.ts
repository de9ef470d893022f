import type { Database } from '../database.ts';

/**
 * How the doctor mends, by the name of the check. Each runs in a transaction of its own, skips what another session has
 * locked (that is being changed at this moment; ask again), and finds nothing to do when it is repeated. Work items are
 * locked before jobs, as everywhere.
 */
export const mends: Readonly<Record<string, (schema: string) => readonly string[]>> = {
  // Both rows go in one statement everywhere, so an item without its job is no job on its way out.
  orphan_items: (schema) => [
    `delete from ${schema}.work_queue where position = any (array(
       select w.position from ${schema}.work_queue w
       where not exists (select from ${schema}.queue q where q.id = w.id) for update skip locked))`,
  ],
  items_of_delayed_jobs: (schema) => [
    takeBack(schema, 'q.run_after is not null'),
    `update ${schema}.queue set run_after = null where id = any (array(
       select q.id from ${schema}.queue q
       where q.run_after is not null and exists (select from ${schema}.work_queue w where w.id = q.id)
       for update skip locked))`,
  ],
  items_that_differ: (schema) => [takeBack(schema, '(w.task <> q.task or w.version <> q.payload_version)')],
  jobs_in_two_places: (schema) => [
    `select ${schema}.recall(array(select q.id from ${schema}.queue q where ${isDone(schema, 'q.id')}))`,
    `delete from ${schema}.queue where id = any (array(
       select q.id from ${schema}.queue q
       where ${isDone(schema, 'q.id')} and not exists (select from ${schema}.work_queue w where w.id = q.id)
       for update skip locked))`,
    `delete from ${schema}.dead_letter d
     where exists (select from ${schema}.queue q where q.id = d.id) or ${isDone(schema, 'd.id')}`,
  ],
  leases_of_ended_nodes: (schema) => [
    `select r.* from (
       select distinct w.lock_key from ${schema}.work_queue w
       where w.lock_key is not null
         and not exists (select from ${schema}.node n where n.id = w.lock_key and n.state in ('alive', 'draining'))) gone,
     lateral ${schema}.reset_node(gone.lock_key) r`,
  ],
  expired_leases: (schema) => [`select count(*) from ${schema}.reap(100000)`],
  history_partitions: (schema) => [`select ${schema}.maintain_history()`],
  open_to_public: (schema) => [
    `revoke all on all tables in schema ${schema} from public`,
    `revoke all on all functions in schema ${schema} from public`,
    `revoke all on all sequences in schema ${schema} from public`,
  ],
};

/** Runs the mend of this name, in one transaction. */
export async function mend({ schema, transaction }: Database, name: string): Promise<void> {
  const statements = mends[name]?.(schema) ?? [];
  await transaction(async (client) => {
    await client.query("set local lock_timeout = '5s'");
    for (const statement of statements) await client.query(statement);
  });
}

function takeBack(schema: string, broken: string): string {
  return `delete from ${schema}.work_queue where position = any (array(
    select w.position from ${schema}.work_queue w join ${schema}.queue q on q.id = w.id
    where w.lock_key is null and ${broken} for update of w skip locked))`;
}

function isDone(schema: string, id: string): string {
  return `exists (select from ${schema}.history h where h.id = ${id} and h.outcome = 'done')`;
}
