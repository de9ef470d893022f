-- pgqueue 0001: the tables.
-- compatible: no (the first one)
--
-- Names are unqualified: the migrator sets search_path to the installation's schema, so that any schema name works and
-- several installations live in one database.
--
-- A job's state is where its row stands, stored once:
--   delayed  a QUEUE row with run_after          pending  a QUEUE row without, and no work item
--   ready    a work item without a lease         running  a work item with one
--   done, cancelled, expired: a HISTORY row      dead     a DEAD_LETTER row

-- uuid v7 for plain SQL inserts (clients make their own): 48 bits of milliseconds, then version, variant and 74 random bits.
create function uuid_v7() returns uuid
  language sql volatile parallel safe
  set search_path from current
as $$
  select encode(
    substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
      || set_byte(substring(r from 7), 0, (get_byte(r, 6) & 15) | 112), 'hex')::uuid
  from (select uuid_send(gen_random_uuid()) as r) random
$$;

-- On the way to done a row is inserted once and deleted once, never updated.
create table queue (
  id              uuid        primary key default uuid_v7(),
  seq             bigint      not null generated always as identity,
  run_after       timestamptz check (isfinite(run_after)),
  expires_at      timestamptz check (isfinite(expires_at)),
  created         timestamptz not null default clock_timestamp() check (isfinite(created)),
  timeout         interval    check (timeout > interval '0' and isfinite(timeout)),
  priority        integer     not null default 0,
  payload_version integer     not null default 1 check (payload_version >= 1),
  tries           smallint    not null default 0 check (tries >= 0),
  max_tries       smallint    not null default 20 check (max_tries between 1 and 1000),
  crashes         smallint    not null default 0 check (crashes >= 0),
  max_crashes     smallint    not null default 3 check (max_crashes between 1 and 1000),
  queue           text collate "C" not null default 'default' check (length(queue) between 1 and 100),
  task            text collate "C" not null check (length(task) between 1 and 200),
  key             text collate "C" not null default '' check (length(key) <= 200),
  unique_key      text collate "C" check (length(unique_key) between 1 and 500),
  attributes      jsonb       not null default '{}' check (jsonb_typeof(attributes) = 'object'),
  payload         jsonb       not null default '{}' constraint queue_payload_size check (pg_column_size(payload) <= 262144),
  retry           jsonb       check (jsonb_typeof(retry) = 'object'),
  trace           jsonb       check (jsonb_typeof(trace) = 'object'),
  errors          jsonb       check (jsonb_typeof(errors) = 'array'),
  last_token      uuid
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
        autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
        autovacuum_vacuum_cost_delay = 0);
comment on table queue is 'Every job that has not ended: delayed, pending, ready or running. INSERT (task, payload) from any language is supported.';
comment on column queue.run_after is 'Not before this time (a delay, a backoff, a snooze); the scheduler clears it when it is due.';
comment on column queue.errors is 'Every failed attempt, oldest first, at most the newest 100; null before the first.';
comment on column queue.last_token is 'The fencing token whose retry or snooze was accepted last: tells a repeated settle from a stale one.';

-- The waiting jobs of each key, in order: a skip scan over (queue, key), then the first few of each key.
create index queue_waiting on queue (queue, key, priority, seq) where run_after is null;
create index queue_due on queue (run_after) where run_after is not null;
create index queue_expiring on queue (expires_at) where expires_at is not null;
create unique index queue_unique on queue (task, unique_key) where unique_key is not null;

-- Narrow and short: about what free slots take within a short horizon. Nothing but position and id is indexed, so that
-- claims stay HOT; the fill factor leaves them room.
create table work_queue (
  position     bigint      generated always as identity primary key,
  batch        bigint      not null,
  id           uuid        not null constraint work_queue_id unique,
  version      integer     not null,
  pool         text collate "C" not null,
  task         text collate "C" not null,
  lock_key     text collate "C",
  lock_token   uuid,
  lock_timeout timestamptz,
  started      timestamptz,
  cancelled    timestamptz,
  progress     jsonb,
  constraint work_queue_lease_whole check (
    (lock_key is null) = (lock_token is null) and (lock_key is null) = (lock_timeout is null)
    and (lock_key is null) = (started is null) and (lock_key is not null or (progress is null and cancelled is null)))
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0);
comment on table work_queue is 'One row per scheduled job. No foreign key to queue: it costs a quarter of the throughput; pgqueue doctor checks instead.';

