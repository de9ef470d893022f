-- Every job that has not ended. A job's state is the place of its row, so it is stored once:
--   delayed  a QUEUE row with run_after          pending  a QUEUE row without, and no work item
--   ready    a work item without a lease         running  a work item with one
--   done, cancelled, expired: a HISTORY row      dead     a DEAD_LETTER row
--
-- A job that is pending at once and is done at its first attempt has its row inserted once and deleted once,
-- never updated. Columns of fixed width come first, which saves padding.
create table queue (
  id              uuid        primary key default uuid_v7(),
  seq             bigint      not null generated always as identity,
  run_after       timestamptz,
  expires_at      timestamptz,
  created         timestamptz not null default clock_timestamp(),
  timeout         interval,
  priority        integer     not null default 0,
  payload_version integer     not null default 1,
  tries           smallint    not null default 0,
  max_tries       smallint    not null default 20,
  crashes         smallint    not null default 0,
  max_crashes     smallint    not null default 3,
  queue           text collate "C" not null default 'default',
  task            text collate "C" not null,
  key             text collate "C" not null default '',
  unique_key      text collate "C",
  attributes      jsonb       not null default '{}',
  payload         jsonb       not null default '{}',
  retry           jsonb,
  trace           jsonb,
  errors          jsonb,
  last_token      uuid,
  checkpoint      jsonb,
  moved           boolean,
  flow            uuid,
  step            integer
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
        autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
        autovacuum_vacuum_cost_delay = 0);
comment on table queue is 'Every job that has not ended: delayed, pending, ready or running. INSERT (task, payload) from any language is supported.';
comment on column queue.run_after is 'Not before this time (a delay, a backoff, a snooze); the scheduler clears it when it is due.';
comment on column queue.errors is 'Every failed attempt, oldest first, at most the newest 100; null before the first.';
comment on column queue.last_token is 'The fencing token whose retry or snooze was accepted last: tells a repeated settle from a stale one.';
comment on column queue.checkpoint is 'Resume data that an attempt left for the next one, by save_checkpoint.';
comment on column queue.flow is 'The flow that the job belongs to, and the number of its step; only functions set them.';
comment on column queue.moved is 'Changed while it waited, or made to wait again: it may stand before jobs of its key that went already.';

-- Waiting jobs of each key, in order: a skip scan over (queue, key) reads the first few of each key.
create index queue_waiting on queue (queue, key, priority, seq) where run_after is null;
create index queue_due on queue (run_after) where run_after is not null;
create index queue_expiring on queue (expires_at) where expires_at is not null;
create unique index queue_unique on queue (task, unique_key) where unique_key is not null;
-- Jobs of a key that wait for a retry or for the end of a snooze: they block an ordered key.
create index queue_retrying on queue (queue, key, run_after) where run_after is not null and last_token is not null;
-- Waiting jobs that the cursor of a tick may have passed, because their rows were changed.
create index queue_moved on queue (queue, key, priority, seq) where run_after is null and moved;
-- Jobs of a step of a flow: the leader looks whether any is left.
create index queue_flow on queue (flow, step) where flow is not null;
