-- pgqueue 0030: a heartbeat finds what is to be cancelled by an index.
-- compatible: yes

-- It read WORK_QUEUE from end to end, which is short where vacuum clears dead rows away; behind a snapshot of ten minutes it was seven million of them,
-- 0.4 s of each node's every heartbeat. Claims stay HOT: they don't touch what this index is about.
create index work_queue_cancelled on work_queue (id) where cancelled is not null;

-- As in 0007 but for the settings, without which a table of momentarily one row is read whole.
create or replace function heartbeat_node(
    p_node text, p_incarnation uuid, p_running integer default 0, p_draining boolean default false,
    p_ids uuid[] default '{}', p_tokens uuid[] default '{}')
  returns table (alive boolean, cancelled uuid[], lost integer[])
  language plpgsql volatile security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
  update node
  set heartbeat = clock_timestamp(), running = p_running, state = case when p_draining then 'draining' else 'alive' end
  where id = p_node and incarnation = p_incarnation and state in ('alive', 'draining');
  if not found then
    return query select false, '{}'::uuid[], array(select generate_series(1, cardinality(p_ids)));
    return;
  end if;
  return query
    select true,
      array(select w.id from work_queue w where w.cancelled is not null and w.lock_key = p_node),
      array(select x.n::integer from unnest(p_ids, p_tokens) with ordinality as x (id, token, n)
            where (select w.position from work_queue w where w.id = x.id and w.lock_token = x.token) is null);
end
$$;
