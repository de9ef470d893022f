/** Who may do what: the test compares this with the database, so that a table or function without a decision fails it. */
export const roles = ['producer', 'scheduler', 'worker', 'viewer', 'operator'] as const;
type Role = (typeof roles)[number];

const enqueued =
  'attributes expires_at id key max_crashes max_tries payload payload_version priority queue retry run_after task timeout trace unique_key';

/** The decision for every table and function. One that is missing here belongs to the owner alone. */
export const rights: Readonly<
  Record<Role, { readonly functions: string; readonly tables: Readonly<Record<string, string>> }>
> = {
  producer: {
    functions: 'ended_jobs enqueue_unique uuid_v7',
    tables: { migration: 'select', queue: `insert(${enqueued}) select(id)` },
  },
  scheduler: {
    functions:
      'candidates dispatch expire fire_schedule lead lose_nodes maintain_history promote reap resign tick_due tick_overview uuid_v7',
    tables: {
      migration: 'select',
      node: 'select',
      policy_state: 'select',
      queue_config: 'select',
      schedule: 'select',
      scheduler_lease: 'select',
    },
  },
  worker: {
    functions:
      'ack backoff_ms claim extend heartbeat_node leave_node nack peek queue_length reap register_node release release_claim report_progress scan settle uuid_v7',
    tables: { migration: 'select', node: 'select', queue_config: 'select' },
  },
  viewer: {
    functions: '',
    tables: {
      dead_letter: 'select(crashes created died errors id key node queue reason task tries unique_key)',
      history: 'select(finished id key outcome queue task)',
      job: 'select',
      migration: 'select',
      node: 'select',
      policy_state: 'select',
      queue:
        'select(crashes created expires_at id key max_crashes max_tries payload_version priority queue run_after seq task timeout tries unique_key)',
      queue_config: 'select',
      queue_status: 'select',
      schedule: 'select(cron last_slot name next_slot paused task timezone)',
      schedule_slot: 'select',
      scheduler_lease: 'select',
      work_queue:
        'select(batch cancelled id lock_key lock_timeout pool position progress started task version)',
    },
  },
  operator: {
    functions:
      'amend cancel ended_jobs enqueue_unique erase maintain_history peek queue_length reap redrive reset_node scan uuid_v7',
    tables: {
      dead_letter: 'delete select',
      history: 'select',
      history_default: 'select',
      job: 'select',
      migration: 'select',
      node: 'select',
      policy_state: 'select',
      queue: `insert(${enqueued}) select`,
      queue_config: 'delete insert select update',
      queue_status: 'select',
      schedule: 'delete insert select update',
      schedule_slot: 'select',
      scheduler_lease: 'select',
      work_queue: 'select',
    },
  },
};
/** Parts of the others, which check nothing themselves. */
export const ownersAlone = 'assert_leader assert_read_committed crash end_node recall with_error';

const id = "'00000000-0000-7000-8000-000000000001'::uuid";
const ids = `array[${id}]`;

/** What each does in its daily work, and what it must not reach. */
export const statements: Readonly<
  Record<Role, { readonly can: readonly string[]; readonly cannot: readonly string[] }>
