-- pgqueue 0032: what lies before the places that ticks begin at is looked for beside them.
-- compatible: yes

-- Of a lane, at each of these priorities the first job up to that seq that waits: ticks begin behind it, and its row was not changed, so they would not find
-- it. While an old snapshot is held this passes all that is dead of the lane: for a scheduler beside its ticks, and seldom.
create function behind(p_queue text, p_key text, p_priorities integer[], p_seqs bigint[])
  returns table (priority integer, seq float8)
  language plpgsql stable security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  return query
    select x.priority, h.seq::float8
    from unnest(p_priorities, p_seqs) as x (priority, seq)
    cross join lateral (
      select q.seq from queue q
      where q.run_after is null and q.queue = p_queue and q.key = p_key and q.priority = x.priority and q.seq <= x.seq
        and q.moved is null
        and (q.expires_at is null or q.expires_at > clock_timestamp())
        and (select w.id from work_queue w where w.id = q.id) is null
      order by q.queue, q.key, q.priority, q.seq
      limit 1) h;
end
$$;

-- Whoever may call tick looks beside it.
do $$
declare
  v_grant record;
begin
  for v_grant in
    select distinct a.grantee::regrole as role
    from pg_proc p, aclexplode(p.proacl) a
    where p.pronamespace = current_schema()::regnamespace and p.proname = 'tick' and a.grantee <> 0 and a.grantee <> p.proowner
  loop
    execute format('grant execute on function behind(text, text, integer[], bigint[]), first_item(bigint) to %s', v_grant.role);
  end loop;
end
$$;
