-- The rules of the tables of flows, as one constraint each: see check_job. With a constraint for each rule, starting a flow of
-- ten steps took a quarter longer.

create function check_flow(p_flow flow) returns boolean
  language plpgsql stable
  set search_path from current
as $$
declare
  v_broken constant text := case
    when length(p_flow.name) not between 1 and 200 then 'flow_name_check'
    when length(p_flow.key) > 200 then 'flow_key_check'
    -- an entry of the index flow_unique has 2,704 bytes at most
    when length(p_flow.unique_key) not between 1 and 500 or octet_length(p_flow.unique_key) + octet_length(p_flow.name) > 2600 then 'flow_unique_key_check'
    when p_flow.state not in ('open', 'done', 'failed', 'cancelled') then 'flow_state_check'
    when length(p_flow.reason) > 2000 then 'flow_reason_check'
    when not isfinite(p_flow.deadline) then 'flow_deadline_check'
    when jsonb_typeof(p_flow.trace) <> 'object' then 'flow_trace_check'
    when (p_flow.state = 'open') <> (p_flow.ended is null) then 'flow_ended_whole' end;
begin
  if v_broken is null then return true; end if;
  raise exception 'new row for relation "flow" violates check constraint "%"', v_broken
    using errcode = 'check_violation', table = 'flow', constraint = v_broken;
end
$$;

create function check_step(p_step flow_step) returns boolean
  language plpgsql stable
  set search_path from current
as $$
declare
  v_broken constant text := case
    when p_step.step < 0 then 'flow_step_step_check'
    when length(p_step.name) not between 1 and 200 then 'flow_step_name_check'
    when p_step.kind not in ('jobs', 'signal', 'timer') then 'flow_step_kind_check'
    when p_step.state not in ('blocked', 'open', 'ended') then 'flow_step_state_check'
    when p_step.outcome not in ('done', 'failed', 'cancelled', 'skipped') then 'flow_step_outcome_check'
    when p_step.wants not in ('all', 'any') then 'flow_step_wants_check'
    when p_step.stop_after < 1 then 'flow_step_stop_after_check'
    when (p_step.state = 'ended') <> (p_step.outcome is not null) or (p_step.state = 'ended') <> (p_step.ended is not null) then 'flow_step_ended_whole'
    when (p_step.kind = 'timer') <> (p_step.delay is not null) then 'flow_step_timer_whole'
    when p_step.ended is not null and (p_step.due is not null or p_step.stop) then 'flow_step_over'
    when (p_step.unreleased > 0) <> (p_step.jobs is not null) then 'flow_step_jobs_whole'
    when cardinality(p_step.feeds) <> cardinality(p_step.conditions) or not p_step.conditions <@ '{done,ended,failed}' then 'flow_step_feeds_whole' end;
begin
  if v_broken is null then return true; end if;
  raise exception 'new row for relation "flow_step" violates check constraint "%"', v_broken
    using errcode = 'check_violation', table = 'flow_step', constraint = v_broken;
end
$$;

-- Not valid, so that pg_dump writes them after the data: the check and the table depend on each other.
alter table flow add constraint flow_check check (check_flow(flow.*)) not valid;
alter table flow_step add constraint flow_step_check check (check_step(flow_step.*)) not valid;
