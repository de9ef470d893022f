-- Roles of least privilege, made on request (pgqueue migrate --roles); can be repeated. Not a part of the
-- migrations: creating roles needs CREATEROLE, which not every installation has.
--
-- <schema>_producer   enqueues, and reads the results of jobs and flows whose ids it knows
-- <schema>_worker     claims, extends, settles
-- <schema>_scheduler  dispatches, promotes, sweeps
-- <schema>_viewer     reads everything but payloads and results
-- <schema>_operator   reads all, and does what the command line does
do $roles$
declare
  s text := current_schema();
  r text;
  f record;
  producer text[] := array['enqueue_unique', 'key_taken', 'start_flow', 'start_flows', 'signal_flow', 'signal_job', 'flow_state', 'step_results', 'has_leader', 'job_result', 'check_job', 'fits', 'retry_fits', 'uuid_v7', 'at_home'];
  worker text[] := array['add_jobs', 'fan_out', 'suspend_job', 'flow_state', 'own_results', 'needs_of', 'need_results', 'claim', 'claim_rows', 'settle_rows', 'release_rows', 'take_out', 'has_leader', 'leased', 'release_claim', 'settle', 'unlocked_jobs', 'ack', 'nack', 'give_up', 'snooze', 'extend', 'release', 'report_progress', 'save_checkpoint', 'crash_job', 'reap', 'register_node',
                         'heartbeat_node', 'tell_runs', 'held_leases', 'leave_node', 'job_result', 'queue_length', 'peek', 'scan', 'uuid_v7'];
  scheduler text[] := array['advance_flows', 'stop_jobs', 'trim_flows', 'lead', 'watch_leader', 'resign', 'tick', 'tick_due', 'tick_state', 'behind', 'count_behind', 'items_behind', 'item_facts', 'set_feed', 'take_back', 'dispatch', 'dispatch_backlog', 'promote', 'reap', 'missing_nodes', 'note_missing_nodes', 'lose_nodes', 'expire', 'queue_numbers', 'key_numbers', 'waiting_tasks', 'job_traces',
                            'fire_schedule', 'maintain_history', 'trim_history', 'report', 'note_policy', 'end_holds', 'lease_limit', 'share_uses', 'open_explains', 'answer_explain', 'waiting_job', 'wanted_slots', 'ask_explain', 'take_explain', 'wait_facts', 'count_activity', 'uuid_v7'];
  viewer text[] := array['flow_state', 'queue_numbers', 'key_numbers', 'waiting_tasks', 'wanted_slots', 'ask_explain', 'take_explain', 'wait_facts'];
  operator text[] := array['start_flow', 'start_flows', 'signal_flow', 'signal_job', 'cancel_flow', 'retry_flow', 'flow_state', 'step_results', 'check_job', 'fits', 'retry_fits', 'cancel', 'amend', 'erase', 'redrive', 'rewrap_dead', 'reset_node', 'enqueue_scheduled', 'enqueue_unique', 'job_result', 'queue_length', 'queue_numbers', 'key_numbers', 'waiting_tasks', 'wanted_slots', 'peek', 'scan', 'uuid_v7',
                           'reap', 'maintain_history', 'trim_history', 'ask_explain', 'take_explain', 'wait_facts', 'note_action', 'note_result', 'init_installation', 'set_route', 'at_home', 'forfeit_part', 'remove_limit',
                           'claim_move', 'drop_claim', 'hold_key', 'leave_key', 'hand_over', 'next_slice', 'receive_jobs', 'forget_slice', 'finish_move', 'open_key', 'count_key', 'keys_here'];
