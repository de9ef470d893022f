-- pgqueue 0021: what the scheduler's spans are linked to.
-- compatible: yes

-- The trace contexts that jobs carry, of those that are still there. Served by queue's primary key.
create function job_traces(p_ids uuid[]) returns setof jsonb
  language sql stable security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
as $$
  select q.trace from unnest(p_ids) i (id) cross join lateral (select q.trace from queue q where q.id = i.id offset 0) q
  where q.trace is not null
$$;
do $grants$
declare
  v_grant record;
begin
  for v_grant in
    select a.grantee::regrole as role from pg_proc p, aclexplode(p.proacl) a
    where p.oid = 'waiting_job(uuid)'::regprocedure and a.grantee <> 0 and a.grantee <> p.proowner
  loop
    execute format('grant execute on function job_traces(uuid[]) to %s', v_grant.role);
  end loop;
end
$grants$;
