-- Deletes flows that ended more than p_keep ago, with all that belongs to them; up to p_max flows a call.
-- Returns their number. Jobs keep the flow's id. A flow that a job has waited for stays until the job has ended for good:
-- one that is dead may be put back, and looks at it again.
create function trim_flows(p_keep interval default '7 days', p_max integer default 100) returns integer
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
declare
  v_before timestamptz := clock_timestamp() - p_keep;
  v_flows uuid[] := array(
    select f.id from flow f
    where f.ended < v_before and (f.waiter is null or ((select q.id from queue q where q.id = f.waiter) is null
                                                      and (select d.id from dead_letter d where d.id = f.waiter) is null))
    order by f.ended limit p_max for update skip locked);
begin
  perform drop_flows(v_flows);
  return cardinality(v_flows);
end
$$;

-- Deletes flows, which the caller has locked, with all that belongs to them.
create function drop_flows(p_flows uuid[]) returns void
  language plpgsql volatile
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
begin
  if cardinality(p_flows) = 0 then
    return;
  end if;
  delete from flow_result r where r.flow = any (p_flows);
  delete from flow_tally t where t.flow = any (p_flows);
  delete from flow_step s where s.flow = any (p_flows);
  delete from flow f where f.id = any (p_flows);
end
$$;
