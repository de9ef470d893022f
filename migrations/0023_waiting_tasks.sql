-- pgqueue 0023: of what tasks the waiting jobs are, at a cost that does not grow with them.
-- compatible: yes

-- By queue, task and version of the payload. All that wait, up to p_max; of more, those of the sample that queue_numbers takes and the
-- thousand smallest ids: what nobody runs stays, and gets to be among the oldest. Then jobs is how many of those were met.
create function waiting_tasks(p_max integer default 10000)
  returns table (queue text, task text, payload_version integer, jobs bigint)
  language plpgsql stable security definer
  set search_path from current
  set plan_cache_mode = force_custom_plan
  set jit = off
  set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_clean boolean := pg_stat_get_dead_tuples('queue'::regclass) <= 20 * p_max;
  v_all boolean := v_clean and (select count(*) from (select from queue q where q.run_after is null
                                                       order by q.queue, q.key, q.priority, q.seq limit p_max + 1) w) <= p_max;
  v_share float8 := least(100, 100 * 200.0 / greatest(1, pg_relation_size('queue') / current_setting('block_size')::integer));
begin
  return query
    select j.queue::text, j.task::text, j.payload_version, count(*)
    from (
      select q.id, q.queue, q.task, q.payload_version from queue q where v_all and q.run_after is null
      union
      select q.id, q.queue, q.task, q.payload_version
      from queue q tablesample system (v_share) repeatable (0) where not v_all and q.run_after is null
      union
      select e.id, e.queue, e.task, e.payload_version
      from (select q.id, q.queue, q.task, q.payload_version, q.run_after from queue q
            where v_clean and not v_all order by q.id limit 1000) e
      where e.run_after is null) j
    group by 1, 2, 3;
end
$$;
do $grants$
declare
  v_grant record;
begin
  for v_grant in
    select a.grantee::regrole as role from pg_proc p, aclexplode(p.proacl) a
    where p.oid = 'queue_numbers(integer)'::regprocedure and a.grantee <> 0 and a.grantee <> p.proowner
  loop
    execute format('grant execute on function waiting_tasks(integer) to %s', v_grant.role);
  end loop;
end
$grants$;
