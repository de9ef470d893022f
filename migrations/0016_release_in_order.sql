-- pgqueue 0016: leases are given back in the order of ids.
-- compatible: yes

-- As in 0006. Leases of which some are to be cancelled are two passes over WORK_QUEUE, and met an extension or a settlement of the same
-- leases in the opposite order: one of the two failed with a deadlock. So their locks are taken first, as settle takes them.
create or replace function release(p_ids uuid[], p_tokens uuid[]) returns setof uuid
  language plpgsql volatile security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_nestloop = off
  set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  perform from work_queue w where w.id = any (p_ids) and w.lock_token = any (p_tokens) order by w.id for update;
  return query
    update work_queue w
    set lock_key = null, lock_token = null, lock_timeout = null, started = null, progress = null
    from unnest(p_ids, p_tokens) as x (id, token)
    where w.id = any (p_ids) and w.id = x.id and w.lock_token = x.token and w.cancelled is null
    returning w.id;
  if found then
    perform pg_notify(current_schema() || ':work', '');
  end if;
  -- a cancellation is never taken back, so what the statement above passed over is here
  if exists (select from work_queue w where w.id = any (p_ids) and w.cancelled is not null) then
    return query
      select s.job_id
      from settle(p_ids, p_tokens, array_fill('cancelled'::text, array[cardinality(p_ids)]),
                  array_fill(null::float8, array[cardinality(p_ids)]), array_fill(null::text, array[cardinality(p_ids)])) s;
  end if;
end
$$;