> = {
  producer: {
    can: [
      `insert into queue (task, payload) values ('hello', '{}')`,
      `insert into queue (id, task) values (${id}, 'hello') on conflict (id) do nothing returning id`,
      `insert into queue (task, run_after, key, priority) values ('hello', now(), 'k', 1)`,
      'select id from queue',
      `select * from enqueue_unique('[{"n": 0, "task": "hello", "unique_key": "u"}]')`,
      `select * from ended_jobs(${ids})`,
      'select uuid_v7()',
      'select version from migration',
    ],
    cannot: [
      'select payload from queue',
      `insert into queue (task, tries) values ('hello', 3)`,
      'update queue set priority = 0',
      'delete from queue',
      'select * from work_queue',
      'select * from history',
      'select * from dead_letter',
      `select * from cancel(${ids})`,
      `select recall(${ids})`,
      `select * from claim('n', ${id}, 1)`,
      `insert into work_queue (batch, id, version, pool, task) values (1, ${id}, 1, 'p', 't')`,
      'truncate queue',
    ],
  },
  scheduler: {
    can: [
      `select * from lead('l', 1000)`,
      `select resign('l', 1)`,
      'select tick_overview()',
      'select tick_due()',
      `select * from candidates('{}', '{}', 1, 1, 1)`,
      'select * from maintain_history()',
      'select * from reap()',
      'select * from scheduler_lease',
      'select * from schedule',
      `select * from lead('l', 1000), lateral promote('l', epoch, 1)`,
      `select * from lead('l', 1000), lateral dispatch('l', epoch, '{}', '{}', 'p', '{}', false)`,
    ],
    cannot: [
      'select * from queue',
      'delete from work_queue',
      `insert into work_queue (batch, id, version, pool, task) values (1, ${id}, 1, 'p', 't')`,
      'update scheduler_lease set epoch = 9',
      'select * from history',
      'select * from dead_letter',
      `select * from cancel(${ids})`,
      `select reset_node('n')`,
      `insert into queue (task) values ('hello')`,
      `select * from crash('{}', '', true)`,
      `select * from end_node('n', 'lost', '')`,
      'drop table history_default',
    ],
  },
  worker: {
    can: [
      `select * from register_node('n', '{}')`,
      `select * from register_node('n', '{}') r, lateral claim('n', r.incarnation, 1)`,
      `select * from heartbeat_node('n', ${id})`,
      `select leave_node('n', ${id})`,
      `select ack(${id}, ${id})`,
      `select nack(${id}, ${id}, 'no')`,
      `select * from extend(${ids}, ${ids}, array[1::float8])`,
      `select release(${id}, ${id})`,
      `select report_progress(${id}, ${id}, '1')`,
      'select * from peek()',
      `select * from settle(${ids}, ${ids}, array['done'], array[null::float8], array[null])`,
      'select * from node',
    ],
    cannot: [
      'select * from queue',
      'select lock_token from work_queue',
      'update work_queue set lock_token = null',
      'delete from queue',
      'select * from history',
      `insert into queue (task) values ('hello')`,
      `select * from cancel(${ids})`,
      `select reset_node('n')`,
      `select redrive(${ids})`,
      `select * from lead('l', 1)`,
      `select * from dispatch('l', 1, ${ids}, array['p'], null, null, false)`,
      `update node set incarnation = ${id}`,
    ],
  },
  viewer: {
    can: [
      'select * from job',
      'select * from queue_status',
      'select * from node',
      'select id, lock_key, lock_timeout from work_queue',
      'select id, outcome, finished from history',
      'select id, reason, errors from dead_letter',
      'select id, task, priority from queue',
      'select * from scheduler_lease',
      'select name, cron from schedule',
      'select * from queue_config',
    ],
    cannot: [
      'select payload from queue',
      'select payload from history',
      'select result from history',
      'select payload from dead_letter',
      'select lock_token from work_queue',
      'select payload from schedule',
      'select * from peek()',
      'update queue_config set paused = true',
      `insert into queue (task) values ('hello')`,
      'delete from dead_letter',
      `select * from cancel(${ids})`,
      'select uuid_v7()',
    ],
  },
  operator: {
    can: [
      'select payload from queue',
      'select result from history',
      `select * from cancel(${ids})`,
      `select amend(${ids}, 1)`,
      `select erase(${ids})`,
      `select redrive(${ids})`,
      `select * from reset_node('n')`,
      `insert into queue_config (queue, paused) values ('q', true)`,
      `insert into schedule (name, cron, task) values ('s', '* * * * *', 't')`,
      'delete from dead_letter',
      `insert into queue (task) values ('hello')`,
      'select * from maintain_history()',
    ],
    cannot: [
      'delete from queue',
      'update queue set tries = 0',
      'delete from work_queue',
      'update work_queue set lock_timeout = now()',
      'delete from history',
      'insert into migration values (99, 1, 1, true)',
      'update scheduler_lease set epoch = 9',
      'update node set state = 1',
      `select * from claim('n', ${id}, 1)`,
      `select * from settle(${ids}, ${ids}, array['done'], array[null::float8], array[null])`,
      'truncate history',
      'drop table queue',
    ],
  },
};
