/** Who may do what: the test compares this with the database, so that a table or function without a decision fails it. */
export const roles = ['producer', 'scheduler', 'worker', 'viewer', 'operator'] as const;
export type Role = (typeof roles)[number];

const enqueued =
  'attributes expires_at id key max_crashes max_tries payload payload_version priority queue retry run_after task timeout trace unique_key';

/** The decision for every table and function. One that is missing here belongs to the owner alone. */
export const rights: Readonly<
  Record<Role, { readonly functions: string; readonly tables: Readonly<Record<string, string>> }>
> = {
  producer: {
    functions: 'check_job ended_jobs enqueue_unique uuid_v7',
    tables: { migration: 'select', queue: `insert(${enqueued}) select(id)` },
  },
  scheduler: {
    functions:
      'answer_explain ask_explain behind candidates count_activity dispatch expire fire_schedule item_facts items_behind job_traces key_numbers lead look lose_nodes maintain_history open_explains pace_vacuum promote queue_numbers reap report resign set_feed take_back take_explain tick tick_due tick_overview tick_state uuid_v7 wait_facts waiting_job waiting_suspects waiting_tasks',
    tables: {
      job: 'select',
      migration: 'select',
      node: 'select',
      overview: 'select',
      policy_state: 'select',
      queue_config: 'select',
      queue_status: 'select',
      schedule: 'select',
      scheduler_lease: 'select',
      scheduler_report: 'select',
    },
  },
  worker: {
    functions:
      'ack backoff_ms claim crash_job extend first_item heartbeat_node held_leases leave_node nack peek queue_length reap register_node release release_claim report_progress save_checkpoint scan settle uuid_v7',
    tables: { migration: 'select', node: 'select', queue_config: 'select' },
  },
  viewer: {
    functions: 'ask_explain key_numbers queue_numbers take_explain wait_facts waiting_suspects waiting_tasks',
    tables: {
      activity: 'select',
      activity_mark: 'select',
      audit: 'select(action actor at db_user n target via)',
      dead_letter: 'select(crashes created died errors id key node queue reason task tries unique_key)',
      history: 'select(errors finished id key node outcome queue started task)',
      job: 'select',
      migration: 'select',
      node: 'select',
      overview: 'select',
      policy_state: 'select',
      queue:
        'select(crashes created errors expires_at id key max_crashes max_tries payload_version priority queue run_after seq task timeout tries unique_key)',
      queue_config: 'select',
      queue_held: 'select',
      queue_status: 'select',
      schedule: 'select(cron last_slot name next_slot paused task timezone)',
      schedule_slot: 'select',
      scheduler_lease: 'select',
      scheduler_report: 'select',
      work_queue:
        'select(batch bundle cancelled dispatched id lock_key lock_timeout pool position progress started task version)',
    },
  },
  operator: {
    functions:
      'amend ask_explain cancel check_job ended_jobs enqueue_unique erase key_numbers maintain_history note_action note_result peek queue_length queue_numbers reap redrive reset_node scan take_explain uuid_v7 wait_facts waiting_suspects waiting_tasks',
    tables: {
      activity: 'select',
      activity_mark: 'select',
      audit: 'select',
      dead_letter: 'delete select',
      explain_request: 'select',
      history: 'select',
      history_default: 'select',
      job: 'select',
      migration: 'select',
      node: 'select',
      overview: 'select',
      policy_state: 'select',
      queue: `insert(${enqueued}) select`,
      queue_config: 'delete insert select update',
      queue_held: 'select',
      queue_status: 'select',
      reached: 'select',
      schedule: 'delete insert select update',
      schedule_slot: 'select',
      scheduler_lease: 'select',
      scheduler_report: 'select',
      settlement: 'select',
      vacuum_wait: 'select',
      work_queue: 'select',
    },
  },
};
/** Parts of the others, which check nothing themselves. */
export const ownersAlone =
  'assert_leader assert_read_committed audit_kept closed_for config_mark count_slice crash drop_checkpoint end_node ended_numbers enqueuers find_suspect has_suspects forget_explains note_move note_reached recall refuse_crowds suspect_wait waiting_numbers walk_lanes watch_crowds with_error';