begin
  foreach r in array array['producer', 'scheduler', 'worker', 'viewer', 'operator'] loop
    if not exists (select from pg_roles where rolname = s || '_' || r) then
      begin
        execute format('create role %I nologin', s || '_' || r);
      exception when duplicate_object or unique_violation then
        null; -- roles belong to the whole cluster: an installation in another database has just made it
      end;
    end if;
    execute format('revoke all on all tables in schema %I from %I', s, s || '_' || r);
    execute format('revoke all on all functions in schema %I from %I', s, s || '_' || r);
    execute format('grant usage on schema %I to %I', s, s || '_' || r);
    execute format('grant select on migration, installation, route to %I', s || '_' || r);
  end loop;
  for f in
    select p.oid::regprocedure as signature, p.proname::text as name
    from pg_proc p where p.pronamespace = s::regnamespace
  loop
    if f.name = any (producer) then execute format('grant execute on function %s to %I', f.signature, s || '_producer'); end if;
    if f.name = any (worker) then execute format('grant execute on function %s to %I', f.signature, s || '_worker'); end if;
    if f.name = any (scheduler) then execute format('grant execute on function %s to %I', f.signature, s || '_scheduler'); end if;
    if f.name = any (viewer) then execute format('grant execute on function %s to %I', f.signature, s || '_viewer'); end if;
    if f.name = any (operator) then execute format('grant execute on function %s to %I', f.signature, s || '_operator'); end if;
  end loop;

  -- a producer may insert jobs in their initial state, and read back the columns that an idempotent insert
  -- and a hint need
  execute format('grant insert (id, queue, task, key, priority, attributes, run_after, expires_at, timeout, max_tries, max_crashes,
                                retry, unique_key, payload, payload_version, trace) on queue to %I', s || '_producer');
  execute format('grant select (id, seq, created) on queue to %I', s || '_producer');

  execute format('grant select on schedule, policy_state, scheduler_lease, scheduler_report, scheduler_policy, queue_config, job, queue_status, overview, shared_limit, shared_limit_part to %I', s || '_scheduler');
  execute format('grant select on queue_config to %I', s || '_worker');
  -- all columns but the incarnation, which is a secret of its node: a client that knows it can read the
  -- tokens of the node's leases, and end the node
  foreach r in array array['scheduler', 'worker', 'viewer'] loop
    execute format('grant select (id, state, pool, slots, running, hung, tasks, heartbeat, heartbeat_ms, lost_after_ms, started, software)
                    on node to %I', s || '_' || r);
  end loop;

  execute format('grant select on job, queue_status, overview, queue_config, policy_state, scheduler_lease, scheduler_report, scheduler_policy, queue_held, activity, activity_mark, shared_limit, shared_limit_part to %I', s || '_viewer');
  execute format('grant select (id, name, key, unique_key, state, reason, created, deadline, stopping, ended, waiter) on flow to %I', s || '_viewer');
  execute format('grant select (flow, step, name, kind, state, outcome, wants, needs, feeds, conditions, open_needs, added, done, failed, other,
                                unreleased, stop_after, stop, delay, due, opened, ended) on flow_step to %I', s || '_viewer');
  execute format('grant select (flow, step, job, outcome) on flow_result to %I', s || '_viewer');
  -- all columns but the tokens: a client that knows a token can settle in place of its holder
  foreach r in array array['work_queue', 'work_item'] loop
    execute format('grant select (position, id, version, pool, task, lock_key, lock_timeout, started, cancelled, progress, dispatched, together) on %I to %I', r, s || '_viewer');
  end loop;
  execute format('grant select (jobs) on work_queue to %I', s || '_viewer');
  execute format('grant select on work_front to %I', s || '_viewer');
  execute format('grant select (id, seq, run_after, expires_at, created, timeout, priority, payload_version, tries, max_tries, crashes,
                                max_crashes, queue, task, key, unique_key, errors, flow, step) on queue to %I', s || '_viewer');
  -- listings of jobs walk along the tables' own indexes
  execute format('grant select (id, queue, task, key, outcome, started, finished, node, errors, flow, step) on history to %I', s || '_viewer');
  execute format('grant select (id, queue, task, key, reason, tries, crashes, created, died, node, unique_key, errors, flow, step)
                  on dead_letter to %I', s || '_viewer');
  -- details are left out: they may quote the text that payloads were searched for
  execute format('grant select (n, at, actor, via, db_user, action, target) on audit to %I', s || '_viewer');
  execute format('grant select (name, cron, timezone, task, paused, next_slot, last_slot) on schedule to %I', s || '_viewer');

  execute format('grant select on all tables in schema %I to %I', s, s || '_operator');
  execute format('grant insert, update, delete on queue_config, schedule to %I', s || '_operator');
  execute format('grant delete on dead_letter to %I', s || '_operator');
  execute format('grant insert (id, queue, task, key, priority, attributes, run_after, expires_at, timeout, max_tries, max_crashes,
                                retry, unique_key, payload, payload_version, trace) on queue to %I', s || '_operator');
end
$roles$;
