/**
 * The rights of each role. The test compares them with the database, so that a table or function without a
 * decision fails it.
 */
export const roles = ['producer', 'scheduler', 'worker', 'viewer', 'operator'] as const;
export type Role = (typeof roles)[number];

const enqueued =
  'attributes expires_at id key max_crashes max_tries payload payload_version priority queue retry run_after task timeout trace unique_key';

const node =
  'select(heartbeat heartbeat_ms hung id lost_after_ms pool running slots software started state tasks)';

/** The rights on every table and function. One that is missing here belongs to the owner alone. */
export const rights: Readonly<
  Record<Role, { readonly functions: string; readonly tables: Readonly<Record<string, string>> }>
> = {
  producer: {
    functions:
      'at_home check_job enqueue_unique fits flow_state has_leader job_result key_taken retry_fits signal_flow signal_job start_flow start_flows step_results uuid_v7',
    tables: {
      installation: 'select',
      migration: 'select',
      route: 'select',
      queue: `insert(${enqueued}) select(created id seq)`,
    },
  },
  scheduler: {
    functions:
      'advance_flows answer_explain ask_explain behind count_activity count_behind dispatch dispatch_backlog end_holds expire fire_schedule item_facts items_behind job_traces key_numbers lead lease_limit lose_nodes maintain_history missing_nodes note_missing_nodes note_policy open_explains promote queue_numbers reap report resign set_feed share_uses stop_jobs take_back take_explain tick tick_due tick_state trim_flows trim_history uuid_v7 wait_facts waiting_job waiting_tasks wanted_slots watch_leader',
    tables: {
      job: 'select',
      installation: 'select',
      migration: 'select',
      route: 'select',
      node,
      overview: 'select',
      policy_state: 'select',
      queue_config: 'select',
      queue_status: 'select',
      schedule: 'select',
      scheduler_lease: 'select',
      scheduler_policy: 'select',
      scheduler_report: 'select',
      shared_limit: 'select',
      shared_limit_part: 'select',
    },
  },
  worker: {
    functions:
      'ack add_jobs claim claim_rows crash_job extend fan_out flow_state give_up has_leader heartbeat_node held_leases job_result leased leave_node nack need_results needs_of own_results peek queue_length reap register_node release release_claim release_rows report_progress save_checkpoint scan settle settle_rows snooze suspend_job take_out tell_runs unlocked_jobs uuid_v7',
    tables: {
      installation: 'select',
      migration: 'select',
      node,
      queue_config: 'select',
      route: 'select',
    },
  },
  viewer: {
    functions:
      'ask_explain flow_state key_numbers queue_numbers take_explain wait_facts waiting_tasks wanted_slots',
    tables: {
      activity: 'select',
      activity_mark: 'select',
      audit: 'select(action actor at db_user n target via)',
      work_front: 'select',
      dead_letter:
        'select(crashes created died errors flow id key node queue reason step task tries unique_key)',
      flow: 'select(created deadline ended id key name reason state stopping unique_key waiter)',
      flow_result: 'select(flow job outcome step)',
      flow_step:
        'select(added conditions delay done due ended failed feeds flow kind name needs open_needs opened other outcome state step stop stop_after unreleased wants)',
      history: 'select(errors finished flow id key node outcome queue started step task)',
      job: 'select',
      installation: 'select',
      migration: 'select',
      route: 'select',
      node,
      overview: 'select',
      policy_state: 'select',
      queue:
        'select(crashes created errors expires_at flow id key max_crashes max_tries payload_version priority queue run_after seq step task timeout tries unique_key)',
      queue_config: 'select',
      queue_held: 'select',
      queue_status: 'select',
      schedule: 'select(cron last_slot name next_slot paused task timezone)',
      scheduler_lease: 'select',
      scheduler_policy: 'select',
      scheduler_report: 'select',
      shared_limit: 'select',
      shared_limit_part: 'select',
      work_item:
        'select(cancelled dispatched id lock_key lock_timeout pool position progress started task together version)',
      work_queue:
        'select(cancelled dispatched id jobs lock_key lock_timeout pool position progress started task together version)',
    },
  },
  operator: {
    functions:
      'amend ask_explain at_home cancel cancel_flow check_job claim_move count_key drop_claim enqueue_scheduled enqueue_unique erase finish_move fits flow_state forfeit_part forget_slice hand_over hold_key init_installation job_result key_numbers keys_here leave_key maintain_history next_slice note_action note_result open_key peek queue_length queue_numbers reap receive_jobs redrive remove_limit reset_node retry_fits retry_flow rewrap_dead scan set_route signal_flow signal_job start_flow start_flows step_results take_explain trim_history uuid_v7 wait_facts waiting_tasks wanted_slots',
    tables: {
      activity: 'select',
      activity_mark: 'select',
      audit: 'select',
      work_front: 'select',
      dead_letter: 'delete select',
      explain_request: 'select',
      flow: 'select',
      flow_result: 'select',
      flow_step: 'select',
      flow_tally: 'select',
      history: 'select',
      history_default: 'select',
      history_trim: 'select',
      job: 'select',
      leader_session: 'select',
      installation: 'select',
      handover: 'select',
      key_move: 'select',
      migration: 'select',
      route: 'select',
      node: 'select',
      node_session: 'select',
      overview: 'select',
      policy_state: 'select',
      queue: `insert(${enqueued}) select`,
      queue_config: 'delete insert select update',
      queue_held: 'select',
      queue_status: 'select',
      reached: 'select',
      schedule: 'delete insert select update',
      scheduler_lease: 'select',
      scheduler_policy: 'select',
      scheduler_report: 'select',
      settlement: 'select',
      shared_limit: 'select',
      shared_limit_part: 'select',
      shared_use: 'select',
      work_item: 'select',
      work_queue: 'select',
    },
  },
};
/** Functions that others call, and that check nothing themselves. */
export const ownersAlone =
  'advance_front advance_locked advance_set assert_leader assert_modes assert_move assert_read_committed assert_tasks audit_kept backoff_ms batches_from begin_anew cancel_superseded charged_by_death check_flow check_later_jobs check_step commit_durably config_mark count_slice count_tallies crash crash_all delayed_of_key drop_flows end_node end_waiting ended_jobs ended_numbers enqueuers fail_flow fair_part flow_failed flow_results flows_due_ms follow forget_explains forget_signals fresh_bundles gone_nodes held_sessions hint hold_session holds_true in_batch insert_moved installation_of is_of_row is_other_alive is_suspended items_from judge_again judge_steps keep_leader_session keep_node_session lanes_to_read leader_gone lease_all lease_items legible lock_unique_keys look make_due make_steps make_wait need_met next_suspect node_sessions node_takes note_ends note_move note_reached open_flow page_of_lanes put_jobs ready_batches recall refuse_crowds release_jobs retry_due_ms revive route_lock set_aside settings_of settle_done settle_mixed signal_flow_of single_rows skip_idle spread spread_held spread_ready stop_flow tables_place tail_of_key take_apart waiting_numbers wake_waiters walk_lanes watch_crowds with_error within_bytes';