create sequence batch_number;

create table history (
  id              uuid        not null,
  queue           text collate "C" not null,
  task            text collate "C" not null,
  key             text collate "C" not null,
  priority        integer     not null,
  outcome         text        not null check (outcome in ('done', 'cancelled', 'expired')),
  tries           smallint    not null,
  crashes         smallint    not null,
  created         timestamptz not null,
  started         timestamptz,
  finished        timestamptz not null,
  payload_version integer     not null,
  node            text,
  token           uuid,
  unique_key      text,
  attributes      jsonb       not null,
  payload         jsonb       not null,
  result          jsonb,
  errors          jsonb,
  trace           jsonb
) partition by range (finished);
create index history_id on history (id);
create index history_finished on history (finished, queue);
-- Takes rows for which no day's partition exists yet, so that a settle never fails for want of one.
create table history_default partition of history default;

create table dead_letter (
  id              uuid        primary key,
  queue           text collate "C" not null,
  task            text collate "C" not null,
  key             text collate "C" not null,
  priority        integer     not null,
  reason          text        not null check (reason in ('max_tries', 'crash_limit', 'gave_up')),
  tries           smallint    not null,
  max_tries       smallint    not null,
  crashes         smallint    not null,
  max_crashes     smallint    not null,
  created         timestamptz not null,
  died            timestamptz not null,
  timeout         interval,
  payload_version integer     not null,
  node            text,
  token           uuid,
  unique_key      text collate "C",
  attributes      jsonb       not null,
  payload         jsonb       not null,
  retry           jsonb,
  trace           jsonb,
  errors          jsonb       not null
);
create index dead_letter_died on dead_letter (died, id);

-- One row per worker node; an incarnation is one life of it.
create table node (
  id            text collate "C" primary key check (length(id) between 1 and 200),
  incarnation   uuid        not null,
  state         text        not null check (state in ('alive', 'draining', 'left', 'lost')),
  pool          text collate "C" not null default 'default' check (length(pool) between 1 and 100),
  slots         integer     not null check (slots between 0 and 100000),
  running       integer     not null default 0,
  tasks         jsonb       not null check (jsonb_typeof(tasks) = 'object'),
  heartbeat     timestamptz not null,
  heartbeat_ms  integer     not null check (heartbeat_ms >= 50),
  lost_after_ms integer     not null,
  started       timestamptz not null,
  software      text        not null default '',
  check (lost_after_ms >= 2 * heartbeat_ms)
) with (fillfactor = 50);
comment on column node.tasks is 'What it can run: {"task": {"min": 1, "max": 3, "timeoutMs": 60000}}, payload versions from min to max.';

create table queue_config (
  queue     text collate "C" primary key check (length(queue) between 1 and 100),
  paused    boolean  not null default false,
  pool      text collate "C" not null default 'default' check (length(pool) between 1 and 100),
  retention interval not null default interval '7 days' check (retention >= interval '0'),
  updated   timestamptz not null default clock_timestamp()
);
comment on table queue_config is 'What differs from the defaults, by queue: a queue needs no row to exist. Retention 0 keeps no history.';

create table policy_state (
  policy text        primary key,
  epoch  bigint      not null,
  state  jsonb       not null,
  saved  timestamptz not null
) with (fillfactor = 50);

create table scheduler_lease (
  only_row boolean     primary key default true check (only_row),
  leader   text,
  epoch    bigint      not null default 0,
  expires  timestamptz not null default '-infinity'
) with (fillfactor = 50);
insert into scheduler_lease default values;

create table schedule (
  name        text collate "C" primary key check (length(name) between 1 and 200),
  cron        text        not null,
  timezone    text        not null default 'UTC',
  task        text        not null check (length(task) between 1 and 200),
  payload     jsonb       not null default '{}' check (pg_column_size(payload) <= 262144),
  options     jsonb       not null default '{}' check (jsonb_typeof(options) = 'object'),
  paused      boolean     not null default false,
  next_slot   timestamptz,
  last_slot   timestamptz,
  updated     timestamptz not null default clock_timestamp()
);
-- One row per slot that was enqueued, unique: two leaders, or one that repeats itself, can't enqueue a slot twice.
create table schedule_slot (
  schedule text collate "C" not null references schedule (name) on delete cascade,
  slot     timestamptz not null,
  job      uuid        not null,
  primary key (schedule, slot)
);
