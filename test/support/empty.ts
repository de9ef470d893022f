/** In which jobs and nodes stand; items before jobs, as everyone locks them. */
export const jobTables = ['work_queue', 'queue', 'history', 'dead_letter', 'node'] as const;

/** In which flows stand. */
export const flowTables = ['flow', 'flow_step', 'flow_tally', 'flow_result'] as const;

/**
 * One statement that empties tables between tests. TRUNCATE makes files anew, of each table, index and partition: some 40 ms for
 * a test's few rows, where deleting them takes 4. Large ones are truncated all the same.
 */
export function emptying(tables: readonly string[]): string {
  const names = tables.map((table) => `pgqueue.${table}`);
  return `do $$ begin
    if pg_relation_size('pgqueue.queue') > 2000000 then
      truncate ${names.join(', ')};
    else
      ${names.map((name) => `delete from ${name};`).join(' ')}
    end if;
  end $$`;
}
