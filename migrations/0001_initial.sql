-- pgqueue: its tables, functions and views.
-- compatible: no (the first one)
--
-- Made by scripts/sql.mjs from packages/postgres/sql: change it there.
-- Names are unqualified: the migrator sets search_path to the installation's schema, so that any schema name works and several
-- installations live in one database. Bodies name functions of later files: they are checked when they are called.
set local check_function_bodies = off;

-- functions/ids.sql

-- Makes a UUID v7 for plain SQL inserts (clients make their own): 48 bits of milliseconds, then version,
-- variant and 74 random bits. In an installation that has a number, the first ten bits after the variant are the
-- number. Security definer: whoever may insert a job need not read the table.
create function uuid_v7() returns uuid
  language plpgsql volatile parallel safe security definer
  set search_path from current
as $$
declare
  v_bytes bytea := overlay(uuid_send(gen_random_uuid()) placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1);
  v_number constant integer := (select i.number from installation i);
begin
  v_bytes := set_byte(v_bytes, 6, (get_byte(v_bytes, 6) & 15) | 112);
  if v_number is not null then
    v_bytes := set_byte(set_byte(v_bytes, 8, 128 | (v_number >> 4)), 9, ((v_number & 15) << 4) | (get_byte(v_bytes, 9) & 15));
  end if;
  return encode(v_bytes, 'hex')::uuid;
end
$$;

-- Returns the number of the installation that an id names. An id that was made without a number names any one.
create function installation_of(p_id uuid) returns integer
  language sql immutable strict parallel safe
  set search_path from current
as $$
  select ((get_byte(b.bytes, 8) & 63) << 4) | (get_byte(b.bytes, 9) >> 4) from (select uuid_send(p_id) as bytes) b
$$;

-- tables/activity.sql

-- Counts of ended jobs by time bucket and queue; queue '' is the sum over all queues. A bucket is a minute
-- (grain 60, kept for 3 hours) or a quarter of an hour (grain 900, kept for 8 days). waits and runs are
-- histograms, {"bucket": jobs}: bucket 0 is up to 1 ms, bucket b up to 1.25^b ms.
create table activity (
  grain     integer     not null check (grain in (60, 900)),
  at        timestamptz not null,
  queue     text collate "C" not null,
  done      bigint      not null,
  cancelled bigint      not null,
  expired   bigint      not null,
  dead      bigint      not null,
  failures  bigint      not null,
  busy_ms   float8      not null,
  waits     jsonb       not null,
  runs      jsonb       not null,
  primary key (grain, at, queue)
) with (fillfactor = 50);
comment on table activity is 'What ended, by queue and bucket of time: what dashboards show of the last hour and day. Queues that keep no history are not in it.';

create table activity_mark (
  only_row   boolean primary key default true check (only_row),
  counted_to timestamptz not null
) with (fillfactor = 50);
insert into activity_mark (counted_to) values ('-infinity');

-- Actions of operators. Roles write it only through note_action and note_result, and no role changes or
-- removes a line.
create table audit (
  n       bigint      generated always as identity primary key,
  at      timestamptz not null default clock_timestamp(),
  actor   text        not null check (length(actor) between 1 and 200),
  via     text        not null check (via in ('dashboard', 'cli')),
  db_user text        not null,
  action  text        not null check (length(action) between 1 and 100),
  target  text        check (length(target) <= 500),
  details jsonb       not null default '{}',
  result  jsonb
);
comment on table audit is 'What operators did. actor is whom the dashboard or the command says; db_user is who the database knows. result is null while an action is under way, where it failed, and where its process ended.';
create index audit_at on audit (at);

-- tables/flow.sql

-- Flows: graphs of steps. A step is a set of jobs, a signal or a timer, and waits for other steps (its needs).
-- A blocked step has no row in QUEUE, so jobs of flows take the same way as all others.
-- A step of jobs has ended when none of its jobs is left in QUEUE, and only the leader says so
-- (advance_flows).
-- The rules of both tables are in check_flow and check_step.
-- Statements that join lists of steps with these tables ask for flow = any (array[x.flow]), not flow = x.flow: only the
-- index for each of the list is left then. An equality can also be merged by, so a plan made while statistics
-- told of no row read the whole index for each of the list, and was kept.
create table flow (
  id         uuid        primary key,
  name       text collate "C" not null,
  key        text collate "C" not null default '',
  unique_key text collate "C",
  state      text        not null default 'open',
  reason     text,
  created    timestamptz not null default clock_timestamp(),
  deadline   timestamptz,
  stopping   timestamptz,
  ended      timestamptz,
  trace      jsonb,
  waiter         uuid,
  waiter_created timestamptz,
  waiter_token   uuid
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
comment on table flow is 'One row per flow. stopping: its cancellation was asked for; its state changes when the last of its jobs has ended. reason: of a state other than done, for people. waiter: the job that this flow was made for, and when that job was created. waiter_token: the attempt that is suspended until this flow ends; null: none, or it was woken.';
create unique index flow_unique on flow (name, unique_key) where state = 'open' and unique_key is not null;
create index flow_open on flow (id) where state = 'open';
-- By ended, not by state: a plan made while few flows were open, and kept, would sort those of flow_open.
create index flow_deadline on flow (deadline) where ended is null and deadline is not null and stopping is null;
create index flow_ended on flow (ended) where ended is not null;
-- Lists of flows, newest first: those that failed, by name and by key. A flow is inserted once and changed two or three times, so
-- they cost little beside the rows of its steps. Every name fits the condition of flow_name, but not every query: without it, look-ups
-- by id were planned to read the whole index while statistics told of no row.
create index flow_failed on flow (id) where state = 'failed';
create index flow_name on flow (name, id) where name <> '';
create index flow_key on flow (key, id) where key <> '';
-- The flows that a job waits for, or has waited for.
create index flow_waiter on flow (waiter) where waiter is not null;

-- needs: numbers of the steps that it waits for. feeds: of those that wait for it, each until this one has ended with an
-- outcome that fits its condition: done; ended: any; failed: failed or cancelled.
-- open_needs: needs that have not ended; the leader alone changes it. added, done, failed, other: counts of
-- jobs, from tallies; they choose when the leader looks for jobs in QUEUE, and tell the outcome. stop: its
-- waiting jobs are to be cancelled, and no more are released. due: of an open timer. jobs: what the leader puts into QUEUE
-- when it releases the step, in chunks of 500 (the last may be smaller); null: it has, or there were none. unreleased: the
-- number of jobs in the chunks that are not there yet, which are the last ones.
create table flow_step (
  flow       uuid        not null,
  step       integer     not null,
  name       text collate "C" not null,
  kind       text        not null,
  state      text        not null,
  outcome    text,
  wants      text        not null default 'all',
  needs      integer[]   not null default '{}',
  feeds      integer[]   not null default '{}',
  conditions text[] collate "C" not null default '{}',
  open_needs integer     not null,
  added      integer     not null default 0,
  done       integer     not null default 0,
  failed     integer     not null default 0,
  other      integer     not null default 0,
  unreleased integer     not null default 0,
  stop_after integer,
  stop       boolean     not null default false,
  delay      interval,
  due        timestamptz,
  opened     timestamptz,
  ended      timestamptz,
  jobs       jsonb[],
  primary key (flow, step)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
-- No index asks for state, outcome or ended: a step is opened, counted and ended without a new entry in any. A plan made while
-- few steps were open, and kept, would read all of those, besides.
create index flow_step_due on flow_step (due) where due is not null;
create index flow_step_stopping on flow_step (flow, step) where stop;

-- Changes of a step's counts, one row for each call that changed them and each step, written in the
-- transaction that changed QUEUE. No two settlements share a row, so none waits for another. The leader adds
-- them up and deletes them. step null: the flow is new, or was changed by hand. at: for the doctor; a tally that
-- stays is one that the leader does not take.
create table flow_tally (
  n      bigint  generated always as identity primary key,
  at     timestamptz not null default clock_timestamp(),
  flow   uuid    not null,
  step   integer,
  added  integer not null default 0,
  done   integer not null default 0,
  failed integer not null default 0,
  other  integer not null default 0
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
create index flow_tally_flow on flow_tally (flow);

-- Ends of a flow's jobs: those with a result, and those that are not done. Signals, too, with the flow's id in
-- place of a job and no task; nor have those a task that are not done. A job that was put back has its former end until it
-- ends again. Kept as long as the flow, however short the retention of the queue is.
create table flow_result (
  flow    uuid    not null,
  step    integer not null,
  job     uuid    not null,
  outcome text    not null check (outcome in ('done', 'dead', 'cancelled', 'expired', 'erased')),
  result  jsonb,
  task    text collate "C",
  primary key (flow, step, job)
);

-- The end of a flow's job, as the functions that end jobs collect it for note_ends.
create type flow_end as (flow uuid, step integer, job uuid, outcome text, result jsonb, task text);

-- A step of a flow, as advance_flows hands it on. may_end: it has no jobs, so it may end as soon as it is open.
create type step_ref as (flow uuid, step integer, may_end boolean);
-- A step that has ended, with what follows from it.
create type step_end as (flow uuid, step integer, outcome text, feeds integer[], conditions text[]);

-- tables/history.sql

-- Jobs that ended as done, cancelled or expired, partitioned by day in UTC: retention drops whole partitions. Columns
-- of fixed width come first, which saves padding. token: of the settlement that ended the job, also in dead_letter; null:
-- none did.
create table history (
  id              uuid        not null,
  created         timestamptz not null,
  started         timestamptz,
  finished        timestamptz not null,
  priority        integer     not null,
  payload_version integer     not null,
  step            integer,
  tries           smallint    not null,
  crashes         smallint    not null,
  queue           text collate "C" not null,
  task            text collate "C" not null,
  key             text collate "C" not null,
  outcome         text        not null check (outcome in ('done', 'cancelled', 'expired')),
  node            text,
  token           uuid,
  unique_key      text,
  attributes      jsonb       not null,
  payload         jsonb       not null,
  result          jsonb,
  errors          jsonb,
  trace           jsonb,
  flow            uuid,
  settings        jsonb
) partition by range (finished);
comment on column history.settings is 'What retry_flow needs to enqueue a cancelled or expired job of a flow as it was; null for other jobs.';
create index history_id on history (id);
create index history_finished on history (finished);
create index history_flow on history (flow, step) where flow is not null;
-- Takes rows of days that have no partition yet, so that a settlement never fails for lack of one.
create table history_default partition of history default;
alter table history_default replica identity full;
-- For publications that publish partitions as this table: deletes of a subscriber's rows go by its identity.
alter table history replica identity full;
-- Progress of trim_history. kept_at: rows of queues with a shorter retention than the longest have been
-- deleted as of this time; settings: a hash of the retentions that this was done by.
create table history_trim (
  only_row boolean     primary key default true check (only_row),
  settings bigint      not null,
  kept_at  timestamptz not null
);

-- Jobs that gave up, used up their tries, or reached their crash limit. An operator can put them back into
-- QUEUE.
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
  errors          jsonb       not null,
  flow            uuid,
  step            integer,
  checkpoint      jsonb
);
create index dead_letter_flow on dead_letter (flow, step) where flow is not null;
-- Every row fits its condition, but only queries that say so use it: look-ups by id were planned to read all of it for each
-- id, while statistics told of no row.
create index dead_letter_died on dead_letter (died, id) where died > '-infinity';

-- tables/installation.sql

-- Number and name of this installation among several that a router knows, one row; empty: it stands alone. changes
-- counts the changes of route, which all take this row's lock: so they commit in the order of their numbers.
create table installation (
  only_row boolean     primary key default true check (only_row),
  number   smallint    not null check (number between 0 and 1023),
  name     text        not null check (name ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
  changes  bigint      not null default 0
) with (fillfactor = 50);

-- Keys whose home is not the one that their hash says. Each installation keeps a copy; the row of the greatest
-- version counts. moving_from: the installation that still has jobs of the key, while state is moving.
-- change: the count of installation.changes at which the row was written here, so that readers ask for newer ones.
create table route (
  key          text collate "C" primary key check (key <> '' and length(key) <= 200),
  installation smallint    not null check (installation between 0 and 1023),
  version      bigint      not null check (version > 0),
  moving_from  smallint    check (moving_from between 0 and 1023),
  state        text        not null default 'settled' check (state in ('settled', 'moving')),
  change       bigint      not null,
  check ((state = 'moving') = (moving_from is not null))
);
create index route_change on route (change);
comment on table route is 'Homes of keys that were moved. Written by set_route alone; a copy in each installation.';

-- tables/leader.sql

-- The leader's lease, one row. feed: ended attempts are recorded in settlement. place: the result of
-- tables_place() when a scheduler last took or renewed the lease, null before the first one. placed: the time
-- when place last changed; -infinity: it never did.
create table scheduler_lease (
  only_row boolean     primary key default true check (only_row),
  leader   text,
  epoch    bigint      not null default 0,
  expires  timestamptz not null default '-infinity',
  feed     boolean     not null default false,
  lease_ms integer,
  place    text,
  placed   timestamptz not null default '-infinity'
) with (fillfactor = 50);
insert into scheduler_lease default values;

-- The session in which the leader renews its lease, if the leader keeps a session for that alone
-- (hold_session). Unlogged: a crash of Postgres ends all sessions at once and empties this table, so the end
-- of the session then says nothing about the leader.
create unlogged table leader_session (
  only_row boolean     primary key default true check (only_row),
  leader   text        not null,
  epoch    bigint      not null,
  key      bigint      not null,
  pid      integer     not null,
  server   timestamptz not null -- start of the server: a clean restart ends sessions, too, but keeps the row
) with (fillfactor = 50);

-- Ended attempts, one row per settle call, for a scheduler whose policy reads them (scheduler_lease.feed).
-- sizes: the number of jobs of each position; null: one each. verdicts: of each job; null: all are done.
-- busy_ms: of each job, in the order of the positions.
-- The leader deletes the rows it has read together with its next plan. Unlogged: a crash of Postgres that
-- loses rows leaves estimates in place of true run times. Rows are read once and deleted, so compressing them
-- costs more than writing them uncompressed.
create unlogged table settlement (
  n         bigint generated always as identity primary key,
  at        timestamptz not null,
  positions bigint[]    not null,
  sizes     integer[],
  verdicts  text[],
  busy_ms   float4[]    not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, toast_tuple_target = 8160);
alter table settlement
  alter positions set storage external,
  alter sizes set storage external,
  alter verdicts set storage external,
  alter busy_ms set storage external;

-- The leader's report, one row, written at most once a second while something changes: why jobs are held,
-- faults of the policy, durations of ticks.
create table scheduler_report (
  only_row boolean     primary key default true check (only_row),
  leader   text        not null,
  epoch    bigint      not null,
  written  timestamptz not null,
  report   jsonb       not null check (jsonb_typeof(report) = 'object')
) with (fillfactor = 50);
comment on table scheduler_report is 'What the leader saw last. One of an earlier leader, or older than 90 seconds, says nothing about the present.';

-- Schedulers that run, leading or standing by, and their policies; each writes its row every 20 seconds.
-- parts: stands for what the policy is made of.
create table scheduler_policy (
  scheduler text        primary key,
  policy    text        not null,
  parts     text        not null,
  seen      timestamptz not null
) with (fillfactor = 50);

-- Questions to the leader: the policy exists only in the leader's process. A question is a row; its asker
-- takes the answer and deletes the row. Unlogged: after a crash of Postgres nobody waits for an answer any
-- more.
create unlogged table explain_request (
  n        bigint      generated always as identity primary key,
  job      uuid        not null,
  asked    timestamptz not null default clock_timestamp(),
  answered timestamptz,
  answer   jsonb
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- tables/move.sql

-- Moves of keys to or from this installation that are under way, one row each. side: out, this is the old home; in,
-- the new one. peer: the number of the other. held: the leader plans no job of the key. seq: in, the last number of a
-- job here before jobs of the key came; out, what is added to a job's seq, so that it stands before all that came
-- after; null, the route does not say the new home yet. opened: in, the move is over, and the leader has not seen that
-- yet: it ends the hold (end_holds). advanced: when a mover last
-- called, give or take 10 s; for the doctor.
create table key_move (
  key      text collate "C" not null check (key <> '' and length(key) <= 200),
  side     text        not null check (side in ('in', 'out')),
  peer     smallint    not null check (peer between 0 and 1023),
  version  bigint      not null check (version > 0),
  held     boolean     not null,
  seq      bigint,
  advanced timestamptz not null default clock_timestamp(),
  opened   timestamptz,
  primary key (key, side),
  constraint key_move_opened check (opened is null or (side = 'in' and held))
) with (fillfactor = 50);
comment on table key_move is 'Moves of keys that are under way: out in the old home, in in the new one. "pgqueue keys move" goes on with one.';

-- Jobs that have left QUEUE and are not known to be in the new home, in slices. In the new home: the slices that have
-- come, n 0 and no job, until the move is over.
create table handover (
  key   text collate "C" not null,
  slice uuid    not null,
  n     integer not null,
  id    uuid,
  job   json,
  primary key (key, slice, n),
  constraint handover_whole check ((n = 0) = (job is null) and (n = 0) = (id is null))
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);
create index handover_id on handover (id) where id is not null;
comment on table handover is 'Jobs of keys that move, on their way. Each is here, in QUEUE, or in the new home.';

-- tables/node.sql

-- One row per worker node. An incarnation is one life of the node, from its registration to its end.
create table node (
  id            text collate "C" primary key check (length(id) between 1 and 200),
  incarnation   uuid        not null,
  state         text        not null check (state in ('alive', 'draining', 'left', 'lost')),
  pool          text collate "C" not null default 'default' check (length(pool) between 1 and 100),
  slots         integer     not null check (slots between 0 and 100000),
  running       integer     not null default 0,
  hung          integer     not null default 0,
  tasks         jsonb       not null check (jsonb_typeof(tasks) = 'object'),
  heartbeat     timestamptz not null,
  heartbeat_ms  integer     not null check (heartbeat_ms >= 50),
  lost_after_ms integer     not null check (lost_after_ms <= 86400000),
  started       timestamptz not null,
  runs          jsonb       not null default '{}' check (jsonb_typeof(runs) = 'object'),
  software      text        not null default '' constraint node_software_length check (length(software) <= 1000),
  check (heartbeat_ms <= lost_after_ms / 2)
) with (fillfactor = 50);
comment on column node.tasks is
  'What it can run: {"task": {"min": 1, "max": 3, "timeoutMs": 60000, "batch": true, "isolated": true}}, payload versions from min to max; batch: takes bundles; isolated: in processes of their own.';

comment on column node.runs is
  'How long its jobs take: {"task": milliseconds}, of tasks that it has run often enough, and whose runs are all short; the scheduler makes batches by it.';

comment on column node.hung is
  'Slots of handlers that run on although the time of their jobs is over, as the last heartbeat told.';

-- The session in which a node sends its heartbeats, if the node keeps a session for that alone
-- (hold_session). Unlogged, as leader_session is. missed: the time since when the leader has not found the
-- session.
create unlogged table node_session (
  node        text collate "C" primary key,
  incarnation uuid        not null,
  key         bigint      not null,
  pid         integer     not null,
  server      timestamptz not null,
  missed      timestamptz
) with (fillfactor = 50);

-- The time since when schedulers have reached this server without a gap (since), and the time of the last
-- contact (seen). Unlogged: a crash of Postgres and the promotion of a standby empty it, which says that no
-- node can have sent a heartbeat until now.
create unlogged table reached (
  only_row boolean     primary key default true check (only_row),
  since    timestamptz not null,
  seen     timestamptz
) with (fillfactor = 50);
-- Before the first scheduler no node could be lost.
insert into reached (since) values ('-infinity');

-- tables/policy.sql

-- The policy's saved state: one row for each part (gate or order) that has a state, such as the levels of rates.
-- Written with each batch that it accounts for, and read by a new leader.
create table policy_state (
  part  text        primary key,
  state jsonb       not null,
  saved timestamptz not null
) with (fillfactor = 50);

-- tables/queue.sql

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

-- tables/queue_config.sql

-- Settings by queue. Changes take effect at the next tick. A limit that is null does not exist.
create table queue_config (
  queue           text collate "C" primary key check (length(queue) between 1 and 100),
  paused          boolean  not null default false,
  pool            text collate "C" not null default 'default' check (length(pool) between 1 and 100),
  retention       interval not null default interval '7 days' check (retention between interval '0' and interval '3650 days'),
  updated         timestamptz not null default clock_timestamp(),
  concurrency     integer check (concurrency >= 0),
  key_concurrency integer check (key_concurrency >= 0),
  rate            float8 check (rate > 0 and rate < 'Infinity'),
  rate_burst      float8 check (rate_burst >= 1 and rate_burst < 'Infinity'),
  key_rate        float8 check (key_rate > 0 and key_rate < 'Infinity'),
  key_rate_burst  float8 check (key_rate_burst >= 1 and key_rate_burst < 'Infinity'),
  weight          float8 not null default 1 check (weight between 0.000001 and 1000000),
  key_pending     integer check (key_pending between 1 and 100000),
  constraint queue_config_rate_whole check ((rate is null) = (rate_burst is null)),
  constraint queue_config_key_rate_whole check ((key_rate is null) = (key_rate_burst is null))
);
comment on table queue_config is 'What differs from the defaults, by queue: a queue needs no row to exist. Retention 0 keeps no history.';
comment on column queue_config.rate is 'Jobs a second, and at most rate_burst at once: over any window of w seconds at most rate * w + rate_burst are dispatched.';
comment on column queue_config.key_pending is
  'Up to this many jobs of one key may wait or run; a statement that would leave more is refused. Null: no limit. Delayed jobs count when they are due.';
-- Tells settle with one lookup whether any queue keeps no history.
create index queue_config_forgets on queue_config (queue) where retention = '0';

-- tables/schedule.sql

-- since: its slots count from then on until the first is planned; it was set then, got another expression or was resumed.
-- last_slot: the slot that was enqueued last; it and earlier ones are not enqueued again. retry_after: time before which it is not tried, since it failed; next_slot stays due meanwhile.
create table schedule (
  name        text collate "C" primary key check (length(name) between 1 and 200),
  cron        text        not null check (length(cron) <= 200),
  timezone    text        not null default 'UTC' check (length(timezone) <= 100),
  task        text        not null check (length(task) between 1 and 200),
  payload     jsonb       not null default '{}',
  options     jsonb       not null default '{}' check (jsonb_typeof(options) = 'object'),
  paused      boolean     not null default false,
  since       timestamptz not null default clock_timestamp() check (isfinite(since)),
  next_slot   timestamptz check (isfinite(next_slot)),
  last_slot   timestamptz check (isfinite(last_slot)),
  retry_after timestamptz,
  updated     timestamptz not null default clock_timestamp()
);

-- tables/shared_limit.sql

-- Limits over several installations whose home is this one. size: most jobs in flight, or the burst of a rate;
-- per_second: the rate, null for a concurrency. Both are the smallest that the holders of a lease tell. place: the
-- result of tables_place() at the last lease.
create table shared_limit (
  name       text collate "C" primary key check (name <> '' and length(name) <= 100),
  size       integer     not null check (size >= 0),
  per_second float8      check (per_second >= 0),
  place      text        not null
) with (fillfactor = 50);
comment on table shared_limit is 'Limits over several installations. Written by lease_limit, forfeit_part and remove_limit alone.';

-- The part of each installation. number: of the last answer; a number that the holder tells back says that it keeps
-- to the part of that answer. It begins with the time, so that a row that is made again repeats none. reserved: most
-- that the holder may have in flight until it tells the next number back; nobody else gets it. rate, reserved_rate:
-- the same for a rate. epoch: of the leader that asked last. size, per_second: what the holder tells. wants: what it
-- could use; null: all it can get.
create table shared_limit_part (
  name          text collate "C" not null references shared_limit on delete cascade,
  installation  smallint    not null check (installation between 0 and 1023),
  epoch         bigint      not null default 0,
  number        bigint      not null default (extract(epoch from clock_timestamp()) * 1000)::bigint,
  size          integer     not null check (size >= 0),
  per_second    float8      check (per_second >= 0),
  part          integer     not null default 0 check (part >= 0),
  rate          float8      not null default 0 check (rate >= 0),
  reserved      integer     not null default 0 check (reserved >= part),
  reserved_rate float8      not null default 0 check (reserved_rate >= rate),
  in_flight     integer     not null default 0 check (in_flight >= 0),
  wants         integer     check (wants >= 0),
  expires       timestamptz not null default '-infinity',
  primary key (name, installation)
) with (fillfactor = 50);

-- tables/shared_use.sql

-- Recent use of shares in several installations, of fair orders whose home is this one. uses: amounts by share, as the
-- leader of the installation told them at that time. Unlogged: it is told again within a second.
create unlogged table shared_use (
  name         text collate "C" check (name <> '' and length(name) <= 100),
  installation smallint    not null check (installation between 0 and 1023),
  epoch        bigint      not null,
  uses         json        not null check (octet_length(uses::text) <= 1048576),
  told         timestamptz not null,
  primary key (name, installation)
) with (fillfactor = 50);
comment on table shared_use is 'Recent use of the shares of orders over several installations. Written by share_uses alone.';

-- tables/work_queue.sql

-- Work items, one row each: the work that one slot of a node takes at a time. A row is one job (id), or a
-- batch of short jobs (jobs, in their order) that are leased and settled as one. The table is narrow and
-- short: about the number of items that free slots take within a short horizon.
-- A batch is never partial. When one of its jobs needs a state of its own (extended, cancelled, released,
-- lost with its node), the whole row is replaced by rows of single jobs (take_apart). So the set of jobs at a
-- position never changes.
-- Positions are 256 apart: the parts of a batch go right behind its old position, in order, before everything
-- that was dispatched later. A reader that has seen a batch knows the positions of its parts, however late
-- the transaction commits that takes it apart.
-- A bundle (together) is a batch whose jobs one handler call takes; limits count it once. It is claimed
-- whole, by nodes that take bundles. When one of its jobs needs a state of its own while it runs, the single
-- rows keep the number in together. Jobs of it that do not end there wait in QUEUE again: no row of a single
-- job is ready with that number, so no two handlers have parts of one bundle.
-- A claim updates no indexed column, so its update stays HOT. It makes the row wider by the node's name and a
-- lease, and it claims the rows of a whole page at once: the fill factor leaves room for that.
create table work_queue (
  position     bigint      generated always as identity (start with 256 increment by 256) primary key,
  id           uuid        constraint work_queue_id unique,
  jobs         uuid[],
  version      integer     not null,
  pool         text collate "C" not null,
  task         text collate "C" not null,
  lock_key     text collate "C",
  lock_token   uuid,
  lock_timeout timestamptz,
  started      timestamptz,
  cancelled    timestamptz,
  progress     jsonb,
  dispatched   timestamptz default clock_timestamp(),
  together     bigint,
  suspect      boolean     not null default false,
  timeout      interval,
  constraint work_queue_jobs check (
    (id is null) <> (jobs is null)
    and (jobs is null or (array_position(jobs, null) is null and cardinality(jobs) between 1 and case when together is null then 100 else 1000 end
                          and not suspect and progress is null and cancelled is null))),
  constraint work_queue_together check (together is null or jobs is not null or lock_key is not null),
  constraint work_queue_lease_whole check (
    (lock_key is null) = (lock_token is null) and (lock_key is null) = (lock_timeout is null)
    and (lock_key is null) = (started is null) and (lock_key is not null or (progress is null and cancelled is null)))
) with (fillfactor = 35, toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0);
-- A list of jobs is read once and deleted: compressing it costs more than writing it uncompressed.
alter table work_queue alter jobs set storage external;
comment on table work_queue is 'One row per work item: a job, or a batch of short jobs that one slot takes in one go. No foreign key to queue: it costs a quarter of the throughput; pgqueue doctor checks instead.';
comment on column work_queue.together is 'A number that jobs share which one handler call takes together (a bundle). Null: each is a call of its own.';
comment on column work_queue.jobs is 'A batch: jobs that one slot runs one after another, in their order. Null: the row is the one job id.';
comment on column work_queue.timeout is 'The longest timeout that a job of a batch has of its own; null: none has one.';
comment on column work_queue.suspect is 'Its job was lost with its node before: a node begins one such job, and more only after that has run for a second.';

-- Serves reads of batches, which begin at batches_from(). Few rows hold several jobs.
create index work_queue_batches on work_queue (position) where jobs is not null;
-- Serves the search for suspects. Empty most of the time.
create index work_queue_suspect on work_queue (pool) where suspect;
-- Serves heartbeats, which look for cancellations: while an old snapshot is held, the table itself may have
-- millions of dead rows.
create index work_queue_cancelled on work_queue (id) where cancelled is not null;

-- Numbers of bundles (together).
create sequence bundle_number;

-- Positions below which there is no item, and no batch. Claims and searches for a job's batch start here, so
-- they pass only items that have ended since the leader wrote the row (advance_front). Logged, and so readable
-- on a standby, where the views read it. A crash can't leave it ahead of the positions that are drawn next:
-- the draws of the earlier positions come before it in the WAL.
create table work_front (
  only_row boolean primary key default true check (only_row),
  item     bigint  not null,
  batch    bigint  not null
) with (fillfactor = 50);

-- Every job that has a work item, with its lease.
create view work_item as
  select w.position, w.id, w.version, w.pool, w.task, w.lock_key, w.lock_token, w.lock_timeout, w.started, w.cancelled,
         w.progress, w.dispatched, w.together, w.suspect
  from work_queue w where w.id is not null
  union all
  select w.position, u.id, w.version, w.pool, w.task, w.lock_key, w.lock_token, w.lock_timeout, w.started, w.cancelled,
         w.progress, w.dispatched, w.together, w.suspect
  from work_queue w cross join lateral unnest(w.jobs) as u (id)
  where w.jobs is not null and w.position >= coalesce((select f.batch from work_front f), 0);

-- functions/activity.sql

-- Counts the jobs that ended from p_from on and before p_to, both within one quarter of an hour. One pass
-- without temporary files: 0.65 us a job.
create function count_slice(p_from timestamptz, p_to timestamptz) returns void
  language sql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
  with parts as materialized (
    select date_bin('1 minute', f.at, 'epoch') as at, f.queue, f.outcome,
           case when f.wait_ms <= 1 then 0 when f.wait_ms > 1 then least(160, ceil(ln(f.wait_ms) / ln(1.25::float8)))::integer end as wait,
           case when f.run_ms <= 1 then 0 when f.run_ms > 1 then least(160, ceil(ln(f.run_ms) / ln(1.25::float8)))::integer end as run,
           count(*) as jobs, sum(f.tries) as failures, coalesce(sum(f.busy_ms), 0) as busy_ms
    from (
      select h.finished as at, h.queue, h.outcome, h.tries,
             case when h.outcome = 'done' then date_part('epoch', h.started - h.created) * 1000 end as wait_ms,
             case when h.outcome = 'done' then date_part('epoch', h.finished - h.started) * 1000 end as run_ms,
             date_part('epoch', h.finished - h.started) * 1000 as busy_ms
      from history h where h.finished >= p_from and h.finished < p_to
      union all
      select d.died, d.queue, 'dead', d.tries, null, null, null from dead_letter d where d.died >= p_from and d.died < p_to
      offset 0 -- computes the shared expressions once
    ) f group by 1, 2, 3, 4, 5
  ),
  grains as materialized (
    select g.grain, date_bin(g.grain * interval '1 second', p.at, 'epoch') as at, n.queue, p.outcome, p.wait, p.run,
           sum(p.jobs) as jobs, sum(p.failures) as failures, sum(p.busy_ms) as busy_ms
    from parts p
    cross join lateral (values (p.queue), ('')) n (queue)
    cross join (values (60), (900)) g (grain)
    where g.grain = 900 or p.at > clock_timestamp() - interval '3 hours'
    group by 1, 2, 3, 4, 5, 6
  ),
  sums as (
    select g.grain, g.at, g.queue, coalesce(sum(g.jobs) filter (where g.outcome = 'done'), 0) as done,
           coalesce(sum(g.jobs) filter (where g.outcome = 'cancelled'), 0) as cancelled,
           coalesce(sum(g.jobs) filter (where g.outcome = 'expired'), 0) as expired,
           coalesce(sum(g.jobs) filter (where g.outcome = 'dead'), 0) as dead,
           sum(g.failures) as failures, sum(g.busy_ms) as busy_ms
    from grains g group by 1, 2, 3
  ),
  waits as (
    select w.grain, w.at, w.queue, jsonb_object_agg(w.wait, w.jobs) as counts
    from (select g.grain, g.at, g.queue, g.wait, sum(g.jobs) as jobs from grains g where g.wait is not null group by 1, 2, 3, 4) w
    group by 1, 2, 3
  ),
  runs as (
    select r.grain, r.at, r.queue, jsonb_object_agg(r.run, r.jobs) as counts
    from (select g.grain, g.at, g.queue, g.run, sum(g.jobs) as jobs from grains g where g.run is not null group by 1, 2, 3, 4) r
    group by 1, 2, 3
  )
  insert into activity as a (grain, at, queue, done, cancelled, expired, dead, failures, busy_ms, waits, runs)
  select s.grain, s.at, s.queue, s.done, s.cancelled, s.expired, s.dead, s.failures, s.busy_ms, coalesce(w.counts, '{}'),
         coalesce(r.counts, '{}')
  from sums s
  left join waits w on (w.grain, w.at, w.queue) = (s.grain, s.at, s.queue)
  left join runs r on (r.grain, r.at, r.queue) = (s.grain, s.at, s.queue)
  on conflict (grain, at, queue) do update
    set done = a.done + excluded.done, cancelled = a.cancelled + excluded.cancelled, expired = a.expired + excluded.expired,
        dead = a.dead + excluded.dead, failures = a.failures + excluded.failures, busy_ms = a.busy_ms + excluded.busy_ms,
        waits = (select coalesce(jsonb_object_agg(x.key, x.n), '{}')
                 from (select e.key, sum(e.value::bigint) as n
                       from (select * from jsonb_each_text(a.waits) union all select * from jsonb_each_text(excluded.waits)) e
                       group by e.key) x),
        runs = (select coalesce(jsonb_object_agg(x.key, x.n), '{}')
                from (select e.key, sum(e.value::bigint) as n
                      from (select * from jsonb_each_text(a.runs) union all select * from jsonb_each_text(excluded.runs)) e
                      group by e.key) x)
$$;

-- Counts the jobs that ended since the last call, for about p_max_ms; returns the remaining lag in
-- milliseconds. Skips jobs that ended more than a day ago. Reads each row of history once, along
-- history_finished, in slices of a quarter of an hour at most; their length adapts to a read time of about 20
-- ms. A settlement that commits more than five seconds after its time is missed: these numbers are
-- statistics, not a record.
create function count_activity(p_leader text, p_epoch bigint, p_max_ms integer) returns float8
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
declare
  v_begun timestamptz := clock_timestamp();
  v_end timestamptz := date_trunc('second', v_begun) - interval '5 seconds';
  v_slice interval := interval '1 minute';
  v_from timestamptz;
  v_to timestamptz;
  v_at timestamptz;
begin
  perform set_config('synchronous_commit', 'off', true);
  -- without a lock on the lease: its holder must be able to renew it meanwhile
  perform from scheduler_lease l where l.leader = p_leader and l.epoch = p_epoch and l.expires > clock_timestamp();
  if not found then
    raise exception 'scheduler % no longer leads in epoch %', p_leader, p_epoch using errcode = 'PQ002';
  end if;
  -- the row is gone if somebody has emptied all tables
  insert into activity_mark (counted_to) select '-infinity' where not exists (select from activity_mark) on conflict do nothing;
  select m.counted_to into v_from from activity_mark m for update skip locked;
  if not found then
    return 0;
  end if;
  v_from := greatest(v_from, date_bin('15 minutes', v_end, 'epoch') - interval '1 day');
  loop
    v_at := clock_timestamp();
    exit when v_from >= v_end or v_at > v_begun + p_max_ms * interval '1 millisecond';
    v_to := least(v_end, v_from + v_slice, date_bin('15 minutes', v_from, 'epoch') + interval '15 minutes');
    perform count_slice(v_from, v_to);
    v_from := v_to;
    v_slice := case when clock_timestamp() - v_at < interval '20 milliseconds' then least(interval '15 minutes', 2 * v_slice)
                    else greatest(interval '1 second', v_slice / 2) end;
  end loop;
  update activity_mark m set counted_to = v_from;
  delete from activity a where a.grain = 60 and a.at < v_end - interval '3 hours';
  delete from activity a where a.grain = 900 and a.at < v_end - interval '8 days';
  return greatest(0, extract(epoch from v_end - v_from)) * 1000;
end
$$;

-- functions/audit.sql

-- Retention of a line in audit. To keep lines for a longer or shorter time, replace this function.
create function audit_kept() returns interval
  language sql immutable parallel safe
  set search_path from current
as $$
  select interval '400 days'
$$;

-- Notes an action before it is done: an action that can't be noted is not done. Removes up to 100 lines whose
-- retention has passed.
create function note_action(p_actor text, p_via text, p_action text, p_target text, p_details jsonb) returns bigint
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_n bigint;
begin
  insert into audit (actor, via, db_user, action, target, details)
  values (p_actor, p_via, session_user, p_action, p_target, coalesce(p_details, '{}')) returning n into v_n;
  delete from audit
  where n = any (array(select a.n from audit a where a.at < clock_timestamp() - audit_kept() order by a.at limit 100 for update skip locked));
  return v_n;
end
$$;

-- Notes the result after the action: once, and only by the database user that noted the action. False: there
-- is no such line without a result.
create function note_result(p_n bigint, p_result jsonb) returns boolean
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  update audit a set result = p_result where a.n = p_n and a.result is null and a.db_user = session_user;
  return found;
end
$$;

-- functions/bounds.sql

-- Limits of stored values are limits of their text, which is the form that is sent. A value may be far
-- smaller as jsonb: 1e131071 takes 16 bytes and is 131,072 digits as text, and an INSERT ... SELECT may take
-- compressed values from another table.

-- Tells whether a value has at most p_bytes as text, and at most 500 levels of arrays and objects. A value of
-- which PostgreSQL can make no text (the maximum is 1 GB) does not fit. The function catches that error only
-- for values that may raise it: an exception block costs more than the text of a small value. Packages count
-- JSON as they write it, without spaces; PostgreSQL's text is up to half as long again.
create function fits(p_value jsonb, p_bytes integer) returns boolean
  language plpgsql stable
  set search_path from current
as $$
declare
  v_bytes integer;
begin
  if pg_column_size(p_value) <= 8000 and pg_column_compression(p_value) is null then
    v_bytes := octet_length(p_value::text);
  else
    begin
      v_bytes := octet_length(p_value::text);
    exception when program_limit_exceeded then
      return false;
    end;
  end if;
  return v_bytes is null or (v_bytes <= p_bytes and (
    v_bytes <= 1000 or not jsonb_path_exists(p_value, 'strict $.**{500} ? (@.type() == "object" || @.type() == "array")', '{}', true)));
end
$$;

-- Tells whether a job's retry policy is valid: {"kind": "fixed" | "linear" | "exponential", "baseMs",
-- "factor", "maxMs", "jitter": 0..1}, every member optional.
create function retry_fits(p_retry jsonb) returns boolean
  language plpgsql stable
  set search_path from current
as $$
begin
  return jsonb_typeof(p_retry) = 'object'
    and p_retry - array['kind', 'baseMs', 'factor', 'maxMs', 'jitter'] = '{}'
    and coalesce(p_retry -> 'kind', '"fixed"') in ('"fixed"', '"linear"', '"exponential"')
    and coalesce(p_retry -> 'baseMs', '0') between '0' and '3.2e11'
    and coalesce(p_retry -> 'maxMs', '0') between '0' and '3.2e11'
    and coalesce(p_retry -> 'factor', '1') between '1' and '1000'
    and coalesce(p_retry -> 'jitter', '0') between '0' and '1';
end
$$;

-- Refuses a node's tasks that can't be read: claims count with them, and each tick of the scheduler reads
-- them.
create function assert_tasks(p_tasks jsonb) returns void
  language plpgsql stable
  set search_path from current
as $$
declare
  v_task text;
begin
  if jsonb_typeof(p_tasks) is distinct from 'object' then
    raise exception 'tasks must be an object, such as {"mail": {"min": 1, "max": 1}}'
      using errcode = 'check_violation', table = 'node', constraint = 'node_tasks_check';
  elsif not fits(p_tasks, 262144) then
    raise exception 'tasks are at most 256 KiB' using errcode = 'check_violation', table = 'node', constraint = 'node_tasks_size';
  elsif (select count(*) from jsonb_object_keys(p_tasks)) > 1000 then
    raise exception 'a node has at most 1,000 tasks: give each of several nodes a part of them'
      using errcode = 'check_violation', table = 'node', constraint = 'node_tasks_size';
  end if;
  -- jsonb orders values by their kind first: a value between two numbers is a number
  select t.key into v_task
  from jsonb_each(p_tasks) t
  where not coalesce(
      jsonb_typeof(t.value) = 'object'
      and t.value -> 'min' between '1' and t.value -> 'max' and t.value -> 'max' between '1' and '2147483647'
      and jsonb_path_match(t.value, '$.min.floor() == $.min && $.max.floor() == $.max', '{}', true)
      and coalesce(nullif(t.value -> 'timeoutMs', 'null'), '1') between '0.001' and '3.2e11', false)
  limit 1;
  if found then
    raise exception 'task % must be {"min": 1, "max": 1}: payload versions from 1 on, whole numbers; "timeoutMs" up to 3.2e11 or null', to_json(v_task)
      using errcode = 'check_violation', table = 'node', constraint = 'node_tasks_check';
  end if;
end
$$;

alter table schedule
  add constraint schedule_payload_size check (fits(payload, 393216)),
  add constraint schedule_options_size check (fits(options, 65536)),
  add constraint schedule_retry_check check (retry_fits(nullif(options -> 'retry', 'null')));
alter table audit
  add constraint audit_details_size check (fits(details, 24576)),
  add constraint audit_result_size check (fits(result, 24576));

-- functions/cron/schedule.sql

-- Enqueues the job of a schedule, and returns its id; null: there is no such schedule. The job has the attributes
-- schedule, and slot if there is one, unless it is given others of these names. Runs with the caller's rights: an
-- operator may insert jobs anyway.
create function enqueue_scheduled(p_name text, p_slot timestamptz default null) returns uuid
  language sql volatile
  set search_path from current
as $$
  insert into queue (queue, task, key, priority, attributes, timeout, max_tries, max_crashes, retry, payload, payload_version)
  select coalesce(s.options ->> 'queue', 'default'), s.task, coalesce(s.options ->> 'key', ''),
         coalesce((s.options ->> 'priority')::integer, 0),
         jsonb_strip_nulls(jsonb_build_object('schedule', s.name, 'slot', to_char(p_slot at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')))
           || coalesce(nullif(s.options -> 'attributes', 'null'), '{}'),
         (s.options ->> 'timeoutMs')::float8 * interval '1 millisecond', coalesce((s.options ->> 'maxTries')::smallint, 20),
         coalesce((s.options ->> 'maxCrashes')::smallint, 3), nullif(s.options -> 'retry', 'null'), s.payload,
         coalesce((s.options ->> 'payloadVersion')::integer, 1)
  from schedule s where s.name = p_name
  returning id
$$;

-- Turns a cron slot into one job, however many leaders try and however often, and stores the next slot with
-- it. Returns the job's id; null: none was made. refused: the queue takes no more jobs of its key, and the slot is left out. p_read, as one JSON object: name, cron and timezone of the
-- schedule as they were read; next: its next slot; slot: the due slot, absent if only the next one is to be
-- stored. Waits for no lock of others, as lose_nodes: a schedule whose row is locked has its slot with a later
-- sweep.
create function fire_schedule(p_leader text, p_epoch bigint, p_read jsonb, out job uuid, out refused text)
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  s schedule;
  v_slot timestamptz := p_read ->> 'slot';
begin
  perform assert_leader(p_leader, p_epoch);
  select * into s from schedule where name = p_read ->> 'name' for update skip locked;
  -- the schedule is locked, or was changed since it was read: the next sweep plans it anew
  if not found or s.paused or s.cron <> p_read ->> 'cron' or s.timezone <> p_read ->> 'timezone' then
    return;
  end if;
  if v_slot is not null and (v_slot > s.last_slot) is not false then
    begin
      job := enqueue_scheduled(s.name, v_slot);
    exception when sqlstate 'PQ003' then
      refused := sqlerrm;
      v_slot := null;
    end;
  end if;
  -- of one that failed, p_read has only the time to try it again: its slot stays due
  update schedule
  set next_slot = coalesce((p_read ->> 'next')::timestamptz, next_slot), last_slot = greatest(v_slot, last_slot),
      retry_after = (p_read ->> 'retry')::timestamptz
  where name = s.name;
end
$$;

-- functions/enqueue.sql

-- Refuses stricter isolation levels than READ COMMITTED. Several functions decide by rows that other sessions
-- committed while they waited for a lock, and only READ COMMITTED shows those rows to a later statement of
-- the same transaction. At a stricter level cancel left a work item without its job. p_what: what was to be done.
create function assert_read_committed(p_what text) returns void
  language plpgsql stable
  set search_path from current
as $$
begin
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    raise exception '% needs a transaction that is read committed, and this one is %', p_what, current_setting('transaction_isolation')
      using errcode = '25001', hint = 'Begin it with: begin isolation level read committed.';
  end if;
end
$$;

-- Returns those of the given jobs that have ended, as far back as history is kept. Makes it safe to repeat an
-- enqueue with an id chosen by the caller, or an enqueue whose reply was lost, even when the job is done
-- already. Served by history_id and dead_letter's primary key.
create function ended_jobs(p_ids uuid[]) returns table (id uuid)
  language sql stable security definer
  set search_path from current
as $$
  select h.id from history h where h.id = any (p_ids)
  union
  select d.id from dead_letter d where d.id = any (p_ids)
$$;

-- Refuses what enqueue_unique can't do: unknown modes of unique keys, a max_wait_ms that goes with no other mode, and
-- to tell by an old snapshot whether a job has ended, which would run it twice.
create function assert_modes(p_jobs jsonb) returns void
  language plpgsql stable
  set search_path from current
as $$
declare
  v record;
begin
  -- read once: it may hold thousands of jobs
  select bool_or(x.again) as again, bool_or(x.mode not in ('keep', 'replace', 'debounce', 'supersede')) as odd_mode,
         bool_or(x.max_wait_ms is not null and (x.mode is distinct from 'debounce' or x.max_wait_ms <= 0 or x.max_wait_ms > 3.2e11)) as odd_wait
  into v from jsonb_to_recordset(p_jobs) as x (again boolean, mode text, max_wait_ms float8);
  if v.again then
    perform assert_read_committed('an enqueue with an id of its own');
  end if;
  if v.odd_mode then
    raise exception 'mode is keep, replace, debounce or supersede' using errcode = '22023';
  end if;
  if v.odd_wait then
    raise exception 'max_wait_ms is above 0, up to 3.2e11, and goes with mode debounce' using errcode = '22023';
  end if;
end
$$;

-- Locks the jobs that replace, debounce and supersede are about to change: a part of enqueue_unique, whose settings plan
-- it. Batches with the same unique keys take turns by advisory locks: jobs that exist are locked by id and
-- new ones by unique key, so two batches that see different jobs could deadlock. The keys map to 1,024 locks,
-- so even a large batch takes few.
create function lock_unique_keys(p_jobs jsonb) returns void
  language plpgsql volatile
  set search_path from current
as $$
begin
  if not exists (select from jsonb_to_recordset(p_jobs) as x (mode text) where x.mode <> 'keep') then
    return;
  end if;
  perform assert_read_committed('an enqueue that replaces, debounces or supersedes');
  perform pg_advisory_xact_lock(b.bucket) from (
    select distinct hashtextextended(current_schema() || ':unique', abs(hashtext(x.task || ':' || x.unique_key) % 1024)) as bucket
    from jsonb_to_recordset(p_jobs) as x (task text, unique_key text, mode text)
    where x.mode <> 'keep' order by bucket) b;
  perform from queue where id = any (array(
    select (select q.id from queue q where q.task = x.task and q.unique_key = x.unique_key)
    from jsonb_to_recordset(p_jobs) as x (task text, unique_key text, mode text) where x.mode <> 'keep'))
  order by id for update;
end
$$;

-- Cancels superseded jobs that recall did not get back: they run, or another session is claiming or settling
-- them. The last step of enqueue_unique, so that all its jobs share one wait.
-- A claim or an extension holds a work item for milliseconds, so the function calls cancel again, for up to
-- 31 ms. It waits for no lock, and can't wait for a settlement, which itself waits for the job that this
-- transaction has locked. A job that such a settlement retries, or that a slower claim gets, is not signalled.
-- Its expires_at keeps it from starting again.
create function cancel_superseded(p_ids uuid[]) returns void
  language plpgsql volatile
  set search_path from current
as $$
declare
  v_busy uuid[] := p_ids;
begin
  for attempt in 0..5 loop
    if attempt > 0 then
      perform pg_sleep(0.0005 * 2 ^ attempt);
    end if;
    v_busy := array(select c.job_id from cancel(v_busy) c where c.verdict = 'busy');
    if cardinality(v_busy) = 0 then
      return;
    end if;
  end loop;
  update queue set expires_at = created where id = any (v_busy);
end
$$;

-- Enqueues jobs that have a unique key, or that may have been enqueued before (again). At most one job of
-- (task, unique_key) is in QUEUE, waiting or running. Other jobs are inserted by the producer's own single
-- statement, or by any INSERT.
--
-- mode keep      the existing job stays as it is (the default)
--      replace   a waiting job takes the new payload, priority and attributes, and keeps its time and place
--      debounce  the same, and its run_after is set anew (pushed back), at most to max_wait_ms after it was
--                created
--      supersede the new job is enqueued under its own id; a waiting job ends as cancelled
-- A job that is already running can't take a new payload, and must not swallow it: under replace, debounce and
-- supersede it gives up its unique key, and the new job is enqueued behind it. Under supersede its
-- cancellation is asked for, too. So does a suspended one: its handler waits in the middle of the old work. One that
-- sleeps takes the new payload, and begins anew: nothing tells it from one that was snoozed, or waits for its next try.
--
-- bound: the payload is encrypted for the new id, so a waiting job keeps its own under replace and debounce. That one comes
-- back as stored if it is encrypted: the caller compares the two, and enqueues once more what differs, encrypted for the
-- id of that job, in the same transaction. Equal payloads differ once they are encrypted, and would begin the job anew.
--
-- again: an id that has ended counts as repeated, as far back as history reaches. The function looks for it
-- before it changes anything, and once more after the insert, which waits for a settlement of the same id
-- under way and would come after it. Only READ COMMITTED shows both.
--
-- Safe because: the QUEUE row is locked before anything is decided, and the scheduler skips locked rows. A
-- ready work item is deleted by recall (the job is pending again), so no claim can read the old payload. A
-- work item that another session has locked is being claimed or settled, and counts as running.
-- No deadlock with settle: this function waits for no lock on work items (settle locks those first), and
-- locks jobs in the order of their ids before it changes any, as settle does. No deadlock between two batches
-- of the same keys: they take turns by advisory locks of the transaction (1,024 for all keys, so batches of
-- other keys wait now and then, too). Two transactions that each call this more than once can deadlock, as
-- with any upsert. The jobs that a transaction changed here can't be settled until it ends: keep it short.
-- Served by queue_unique, the primary keys, and work_queue_id.
create function enqueue_unique(p_jobs jsonb)
  returns table (ordinal integer, job_id uuid, outcome text, stored jsonb)
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  j record;
  v_existing uuid;
  v_outcome text;
  v_stored jsonb;
  v_after timestamptz;
  v_max_wait interval;
  v_running uuid[] := '{}';
  v_supersedes boolean;
begin
  perform assert_modes(p_jobs);
  perform lock_unique_keys(p_jobs);
  for j in
    -- a payload may be null, and is {} if there is none
    select x.*, coalesce(x.payload, p_jobs -> (x.ordinality - 1)::integer -> 'payload', '{}') as given
    from rows from (jsonb_to_recordset(p_jobs) as (
      n integer, id uuid, queue text, task text, key text, priority integer, attributes jsonb, run_after timestamptz,
      delay_ms float8, expires_at timestamptz, timeout_ms float8, max_tries smallint, max_crashes smallint, retry jsonb,
      unique_key text, mode text, max_wait_ms float8, payload jsonb, payload_version integer, trace jsonb, again boolean, bound boolean))
      with ordinality as x
    -- unique keys in one order for all producers: no deadlock between two batches
    order by x.unique_key is not null, case when x.unique_key is not null then x.task end, x.unique_key, x.n
  loop
    v_max_wait := j.max_wait_ms * interval '1 millisecond';
    v_after := coalesce(j.run_after, clock_timestamp() + j.delay_ms * interval '1 millisecond');
    v_after := case when v_after > clock_timestamp() then least(v_after, clock_timestamp() + v_max_wait) end;
    select null, false into v_outcome, v_supersedes;
    for attempt in 1..20 loop
      if j.again and exists (select from ended_jobs(array[j.id])) then
        select j.id, 'repeated' into v_existing, v_outcome;
        exit;
      end if;
      insert into queue (id, queue, task, key, priority, attributes, run_after, expires_at, timeout, max_tries,
                         max_crashes, retry, unique_key, payload, payload_version, trace)
      values (coalesce(j.id, uuid_v7()), coalesce(j.queue, 'default'), j.task, coalesce(j.key, ''), coalesce(j.priority, 0),
              coalesce(j.attributes, '{}'), v_after, j.expires_at, j.timeout_ms * interval '1 millisecond',
              coalesce(j.max_tries, 20), coalesce(j.max_crashes, 3), j.retry, j.unique_key, j.given, coalesce(j.payload_version, 1), j.trace)
      on conflict do nothing
      returning id into v_existing;
      if found then
        v_outcome := case when v_supersedes then 'superseded' else 'enqueued' end;
        if j.again and exists (select from ended_jobs(array[v_existing])) then
          delete from queue where id = v_existing;
          v_outcome := 'repeated';
        end if;
        exit;
      end if;
      -- the insert may have waited for a settlement of this id
      if exists (select from queue where id = j.id) or (j.again and exists (select from ended_jobs(array[j.id]))) then
        select j.id, 'repeated' into v_existing, v_outcome;
        exit;
      end if;
      if coalesce(j.mode, 'keep') = 'keep' then
        select id, 'kept' into v_existing, v_outcome from queue where task = j.task and unique_key = j.unique_key;
        exit when found;
        continue;
      end if;
      select id, payload into v_existing, v_stored from queue where task = j.task and unique_key = j.unique_key for update;
      continue when not found;
      v_supersedes := j.mode = 'supersede';
      if cardinality(recall(array[v_existing])) = 0 or (not v_supersedes and is_suspended(v_existing)) then
        update queue set unique_key = null where id = v_existing;
        v_running := v_running || case when v_supersedes then array[v_existing] end;
        continue;
      elsif v_supersedes then
        perform cancel(array[v_existing]);
        continue;
      end if;
      update queue
      set payload = case when j.bound then payload else j.given end, payload_version = coalesce(j.payload_version, 1),
          attributes = coalesce(j.attributes, '{}'), priority = coalesce(j.priority, 0), trace = coalesce(j.trace, trace),
          expires_at = j.expires_at,
          run_after = case when j.mode <> 'debounce' then run_after
                           when v_after is null or created + v_max_wait <= clock_timestamp() then null
                           else least(v_after, created + v_max_wait) end
      where id = v_existing;
      v_outcome := case when j.mode = 'debounce' then 'debounced' else 'replaced' end;
      exit;
    end loop;
    if v_outcome is null then
      raise exception 'unique key % of task % changes hands too fast', j.unique_key, j.task using errcode = '40001';
    end if;
    return query select j.n, v_existing, v_outcome,
      case when j.bound and v_outcome in ('replaced', 'debounced') and v_stored ->> '$enc' <> '' then v_stored end;
  end loop;
  if cardinality(v_running) > 0 then
    perform cancel_superseded(v_running);
  end if;
end
$$;

-- functions/flow/advance.sql

-- Moves flows on: the leader's work. One judge, so no counter decides anything, and nothing is locked by those
-- who settle.

-- Ends a flow that can't be processed, so that it holds up no other. Its jobs in QUEUE go on, and a job that
-- waits for it is woken by the caller.
create function fail_flow(p_flow uuid, p_why text) returns void
  language plpgsql volatile
  set search_path from current
as $$
begin
  update flow_step s set state = 'ended', ended = clock_timestamp(), due = null, stop = false, outcome = case when s.state = 'open' then 'cancelled' else 'skipped' end
  where s.flow = p_flow and s.ended is null;
  update flow f set state = 'failed', ended = clock_timestamp(), reason = 'it can''t be processed: ' || left(p_why, 1900)
  where f.id = p_flow and f.state = 'open';
  delete from flow_tally t where t.flow = p_flow;
end
$$;

-- Advances flows whose rows the caller has locked (advance_set), and isolates those that make it fail. Returns the
-- number of jobs enqueued, and of jobs that waited for a flow and are due now.
-- A flow that has to wait for a lock for more than 100 ms is left as it was, for the next call: an open transaction has
-- enqueued a job with the id of one of its jobs. The renewal of the leader's lease waits for this, too.
create function advance_locked(p_flows uuid[], p_whole uuid[], p_probe boolean) returns integer
  language plpgsql volatile
  set search_path from current
  set lock_timeout = '100ms'
as $$
declare
  v_half integer := cardinality(p_flows) / 2;
begin
  begin
    return advance_set(p_flows, p_whole, p_probe) + wake_waiters(p_flows);
  exception when others then
    if not is_of_row(sqlstate) and sqlstate <> '55P03' then
      raise;
    elsif v_half = 0 and sqlstate = '55P03' then
      return 0;
    elsif v_half = 0 then
      perform fail_flow(p_flows[1], sqlerrm);
      return wake_waiters(p_flows);
    end if;
  end;
  return advance_locked(p_flows[:v_half], array(select w from unnest(p_whole) w where w = any (p_flows[:v_half])), p_probe)
    + advance_locked(p_flows[v_half + 1:], array(select w from unnest(p_whole) w where w = any (p_flows[v_half + 1:])), p_probe);
end
$$;

-- Returns the milliseconds until the next timer or deadline of a flow; null: there is none.
create function flows_due_ms() returns float8
  language plpgsql volatile
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
begin
  return extract(epoch from least(
    (select s.due from flow_step s where s.due is not null order by s.due limit 1),
    (select f.deadline from flow f where f.ended is null and f.stopping is null and f.deadline is not null order by f.deadline limit 1))
    - clock_timestamp())::float8 * 1000;
end
$$;

-- Moves flows on, under the leader's epoch. p_read: {"from", "max", "walk"}: takes up to max tallies from the
-- number from on. walk: also looks for jobs of all open steps of the next 100 open flows from that id on, so that
-- a tally that is missing costs time and never a flow; null: does not. Returns
--   next    the number behind the last tally taken; the leader begins there, and at 0 now and then
--   more    call again at once
--   put     jobs enqueued or woken
--   stops   some open step is to be stopped (stop_jobs)
--   due_ms  milliseconds until the next timer or deadline; null: there is none
--   walked  the last flow that was looked at; null: the walk is at its end
--   open    some flow is open
--   ended   the flows that have ended: [{"id", "name", "state"}]
-- Flows that another session has locked wait for the next call. Tells those who wait for flows which have ended.
create function advance_flows(p_leader text, p_epoch bigint, p_read jsonb) returns jsonb
  language plpgsql volatile security definer
  set plan_cache_mode = force_generic_plan
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_max integer := (p_read ->> 'max')::integer;
  v_next bigint;
  v_taken integer;
  v_asked uuid[];
  v_due uuid[];
  v_walk uuid[] := '{}';
  v_walked uuid;
  v_flows uuid[];
  v_put integer := 0;
  v_late uuid;
  v_ended jsonb;
begin
  perform assert_leader(p_leader, p_epoch);
  -- no number that a program can't hold exactly: rows written by hand may have any
  select max(t.n) filter (where t.n < 2 ^ 53) + 1, count(*), array_agg(distinct t.flow) into v_next, v_taken, v_asked
  from (select t.n, t.flow from flow_tally t where t.n >= (p_read ->> 'from')::bigint order by t.n limit v_max) t;
  for v_late in select f.id from flow f where f.ended is null and f.stopping is null and f.deadline <= v_now order by f.deadline limit 100 loop
    perform stop_flow(v_late, 'its deadline has passed', true);
    v_asked := v_asked || v_late;
  end loop;
  v_due := array(select s.flow from flow_step s where s.due <= v_now order by s.due limit v_max);
  v_asked := v_asked || v_due;
  if p_read -> 'walk' <> 'null' then
    v_walk := array(select f.id from flow f where f.state = 'open' and f.id >= (p_read ->> 'walk')::uuid order by f.id limit 100);
    v_walked := v_walk[100]; -- whether or not its row is locked
  end if;
  v_flows := array(select f.id from flow f where f.id = any (v_asked) order by f.id for update skip locked);
  if cardinality(v_flows) > 0 then
    v_put := advance_locked(v_flows, array(select distinct d from unnest(v_due) d where d = any (v_flows)), false);
  end if;
  -- what is left by jobs of flows that are gone: dead ones may be put back long after
  with gone as (
    delete from flow_tally t where t.flow = any (v_asked) and (select f.id from flow f where f.id = t.flow) is null returning t.flow
  )
  delete from flow_result r using gone g where r.flow = any (array[g.flow]);
  v_walk := array(select f.id from flow f where f.id = any (v_walk) order by f.id for update skip locked);
  -- a flow that only a job waited for goes when the job has ended for good (trim_flows)
  perform stop_flow(f.id, 'the job that waited for it has ended')
  from (select w.id, w.waiter from flow w where w.id = any (v_walk) offset 0) f -- by id, whatever other indexes there are
  where f.waiter is not null and (select q.id from queue q where q.id = f.waiter) is null
    and (select d.id from dead_letter d where d.id = f.waiter) is null;
  if cardinality(v_walk) > 0 then
    v_put := v_put + advance_locked(v_walk, v_walk, true);
  end if;
  select coalesce(jsonb_agg(jsonb_build_object('id', f.id, 'name', f.name, 'state', f.state)), '[]') into v_ended
  from flow f where f.id = any (v_flows || v_walk) and f.ended >= v_now;
  if v_ended = '[]' then
    -- a crash that undoes this leaves the tallies, from which it is done again; the end of a flow must stay as it was told
    perform set_config('synchronous_commit', 'off', true);
  else
    perform hint('flow', case when jsonb_array_length(v_ended) <= 64 then (
      select string_agg(e.flow ->> 'id', ',') from jsonb_array_elements(v_ended) as e (flow)) else '' end);
  end if;
  return jsonb_build_object(
    'next', v_next, 'put', v_put,
    -- jobs are left behind the most that one call enqueues
    'more', v_taken >= v_max or v_put >= 10000,
    'stops', exists (select from flow_step s where s.stop),
    'due_ms', flows_due_ms(),
    'walked', v_walked,
    'open', exists (select from flow f where f.state = 'open'),
    'ended', v_ended);
end
$$;

-- functions/flow/checks.sql

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

-- functions/flow/durable.sql

-- Jobs that wait for a flow of their own, without a slot. Such a job is snoozed, and the flow names it as its
-- waiter, by the token of the attempt that was suspended: only that job, still suspended by that attempt, is
-- woken when the flow ends.

-- Makes the flow that a job waits for, unless it is there. Refuses a flow that was made for another job, or for none: whoever
-- waits for a flow reads its results, and ends it by ending. One that an earlier job of the same id left is dropped:
-- whoever approved that job has not approved this one. Jobs of one id differ in when they were created, which a job keeps
-- when it is put back, or moves.
create function make_wait(p_job uuid, p_created timestamptz, p_flow jsonb) returns void
  language plpgsql volatile
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
declare
  v_flow uuid := (p_flow ->> 'id')::uuid;
begin
  perform drop_flows(array(
    select f.id from flow f where f.id = v_flow and f.waiter = p_job and f.waiter_created <> p_created for update));
  if not exists (select from flow f where f.id = v_flow) then
    -- a signal and a suspension may make it at the same time
    if (select s.outcome from start_flow(p_flow) s) = 'started' then
      update flow f set waiter = p_job, waiter_created = p_created where f.id = v_flow;
    end if;
  end if;
  if not exists (select from flow f where f.id = v_flow and f.waiter = p_job) then
    raise exception 'flow % was not made for job %', v_flow, p_job
      using errcode = '42501', hint = 'Make a new id for each flow that a job waits for.';
  end if;
end
$$;

-- Suspends a running job until a flow has ended, and keeps p_memo as its checkpoint. p_flow: as start_flow takes
-- it; a flow of that id that was made for this job is waited for as it is, and is open again if jobs of it were put
-- back. suspended; ended: the flow has ended, and the job still runs; cancelled: the job's cancellation was asked for,
-- and it has ended; null: the lease was lost, and nothing was changed.
-- A new flow commits with the suspension, so it can't end before. A flow that is there is locked, so its end
-- comes before this, and is seen, or after it, and wakes the job.
-- No deadlock: the leader locks the flow, and then the job's row; this locks the work item, the flow, and the
-- job's row.
create function suspend_job(p_id uuid, p_token uuid, p_memo jsonb, p_flow jsonb) returns text
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
declare
  v_flow uuid := (p_flow ->> 'id')::uuid;
  v_stop boolean;
  v_state text;
  v_verdict text;
  v_back integer[]; -- steps with jobs that were put back
begin
  perform assert_read_committed('a wait for a flow');
  if not fits(p_memo, 393216) then
    raise exception 'what a job keeps of its steps, with its checkpoint, is at most 256 KiB, nested 500 levels deep' using errcode = '22023',
      hint = 'Return less from ctx.step: a reference in place of data.';
  end if;
  select w.cancelled is not null into v_stop from work_queue w where w.id = p_id and w.lock_token = p_token for update;
  if not found then
    return null;
  elsif not v_stop then
    perform make_wait(p_id, (select q.created from queue q where q.id = p_id), p_flow);
    select f.state into v_state from flow f where f.id = v_flow for update;
    if v_state <> 'open' then
      v_back := array(select distinct q.step from queue q where q.flow = v_flow);
      if v_back = '{}' then
        return 'ended';
      end if;
      update flow_step s set state = 'open', outcome = null, ended = null, stop = false where s.flow = v_flow and s.step = any (v_back);
      update flow f set state = 'open', ended = null, stopping = null, reason = null, deadline = null where f.id = v_flow;
      insert into flow_tally (flow) values (v_flow);
    end if;
    update flow f set waiter_token = p_token where f.id = v_flow;
  end if;
  update queue q set checkpoint = p_memo where q.id = p_id;
  select s.verdict into v_verdict
  from settle(array[p_id], array[p_token], array['snooze'], array[3.2e11::float8], array[null::text]) s;
  return case v_verdict when 'snooze' then 'suspended' else v_verdict end;
end
$$;

-- Makes the jobs due that wait for flows which have ended; returns their number. The caller has locked the flows.
-- A job whose row another session has locked waits for the next call, which a tally asks for; one that can't be
-- made due is set aside (make_due), and holds up no other.
create function wake_waiters(p_flows uuid[]) returns integer
  language plpgsql volatile
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
declare
  v_flow record;
  v_woken integer := 0;
begin
  for v_flow in
    select f.id, f.waiter, f.waiter_token from flow f
    where f.id = any (p_flows) and f.state <> 'open' and f.waiter_token is not null
  loop
    if (select q.id from queue q where q.id = v_flow.waiter and q.last_token = v_flow.waiter_token and q.run_after is not null) is not null then
      perform from queue q where q.id = v_flow.waiter for update skip locked;
      if not found then
        insert into flow_tally (flow) values (v_flow.id);
        continue;
      end if;
      v_woken := v_woken + make_due(array(
        select q.id from queue q where q.id = v_flow.waiter and q.last_token = v_flow.waiter_token and q.run_after is not null));
    end if;
    update flow f set waiter_token = null where f.id = v_flow.id;
  end loop;
  return v_woken;
end
$$;

-- The flow in which a job waits for a signal: made from both, so that whoever sends the signal need not know it.
create function signal_flow_of(p_job uuid, p_name text) returns uuid
  language sql immutable
  set search_path from current
as $$ select md5(p_job::text || ':signal:' || p_name)::uuid $$;

-- Gives a job the value of a signal that its handler waits for, or will wait for; the first one wins. signalled;
-- repeated: it has a value; ended: the wait for it is over; busy: it is on its way to another installation, call again;
-- unknown: there is no such job that has not ended. The lock on the job keeps hand_over from taking it away until the
-- signal is committed: then it stays.
-- No deadlock: this locks the job's key, and then the flow; suspend_job locks the flow, and then the job, but not its
-- key.
create function signal_job(p_job uuid, p_name text, p_value jsonb default null) returns text
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
declare
  v_flow uuid := signal_flow_of(p_job, p_name);
  v_task text;
  v_created timestamptz;
begin
  if length(p_name) not between 1 and 100 then
    raise exception 'the name of a signal of a job has 1 to 100 characters' using errcode = '22023';
  end if;
  select q.task, q.created into v_task, v_created from queue q where q.id = p_job for key share;
  if not found then
    return case when exists (select from handover h where h.id = p_job) then 'busy' else 'unknown' end;
  end if;
  perform make_wait(p_job, v_created, jsonb_build_object(
    'id', v_flow, 'name', left(v_task, 99) || ': ' || left(p_name, 99),
    'steps', jsonb_build_array(jsonb_build_object('name', p_name, 'kind', 'signal'))));
  return signal_flow(v_flow, p_name, p_value);
end
$$;

-- Forgets the signals that jobs were given or wait for. p_which: all; waiting: those without a value; plain: those whose
-- value is not encrypted. A value was given for the work as it was then: whoever approved one payload has not approved
-- another.
create function forget_signals(p_jobs uuid[], p_which text) returns void
  language plpgsql volatile
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
begin
  perform drop_flows(array(
    select f.id from unnest(p_jobs) as j (id)
      cross join lateral (select f.id, f.state from flow f where f.waiter = j.id for update) f
    where (select s.step from flow_step s where s.flow = f.id and s.kind = 'jobs' limit 1) is null
      and case p_which when 'all' then true when 'waiting' then f.state <> 'done'
        else (select r.job from flow_result r where r.flow = f.id and not coalesce(r.result ? '$enc', false) limit 1) is not null end));
end
$$;

-- Reports whether a job is suspended: its handler has begun, and waits for a flow.
create function is_suspended(p_id uuid) returns boolean
  language plpgsql stable
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
begin
  return exists (
    select from flow f where f.waiter = p_id and f.waiter_token = (select q.last_token from queue q where q.id = p_id));
end
$$;

-- Returns when a job that waits for a retry or the end of a snooze is due, in milliseconds. 8.64e15 (neverMs in
-- @pgqueue/core): the job is suspended, and its run_after, ten years on, stands for no time.
create function retry_due_ms(p_id uuid, p_run_after timestamptz) returns float8
  language plpgsql stable
  set search_path from current
as $$
begin
  if p_run_after > clock_timestamp() + interval '5 years' and is_suspended(p_id) then
    return 8.64e15;
  end if;
  return date_part('epoch', p_run_after) * 1000;
end
$$;

-- functions/flow/jobs.sql

-- Jobs of flows: how they get into QUEUE, and what is noted when they leave it.

-- Enqueues jobs of steps: for each place of the lists, an array of objects as enqueue_unique takes them. A delay
-- counts from now. Returns how many were inserted: an id that is there already is left alone.
create function put_jobs(p_flows uuid[], p_steps integer[], p_jobs jsonb[]) returns integer
  language plpgsql volatile
  set plan_cache_mode = force_generic_plan
  set search_path from current
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_count integer;
begin
  insert into queue (id, queue, task, key, priority, attributes, run_after, expires_at, timeout, max_tries, max_crashes, retry,
                     payload, payload_version, trace, flow, step)
  select coalesce(x.id, uuid_v7()), coalesce(x.queue, 'default'), x.task, coalesce(x.key, ''), coalesce(x.priority, 0), coalesce(x.attributes, '{}'),
         nullif(greatest(coalesce(x.run_after, v_now + x.delay_ms * interval '1 millisecond'), v_now), v_now),
         x.expires_at, x.timeout_ms * interval '1 millisecond', coalesce(x.max_tries, 20), coalesce(x.max_crashes, 3), x.retry,
         -- a payload may be null, and is {} if there is none
         coalesce(x.payload, s.jobs -> (x.ordinality - 1)::integer -> 'payload', '{}'), coalesce(x.payload_version, 1), x.trace, s.flow, s.step
  from unnest(p_flows, p_steps, p_jobs) as s (flow, step, jobs) cross join lateral rows from (jsonb_to_recordset(s.jobs) as (
    id uuid, queue text, task text, key text, priority integer, attributes jsonb, run_after timestamptz, delay_ms float8,
    expires_at timestamptz, timeout_ms float8, max_tries smallint, max_crashes smallint, retry jsonb, payload jsonb,
    payload_version integer, trace jsonb)) with ordinality as x
  on conflict do nothing;
  get diagnostics v_count = row_count;
  return v_count;
end
$$;

-- Checks jobs of steps that are released later, an array of objects for each step, by the rules of QUEUE: so that a release
-- can't fail for them.
create function check_later_jobs(p_jobs jsonb[]) returns void
  language plpgsql stable
  set search_path from current
as $$
declare
  v_usual queue := jsonb_populate_record(null::queue, '{"created": "2000-01-01", "priority": 0, "payload_version": 1, "tries": 0, "max_tries": 20,
    "crashes": 0, "max_crashes": 3, "queue": "default", "key": "", "attributes": {}, "payload": {}}');
  -- columns that put_jobs takes from no job
  c_not_given constant text[] := '{seq, created, timeout, tries, crashes, unique_key, errors, last_token, checkpoint, moved, flow, step}';
begin
  -- check_job raises what it refuses. By the names of columns: QUEUE may have more, of somebody else
  if exists (
    select from unnest(p_jobs) as s (jobs) cross join lateral jsonb_array_elements(s.jobs) as j (job)
    where j.job ->> 'task' is null or ((j.job ->> 'delay_ms')::float8 between 0 and 3.2e11) is false
      or not check_job(jsonb_populate_record(v_usual, case when j.job ? 'timeout_ms'
           then (j.job - c_not_given) || jsonb_build_object('timeout', (j.job ->> 'timeout_ms')::float8 * interval '1 millisecond')
           else j.job - c_not_given end)))
  then
    raise exception 'each job of a flow has a task, and a delay of 0 to 3.2e11 ms' using errcode = 'check_violation', table = 'queue', constraint = 'queue_task_check';
  end if;
end
$$;

-- Enqueues jobs of those of the given steps that are open and have some that are not in QUEUE yet: chunks with up to p_max
-- jobs in all, in the order of flows, steps and chunks, and a chunk that goes beyond. Returns their number. Flows of which
-- jobs are left get a tally, so that the next call takes them.
create function release_jobs(p_steps step_ref[], p_max integer) returns integer
  language plpgsql volatile
  set search_path from current
as $$
declare
  v_flows uuid[];
  v_steps integer[];
  v_jobs jsonb[];
begin
  if p_steps = '{}' then
    return 0;
  end if;
  with waiting as materialized (
    select s.flow, s.step, s.jobs, s.unreleased, (sum(s.unreleased) over (order by s.flow, s.step) - s.unreleased)::integer as before
    from unnest(p_steps) as x
    -- by a limit, so that no plan begins with the table
    cross join lateral (
      select s.* from flow_step s
      where s.flow = x.flow and s.step = x.step and s.state = 'open' and not s.stop and s.unreleased > 0 limit 1) s
  ),
  taken as materialized (
    select w.*, least(w.unreleased, ((p_max - w.before + 499) / 500) * 500) as size, cardinality(w.jobs) - (w.unreleased + 499) / 500 as behind
    from waiting w where w.before < p_max
  ),
  released as (
    update flow_step s set unreleased = t.unreleased - t.size, jobs = case when t.size < t.unreleased then s.jobs end
    from taken t where s.flow = any (array[t.flow]) and s.step = t.step
  ),
  left_over as (
    insert into flow_tally (flow)
    select distinct w.flow from waiting w left join taken t on t.flow = w.flow and t.step = w.step where (t.size < w.unreleased) is not false
  )
  select array_agg(t.flow order by t.flow, t.step, c.n), array_agg(t.step order by t.flow, t.step, c.n), array_agg(c.jobs order by t.flow, t.step, c.n)
  into v_flows, v_steps, v_jobs
  from taken t cross join lateral unnest(t.jobs[t.behind + 1 : t.behind + (t.size + 499) / 500]) with ordinality as c (jobs, n);
  return case when v_flows is null then 0 else put_jobs(v_flows, v_steps, v_jobs) end;
end
$$;

-- Notes that jobs of flows have left QUEUE: the results that dependents may read, and a tally for each step. In
-- the transaction that removes them, so a repeated settlement, which finds nothing to remove, counts nothing.
-- A job that had ended before, and was put back, has the note of that end until now: without it, it would look done.
-- Takes no lock on a flow or a step.
create function note_ends(p_ends flow_end[]) returns void
  language plpgsql volatile
  set plan_cache_mode = force_generic_plan
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
declare
  v_noted boolean;
begin
  insert into flow_result as r (flow, step, job, outcome, result, task)
  select e.flow, e.step, e.job, e.outcome, e.result, e.task from unnest(p_ends) e
  where e.outcome <> 'done' or e.result is not null
  on conflict (flow, step, job) do update set outcome = excluded.outcome, result = excluded.result, task = excluded.task;
  -- most steps have no notes: looked for once a step, not once a job
  with steps as materialized (
    select e.flow, e.step, count(*) filter (where e.outcome = 'done') as done, count(*) filter (where e.outcome = 'dead') as failed,
           count(*) filter (where e.outcome not in ('done', 'dead')) as other,
           count(*) filter (where e.outcome = 'done' and e.result is null) as silent
    from unnest(p_ends) e group by e.flow, e.step
  ),
  tallied as (
    insert into flow_tally (flow, step, done, failed, other) select s.flow, s.step, s.done, s.failed, s.other from steps s
  )
  select bool_or((select r.job from flow_result r where r.flow = s.flow and r.step = s.step limit 1) is not null) into v_noted
  from steps s where s.silent > 0;
  if v_noted then
    delete from flow_result r using unnest(p_ends) e
    where e.outcome = 'done' and e.result is null and r.flow = any (array[e.flow]) and r.step = e.step and r.job = e.job;
  end if;
end
$$;

-- Adds jobs to the step of a running job, named by its token. False: the lease was lost, and nothing was added.
-- The job's own row stands in QUEUE until it is settled, so the step can't have ended before its new jobs are
-- there. Locks the work item, so a settlement or a takeover under way ends first. A job without a flow just
-- enqueues the jobs. p_again: the reply of an earlier call with these ids may have been lost; its jobs may have
-- ended since, which is known as far back as history reaches, and of those with a result as long as their flow.
create function add_jobs(p_id uuid, p_token uuid, p_jobs jsonb, p_again boolean default false) returns boolean
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
declare
  v_flow uuid;
  v_step integer;
  v_count integer;
begin
  perform from work_queue w where w.id = p_id and w.lock_token = p_token for update;
  if not found then
    return false;
  end if;
  select q.flow, q.step into v_flow, v_step from queue q where q.id = p_id;
  if not found then
    return false;
  end if;
  if p_again then
    perform assert_read_committed('an enqueue with an id of its own');
    -- waits for settlements under way, or the insert would wait for them, and enqueue what they end
    perform from queue q where q.id = any (array(select (x.job ->> 'id')::uuid from jsonb_array_elements(p_jobs) as x (job)))
    order by q.id for key share;
    p_jobs := (
      select coalesce(jsonb_agg(x.job order by x.n), '[]')
      from jsonb_array_elements(p_jobs) with ordinality as x (job, n)
      where (select e.id from ended_jobs(array[(x.job ->> 'id')::uuid]) e limit 1) is null
        and (select r.job from flow_result r where r.flow = v_flow and r.step = v_step and r.job = (x.job ->> 'id')::uuid) is null);
  end if;
  v_count := put_jobs(array[v_flow], array[v_step], array[p_jobs]);
  if v_flow is not null and v_count > 0 then
    insert into flow_tally (flow, step, added) values (v_flow, v_step, v_count);
  end if;
  return true;
end
$$;

-- Ends a running job as done, and adds jobs to its step in the same transaction: so exactly once. False: the
-- lease was lost, and nothing was changed.
create function fan_out(p_id uuid, p_token uuid, p_result text, p_jobs jsonb) returns boolean
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  if not add_jobs(p_id, p_token, p_jobs) then
    return false;
  end if;
  return exists (select from settle(array[p_id], array[p_token], array['done'], array[null::float8], array[p_result]));
end
$$;

-- functions/flow/operate.sql

-- Operations on flows.

-- Asks for the end of a flow: its blocked steps are skipped, signals and timers end, and the leader cancels the
-- jobs of its open steps (stop_jobs). p_skip: leave a flow alone that another session has locked. False: it has ended,
-- or is stopping already.
create function stop_flow(p_flow uuid, p_reason text, p_skip boolean default false) returns boolean
  language plpgsql volatile
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
declare
  v_now timestamptz := clock_timestamp();
begin
  if p_skip then
    perform from flow f where f.id = p_flow and f.state = 'open' and f.stopping is null for update skip locked;
  else
    perform from flow f where f.id = p_flow and f.state = 'open' and f.stopping is null for update;
  end if;
  if not found then
    return false;
  end if;
  update flow f set stopping = v_now, reason = p_reason where f.id = p_flow;
  update flow_step s
  set stop = s.state = 'open' and s.kind = 'jobs',
      state = case when s.state = 'open' and s.kind = 'jobs' then 'open' else 'ended' end,
      outcome = case when s.state = 'blocked' then 'skipped' when s.kind <> 'jobs' then 'cancelled' end,
      ended = case when s.state = 'blocked' or s.kind <> 'jobs' then v_now end,
      due = null
  where s.flow = p_flow and s.ended is null;
  insert into flow_tally (flow) values (p_flow);
  return true;
end
$$;

-- Cancels a flow: waiting jobs end, running ones are told. cancelling; ended: it has ended, or is being cancelled;
-- unknown.
create function cancel_flow(p_flow uuid, p_reason text default 'cancelled by an operator') returns text
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
begin
  perform assert_read_committed('the cancellation of a flow');
  if stop_flow(p_flow, left(p_reason, 2000)) then
    perform hint('flow');
    return 'cancelling';
  end if;
  return case when exists (select from flow f where f.id = p_flow) then 'ended' else 'unknown' end;
end
$$;

-- Cancels up to p_max jobs of open steps that are to be stopped; returns how many of them were left. The leader
-- calls it until none is. Rows that another session has locked wait for the next call.
create function stop_jobs(p_leader text, p_epoch bigint, p_max integer) returns integer
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
declare
  v_ids uuid[];
begin
  perform assert_leader(p_leader, p_epoch);
  v_ids := array(
    select q.id from flow_step s cross join lateral (
      select q.id from queue q
      where q.flow = s.flow and q.step = s.step and (select w.id from work_queue w where w.id = q.id and w.cancelled is not null) is null
      limit p_max for update skip locked) q
    where s.stop limit p_max);
  if cardinality(v_ids) > 0 then
    perform cancel(v_ids);
  end if;
  return cardinality(v_ids);
end
$$;

-- Runs what failed in a flow again: all of it, or what failed in a step and behind it (p_step), and no other part. Dead jobs go back
-- into QUEUE, and jobs that were cancelled or expired, as far as history reaches; steps that failed are open
-- again, and those that were skipped because of them wait again. Steps that ran because of the failure have run.
-- retried; nothing: no step failed; unknown; stopping: it is being cancelled; key_taken: another open flow of its
-- name has its unique key. jobs: how many are back. gone: how many are not, since neither the dead letters nor
-- history have them.
create function retry_flow(p_flow uuid, p_step text default null) returns table (outcome text, jobs integer, gone integer)
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_flow flow;
  v_failed integer[];
  v_skipped integer[]; -- of a flow that was cancelled
  v_behind integer[];
  v_dead uuid[];
  v_back integer := 0;
  v_lost integer := 0;
begin
  perform assert_read_committed('a retry of a flow');
  select f.* into v_flow from flow f where f.id = p_flow for update;
  if not found or (p_step is not null and not exists (select from flow_step s where s.flow = p_flow and s.name = p_step)) then
    return query select 'unknown', 0, 0;
    return;
  elsif v_flow.state = 'open' and v_flow.stopping is not null then
    return query select 'stopping', 0, 0;
    return;
  end if;
  perform count_tallies(array[p_flow]);
  -- in place of those: the leader has not seen them
  insert into flow_tally (flow) values (p_flow);
  -- steps one by one, by limits: no plan compares all of a flow with all
  with recursive reached as (
    select s.step from flow_step s where s.flow = p_flow and (p_step is null or s.name = p_step)
    union
    select f.step from reached r
      cross join lateral (select n.feeds from flow_step n where n.flow = p_flow and n.step = r.step limit 1) n cross join lateral unnest(n.feeds) as f (step))
  select array_agg(r.step) filter (where s.failed), array_agg(r.step) filter (where s.skipped) into v_failed, v_skipped
  from reached r cross join lateral (
    select s.outcome in ('failed', 'cancelled') or (s.state = 'open' and s.failed > 0) as failed,
           s.outcome = 'skipped' and v_flow.state = 'cancelled' as skipped
    from flow_step s where s.flow = p_flow and s.step = r.step limit 1) s;
  with recursive behind as (
    select f.step from flow_step n cross join lateral unnest(n.feeds) as f (step) where n.flow = p_flow and n.step = any (v_failed)
    union
    select f.step from behind b
      cross join lateral (select s.feeds from flow_step s where s.flow = p_flow and s.step = b.step and s.outcome = 'skipped' limit 1) s
      cross join lateral unnest(s.feeds) as f (step))
  select array_agg(b.step) into v_behind
  from behind b cross join lateral (select from flow_step s where s.flow = p_flow and s.step = b.step and s.outcome = 'skipped' limit 1) s;
  if v_failed is null and v_skipped is null then
    return query select 'nothing', 0, 0;
    return;
  elsif v_flow.state = 'cancelled' then
    -- all that the cancellation skipped; what a condition skipped is skipped again
    v_behind := v_skipped;
  end if;
  -- and signals and timers that ended since none of these waited any more
  with recursive awaited as (
    select x.step from unnest(v_behind) as x (step)
    union
    select n.step from awaited a
      cross join lateral (select d.needs from flow_step d where d.flow = p_flow and d.step = a.step limit 1) d cross join lateral unnest(d.needs) as n (step)
      cross join lateral (select from flow_step e where e.flow = p_flow and e.step = n.step and e.outcome = 'skipped' and e.kind <> 'jobs' limit 1) e)
  select array_agg(a.step) into v_behind from awaited a;
  -- first of all, so that nothing is to be undone if its unique key is taken; who asks for that key meanwhile waits
  begin
    update flow f
    set state = 'open', ended = null, stopping = null, reason = null, deadline = case when f.state = 'open' then f.deadline end
    where f.id = p_flow;
  exception when unique_violation then
    return query select 'key_taken', 0, 0;
    return;
  end;
  v_dead := array(select d.id from dead_letter d where d.flow = p_flow and d.step = any (v_failed));
  select count(*) into v_back from redrive(v_dead);
  v_back := v_back + revive(p_flow, v_failed);
  update flow_step s
  set state = 'blocked', outcome = null, ended = null, opened = null, due = null, stop = false
  where s.flow = p_flow and s.step = any (v_behind);
  update flow_step s
  set state = 'open', outcome = null, ended = null, stop = false, due = clock_timestamp() + s.delay
  where s.flow = p_flow and s.step = any (v_failed);
  perform count_tallies(array[p_flow]);
  select coalesce(sum(s.failed + s.other), 0) into v_lost from flow_step s where s.flow = p_flow and s.step = any (v_failed);
  perform judge_again(p_flow, v_behind);
  insert into flow_tally (flow) values (p_flow);
  perform hint('flow');
  return query select 'retried', v_back, v_lost;
end
$$;

-- Returns what history keeps of a cancelled or expired job of a flow, so that revive enqueues it as it was; null: the
-- defaults.
create function settings_of(p_timeout interval, p_max_tries smallint, p_max_crashes smallint, p_retry jsonb) returns jsonb
  language sql immutable
  set search_path from current
as $$
  select nullif(jsonb_strip_nulls(jsonb_build_object(
    'timeout_s', extract(epoch from p_timeout)::float8, 'max_tries', nullif(p_max_tries, 20), 'max_crashes', nullif(p_max_crashes, 3),
    'retry', p_retry)), '{}')
$$;

-- Enqueues the jobs of steps again that were cancelled or expired, from history: a part of retry_flow. Returns
-- their number. They begin anew, so they may be given the signals that they never got, and wait no more for jobs that they
-- had enqueued: those are cancelled, unless the leader's walk has done it.
create function revive(p_flow uuid, p_steps integer[]) returns integer
  language plpgsql volatile
  set plan_cache_mode = force_custom_plan
  set search_path from current
as $$
declare
  v_back uuid[];
begin
  with back as (
    insert into queue (id, queue, task, key, priority, created, payload_version, attributes, payload, trace, errors, flow, step,
                       timeout, max_tries, max_crashes, retry)
    select h.id, h.queue, h.task, h.key, h.priority, h.created, h.payload_version, h.attributes, h.payload, h.trace, h.errors, h.flow, h.step,
           (h.settings -> 'timeout_s')::float8 * interval '1 second', coalesce((h.settings -> 'max_tries')::smallint, 20),
           coalesce((h.settings -> 'max_crashes')::smallint, 3), h.settings -> 'retry'
    from history h where h.flow = p_flow and h.step = any (p_steps) and h.outcome in ('cancelled', 'expired')
    on conflict do nothing
    returning id, step
  ),
  tallied as (
    insert into flow_tally (flow, step, other) select p_flow, b.step, -count(*) from back b group by b.step
  )
  select array_agg(b.id) into v_back from back b;
  -- by a filter, which is hashed as the plan knows the list: without statistics, a join compared each with each
  delete from history h where h.flow = p_flow and h.step = any (p_steps) and h.id = any (v_back) and h.outcome in ('cancelled', 'expired');
  perform forget_signals(v_back, 'waiting');
  perform stop_flow(w.id, 'the job that waited for it begins anew')
  from unnest(v_back) as b (id) cross join lateral (select f.id, f.state from flow f where f.waiter = b.id for update) w
  where w.state = 'open';
  return coalesce(cardinality(v_back), 0);
end
$$;

-- Opens or skips blocked steps that wait for nothing which is still to end, as it may be after a retry. Judges by
-- the needs' outcomes as they are. Then counts the open needs of all blocked steps anew: those that were blocked
-- all along may wait once more for a step that is open again.
create function judge_again(p_flow uuid, p_steps integer[]) returns void
  language plpgsql volatile
  set search_path from current
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_steps integer[] := p_steps; -- of this round: behind the first one, those that wait for what the last one has skipped
begin
  while v_steps is not null loop
    with needing as materialized (
      -- by limits, so that no plan begins with a table
      select d.flow, d.step, d.wants, count(n.needed) as needs, count(*) filter (where e.state = 'ended') as ended,
             count(*) filter (where e.state = 'ended' and need_met(e.conditions[array_position(e.feeds, d.step)], e.outcome)) as met
      from unnest(v_steps) as x (step)
        cross join lateral (
          select d.flow, d.step, d.wants, d.needs from flow_step d
          where d.flow = p_flow and d.step = x.step and d.state = 'blocked' limit 1) d
        left join lateral unnest(d.needs) as n (needed) on true
        left join lateral (
          select e.state, e.outcome, e.feeds, e.conditions from flow_step e where e.flow = d.flow and e.step = n.needed limit 1) e on true
      group by d.flow, d.step, d.wants
    ),
    judged as (
      update flow_step s
      set state = case when v.opens then 'open' else 'ended' end, outcome = case when v.opens then null else 'skipped' end,
          ended = case when v.opens then null else v_now end, opened = case when v.opens then v_now end,
          due = case when v.opens then v_now + s.delay end
      from needing c
      cross join lateral (
        select case when c.wants = 'all' or c.needs = 0 then c.met = c.needs else c.met > 0 end as opens,
               case c.wants when 'all' then c.met < c.ended else c.met = 0 and c.ended = c.needs end as skips) v
      where s.flow = any (array[c.flow]) and s.step = c.step and (v.opens or v.skips)
      returning s.outcome, s.feeds
    )
    select array_agg(distinct f.step) into v_steps from judged j cross join lateral unnest(j.feeds) as f (step) where j.outcome = 'skipped';
  end loop;
  update flow_step s
  set open_needs = (
    select count(*) from unnest(s.needs) as n (step)
    where (select e.outcome is null from flow_step e where e.flow = s.flow and e.step = n.step limit 1))
  where s.flow = p_flow and s.ended is null and s.state = 'blocked';
end
$$;

-- functions/flow/reads.sql

-- Reads of flows and their results.

-- Tells the state of flows; one that is missing never was, or its retention is over.
create function flow_state(p_ids uuid[]) returns table (id uuid, name text, state text, reason text, ended timestamptz)
  language sql stable security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$ select f.id, f.name, f.state, f.reason, f.ended from flow f where f.id = any (p_ids) $$;

-- Lists the ends of a step's jobs in the order of job ids, from behind p_after on: those with a result, and those
-- that are not done. A signal is listed with the flow's id, and without a task.
create function flow_results(p_flow uuid, p_step integer, p_after uuid default null, p_max integer default 1000)
  returns table (job uuid, outcome text, result jsonb, task text)
  language sql stable security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
  select r.job, r.outcome, r.result, r.task from flow_result r
  where r.flow = p_flow and r.step = p_step
    and r.job >= coalesce(p_after, '00000000-0000-0000-0000-000000000000') and r.job is distinct from p_after
  order by r.job limit p_max
$$;

-- Lists results of a step by its name (flow_results); that of a signal has no job. Without any there is a row that has not
-- ended; no row: there is no such step. The flow's id is all that its reader needs, as with the result of a job.
create function step_results(p_flow uuid, p_step text, p_after uuid default null, p_max integer default 1000)
  returns table (job uuid, outcome text, result jsonb, task text, ended boolean)
  language sql stable security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
  select case when s.kind <> 'signal' then r.job end, r.outcome, r.result, r.task, r.job is not null
  from flow_step s left join lateral flow_results(s.flow, s.step, p_after, p_max) r on true
  where s.flow = p_flow and s.name = p_step
  order by r.job
$$;

-- Lists the steps that the step of a running job waited for, for the holder of its token. A job that was put back
-- counts by its former end, as flow_results lists it, until it ends again.
create function needs_of(p_id uuid, p_token uuid)
  returns table (name text, step integer, condition text, outcome text, done integer, failed integer, other integer)
  language sql stable security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
  select e.name, e.step, e.conditions[array_position(e.feeds, d.step)], e.outcome, e.done,
         case when b.back then l.failed else e.failed end, case when b.back then l.other else e.other end
  from (select q.flow, q.step from queue q where q.id = p_id limit 1) q
  join flow_step d on d.flow = any (array[q.flow]) and d.step = q.step
  cross join lateral unnest(d.needs) as n (step)
  join flow_step e on e.flow = any (array[d.flow]) and e.step = n.step
  cross join lateral (
    select (
      select b.id from queue b
      where b.flow = e.flow and b.step = e.step
        and (select r.job from flow_result r where r.flow = e.flow and r.step = e.step and r.job = b.id) is not null
      limit 1) is not null as back) b
  cross join lateral (
    select count(*) filter (where r.outcome = 'dead')::integer as failed, count(*) filter (where r.outcome not in ('done', 'dead'))::integer as other
    from flow_result r where r.flow = e.flow and r.step = e.step and b.back) l
  where (select w.id from work_item w where w.id = p_id and w.lock_token = p_token) is not null
  order by e.step
$$;

-- Lists results of a step that the step of a running job waited for (flow_results), for the holder of its token.
create function need_results(p_id uuid, p_token uuid, p_step integer, p_after uuid default null, p_max integer default 1000)
  returns table (job uuid, outcome text, result jsonb, task text)
  language sql stable security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
  select r.job, r.outcome, r.result, r.task
  from needs_of(p_id, p_token) n, queue q, flow_results(q.flow, p_step, p_after, p_max) r
  where n.step = p_step and q.id = p_id
  order by r.job
$$;

-- Lists results of the flow that a running job has waited for (flow_results), for the holder of its token.
create function own_results(p_id uuid, p_token uuid, p_flow uuid, p_step integer, p_after uuid default null, p_max integer default 1000)
  returns table (job uuid, outcome text, result jsonb, task text)
  language sql stable security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
  select r.job, r.outcome, r.result, r.task
  from flow f, flow_results(f.id, p_step, p_after, p_max) r
  where f.id = p_flow and f.waiter = p_id
    and (select w.id from work_item w where w.id = p_id and w.lock_token = p_token limit 1) is not null
  order by r.job
$$;

-- functions/flow/start.sql

-- Starts flows in the caller's transaction: each flow, its steps and needs, and the jobs of steps without needs.
-- p_flows: an array of {"id", "name", "key", "unique_key", "deadline_ms", "trace", "steps": [{"name", "kind", "wants",
-- "needs": [[step, condition]], "delay_ms", "stop_after", "jobs": [...]}]}; a step's number is its index, from 0.
-- n: the flow's index, from 0. outcome: started; repeated: a flow of that id is there; kept: an open flow of that name has the
-- unique key, and flow_id is that one.
-- A step needs earlier steps only, so no flow has a cycle.
create function start_flows(p_flows jsonb) returns table (n integer, flow_id uuid, outcome text)
  language plpgsql volatile security definer
  set plan_cache_mode = force_generic_plan
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_mergejoin = off
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_opened record;
  v_flows jsonb[] := '{}'; -- with v_ids: those that are new
  v_ids uuid[] := '{}';
begin
  for v_n in 0 .. jsonb_array_length(p_flows) - 1 loop
    n := v_n;
    v_opened := open_flow(p_flows -> v_n, v_now);
    flow_id := v_opened.flow_id;
    outcome := v_opened.outcome;
    return next;
    if outcome = 'started' then
      v_flows := v_flows || (p_flows -> v_n);
      v_ids := v_ids || flow_id;
    end if;
  end loop;
  if v_ids <> '{}' then
    perform nextval('flow_tally_n_seq'); -- a tick sees that there are flows, and the leader listens for the ends of their jobs
    perform make_steps(v_ids, v_flows, v_now);
  end if;
end
$$;

-- Starts one flow, as start_flows does.
create function start_flow(p_flow jsonb) returns table (flow_id uuid, outcome text)
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  return query select s.flow_id, s.outcome from start_flows(jsonb_build_array(p_flow)) s;
end
$$;

-- Makes the row of a flow; an id or a unique key that is taken is told. A part of start_flows, whose settings plan it.
create function open_flow(p_flow jsonb, p_now timestamptz, out flow_id uuid, out outcome text)
  language plpgsql volatile
  set search_path from current
as $$
declare
  v_steps jsonb := coalesce(p_flow -> 'steps', '[]');
  v_other uuid;
begin
  flow_id := coalesce((p_flow ->> 'id')::uuid, uuid_v7());
  if jsonb_typeof(v_steps) <> 'array' or jsonb_array_length(v_steps) not between 1 and 10000 then
    raise exception 'a flow has 1 to 10,000 steps' using errcode = '22023';
  end if;
  for attempt in 1..20 loop
    insert into flow (id, name, key, unique_key, created, deadline, trace)
    values (flow_id, p_flow ->> 'name', coalesce(p_flow ->> 'key', ''), p_flow ->> 'unique_key', clock_timestamp(),
            p_now + (p_flow ->> 'deadline_ms')::float8 * interval '1 millisecond', nullif(p_flow -> 'trace', 'null'))
    on conflict do nothing;
    outcome := case when found then 'started' when exists (select from flow f where f.id = flow_id) then 'repeated' end;
    if outcome is not null then
      return;
    end if;
    select f.id into v_other from flow f where f.name = p_flow ->> 'name' and f.unique_key = p_flow ->> 'unique_key' and f.state = 'open';
    if found then
      flow_id := v_other;
      outcome := 'kept';
      return;
    end if;
  end loop;
  raise exception 'unique key % of flow % changes hands too fast', p_flow ->> 'unique_key', p_flow ->> 'name' using errcode = '40001';
end
$$;

-- Makes the steps of new flows, and enqueues the jobs of those that need no other step: a part of start_flows, whose settings
-- plan it.
create function make_steps(p_ids uuid[], p_flows jsonb[], p_now timestamptz) returns void
  language plpgsql volatile
  set search_path from current
as $$
declare
  v_many boolean;
  v_same boolean; -- two steps of a flow have one name
  v_wrong boolean; -- a step needs one that is not before it, or one twice
  v_flows uuid[]; -- with v_steps and v_jobs: steps whose jobs are enqueued at once
  v_steps integer[];
  v_jobs jsonb[];
  v_size integer;
  v_later jsonb[]; -- jobs of the others
begin
  with given as materialized (
    select f.id as flow, (x.n - 1)::integer as step, x.name, coalesce(x.kind, 'jobs') as kind, coalesce(x.wants, 'all') as wants, x.stop_after,
           x.delay_ms * interval '1 millisecond' as delay, case when jsonb_typeof(x.needs) = 'array' and x.needs <> '[]' then x.needs end as needs,
           case when jsonb_typeof(x.jobs) = 'array' then x.jobs end as jobs
    from unnest(p_ids, p_flows) as f (id, flow) cross join lateral
      rows from (jsonb_to_recordset(f.flow -> 'steps') as (name text, kind text, wants text, stop_after integer, delay_ms float8, needs jsonb, jobs jsonb))
      with ordinality as x (name, kind, wants, stop_after, delay_ms, needs, jobs, n)
  ),
  edges as materialized (
    select g.flow, g.step, (n.need ->> 0)::integer as needed, coalesce(n.need ->> 1, 'done') as condition
    from given g cross join lateral jsonb_array_elements(g.needs) as n (need)
  ),
  fed as (
    select e.flow, e.needed, array_agg(e.step order by e.step) as feeds, array_agg(e.condition order by e.step) as conditions
    from edges e group by e.flow, e.needed
  ),
  needing as (select e.flow, e.step, array_agg(e.needed order by e.needed) as needs from edges e group by e.flow, e.step),
  steps as materialized (
    select g.*, coalesce(jsonb_array_length(g.jobs), 0) as size, coalesce(n.needs, '{}') as numbers, coalesce(cardinality(n.needs), 0) as open_needs,
           n.step is not null as later, coalesce(f.feeds, '{}') as feeds, coalesce(f.conditions, '{}') as conditions
    from given g left join needing n on n.flow = g.flow and n.step = g.step left join fed f on f.flow = g.flow and f.needed = g.step
  ),
  made as (
    insert into flow_step (flow, step, name, kind, state, wants, needs, feeds, conditions, open_needs, added, unreleased, stop_after, delay, due, opened, jobs)
    select s.flow, s.step, s.name, s.kind, case when s.later then 'blocked' else 'open' end, s.wants, s.numbers, s.feeds, s.conditions, s.open_needs,
           case when s.kind = 'jobs' then s.size else 0 end, case when s.later then s.size else 0 end, s.stop_after, s.delay,
           case when not s.later then p_now + s.delay end, case when not s.later then p_now end, case
             when not s.later or s.size = 0 then null
             -- each has an id: a release that a crash undid, after its jobs had begun, is done again with the same ones; and
             -- times with an offset, as the caller's settings read them: the session that releases them may have others
             when s.size <= 500 and not jsonb_path_exists(s.jobs, '$[*] ? (!exists (@.id) || @.id == null || exists (@.run_after) || exists (@.expires_at))') then array[s.jobs]
             else array(
               select jsonb_agg(j.job || jsonb_strip_nulls(jsonb_build_object(
                 'id', coalesce((j.job ->> 'id')::uuid, uuid_v7()), 'run_after', (j.job ->> 'run_after')::timestamptz,
                 'expires_at', (j.job ->> 'expires_at')::timestamptz)) order by j.n)
               from jsonb_array_elements(s.jobs) with ordinality as j (job, n) group by (j.n - 1) / 500 order by (j.n - 1) / 500) end
    from steps s
  ),
  counted as materialized (
    select s.flow, greatest(sum(s.size), sum(s.open_needs)) > 100000 as many, count(distinct s.name) < count(s.name) as same,
           bool_or(not s.later and s.size = 0) as empty
    from steps s group by s.flow
  ),
  -- an open step has no jobs, or the leader is to know the deadline: it need not know of jobs before one has ended
  tallied as (
    insert into flow_tally (flow)
    select c.flow from counted c join unnest(p_ids, p_flows) as f (id, flow) on f.id = c.flow where c.empty or f.flow ->> 'deadline_ms' is not null
  )
  select (select bool_or(c.many) from counted c), (select bool_or(c.same) from counted c),
         exists (select from edges e where (e.needed between 0 and e.step - 1) is not true)
           or exists (select from edges e group by e.flow, e.step, e.needed having count(*) > 1),
         array_agg(s.flow order by s.flow, s.step) filter (where not s.later), array_agg(s.step order by s.flow, s.step) filter (where not s.later),
         array_agg(s.jobs order by s.flow, s.step) filter (where not s.later), sum(s.size) filter (where not s.later),
         array_agg(s.jobs) filter (where s.later)
  into v_many, v_same, v_wrong, v_flows, v_steps, v_jobs, v_size, v_later
  from steps s where s.jobs is not null;
  if v_wrong then
    raise exception 'a step needs steps that come before it in the list, each once' using errcode = '22023';
  elsif v_same then
    raise exception 'two steps of a flow have one name' using errcode = '22023';
  elsif v_many then
    raise exception 'a flow starts with up to 100,000 jobs and 100,000 needs' using errcode = '22023', hint = 'Let a job of a step add more to it.';
  end if;
  if v_later is not null then
    perform check_later_jobs(v_later);
  end if;
  if v_steps is not null and put_jobs(v_flows, v_steps, v_jobs) < v_size then
    insert into flow_tally (flow) select unnest(p_ids); -- the id of a job was taken
  end if;
end
$$;

-- Gives a signal its value; the first one wins. Also before its step is open. signalled; repeated: it has a
-- value; ended: the flow or the step has ended; unknown: there is no such signal.
create function signal_flow(p_flow uuid, p_step text, p_value jsonb default null) returns text
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
declare
  v_step integer;
  v_over boolean;
begin
  if not fits(p_value, 393216) then
    raise exception 'the value of a signal is at most 256 KiB, nested 500 levels deep' using errcode = '22023', hint = 'Store it elsewhere, and keep a reference.';
  end if;
  select s.step, s.state = 'ended' or f.state <> 'open' or f.stopping is not null into v_step, v_over
  from flow_step s join flow f on f.id = s.flow where s.flow = p_flow and s.name = p_step and s.kind = 'signal';
  if not found then
    return 'unknown';
  elsif exists (select from flow_result r where r.flow = p_flow and r.step = v_step) then
    return 'repeated';
  elsif v_over then
    return 'ended';
  end if;
  insert into flow_result (flow, step, job, outcome, result) values (p_flow, v_step, p_flow, 'done', p_value) on conflict do nothing;
  if not found then
    return 'repeated';
  end if;
  insert into flow_tally (flow, step) values (p_flow, v_step);
  perform hint('flow');
  return 'signalled';
end
$$;

-- functions/flow/steps.sql

-- Steps of flows: what has ended, and what follows from it. Parts of advance_flows.

-- Adds up the tallies of flows whose rows the caller has locked, for those who look at counts: the leader counts as it
-- judges (advance_set).
create function count_tallies(p_flows uuid[]) returns void
  language sql volatile
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
  with gone as (
    delete from flow_tally t where t.flow = any (p_flows) returning t.flow, t.step, t.added, t.done, t.failed, t.other
  ),
  sums as materialized (
    select g.flow, g.step, sum(g.added)::integer as added, sum(g.done)::integer as done, sum(g.failed)::integer as failed, sum(g.other)::integer as other
    from gone g where g.step is not null group by g.flow, g.step
  )
  update flow_step s
  set added = s.added + x.added, done = greatest(0, s.done + x.done), failed = greatest(0, s.failed + x.failed), other = greatest(0, s.other + x.other)
  from sums x where s.flow = any (array[x.flow]) and s.step = x.step
$$;

-- Tells whether a need is met by the outcome of the step that it names. Sets no search path, as node_takes.
create function need_met(p_condition text, p_outcome text) returns boolean
  language sql immutable parallel safe
as $$ select p_condition = 'ended' or p_condition = p_outcome or (p_condition = 'failed' and p_outcome = 'cancelled') $$;

-- Counts the tallies of flows, and ends steps that have ended: looks at those that tallies name, those of p_opened that may
-- end at once, and all open ones of p_whole. Tallies that name no step stay, unless their flow is one of p_whole. Returns
-- what has ended; null: nothing. A part of advance_set, whose settings plan it. p_probe: looks for jobs of these steps,
-- whatever their counts say.
--
-- Right because a job's additions commit before its own row leaves QUEUE, or with it: a snapshot without any job
-- of a step has seen all that were ever added, and they have ended. Tallies commit with the rows that leave, and one
-- statement, with one snapshot, looks for the jobs and counts the tallies: so the outcome is final.
create function judge_steps(p_tallied uuid[], p_whole uuid[], p_opened step_ref[], p_probe boolean) returns step_end[]
  language plpgsql volatile
  set search_path from current
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_ended step_end[];
begin
  with gone as materialized (
    delete from flow_tally t
    where t.flow = any (p_tallied) and (t.step is not null or t.flow = any (p_whole))
    returning t.flow, t.step, t.added, t.done, t.failed, t.other
  ),
  looked as materialized (
    select l.flow, l.step, sum(l.added)::integer as added, sum(l.done)::integer as done, sum(l.failed)::integer as failed, sum(l.other)::integer as other
    from (
      select g.flow, g.step, g.added, g.done, g.failed, g.other from gone g where g.step is not null
      union all
      select o.flow, o.step, 0, 0, 0, 0 from unnest(p_opened) o where o.may_end
      union all
      select s.flow, s.step, 0, 0, 0, 0
      from flow_step s where s.flow = any (p_whole) and s.ended is null and s.state = 'open') l
    group by l.flow, l.step
  ),
  counted as materialized (
    select s.flow, s.step, s.kind, s.due, s.unreleased, s.state = 'open' as open, l.added as grown, s.added + l.added as added, c.done, c.failed, c.other,
           s.stop or (s.state = 'open' and c.failed >= s.stop_after) is true as stop,
           (l.added, l.done, l.failed, l.other) <> (0, 0, 0, 0) as changed
    from looked l join flow_step s on s.flow = any (array[l.flow]) and s.step = l.step
    cross join lateral (
      select greatest(0, s.done + l.done) as done, greatest(0, s.failed + l.failed) as failed, greatest(0, s.other + l.other) as other) c
  ),
  -- jobs of an open step that are still to be enqueued count as left, unless it stops
  judged as materialized (
    select c.*, case when c.open then
        case c.kind
          when 'timer' then c.due <= v_now
          when 'signal' then (select r.job from flow_result r where r.flow = c.flow and r.step = c.step limit 1) is not null
          else (p_probe or c.stop or c.done + c.failed + c.other >= c.added)
            and (c.stop or c.unreleased = 0)
            and (select q.id from queue q where q.flow = c.flow and q.step = c.step limit 1) is null
        end
      else false end as ends
    from counted c
  ),
  settled as (
    update flow_step s
    set added = s.added + j.grown, done = j.done, failed = j.failed, other = j.other, stop = j.stop and not j.ends,
        state = case when j.ends then 'ended' else s.state end, ended = case when j.ends then v_now else s.ended end,
        due = case when not j.ends then s.due end,
        outcome = case when not j.ends then s.outcome when j.failed > 0 then 'failed' when j.other > 0 or j.stop then 'cancelled' else 'done' end
    from judged j where s.flow = any (array[j.flow]) and s.step = j.step and (j.ends or j.changed or j.stop <> s.stop)
    returning s.flow, s.step, s.outcome, s.feeds, s.conditions, j.ends
  )
  select array_agg((t.flow, t.step, t.outcome, t.feeds, t.conditions)::step_end) filter (where t.ends) into v_ended from settled t;
  return v_ended;
end
$$;

-- Takes what has ended in flows to its consequences: steps end, dependents open or are skipped, flows end. The caller
-- has locked the flows. Looks at the steps that tallies name; p_whole: the flows in which it looks at all open steps,
-- beside those that have a tally without a step. p_probe: looks for jobs of those steps, whatever their counts say.
-- Returns the jobs enqueued.
create function advance_set(p_flows uuid[], p_whole uuid[], p_probe boolean) returns integer
  language plpgsql volatile
  set plan_cache_mode = force_generic_plan
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_tallied uuid[] := p_flows; -- with v_whole: for the first round
  v_whole uuid[] := p_whole || array(select distinct t.flow from flow_tally t where t.flow = any (p_flows) and t.step is null);
  v_ended step_end[]; -- by this round
  v_opened step_ref[]; -- by this round: those that may end at once, or have jobs that are not in QUEUE yet
  v_released step_ref[] := '{}'; -- opened by all of them, and those of whole flows that were open with jobs left
  v_put integer := 0;
  v_more integer;
  v_over uuid[] := v_whole; -- flows that may have ended
  v_running uuid[]; -- by this round: flows of which jobs were enqueued
begin
  if v_whole <> '{}' then
    perform skip_idle(array(select (s.flow, s.step, true)::step_ref from flow_step s
                            where s.flow = any (v_whole) and s.ended is null and s.kind <> 'jobs'), v_now);
    v_released := array(select (s.flow, s.step, true)::step_ref from flow_step s
                        where s.flow = any (v_whole) and s.ended is null and s.state = 'open' and s.unreleased > 0);
  end if;
  loop
    v_ended := judge_steps(v_tallied, v_whole, v_opened, p_probe);
    exit when v_ended is null;
    select f.opened, f.running, f.put into v_opened, v_running, v_more from follow(v_ended, v_now, 10000 - v_put) f;
    v_over := v_over || array(select e.flow from unnest(v_ended) e except select r.flow from unnest(v_running) as r (flow));
    v_put := v_put + v_more;
    v_released := v_released || v_opened;
    exit when v_opened = '{}';
    v_tallied := '{}';
    v_whole := '{}';
  end loop;
  update flow f
  set state = case when f.stopping is not null then 'cancelled' when x.failed then 'failed' else 'done' end, ended = v_now,
      reason = coalesce(f.reason, case when f.stopping is null and x.failed then 'a step failed' end)
  from (select distinct o.id from unnest(v_over) as o (id)) o cross join lateral (
    -- by limits, so that no plan begins with the index of open flows or steps
    select o.id, flow_failed(o.id) as failed from flow g
    where g.id = o.id and g.state = 'open' and (select s.step from flow_step s where s.flow = o.id and s.ended is null limit 1) is null limit 1) x
  where f.id = any (v_over) and f.id = x.id;
  return v_put + release_jobs(v_released, 10000 - v_put);
end
$$;

-- Opens or skips the steps that wait for the given ones, which have ended, and those that wait for the skipped
-- ones, and so on: a part of advance_set, whose settings plan it. Enqueues the jobs of those that open, up to p_max in all, if
-- they are one chunk. opened: those that may end at once, or have jobs left (release_jobs). running: flows of which jobs were
-- enqueued. put: their number.
-- The updated row has no condition on its state: a plan made while few steps were open, and kept, began with the
-- index of all of those, and compared each with each that has ended.
create function follow(p_ended step_end[], p_now timestamptz, p_max integer, out opened step_ref[], out running uuid[], out put integer)
  language plpgsql volatile
  set search_path from current
as $$
declare
  v_ended step_end[] := p_ended;
  v_opened step_ref[];
  v_spared step_ref[]; -- steps for which one that was judged does not wait any more
  v_flows uuid[]; -- with v_steps and v_jobs: to be enqueued
  v_steps integer[];
  v_jobs jsonb[];
begin
  opened := '{}';
  running := '{}';
  put := 0;
  while v_ended is not null loop
    with fed as materialized (
      select x.flow, f.step, count(*)::integer as ended, count(*) filter (where need_met(f.condition, x.outcome))::integer as met
      from unnest(v_ended) as x cross join lateral unnest(x.feeds, x.conditions) as f (step, condition)
      group by x.flow, f.step
    ),
    moved as materialized (
      select f.flow, f.step, f.ended, v.skips, v.opens, d.jobs,
             v.opens and d.unreleased <= 500 and sum(d.unreleased) filter (where v.opens) over (order by f.flow, f.step) <= p_max - put as at_once
      from fed f
      -- by a limit, so that no plan begins with the table
      cross join lateral (
        select d.wants, d.open_needs, d.unreleased, d.jobs from flow_step d where d.flow = f.flow and d.step = f.step and d.state = 'blocked' limit 1) d
      cross join lateral (
        select case d.wants when 'all' then f.met < f.ended else f.met = 0 and d.open_needs <= f.ended end as skips,
               case d.wants when 'all' then f.met = f.ended and d.open_needs <= f.ended else f.met > 0 end as opens) v
    ),
    judged as (
      update flow_step s
      set open_needs = s.open_needs - m.ended,
          state = case when m.skips then 'ended' when m.opens then 'open' else 'blocked' end,
          outcome = case when m.skips then 'skipped' end,
          ended = case when m.skips then p_now end,
          opened = case when m.opens then p_now end,
          due = case when m.opens then p_now + s.delay end,
          unreleased = case when m.at_once then 0 else s.unreleased end,
          jobs = case when m.at_once then null else s.jobs end
      from moved m
      where s.flow = any (array[m.flow]) and s.step = m.step
      returning s.flow, s.step, s.state, s.outcome, s.feeds, s.conditions, s.kind <> 'jobs' or s.added = 0 as may_end, s.unreleased, s.wants, s.needs,
                case when m.at_once then m.jobs[1] end as jobs
    )
    select array_agg((j.flow, j.step, j.outcome, j.feeds, j.conditions)::step_end) filter (where j.state = 'ended'),
           array_agg((j.flow, j.step, j.may_end)::step_ref) filter (where j.state = 'open' and (j.may_end or j.unreleased > 0)),
           (select array_agg((o.flow, n.step, true)::step_ref) from judged o cross join lateral unnest(o.needs) as n (step)
            where o.state = 'ended' or (o.state = 'open' and o.wants = 'any')),
           array_agg(j.flow) filter (where j.jobs is not null), array_agg(j.step) filter (where j.jobs is not null),
           array_agg(j.jobs) filter (where j.jobs is not null)
    into v_ended, v_opened, v_spared, v_flows, v_steps, v_jobs from judged j;
    opened := opened || coalesce(v_opened, '{}');
    if v_flows is not null then
      put := put + put_jobs(v_flows, v_steps, v_jobs);
      running := running || v_flows;
    end if;
    perform skip_idle(v_spared, p_now);
  end loop;
end
$$;

-- Ends those of the given steps that are signals or timers for which no blocked step waits any more, and those that only
-- such ones waited for: a part of advance_set, whose settings plan it.
create function skip_idle(p_steps step_ref[], p_now timestamptz) returns void
  language plpgsql volatile
  set search_path from current
as $$
declare
  v_steps step_ref[] := p_steps;
begin
  while v_steps <> '{}' loop
    with idle as (
      update flow_step s set state = 'ended', outcome = 'skipped', ended = p_now, due = null
      from (select distinct x.flow, x.step from unnest(v_steps) x) x
      where s.flow = any (array[x.flow]) and s.step = x.step and s.outcome is null and s.kind <> 'jobs' and s.feeds <> '{}'
        and (select b.step from unnest(s.feeds) as f (step) join flow_step b on b.flow = s.flow and b.step = f.step
             where b.state = 'blocked' limit 1) is null
      returning s.flow, s.needs
    )
    select array_agg((i.flow, n.step, true)::step_ref) into v_steps from idle i cross join lateral unnest(i.needs) as n (step);
  end loop;
end
$$;

-- Tells whether a flow has failed: one of its steps failed or was cancelled, and no step takes that with the
-- condition ended, or some step takes it otherwise. A step that was skipped takes nothing.
create function flow_failed(p_flow uuid) returns boolean
  language plpgsql stable
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
begin
  return exists (
    select from flow_step s
    where s.flow = p_flow and s.outcome in ('failed', 'cancelled')
      and (s.conditions = '{}' or not s.conditions <@ '{ended}' or (
        select d.step from unnest(s.feeds) as f (step)
          cross join lateral (select d.step from flow_step d where d.flow = s.flow and d.step = f.step and d.outcome <> 'skipped' limit 1) d
        limit 1) is null));
end
$$;

-- functions/flow/trim.sql

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

-- functions/hint.sql

-- Sends a hint: a NOTIFY on a channel of this installation. While the server's queue of notifications is nearly full, since a
-- session that listens does not read them, it sends none: a commit with one would fail (54000), and losing a hint costs time
-- only. Statements of clients that carry a hint ask for the same.
create function hint(p_channel text, p_payload text default '') returns void
  language plpgsql volatile
  set search_path from current
as $$
begin
  if pg_notification_queue_usage() < 0.9 then
    perform pg_notify(current_schema() || ':' || p_channel, p_payload);
  end if;
end
$$;

-- functions/history.sql

-- Makes the partitions of today and of the next p_days days (in UTC, 31 at most), and drops partitions whose
-- every row is older than the longest retention. The scheduler calls it, and needs no rights on the tables.
-- One call runs at a time. Outcome: done; locked: another call is under way; waits: a transaction is in the
-- way, and a later call does the rest; large: the default partition exceeds p_default_bytes, so no partition
-- was made.
--
-- Making and dropping a partition take locks that wait for every transaction which has read or written history, while
-- every settlement waits behind them. So lock_timeout is 300 ms. The locks are held until commit. The one on history
-- comes before rows move: a settlement after that would leave one more in the default partition, and the new
-- partition could not be attached. Attaching also reads the whole default partition under a lock that blocks its
-- users: if that is larger than p_default_bytes, this is left to "pgqueue doctor --mend".
--
-- Replica identity full: a publication FOR ALL TABLES refuses deletes from a table that has neither a key nor
-- a replica identity. A full one costs nothing unless rows are decoded.
-- Autovacuum: a day is vacuumed and analysed when it has doubled. By PostgreSQL's defaults it is read again
-- whenever it has grown by a fifth. While an old snapshot is held, it is read whole every time, since no page
-- can be marked as all-visible: 1.4 GB a minute at 30,000 jobs a second.
create function maintain_history(p_days integer default 3, p_default_bytes bigint default 67108864)
  returns table (created integer, dropped integer, outcome text)
  language plpgsql volatile security definer
  set search_path from current
  set lock_timeout = '300ms'
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_today date := (v_now at time zone 'UTC')::date;
  v_name text;
  v_from text;
  v_to text;
  v_longest interval := greatest(interval '7 days', (select max(c.retention) from queue_config c));
  v_created integer := 0;
  v_dropped integer := 0;
  v_outcome text := 'done';
  part record;
begin
  if not pg_try_advisory_xact_lock(hashtextextended(current_schema() || ':history', 0)) then
    return query select 0, 0, 'locked';
    return;
  end if;
  begin
    for ahead in 0..least(p_days, 31) loop
      v_name := 'history_' || to_char(v_today + ahead, 'YYYYMMDD');
      -- one that was detached by hand, and still stands there, is attached again
      continue when exists (select from pg_inherits i where i.inhparent = 'history'::regclass
                              and i.inhrelid = to_regclass(quote_ident(current_schema()) || '.' || v_name));
      if pg_relation_size('history_default') > p_default_bytes then
        v_outcome := 'large';
        exit;
      end if;
      -- written out: as text, a time would depend on the session's DateStyle
      v_from := to_char(v_today + ahead, 'YYYY-MM-DD') || ' 00:00:00+00';
      v_to := to_char(v_today + ahead + 1, 'YYYY-MM-DD') || ' 00:00:00+00';
      lock table only history in share row exclusive mode;
      execute format('create table if not exists %I (like history including defaults including constraints)
                      with (autovacuum_vacuum_insert_threshold = 100000, autovacuum_vacuum_insert_scale_factor = 1,
                            autovacuum_analyze_threshold = 10000, autovacuum_analyze_scale_factor = 1)', v_name);
      execute format('alter table %I replica identity full', v_name);
      -- rows in the default partition that belong to the new one move over, or the new one could not be
      -- attached
      execute format('with moved as (delete from history_default where finished >= %L and finished < %L returning *)
                      insert into %I select * from moved', v_from, v_to, v_name);
      execute format('alter table history attach partition %I for values from (%L) to (%L)', v_name, v_from, v_to);
      v_created := v_created + 1;
    end loop;
  exception when lock_not_available then
    v_created := 0;
    v_outcome := 'waits';
  end;
  begin
    for part in
      select c.relname, to_date(right(c.relname, 8), 'YYYYMMDD') as day
      from pg_inherits i join pg_class c on c.oid = i.inhrelid
      where i.inhparent = 'history'::regclass and c.relname ~ '^history_[0-9]{8}$'
    loop
      if (part.day + 1)::timestamp at time zone 'UTC' < v_now - v_longest then
        execute format('drop table %I', part.relname);
        v_dropped := v_dropped + 1;
      end if;
    end loop;
  exception when lock_not_available then
    v_dropped := 0;
    v_outcome := 'waits';
  end;
  return query select v_created, v_dropped, v_outcome;
end
$$;

-- Deletes the rows of queues whose retention is shorter than the longest, and rows of the default partition
-- older than the longest, since that partition is never dropped. If all queues have the same retention,
-- dropping days is enough: rows stay up to a day longer.
--
-- Each row is read once: history_trim stores the time as of which retention was kept, so that each call
-- begins where the last one ended. After a change of any retention it begins anew. It works in steps of 20 to
-- 100 ms, a minute of rows at most, until p_max_ms, or half of the session's statement or transaction
-- timeout, have passed. Outcome: done; more: time ran out, or a row is locked; locked: another call is under
-- way.
-- Served by history_finished, one range for each step.
create function trim_history(p_max_ms double precision default 500)
  returns table (deleted bigint, outcome text)
  language plpgsql volatile security definer
  set search_path from current
  set lock_timeout = '300ms'
  set jit = off
  set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_until timestamptz := v_now + least(
    p_max_ms * interval '1 millisecond', nullif(current_setting('statement_timeout')::interval, '0') / 2,
    nullif(current_setting('transaction_timeout', true)::interval, '0') / 2);
  v_longest double precision := greatest(604800, (select extract(epoch from max(c.retention)) from queue_config c));
  v_shorter double precision[];
  v_settings bigint;
  v_kept timestamptz;
  v_next timestamptz;
  v_step interval := '1 second';
  v_began timestamptz;
  v_kind double precision;
  v_count bigint;
  v_deleted bigint := 0;
  v_outcome text := 'more';
begin
  if not pg_try_advisory_xact_lock(hashtextextended(current_schema() || ':history', 0)) then
    return query select 0::bigint, 'locked';
    return;
  end if;
  v_shorter := array(
    select s.kind from (select extract(epoch from c.retention)::float8 from queue_config c where c.retention is not null union select 604800) s (kind)
    where s.kind < v_longest order by 1);
  select coalesce(hashtextextended(string_agg(c.queue || ' ' || extract(epoch from c.retention), ',' order by c.queue), 0), 0)
  into v_settings from queue_config c where c.retention is not null;
  v_kept := coalesce((select t.kept_at from history_trim t where t.settings = v_settings), '-infinity');
  begin
    loop
      delete from history_default h
      where h.ctid = any (array(select d.ctid from history_default d where d.finished < v_now - v_longest * interval '1 second'
                                order by d.finished limit 1000));
      get diagnostics v_count = row_count;
      v_deleted := v_deleted + v_count;
      exit when v_count = 0 or clock_timestamp() >= v_until;
    end loop;
    while clock_timestamp() < v_until loop
      v_began := clock_timestamp();
      select min(k.kind * interval '1 second' + (
        select h.finished from history h
        where h.finished >= v_kept - k.kind * interval '1 second' and h.finished < v_now - k.kind * interval '1 second'
        order by h.finished limit 1))
      into v_next from unnest(v_shorter) k (kind);
      if v_next is null then
        v_kept := v_now;
        v_outcome := 'done';
        exit;
      end if;
      v_kept := greatest(v_kept, v_next);
      v_next := least(v_kept + v_step, v_now);
      foreach v_kind in array v_shorter loop
        delete from history h
        where h.finished >= v_kept - v_kind * interval '1 second' and h.finished < v_next - v_kind * interval '1 second'
          and coalesce((select extract(epoch from c.retention) from queue_config c where c.queue = h.queue), 604800) = v_kind;
        get diagnostics v_count = row_count;
        v_deleted := v_deleted + v_count;
      end loop;
      v_kept := v_next;
      v_step := case when clock_timestamp() < v_began + interval '20 ms' then least(v_step * 2, interval '1 minute')
                     when clock_timestamp() > v_began + interval '100 ms' then greatest(v_step / 2, interval '10 ms') else v_step end;
    end loop;
  exception when lock_not_available then
    return query select 0::bigint, 'more';
    return;
  end;
  insert into history_trim (settings, kept_at) values (v_settings, v_kept)
  on conflict (only_row) do update set (settings, kept_at) = (excluded.settings, excluded.kept_at);
  return query select v_deleted, v_outcome;
end
$$;

select maintain_history();

-- functions/installation/handover.sql

-- Finds up to p_max waiting jobs of a key, from the end of its lanes: the old home works on at the other end. p_after:
-- the place of the last one found. p_ready: also those that have a work item. Served by queue_waiting, and flow_waiter.
create function tail_of_key(p_key text, p_after jsonb, p_max integer, p_ready boolean)
  returns table (id uuid, place jsonb)
  language plpgsql stable
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_queue text := p_after ->> 'queue';
  v_priority integer := p_after -> 'priority';
  v_seq bigint := p_after -> 'seq';
  v_first text := coalesce(v_queue, (select q.queue from queue q where q.run_after is null order by q.queue desc, q.key desc limit 1));
begin
  return query
    with recursive
    names (queue) as (
      select v_first collate "C"
      union all
      select (select q.queue from queue q where q.run_after is null and q.queue < n.queue order by q.queue desc, q.key desc limit 1)
      from names n where n.queue is not null
    ),
    batched as materialized (
      select u.id from (select w.jobs from work_queue w where w.jobs is not null and w.position >= batches_from() limit 100000) b
      cross join lateral unnest(b.jobs) as u (id)
    )
    select j.id, jsonb_build_object('queue', j.queue, 'priority', j.priority, 'seq', j.seq)
    from names n cross join lateral (
      select q.id, q.queue, q.priority, q.seq
      from queue q
      where q.run_after is null and q.queue = n.queue and q.key = p_key
        and (q.priority, q.seq) < (case when n.queue = v_queue then v_priority else 2147483647 end,
                                   case when n.queue = v_queue then v_seq else 9223372036854775807 end)
        and q.flow is null and (select f.id from flow f where f.waiter = q.id limit 1) is null
        and (p_ready or ((select w.id from work_queue w where w.id = q.id) is null and q.id not in (select b.id from batched b)))
      order by q.queue desc, q.key desc, q.priority desc, q.seq desc
      limit p_max) j
    where n.queue is not null
    limit p_max;
end
$$;

-- Finds up to p_max delayed jobs of a key, behind the place p_after. p_retries: also those that have run, which in a
-- strict order hold up what waits behind them. No index has them by key: it reads all delayed jobs, along queue_due.
create function delayed_of_key(p_key text, p_after jsonb, p_max integer, p_retries boolean)
  returns table (id uuid, place jsonb)
  language plpgsql stable
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_due timestamptz := coalesce(p_after ->> 'due', '-infinity');
  v_id uuid := coalesce(p_after ->> 'id', '00000000-0000-0000-0000-000000000000');
begin
  return query
    select q.id, jsonb_build_object('due', q.run_after, 'id', q.id)
    from queue q
    where q.run_after is not null and q.run_after >= v_due and (q.run_after, q.id) > (v_due, v_id) and q.key = p_key
      and (p_retries or q.last_token is null)
      and q.flow is null and (select f.id from flow f where f.waiter = q.id limit 1) is null
    order by q.run_after, q.id
    limit p_max;
end
$$;

-- Hands over one slice of a key's jobs: they leave QUEUE for handover. p_after: where the slice before ended, null at
-- the beginning of a pass; {"due"}: delayed jobs. p_last: also jobs that are ready, and the key is held here from now
-- on. Returns {"jobs", "next"}; next null: the pass is over. A pass over the tail stops at a job that another session
-- has locked, and goes on from there: else those before it would leave, and it could run first. Other passes leave out
-- jobs that are locked, and all leave out those that come to wait behind their place, for the next one.
--
-- Safe because: a job's row is locked, and only then, by a new snapshot, it has no work item; dispatch skips rows that
-- are locked. Whichever locks the row first has the job. A slice takes at most 8 MiB of texts, or one job.
create function hand_over(p_key text, p_version bigint, p_after jsonb, p_max integer, p_last boolean) returns jsonb
  language plpgsql volatile security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set intervalstyle = 'postgres'
as $$
declare
  v_move key_move := assert_move(p_key, 'out', p_version);
  v_found uuid[];
  v_places jsonb[];
  v_ids uuid[];
  v_free uuid[];
  v_locked integer;
  v_slice uuid := gen_random_uuid();
  v_jobs integer;
begin
  if v_move.seq is null then
    raise exception 'key % has not left this installation', p_key using errcode = 'PQ005';
  end if;
  if p_after ? 'due' then
    select array_agg(d.id), array_agg(d.place) into v_found, v_places from delayed_of_key(p_key, p_after, p_max, p_last) d;
  else
    select array_agg(t.id), array_agg(t.place) into v_found, v_places from tail_of_key(p_key, p_after, p_max, p_last) t;
  end if;
  select array_agg(c.id order by c.n) into v_ids
  from (
    select x.id, sum(octet_length(q.payload::text) + coalesce(octet_length(q.checkpoint::text), 0) + coalesce(octet_length(q.errors::text), 0))
                 over (order by x.n) as bytes, x.n
    from unnest(v_found) with ordinality as x (id, n) cross join lateral (select q.* from queue q where q.id = x.id offset 0) q) c
  where c.bytes <= 8388608 or c.n = 1;
  -- rows that were deleted meanwhile have no bytes, and do not shorten the slice
  if v_ids is not null and cardinality(v_ids) < cardinality(v_found) then
    v_places := v_places[: array_position(v_found, v_ids[cardinality(v_ids)])];
  end if;
  v_free := array(select q.id from queue q where q.id = any (v_ids) order by q.id for update skip locked);
  if not (p_last or coalesce(p_after ? 'due', false)) then
    select min(x.n) into v_locked from unnest(v_ids) with ordinality as x (id, n)
    where x.id not in (select f.id from unnest(v_free) as f (id)) and (select q.id from queue q where q.id = x.id) is not null;
    v_free := array(select x.id from unnest(v_ids) with ordinality as x (id, n)
                    where (v_locked is null or x.n < v_locked) and x.id in (select f.id from unnest(v_free) as f (id)));
    if v_locked is not null then
      v_places := v_places[: array_position(v_found, v_ids[v_locked]) - 1];
    end if;
  end if;
  v_ids := v_free;
  if p_last then
    v_ids := recall(v_ids);
  end if;
  with
  batched as materialized (
    select u.id from (select w.jobs from work_queue w where w.jobs is not null and w.position >= batches_from() limit 100000) b
    cross join lateral unnest(b.jobs) as u (id)
  ),
  gone as (
    delete from queue q
    where q.id = any (v_ids) and q.key = p_key and q.flow is null and (select f.id from flow f where f.waiter = q.id limit 1) is null
      and (select w.id from work_queue w where w.id = q.id) is null and q.id not in (select b.id from batched b)
    returning q.*
  ),
  handed as (
    insert into handover (key, slice, n, id, job)
    select p_key, v_slice, row_number() over (), j.id, row_to_json(j)
    from (select g.id, g.seq + v_move.seq as seq, g.run_after, g.expires_at, g.created, g.timeout, g.priority, g.payload_version, g.tries, g.max_tries,
                 g.crashes, g.max_crashes, g.queue, g.task, g.key, g.unique_key, g.attributes, g.payload, g.retry, g.trace, g.errors, g.last_token, g.checkpoint
          from gone g) j
    returning n
  )
  select count(*) into v_jobs from handed;
  if p_last and not v_move.held then
    update key_move m set held = true where m.key = p_key and m.side = 'out';
  end if;
  return jsonb_build_object('jobs', v_jobs, 'next', case
    when v_locked is not null then coalesce(v_places[cardinality(v_places)], p_after, '{}')
    when cardinality(v_found) = p_max or cardinality(v_places) < cardinality(v_found) then v_places[cardinality(v_places)] end);
end
$$;

-- Reads a slice that is to go to the new home. jobs: a JSON list, null: there is none. Texts of JSON all the way: as
-- jsonb, reading a slice took as long as writing it. Served by handover's primary key.
create function next_slice(p_key text, out slice uuid, out jobs text)
  language plpgsql stable security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_slice uuid := (select f.slice from handover f where f.key = p_key and f.n > 0 order by f.slice limit 1);
begin
  select v_slice, '[' || string_agg(h.job::text, ',') || ']' into slice, jobs from handover h
  where h.key = p_key and h.slice = v_slice and h.n > 0;
end
$$;

-- Puts a slice into QUEUE, once: a mover that repeats it, or comes late, changes nothing. The jobs keep their ids, and
-- stand before those that came here since the route changed. A job whose id waits here already is that job. One whose
-- unique key another job has here comes without it: both will run, and the other one, which is newer, stays the one that
-- later enqueues find. Returns {"jobs", "known", "freed"}: how many came, were here, came without their unique key.
--
-- Safe because: the hold of the key is locked until the commit. So no leader has planned a job of an earlier slice, and
-- open_key comes before this, which then is refused, or after.
create function receive_jobs(p_key text, p_version bigint, p_slice uuid, p_jobs json) returns jsonb
  language plpgsql volatile security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
declare
  v_came uuid[];
  v_left json;
  v_size integer := json_array_length(p_jobs);
  v_freed integer := 0;
begin
  perform assert_move(p_key, 'in', p_version);
  insert into handover (key, slice, n) values (p_key, p_slice, 0) on conflict do nothing;
  if not found then
    return '{"jobs": 0, "known": 0, "freed": 0}';
  end if;
  v_came := insert_moved(p_jobs);
  if cardinality(v_came) < v_size then
    select json_agg(x.job::jsonb || '{"unique_key": null}') into v_left
    from json_array_elements(p_jobs) as x (job)
    where x.job ->> 'id' not in (select c.id::text from unnest(v_came) as c (id))
      and (select q.id from queue q where q.id = (x.job ->> 'id')::uuid) is null;
    if v_left is not null then
      v_freed := cardinality(insert_moved(v_left));
    end if;
  end if;
  return jsonb_build_object('jobs', cardinality(v_came) + v_freed, 'known', v_size - cardinality(v_came) - v_freed, 'freed', v_freed);
end
$$;

-- Inserts jobs as they were, but those that conflict by id or by unique key; returns the inserted ones.
create function insert_moved(p_jobs json) returns uuid[]
  language sql volatile
  set search_path from current
as $$
  with came as (
    insert into queue (id, seq, run_after, expires_at, created, timeout, priority, payload_version, tries, max_tries, crashes, max_crashes,
                       queue, task, key, unique_key, attributes, payload, retry, trace, errors, last_token, checkpoint)
    overriding system value
    select j.id, j.seq, j.run_after, j.expires_at, j.created, j.timeout, j.priority, j.payload_version, j.tries, j.max_tries, j.crashes, j.max_crashes,
           j.queue, j.task, j.key, j.unique_key, j.attributes, coalesce(j.payload, 'null'), j.retry, j.trace, j.errors, j.last_token, j.checkpoint
    from json_populate_recordset(null::queue, p_jobs) j
    -- in the order of unique keys, as enqueue_unique
    order by j.task collate "default", j.unique_key collate "default", j.seq
    on conflict do nothing
    returning id)
  select coalesce(array_agg(c.id), '{}') from came c
$$;

-- Forgets a slice that the new home has.
create function forget_slice(p_key text, p_slice uuid) returns void
  language sql volatile security definer
  set search_path from current
  set enable_seqscan = off
as $$
  delete from handover h where h.key = p_key and h.slice = p_slice
$$;

-- functions/installation/identity.sql

-- Gives this installation its number and its name, or changes them. Another number is refused once jobs or flows
-- have ids with the present one: routers would look for them elsewhere. Returns created, changed or unchanged.
-- The search reads all ids, which an operator does once.
create function init_installation(p_number integer, p_name text) returns text
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_old installation;
begin
  lock table installation in share row exclusive mode;
  select * into v_old from installation;
  if not found then
    insert into installation (number, name) values (p_number, p_name);
    return 'created';
  elsif v_old.number = p_number and v_old.name = p_name then
    return 'unchanged';
  elsif v_old.number <> p_number and (
      exists (select from queue q where installation_of(q.id) = v_old.number)
      or exists (select from history h where installation_of(h.id) = v_old.number)
      or exists (select from dead_letter d where installation_of(d.id) = v_old.number)
      or exists (select from flow f where installation_of(f.id) = v_old.number)) then
    raise exception 'this is installation %, and jobs have ids with that number', v_old.number
      using errcode = '55000', hint = 'Keep the number. Only an installation without jobs of its own can get another one.';
  end if;
  update installation set number = p_number, name = p_name;
  return 'changed';
end
$$;

-- functions/installation/move.sql

-- Moves of a key from one installation to another. A mover calls these in both, and any crash between two calls, or
-- within one, leaves a state from which the same calls in the same order go on:
--   old   claim_move   the move is noted; another one of the key is refused
--   new   hold_key     the leader here plans no job of the key
--   old   leave_key    the route says the new home: enqueues of routers are refused from now on, and come there
--   new   set_route    the copy of that route
--   old   hand_over    waiting jobs leave QUEUE, in slices; the old home works on from the other end of each lane
--   new   receive_jobs a slice comes into QUEUE, once
--   old   forget_slice
--   old   finish_move  none of the key's jobs is left
--   new   open_key     the move is over; the leader ends the hold by end_holds
-- A job is in one place at every commit, but for the time between receive_jobs and forget_slice, in which no leader
-- reads either copy: the one in the new home is held, the one in handover is in no QUEUE.
--
-- Jobs of flows stay with their flow, and so do jobs that have waited for flows or signals of their own: what they
-- waited for is in the tables of flows here.

-- Refuses a mover whose move is not under way: it has ended, or another one began.
create function assert_move(p_key text, p_side text, p_version bigint) returns key_move
  language plpgsql volatile
  set search_path from current
as $$
declare
  v_move key_move;
begin
  perform assert_read_committed('a move of keys');
  perform commit_durably();
  select m.* into v_move from key_move m
  where m.key = p_key and m.side = p_side and m.version = p_version and m.opened is null for update;
  if not found then
    raise exception 'there is no move % of key % with version %', p_side, p_key, p_version
      using errcode = 'PQ005', hint = 'Another mover has ended it, or begun another one.';
  end if;
  if v_move.advanced < clock_timestamp() - interval '10 seconds' then
    update key_move m set advanced = clock_timestamp() where m.key = p_key and m.side = p_side; -- its mover lives
  end if;
  return v_move;
end
$$;

-- Notes in the old home that a key is to move, unless a move of it is under way. Returns the move that stands,
-- {"side", "peer", "version"}, and the caller says whether it is its own. Null: the caller's routes are old.
create function claim_move(p_key text, p_to integer, p_version bigint) returns jsonb
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_move key_move;
begin
  perform from installation for update; -- a move that ends at this moment has ended, before the route is looked at
  insert into key_move (key, side, peer, version, held)
  select p_key, 'out', p_to, p_version, false
  where not exists (
    select from route r where r.key = p_key and r.version >= p_version
      and not (r.version = p_version and r.installation = p_to and r.state = 'moving'))
    and not exists (select from key_move m where m.key = p_key and m.opened is null)
  on conflict (key, side) do nothing;
  select m.* into v_move from key_move m where m.key = p_key and m.opened is null;
  return case when found then jsonb_build_object('side', v_move.side, 'peer', v_move.peer, 'version', v_move.version) end;
end
$$;

-- Takes back a claim before anything of its move was done. False: something was.
create function drop_claim(p_key text, p_version bigint) returns boolean
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  delete from key_move m where m.key = p_key and m.side = 'out' and m.version = p_version and m.seq is null;
  return found;
end
$$;

-- Holds a key in its new home. Returns the last number of a job before that, the same at each call. Enqueues come here
-- after leave_key alone: a router that heard of the move sooner would overtake one that has not, and enqueues there.
create function hold_key(p_key text, p_from integer, p_version bigint) returns bigint
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_move key_move;
begin
  perform from installation for update;
  insert into key_move (key, side, peer, version, held, seq)
  select p_key, 'in', p_from, p_version, true, (select case when s.is_called then s.last_value else 0 end from queue_seq_seq s)
  where not exists (
      select from route r where r.key = p_key and r.version >= p_version and not (r.version = p_version and r.state = 'moving'))
    -- a mover that goes the other way at this moment
    and not exists (select from key_move m where m.key = p_key and m.side = 'out' and m.version >= p_version)
  on conflict (key, side) do update
    set peer = excluded.peer, version = excluded.version, seq = excluded.seq, advanced = excluded.advanced, opened = null
    where key_move.opened is not null;
  v_move := assert_move(p_key, 'in', p_version);
  if v_move.peer <> p_from then
    raise exception 'key % comes from installation %, not %', p_key, v_move.peer, p_from
      using errcode = 'PQ005', hint = 'Another mover brings it from there: repeat the move.';
  end if;
  return v_move.seq;
end
$$;

-- Writes the route to the new home into the old one. Waits for enqueues of the key that are under way. p_seq: the
-- answer of hold_key.
create function leave_key(p_key text, p_version bigint, p_seq bigint) returns void
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_move key_move := assert_move(p_key, 'out', p_version);
begin
  perform set_route(p_key, v_move.peer, p_version, i.number) from installation i;
  update key_move m set seq = p_seq - (select case when s.is_called then s.last_value else 0 end from queue_seq_seq s)
  where m.key = p_key and m.side = 'out' and m.seq is null;
end
$$;

-- Ends a move in the old home, if none of the key's jobs is left. Returns ended; or what is left: slices, waiting (it
-- may be ready), running, delayed.
-- Exact: later calls of hand_over are refused, so nothing that comes to wait here later leaves for a home that has
-- opened.
create function finish_move(p_key text, p_version bigint) returns text
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
declare
  v_slices boolean;
  v_waiting boolean;
  v_delayed boolean;
begin
  perform assert_move(p_key, 'out', p_version);
  -- in one snapshot: a delayed job that becomes due between two looks would be missed by both
  select exists (select from handover h where h.key = p_key), exists (select from tail_of_key(p_key, null, 1, true)),
         exists (select from delayed_of_key(p_key, '{}', 1, true))
  into v_slices, v_waiting, v_delayed;
  if v_slices then
    return 'slices';
  elsif v_waiting then
    return case when exists (
        select from tail_of_key(p_key, null, 100, true) t
        where (select w.id from work_item w where w.id = t.id and w.lock_key is not null limit 1) is null)
      then 'waiting' else 'running' end;
  elsif v_delayed then
    return 'delayed';
  end if;
  delete from key_move m where m.key = p_key and m.side = 'out';
  return 'ended';
end
$$;

-- Says in the new home that a move is over, and in the route that it is settled. The hold ends when the leader has seen
-- that, since it knows nothing of jobs that came before others. False: another mover has.
create function open_key(p_key text, p_version bigint) returns boolean
  language plpgsql volatile security definer
  set search_path from current
  set enable_seqscan = off
as $$
begin
  perform commit_durably();
  perform from installation for update;
  update key_move m set opened = clock_timestamp()
  where m.key = p_key and m.side = 'in' and m.version = p_version and m.opened is null;
  if not found then
    return false;
  end if;
  delete from handover h where h.key = p_key;
  perform set_route(p_key, i.number, p_version + 1) from installation i;
  perform hint('queue');
  return true;
end
$$;

-- Ends the holds of keys whose moves are over: the leader has seen them, and its next plan reads their lanes anew. A
-- hold that another session has locked waits for the next tick.
create function end_holds(p_leader text, p_epoch bigint, p_keys text[]) returns void
  language plpgsql volatile security definer
  set search_path from current
  set enable_seqscan = off
as $$
begin
  perform set_config('synchronous_commit', 'off', true);
  perform assert_leader(p_leader, p_epoch);
  delete from key_move m
  where m.side = 'in' and m.key = any (array(
    select l.key from key_move l where l.key = any (p_keys) and l.side = 'in' and l.opened is not null for update skip locked));
end
$$;

-- Counts the jobs that a move would hand over, {"waiting", "delayed", "running"}, and those that would stay with their
-- flows, "stays". Reads all jobs.
create function count_key(p_key text) returns jsonb
  language sql stable security definer
  set search_path from current
as $$
  with leased as materialized (select w.id from work_item w where w.lock_key is not null)
  select jsonb_build_object(
    'waiting', count(*) filter (where c.goes and not c.runs and c.run_after is null),
    'delayed', count(*) filter (where c.goes and not c.runs and c.run_after is not null),
    'running', count(*) filter (where c.goes and c.runs),
    'stays', count(*) filter (where not c.goes))
  from (
    select q.run_after, q.flow is null and (select f.id from flow f where f.waiter = q.id limit 1) is null as goes,
           q.id in (select l.id from leased l) as runs
    from queue q where q.key = p_key) c
$$;

-- Lists keys that have jobs here which belong to no flow, in order behind p_after, up to p_max. Reads all jobs.
create function keys_here(p_after text, p_max integer) returns table (key text, jobs bigint)
  language sql stable security definer
  set search_path from current
  set jit = off
as $$
  select q.key::text, count(*) from queue q where q.key > p_after collate "C" and q.flow is null
  group by q.key order by q.key limit p_max
$$;

-- functions/installation/route.sql

-- Has this transaction commit durably, whatever the server's default: what other installations write relies on it.
create function commit_durably() returns void
  language plpgsql volatile
  set search_path from current
as $$
begin
  if current_setting('synchronous_commit') = 'off' then
    perform set_config('synchronous_commit', 'on', true);
  end if;
end
$$;

-- Returns the advisory lock of a key: enqueues through a router share it, set_route takes it alone. 1,024 locks for
-- all keys, so that a large batch takes few.
create function route_lock(p_key text) returns bigint
  language sql stable
  set search_path from current
as $$
  select hashtextextended(current_schema() || ':route', abs(hashtext(p_key) % 1024))
$$;

-- Checks the keys of an enqueue that came through a router, a part of its statement: refuses it with PQ004 if a key
-- has its home elsewhere by a route that is newer than the one the router knows. p_versions: the version that the
-- router knows of each key; 0: none. p_ids: ids that an earlier try may have written. The detail of the refusal names
-- those of them that are known here, so that the router enqueues only the others elsewhere. p_repeated: an earlier try
-- with these versions may have been accepted. Then any newer route is refused, also one that leads here: the job may have
-- left, and ended elsewhere, before its key came back.
--
-- Safe because: the lock is held until the enqueue commits, and set_route waits for it. After set_route, no job of
-- the key is enqueued here by a router that does not know of it. Each statement of this function sees what was
-- committed while it waited. Served by route's primary key.
create function at_home(p_keys text[], p_versions bigint[], p_ids uuid[] default null, p_repeated boolean default false) returns integer
  language plpgsql volatile security definer
  set search_path from current
  set enable_seqscan = off
as $$
declare
  v_route route;
begin
  perform pg_advisory_xact_lock_shared(l.lock)
  from (select distinct route_lock(k.key) as lock from unnest(p_keys) as k (key) where k.key <> '' order by 1) l;
  select r.* into v_route
  from unnest(p_keys, p_versions) as k (key, version) join route r on r.key = k.key
  where r.version > k.version and (p_repeated or r.installation <> (select i.number from installation i where i.only_row))
  limit 1;
  if found then
    raise exception 'key % has moved to installation %', v_route.key, v_route.installation
      using errcode = 'PQ004', detail = jsonb_build_object('key', v_route.key, 'installation', v_route.installation, 'version', v_route.version,
        'known', (select coalesce(jsonb_agg(x.id), '[]') from unnest(p_ids) as x (id)
                  where exists (select from queue q where q.id = x.id) or exists (select from ended_jobs(array[x.id]))
                     or exists (select from flow f where f.id = x.id)
                     or exists (select from handover h where h.id = x.id)))::text;
  end if;
  return 1;
end
$$;

-- Writes this installation's copy of the route of a key, unless it has the same version or a newer one. Returns
-- whether it wrote. Waits for enqueues of the key that are under way; later ones see the new route.
-- Set routes of several keys in transactions of their own: together they can deadlock with an enqueue of both.
create function set_route(p_key text, p_installation integer, p_version bigint, p_moving_from integer default null) returns boolean
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_change bigint;
begin
  update installation set changes = changes + 1 returning changes into v_change;
  if not found then
    raise exception 'this installation has no number' using errcode = '22023', hint = 'Give it one: pgqueue installations init --number N --name NAME.';
  end if;
  perform pg_advisory_xact_lock(route_lock(p_key));
  insert into route as r (key, installation, version, moving_from, state, change)
  values (p_key, p_installation, p_version, p_moving_from, case when p_moving_from is null then 'settled' else 'moving' end, v_change)
  on conflict (key) do update
  set installation = excluded.installation, version = excluded.version, moving_from = excluded.moving_from, state = excluded.state,
      change = excluded.change
  where r.version < excluded.version;
  return found;
end
$$;

-- functions/installation/shared_limit.sql

-- Leases an installation its part of a shared limit, for p_lease_ms by this server's clock, and makes the limit at
-- its first lease. Called by leaders of installations about once a second.
--   p_epoch      of the leader; one of an earlier epoch is refused (PQ002)
--   p_size, p_per_second  the limit as the holder tells it; p_per_second null: a concurrency
--   p_seen       number of the answer whose part the holder keeps to; 0: none
--   p_in_flight  jobs in flight, counted by the plan that began to keep to that part or a later one; 0 for a rate
--   p_wants      what it could use; null: jobs of it are held, so all it can get
--
-- Exact: the parts that holders may use never add up to more than the size, because a part grows only into what
-- nobody has reserved, and a reservation shrinks only when its holder tells back the number of the answer that made
-- its part smaller. Time frees nothing: a holder that falls silent keeps its reservation. An answer has a new number if
-- its part is another one. After a failover that may have lost leases, all parts are 0 and everything is reserved for
-- each holder until it tells back the number of such an answer; numbers then jump, so that none was used before.
-- Safe because: all leases of a limit take the lock of its row. The commit is synchronous: a lease that a crash could
-- undo would be given twice.
create function lease_limit(p_name text, p_installation integer, p_epoch bigint, p_size integer, p_per_second float8,
                            p_seen bigint, p_in_flight integer, p_wants integer, p_lease_ms integer)
  returns table (number bigint, part integer, rate float8, size integer, per_second float8)
  language plpgsql volatile security definer
  set search_path from current
as $$
#variable_conflict use_column
declare
  v_limit shared_limit;
  v_me shared_limit_part;
  v_now timestamptz;
  v_place text := tables_place();
  v_part integer;
  v_rate float8;
  v_size integer;
  v_per_second float8;
  v_others integer;
  v_others_rate float8;
begin
  perform assert_read_committed('a lease of a shared limit');
  perform commit_durably();
  insert into shared_limit as l (name, size, per_second, place) values (p_name, p_size, p_per_second, v_place) on conflict (name) do nothing;
  select * into v_limit from shared_limit l where l.name = p_name for update;
  v_now := clock_timestamp();
  if (v_limit.per_second is null) <> (p_per_second is null) then
    raise exception 'shared limit % is a % here, not a %', p_name,
        case when v_limit.per_second is null then 'concurrency' else 'rate' end, case when p_per_second is null then 'concurrency' else 'rate' end
      using errcode = '55000', hint = 'Give it the same definition in every installation; to change its kind, take another name.';
  end if;
  if v_limit.place <> v_place then
    -- one whose lease had ended long before the last of the others is gone
    update shared_limit_part m
    set part = 0, rate = 0, number = greatest(m.number + 1000000, (extract(epoch from clock_timestamp()) * 1000)::bigint),
        reserved = greatest(m.reserved, m.size), reserved_rate = greatest(m.reserved_rate, coalesce(m.per_second, 0))
    where m.name = p_name
      and (m.reserved > 0 or m.expires > (select max(o.expires) from shared_limit_part o where o.name = p_name) - interval '1 minute');
  end if;
  insert into shared_limit_part as m (name, installation, size, per_second) values (p_name, p_installation, p_size, p_per_second)
  on conflict (name, installation) do nothing;
  select * into v_me from shared_limit_part m where m.name = p_name and m.installation = p_installation;
  if p_epoch < v_me.epoch then
    raise exception 'installation % has a later leader than that of epoch %, which has leased its part of %', p_installation, p_epoch, p_name
      using errcode = 'PQ002', hint = 'If its database was restored from a backup: stop its schedulers for a minute, and forfeit its part.';
  end if;
  if p_seen = v_me.number then
    v_me.reserved := greatest(v_me.part, p_in_flight);
    v_me.reserved_rate := v_me.rate;
  else
    v_me.reserved := greatest(v_me.reserved, p_in_flight);
  end if;
  select least(p_size, min(o.size) filter (where o.expires > v_now)), least(p_per_second, min(o.per_second) filter (where o.expires > v_now)),
         coalesce(sum(o.reserved), 0), coalesce(sum(o.reserved_rate), 0)
  into v_size, v_per_second, v_others, v_others_rate
  from shared_limit_part o where o.name = p_name and o.installation <> p_installation;
  v_part := greatest(0, least(fair_part(p_name, p_installation, v_size, p_wants, v_now), greatest(v_size - v_others, v_me.part)));
  v_rate := case when v_part = 0 or v_per_second is null then 0
                 else greatest(0, least(v_per_second * v_part / v_size, greatest(v_per_second - v_others_rate, v_me.rate))) end;
  update shared_limit l
  set size = v_size, per_second = v_per_second, place = v_place
  where l.name = p_name and (l.size, l.per_second, l.place) is distinct from (v_size, v_per_second, v_place);
  return query
    update shared_limit_part m
    set epoch = p_epoch, number = m.number + case when (v_part, v_rate) = (v_me.part, v_me.rate) then 0 else 1 end,
        size = p_size, per_second = p_per_second, part = v_part, rate = v_rate,
        reserved = greatest(v_me.reserved, v_part), reserved_rate = greatest(v_me.reserved_rate, v_rate),
        in_flight = p_in_flight, wants = p_wants, expires = v_now + p_lease_ms * interval '1 millisecond'
    where m.name = p_name and m.installation = p_installation
    returning m.number, m.part, m.rate, v_size, v_per_second;
end
$$;

-- Returns the part that an installation should have: max-min fair among those that hold a lease. Each gets what it
-- wants, and those that want more than an even part divide the rest evenly. An idle one gets 1 for its first job, if
-- that leaves nine tenths to the others. If jobs of more installations wait than there are units, every 5 s others
-- go without.
create function fair_part(p_name text, p_installation integer, p_size integer, p_wants integer, p_now timestamptz) returns integer
  language plpgsql stable security definer
  set search_path from current
as $$
declare
  v_row record;
  v_part integer;
  -- parts of silent installations stay reserved
  v_left bigint := greatest(0, p_size - (select coalesce(sum(o.reserved), 0) from shared_limit_part o
                                         where o.name = p_name and o.installation <> p_installation and o.expires <= p_now));
  v_count bigint := 1 + (select count(*) from shared_limit_part o where o.name = p_name and o.installation <> p_installation and o.expires > p_now);
  v_least integer := case when p_size >= 10 * v_count then 1 else 0 end;
begin
  for v_row in
    select x.installation, greatest(coalesce(x.wants, p_size), v_least) as wants
    from (select o.installation::integer, o.wants from shared_limit_part o
          where o.name = p_name and o.installation <> p_installation and o.expires > p_now
          union all select p_installation, p_wants) x (installation, wants)
    order by 2, (row_number() over (order by x.installation) + floor(extract(epoch from p_now) / 5)::bigint) % v_count
  loop
    v_part := least(v_row.wants, v_left / v_count);
    exit when v_row.installation = p_installation;
    v_left := v_left - v_part;
    v_count := v_count - 1;
  end loop;
  return v_part;
end
$$;

-- Gives the part of an installation back, because an operator says that it runs no jobs of the limit and will not
-- lease again. Refused until its lease has ended a minute ago. Returns what was reserved for it. If it does lease
-- again, its jobs in flight are reserved first.
create function forfeit_part(p_name text, p_installation integer) returns integer
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_part shared_limit_part;
begin
  perform from shared_limit l where l.name = p_name for update;
  select * into v_part from shared_limit_part m where m.name = p_name and m.installation = p_installation;
  if not found then
    raise exception 'installation % has no part of shared limit % here', p_installation, p_name using errcode = 'P0002';
  elsif v_part.expires > clock_timestamp() - interval '1 minute' then
    raise exception 'installation % leased its part of shared limit % less than a minute ago', p_installation, p_name
      using errcode = '55000', hint = 'Stop its schedulers and workers, and repeat this a minute later.';
  end if;
  update shared_limit_part m
  set number = m.number + 1, epoch = 0, part = 0, rate = 0, reserved = 0, reserved_rate = 0, in_flight = 0, wants = 0
  where m.name = p_name and m.installation = p_installation;
  return v_part.reserved;
end
$$;

-- Removes a limit that no installation has leased for a minute, and of which none has jobs in flight, so that it may get
-- another home or kind.
create function remove_limit(p_name text) returns void
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  perform from shared_limit l where l.name = p_name for update;
  if not found then
    raise exception 'there is no shared limit % here', p_name using errcode = 'P0002';
  elsif exists (select from shared_limit_part m where m.name = p_name and m.expires > clock_timestamp() - interval '1 minute') then
    raise exception 'shared limit % was leased less than a minute ago', p_name
      using errcode = '55000', hint = 'Take it out of the policies of all installations, and repeat this a minute later.';
  elsif exists (select from shared_limit_part m where m.name = p_name and m.in_flight > 0) then
    raise exception 'shared limit % had jobs in flight in installation % when that was heard of last', p_name,
        (select min(m.installation) from shared_limit_part m where m.name = p_name and m.in_flight > 0)
      using errcode = '55000', hint = 'Make sure that none runs there, and forfeit its part first.';
  end if;
  delete from shared_limit where name = p_name;
end
$$;

-- functions/installation/shared_use.sql

-- Notes the recent use of shares in an installation, and returns that of the others, with its age in milliseconds by this
-- server's clock. Called by leaders of installations about once a second. p_uses null: notes nothing. One of an earlier
-- epoch changes nothing. Use that was told a day ago is deleted: it has long decayed.
create function share_uses(p_name text, p_installation integer, p_epoch bigint, p_uses json) returns table (uses json, age_ms float8)
  language plpgsql volatile security definer
  set search_path from current
as $$
#variable_conflict use_column
begin
  perform set_config('synchronous_commit', 'off', true);
  if p_uses is not null then
    insert into shared_use as u (name, installation, epoch, uses, told) values (p_name, p_installation, p_epoch, p_uses, clock_timestamp())
    on conflict (name, installation) do update set epoch = excluded.epoch, uses = excluded.uses, told = excluded.told
      where u.epoch <= excluded.epoch;
    delete from shared_use u where u.told < clock_timestamp() - interval '1 day';
  end if;
  return query
    select u.uses, (extract(epoch from clock_timestamp() - u.told) * 1000)::float8 from shared_use u
    where u.name = p_name and u.installation <> p_installation order by u.installation;
end
$$;

-- functions/job.sql

-- Checks all rules for a QUEUE row as one constraint. PostgreSQL parses the text of every check of a table
-- anew for each statement that writes to it: 22 checks took 60 of the 120 us of an INSERT of one job, without
-- its commit. Each session parses this function once. A BEFORE INSERT trigger would be as fast, but COPY would
-- insert row by row. A refusal names the broken rule as a constraint, and does not quote the row, which may
-- hold secrets.
-- Sizes are sizes of texts. The text of a small stored value is made here: a call of fits() would cost as
-- much again. A timeout is compared in seconds, as claim uses it: as an interval, a month less 29 days is
-- positive, but in February it is negative.
-- The first condition is a shortcut for most jobs, which are small and use no rare column; it keeps all
-- rules. PL/pgSQL prepares a condition anew in each transaction, with all of its parts: of an INSERT's 47 to
-- 55 us the second condition takes 17 to 20, the first 12.
-- Attributes are flat, and their numbers are within the range of a double: each tick of the scheduler reads
-- them. Their JSON path is here twice, since a path in a variable would be parsed anew for each row.
create function check_job(p_job queue) returns boolean
  language plpgsql stable
  set search_path from current
as $$
declare
  v_broken text;
begin
  if num_nulls(p_job.timeout, p_job.checkpoint, p_job.retry, p_job.trace) = 4 and p_job.attributes = '{}'
      and least(octet_length(p_job.queue), octet_length(p_job.task), octet_length(p_job.unique_key), p_job.payload_version, p_job.max_tries, p_job.max_crashes) >= 1
      and greatest(octet_length(p_job.queue), octet_length(p_job.task), octet_length(p_job.key), octet_length(p_job.unique_key), p_job.max_tries, p_job.max_crashes) <= 100
      and least(p_job.tries, p_job.crashes) >= 0 and coalesce(jsonb_typeof(p_job.errors), 'array') = 'array'
      and isfinite(least(p_job.created, p_job.expires_at, p_job.run_after)) and isfinite(greatest(p_job.created, p_job.expires_at, p_job.run_after))
      and pg_column_size(p_job.payload) <= 1000 and pg_column_compression(p_job.payload) is null and octet_length(p_job.payload::text) <= 1000 then
    return true;
  end if;
  if (least(length(p_job.queue), length(p_job.task), length(p_job.unique_key), p_job.payload_version, p_job.max_tries, p_job.max_crashes) >= 1
      and length(p_job.queue) <= 100 and length(p_job.task) <= 200 and length(p_job.key) <= 200 and length(p_job.unique_key) <= 500
      and (p_job.unique_key is null or octet_length(p_job.task) + octet_length(p_job.unique_key) <= 2600)
      and greatest(p_job.max_tries, p_job.max_crashes) <= 1000 and least(p_job.tries, p_job.crashes) >= 0
      and ((pg_column_size(p_job.payload) <= 1000 and pg_column_compression(p_job.payload) is null and octet_length(p_job.payload::text) <= 1000)
           or fits(p_job.payload, 393216))
      and (p_job.attributes = '{}' or (jsonb_typeof(p_job.attributes) = 'object' and fits(p_job.attributes, 16384)
           and not jsonb_path_exists(
             p_job.attributes, 'strict $.* ? (@.type() == "object" || @.type() == "array" || (@.type() == "number" && (@ > 1.7976931348623157e308 || @ < -1.7976931348623157e308 || (@ > -4e-324 && @ < 4e-324 && @ != 0))))', '{}', true)))
      and (p_job.checkpoint is null or fits(p_job.checkpoint, 393216))
      and (p_job.retry is null or (fits(p_job.retry, 4096) and retry_fits(p_job.retry)))
      and (p_job.trace is null or (jsonb_typeof(p_job.trace) = 'object' and fits(p_job.trace, 4096)))
      and jsonb_typeof(p_job.errors) = 'array'
      and isfinite(p_job.created) and isfinite(p_job.expires_at) and isfinite(p_job.run_after)
      and date_part('epoch', p_job.timeout) between 0.001 and 3.2e8) is not false then
    return true;
  end if;
  select c.name into v_broken
  from (values
    ('queue_attributes_check', jsonb_typeof(p_job.attributes) = 'object' and not jsonb_path_exists(
       p_job.attributes, 'strict $.* ? (@.type() == "object" || @.type() == "array" || (@.type() == "number" && (@ > 1.7976931348623157e308 || @ < -1.7976931348623157e308 || (@ > -4e-324 && @ < 4e-324 && @ != 0))))', '{}', true)),
    ('queue_attributes_size', fits(p_job.attributes, 16384)),
    ('queue_checkpoint_size', fits(p_job.checkpoint, 393216)),
    ('queue_crashes_check', p_job.crashes >= 0),
    ('queue_created_check', isfinite(p_job.created)),
    ('queue_errors_check', jsonb_typeof(p_job.errors) = 'array'),
    ('queue_expires_at_check', isfinite(p_job.expires_at)),
    ('queue_key_check', length(p_job.key) <= 200),
    ('queue_max_crashes_check', p_job.max_crashes between 1 and 1000),
    ('queue_max_tries_check', p_job.max_tries between 1 and 1000),
    ('queue_payload_size', fits(p_job.payload, 393216)),
    ('queue_payload_version_check', p_job.payload_version >= 1),
    ('queue_queue_check', length(p_job.queue) between 1 and 100),
    ('queue_retry_check', retry_fits(p_job.retry)),
    ('queue_retry_size', fits(p_job.retry, 4096)),
    ('queue_run_after_check', isfinite(p_job.run_after)),
    ('queue_task_check', length(p_job.task) between 1 and 200),
    ('queue_timeout_check', date_part('epoch', p_job.timeout) between 0.001 and 3.2e8),
    ('queue_trace_check', jsonb_typeof(p_job.trace) = 'object'),
    ('queue_trace_size', fits(p_job.trace, 4096)),
    ('queue_tries_check', p_job.tries >= 0),
    -- an entry of the index queue_unique has 2,704 bytes at most
    ('queue_unique_key_check', length(p_job.unique_key) between 1 and 500
       and octet_length(p_job.task) + octet_length(p_job.unique_key) <= 2600)) as c(name, holds)
  where not c.holds order by c.name limit 1;
  raise exception 'new row for relation "queue" violates check constraint "%"', v_broken
    using errcode = 'check_violation', table = 'queue', constraint = v_broken,
      hint = case v_broken when 'queue_retry_check' then
        'retry takes kind (fixed, linear or exponential), baseMs and maxMs (0 to 3.2e11), factor (1 to 1000), jitter (0 to 1), and nothing else.'
        else '' end;
end
$$;

-- Not valid, so that pg_dump writes it after the data: the check and the table depend on each other.
alter table queue add constraint queue_check check (check_job(queue.*)) not valid;

-- Refuses a statement whose inserted rows leave more jobs of a key than its queue takes (key_pending). Jobs of
-- a flow count when it starts: a step that is released later, or grows, must not fail for it. Nor must a slice of jobs
-- that comes from another installation: nothing counts for a key while it moves here. Counts
-- along queue_waiting, up to the limit and no further. The limit is not exact: concurrent transactions don't
-- see each other's jobs. An exact limit would make producers of one key wait for each other's commits, and a
-- counter for each key would be a hot row.
create function refuse_crowds() returns trigger
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
declare
  v record;
begin
  for v in
    select c.queue, i.key, c.key_pending
    from (select distinct x.queue, x.key from inserted x
          where x.run_after is null and not exists (select from key_move m where m.key = x.key and m.side = 'in' and m.opened is null)
            and (x.flow is null or (select f.created from flow f where f.id = x.flow) >= transaction_timestamp())) i
    join queue_config c on c.queue = i.queue and c.key_pending is not null
  loop
    if (select count(*) from (
          select from queue q
          where q.queue = v.queue and q.key = v.key and q.run_after is null limit v.key_pending + 1) waiting) > v.key_pending then
      raise exception 'queue_key_pending: queue % takes % jobs of one key, and there are so many of %',
          to_json(v.queue), v.key_pending, to_json(v.key)
        using errcode = 'PQ003', hint = 'Enqueue later, or raise key_pending of the queue.';
    end if;
  end loop;
  return null;
end
$$;

-- Creates the trigger while some queue has such a limit, and drops it otherwise: its copy of the inserted
-- rows would cost every enqueue, even while it is disabled. Creating it takes a lock that waits for
-- transactions that have enqueued, while other statements wait behind it. After 3 s (lock_timeout) the change
-- of the setting is refused.
create function watch_crowds() returns trigger
  language plpgsql volatile security definer
  set search_path from current
  set lock_timeout = '3s'
as $$
declare
  v_wanted boolean;
  v_there boolean;
begin
  perform pg_advisory_xact_lock(hashtextextended(current_schema() || ':crowds', 0));
  v_wanted := exists (select from queue_config c where c.key_pending is not null);
  v_there := exists (
    select from pg_trigger t where t.tgrelid = to_regclass(quote_ident(current_schema()) || '.queue') and t.tgname = 'queue_key_pending');
  if v_wanted and not v_there then
    create trigger queue_key_pending after insert on queue
      referencing new table as inserted for each statement execute function refuse_crowds();
  elsif v_there and not v_wanted then
    drop trigger queue_key_pending on queue;
  end if;
  return null;
end
$$;

create trigger queue_config_crowds after insert or update of key_pending or delete on queue_config
  for each statement execute function watch_crowds();

-- Resets a waiting job whose payload an enqueue replaces: a new payload is another piece of work, and must
-- not inherit the resume data, failures, crashes and signals of the old one. The condition is in the function, since
-- every statement that writes to the table copies the condition of a trigger, an INSERT, too.
create function begin_anew() returns trigger
  language plpgsql
  set search_path from current
as $$
begin
  if old.payload is distinct from new.payload then
    new.checkpoint := null;
    new.tries := 0;
    new.crashes := 0;
    new.errors := null;
    perform forget_signals(array[new.id], 'all');
  end if;
  return new;
end
$$;

create trigger queue_new_payload before update of payload on queue for each row execute function begin_anew();

create function note_move() returns trigger
  language plpgsql
  set search_path from current
as $$
begin
  new.moved := true;
  return new;
end
$$;

-- Marks jobs that were changed while they waited, or that wait again, as moved. A job that is pending at once
-- and done at its first attempt is never updated, so this costs it nothing.
create trigger queue_move before update on queue for each row
  when (new.run_after is null and new.moved is null) execute function note_move();

-- functions/jobs.sql

-- Counts the jobs of a queue that wait or run. For workers in any language.
create function queue_length(p_queue text default 'default') returns bigint
  language sql stable security definer
  set search_path from current
as $$ select count(*) from queue q where q.queue = p_queue $$;

-- Lists the first waiting jobs of a queue by priority and age. Without payloads: any worker may look at any
-- queue, and sees the payloads of its own leases only.
create function peek(p_queue text default 'default', p_max integer default 10)
  returns table (id uuid, task text, key text, priority integer, created timestamptz, run_after timestamptz)
  language sql stable security definer
  set search_path from current
as $$
  select q.id, q.task, q.key, q.priority, q.created, q.run_after
  from queue q where q.queue = p_queue and (select w.id from work_item w where w.id = q.id and w.lock_key is not null limit 1) is null
  order by q.priority, q.seq limit p_max
$$;

-- Lists every waiting job, page by page in the order of ids. A job keeps its id, so the cursor shows no job
-- twice and misses none.
create function scan(p_queue text default null, p_after uuid default null, p_max integer default 100)
  returns table (id uuid, queue text, task text, key text, priority integer, created timestamptz, run_after timestamptz)
  language sql stable security definer
  set search_path from current
as $$
  select q.id, q.queue, q.task, q.key, q.priority, q.created, q.run_after
  from queue q
  where (p_after is null or q.id > p_after) and (p_queue is null or q.queue = p_queue)
    and (select w.id from work_item w where w.id = q.id and w.lock_key is not null limit 1) is null
  order by q.id limit p_max
$$;

-- Returns the trace contexts of those of the given jobs that still exist and have one. Served by queue's
-- primary key.
create function job_traces(p_ids uuid[]) returns setof jsonb
  language sql stable security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
as $$
  select q.trace from unnest(p_ids) i (id) cross join lateral (select q.trace from queue q where q.id = i.id offset 0) q
  where q.trace is not null
$$;

-- functions/keys.sql

-- Counts the jobs of the p_top keys that have the most, without delayed jobs; the rest of each queue is one
-- row with key null. Work items are always counted. Pending jobs are counted up to p_max altogether; beyond
-- that they are estimated from the sample that queue_numbers takes (exact is false), and a key with few jobs
-- may be missing.
create function key_numbers(p_top integer default 10, p_max integer default 10000)
  returns table (queue text, key text, pending bigint, ready bigint, running bigint, exact boolean)
  language plpgsql stable security definer
  set search_path from current
  set plan_cache_mode = force_custom_plan
  set jit = off
  set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_all boolean := pg_stat_get_dead_tuples('queue'::regclass) <= 20 * p_max
    and (select count(*) from (select from queue q where q.run_after is null
                               order by q.queue, q.key, q.priority, q.seq limit p_max + 1) w) <= p_max;
  v_rows float8 := pg_stat_get_live_tuples('queue'::regclass);
  v_share float8 := least(100, 100 * 200.0 / greatest(1, pg_relation_size('queue') / current_setting('block_size')::integer));
begin
  return query
    with items as materialized (
      select q.queue, q.key, count(*) as items, count(w.lock_key) as running
      from work_item w cross join lateral (select q.queue, q.key from queue q where q.id = w.id offset 0) q
      group by q.queue, q.key
    ),
    sample as materialized (
      select q.queue, q.key, q.run_after is not null as is_delayed, count(*) as jobs
      from queue q tablesample system (v_share) repeatable (0) where not v_all group by 1, 2, 3
    ),
    waiting as (
      select q.queue, q.key, count(*) as jobs from queue q where v_all and q.run_after is null group by q.queue, q.key
      union all
      select s.queue, s.key,
             round(s.jobs * case when v_rows > p_max then v_rows / (select sum(a.jobs) from sample a) else 100 / v_share end)::bigint
      from sample s where not s.is_delayed
    ),
    keys as (
      select coalesce(w.queue, i.queue) as queue, coalesce(w.key, i.key) as key,
             greatest(0, coalesce(w.jobs, 0) - coalesce(i.items, 0)) as pending,
             coalesce(i.items - i.running, 0) as ready, coalesce(i.running, 0) as running
      from waiting w full join items i on i.queue = w.queue and i.key = w.key
    ),
    ranked as (
      select k.*, row_number() over (order by k.pending + k.ready + k.running desc, k.queue, k.key) <= p_top as is_top from keys k
    )
    select r.queue::text, case when r.is_top then r.key::text end, sum(r.pending)::bigint, sum(r.ready)::bigint, sum(r.running)::bigint, v_all
    from ranked r group by r.queue, case when r.is_top then r.key::text end
    order by case when r.is_top then r.key::text end is null, sum(r.pending + r.ready + r.running) desc, 1, 2;
end
$$;

-- Counts waiting jobs by queue, task and payload version: all of them up to p_max. If more wait, it reads the
-- sample that queue_numbers takes and the 1,000 smallest ids, and jobs is the number found there. Jobs that
-- no node runs stay, and so get to be among the smallest ids.
create function waiting_tasks(p_max integer default 10000)
  returns table (queue text, task text, payload_version integer, jobs bigint)
  language plpgsql stable security definer
  set search_path from current
  set plan_cache_mode = force_custom_plan
  set jit = off
  set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_clean boolean := pg_stat_get_dead_tuples('queue'::regclass) <= 20 * p_max;
  v_all boolean := v_clean and (select count(*) from (select from queue q where q.run_after is null
                                                       order by q.queue, q.key, q.priority, q.seq limit p_max + 1) w) <= p_max;
  v_share float8 := least(100, 100 * 200.0 / greatest(1, pg_relation_size('queue') / current_setting('block_size')::integer));
begin
  return query
    select j.queue::text, j.task::text, j.payload_version, count(*)
    from (
      select q.id, q.queue, q.task, q.payload_version from queue q where v_all and q.run_after is null
      union
      select q.id, q.queue, q.task, q.payload_version
      from queue q tablesample system (v_share) repeatable (0) where not v_all and q.run_after is null
      union
      select e.id, e.queue, e.task, e.payload_version
      from (select q.id, q.queue, q.task, q.payload_version, q.run_after from queue q
            where v_clean and not v_all order by q.id limit 1000) e
      where e.run_after is null) j
    group by 1, 2, 3;
end
$$;

-- functions/numbers.sql

-- Counts the jobs that wait and run, by queue. Up to p_max jobs altogether, every job is counted. Beyond
-- that, a queue with no more jobs than its share of p_max is still counted. The number of jobs in the others
-- is estimated (exact is false): the row count of the server's statistics, divided as in a sample of 200
-- pages, the same pages at every call. The oldest job of such a queue is the oldest one in the sample and
-- among the 1,000 smallest ids.
--
-- Work items are few, and always counted. An index scan passes the entries of ended jobs until vacuum removes
-- them: when vacuum is held back and there are more than 20 * p_max dead rows, no index is walked and
-- everything is estimated.
create function waiting_numbers(p_max integer)
  returns table (queue text, exact boolean, delayed bigint, pending bigint, ready bigint, running bigint, oldest timestamptz,
                 claimed timestamptz)
  language plpgsql stable security definer
  set search_path from current
  set plan_cache_mode = force_custom_plan
  set jit = off
  set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_clean boolean := pg_stat_get_dead_tuples('queue'::regclass) <= 20 * p_max;
  v_late boolean := false; -- all delayed jobs can be counted
  v_all boolean := false;
  v_queues text[] := '{}';
  v_each integer;
  v_rows float8 := pg_stat_get_live_tuples('queue'::regclass);
  v_share float8 := least(100, 100 * 200.0 / greatest(1, pg_relation_size('queue') / current_setting('block_size')::integer));
begin
  if v_clean then
    v_late := (select count(*) from (select from queue q where q.run_after is not null order by q.run_after limit p_max + 1) d) <= p_max;
    v_all := v_late and (select count(*) from (select from queue q where q.run_after is null
                                               order by q.queue, q.key, q.priority, q.seq limit p_max + 1) w) <= p_max;
    v_queues := array(
      with recursive names as (
        (select q.queue from queue q where q.run_after is null order by q.queue limit 1)
        union all
        select (select q.queue from queue q where q.run_after is null and q.queue > n.queue order by q.queue limit 1)
        from names n where n.queue is not null)
      select n.queue from names n where n.queue is not null limit case when v_all then p_max else p_max / 10 end);
  end if;
  v_each := case when v_all then p_max + 1 else greatest(10, p_max / greatest(1, cardinality(v_queues))) end;
  return query
    with items as materialized (
      select q.queue, w.id, w.lock_key, w.started
      from work_item w cross join lateral (select q.queue from queue q where q.id = w.id offset 0) q
    ),
    held as (
      select i.queue, count(*) as items, count(i.lock_key) as running, min(i.started) as claimed from items i group by i.queue
    ),
    -- materialized: the ids are looked up in a hash, whatever row count the planner expects
    busy as materialized (select i.id from items i where i.lock_key is not null),
    counted as materialized (
      select n.queue, count(*) as jobs, min(j.created) filter (where j.id not in (select b.id from busy b)) as oldest
      from unnest(v_queues) n (queue)
      cross join lateral (select q.id, q.created from queue q where q.run_after is null and q.queue = n.queue
                          order by q.queue, q.key, q.priority, q.seq limit v_each) j
      group by n.queue
    ),
    late as materialized (
      select q.queue, count(*) as jobs from queue q where v_late and q.run_after is not null group by q.queue
    ),
    sample as materialized (
      select q.queue, q.run_after is not null as is_delayed, count(*) as jobs,
             min(q.created) filter (where q.id not in (select b.id from busy b)) as oldest
      from queue q tablesample system (v_share) repeatable (0) where not v_all group by 1, 2
    ),
    early as materialized (
      select e.queue, min(e.created) as oldest
      from (select q.queue, q.created, q.run_after, q.id from queue q where v_clean and not v_all order by q.id limit 1000) e
      where e.run_after is null and e.id not in (select b.id from busy b) group by e.queue
    ),
    -- parts that were not counted to their end
    parts as materialized (
      select n.queue, false as is_delayed, coalesce(s.jobs, 0) as jobs, coalesce(c.jobs, 0) as known
      from (select c.queue from counted c where c.jobs >= v_each
            union select s.queue from sample s where not s.is_delayed and s.queue not in (select c.queue from counted c)) n
      left join counted c on c.queue = n.queue
      left join sample s on s.queue = n.queue and not s.is_delayed
      union all
      select s.queue, true, s.jobs, 0 from sample s where s.is_delayed and not v_late
    ),
    rest as (
      select coalesce(case when v_rows > p_max
                           then greatest(0, v_rows - coalesce((select sum(c.jobs) from counted c where c.jobs < v_each), 0)
                                                   - coalesce((select sum(l.jobs) from late l), 0)) / nullif(sum(p.jobs), 0)
                           else 100 / v_share end, 1) as factor
      from parts p
    ),
    guessed as (
      select p.queue, p.is_delayed, greatest(p.known, round(p.jobs * r.factor))::bigint as jobs from parts p, rest r
    )
    select e.queue::text, g.queue is null and d.queue is null, coalesce(d.jobs, l.jobs, 0),
           greatest(0, coalesce(g.jobs, c.jobs, 0) - coalesce(h.items, 0)), coalesce(h.items - h.running, 0), coalesce(h.running, 0),
           case when g.queue is null then c.oldest else least(c.oldest, s.oldest, y.oldest) end, h.claimed
    from (select c.queue from counted c union select l.queue from late l union select s.queue from sample s
          union select h.queue from held h) e
    left join guessed g on g.queue = e.queue and not g.is_delayed
    left join guessed d on d.queue = e.queue and d.is_delayed
    left join counted c on c.queue = e.queue
    left join late l on l.queue = e.queue
    left join sample s on s.queue = e.queue and not s.is_delayed
    left join early y on y.queue = e.queue
    left join held h on h.queue = e.queue;
end
$$;

-- Counts dead letters by queue, up to p_max / 4; beyond that they are estimated as waiting_numbers does.
-- Counts the jobs that ended in the last five minutes, or in the shorter time in which the newest p_max jobs
-- ended. Uses statement_timestamp(): an index can't be searched for a volatile function.
create function ended_numbers(p_max integer)
  returns table (queue text, exact boolean, dead bigint, window_s float8, failed bigint, attempts bigint, done bigint, died bigint)
  language plpgsql stable security definer
  set search_path from current
  set plan_cache_mode = force_custom_plan
  set jit = off
  set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := statement_timestamp();
  v_from timestamptz;
  v_counted boolean := (select count(*) from (select from dead_letter d where d.died > '-infinity' order by d.died, d.id limit p_max / 4 + 1) c) <= p_max / 4;
  v_share float8 := least(100, 100 * 200.0 / greatest(1, pg_relation_size('dead_letter') / current_setting('block_size')::integer));
  v_rows float8 := pg_stat_get_live_tuples('dead_letter'::regclass);
begin
  v_from := coalesce((select h.finished from history h where h.finished > v_now - interval '5 minutes'
                      order by h.finished desc offset p_max limit 1), v_now - interval '5 minutes');
  return query
    with counted as (
      select d.queue, count(*) as jobs from dead_letter d where v_counted group by d.queue
    ),
    sample as materialized (
      select d.queue, count(*) as jobs from dead_letter d tablesample system (v_share) repeatable (0) where not v_counted group by d.queue
    ),
    guessed as (
      select s.queue, greatest(1, round(s.jobs * case when v_rows > p_max / 4 then v_rows / sum(s.jobs) over () else 100 / v_share end))::bigint
               as jobs
      from sample s
    ),
    ended as (
      select e.queue, sum(e.failed) as failed, sum(e.attempts) as attempts, count(*) filter (where e.outcome = 'done') as done,
             count(*) filter (where e.outcome = 'dead') as died
      from (
        select h.queue, h.outcome, h.tries as failed, h.tries + (h.outcome = 'done')::integer as attempts
        from history h where h.finished > v_from
        union all
        select d.queue, 'dead', d.tries, d.tries from dead_letter d where d.died > v_from
      ) e group by e.queue
    )
    select n.queue::text, v_counted, coalesce(c.jobs, g.jobs, 0), extract(epoch from v_now - v_from)::float8,
           coalesce(e.failed, 0), coalesce(e.attempts, 0), coalesce(e.done, 0), coalesce(e.died, 0)
    from (select c.queue from counted c union select g.queue from guessed g union select e.queue from ended e) n
    left join counted c on c.queue = n.queue
    left join guessed g on g.queue = n.queue
    left join ended e on e.queue = n.queue;
end
$$;

-- Returns the numbers of every queue that has a job, had one within five minutes, or is configured. The one
-- definition of these numbers: the views, "pgqueue status", metrics and the dashboard all read it.
create function queue_numbers(p_max integer default 10000)
  returns table (queue text, exact boolean, delayed bigint, pending bigint, ready bigint, running bigint, dead bigint, oldest_s float8,
                 claim_age_s float8, window_s float8, failed bigint, attempts bigint, done bigint, died bigint)
  language sql stable security definer
  set search_path from current
as $$
  with waiting as materialized (select * from waiting_numbers(p_max)), ended as materialized (select * from ended_numbers(p_max))
  select n.queue, coalesce(w.exact, true) and coalesce(e.exact, true), coalesce(w.delayed, 0), coalesce(w.pending, 0),
         coalesce(w.ready, 0), coalesce(w.running, 0), coalesce(e.dead, 0),
         case when isfinite(w.oldest) then extract(epoch from clock_timestamp() - w.oldest)::float8 end, extract(epoch from clock_timestamp() - w.claimed)::float8,
         coalesce(e.window_s, 300), coalesce(e.failed, 0), coalesce(e.attempts, 0), coalesce(e.done, 0), coalesce(e.died, 0)
  from (select queue from waiting union select queue from ended union select queue from queue_config) n
  left join waiting w on w.queue = n.queue
  left join ended e on e.queue = n.queue
$$;

-- functions/operate.sql

-- recall, and the functions that call it, lock the QUEUE rows first, in the order of their ids; the scheduler
-- skips locked rows, so no new work item can appear. A new statement, and so a new snapshot, then deletes the
-- ready work items and skips those that another session is claiming or settling. A job that still has a work
-- item after that is running, or about to end. Only READ COMMITTED gives each statement a new snapshot.

-- Locks waiting jobs and takes back their ready work items; returns the jobs that have none after that.
create function recall(p_ids uuid[]) returns uuid[]
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
begin
  perform assert_read_committed('a change of waiting jobs');
  perform from queue q where q.id = any (p_ids) order by q.id for update;
  perform spread(p_ids);
  delete from work_queue
  where position = any (array(
    select w.position from work_queue w where w.id = any (p_ids) and w.lock_key is null for update skip locked));
  return array(
    select q.id from queue q where q.id = any (p_ids) and (select w.id from work_queue w where w.id = q.id) is null and not in_batch(q.id));
end
$$;

-- Ends waiting jobs that recall has returned, as cancelled or as expired; returns those that were still there.
create function end_waiting(p_ids uuid[], p_outcome text) returns uuid[]
  language plpgsql volatile
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
declare
  v_gone uuid[];
  v_ends flow_end[];
begin
  with gone as (delete from queue q where q.id = any (p_ids) returning q.*),
  kept as (
    insert into history (id, queue, task, key, priority, outcome, tries, crashes, created, finished, payload_version, unique_key,
                         attributes, payload, errors, trace, flow, step, settings)
    select g.id, g.queue, g.task, g.key, g.priority, p_outcome, g.tries, g.crashes, g.created, clock_timestamp(),
           g.payload_version, g.unique_key, g.attributes, g.payload, g.errors, g.trace, g.flow, g.step,
           case when g.flow is not null then settings_of(g.timeout, g.max_tries, g.max_crashes, g.retry) end
    from gone g
    where coalesce((select c.retention from queue_config c where c.queue = g.queue), interval '7 days') > interval '0')
  select array_agg(g.id), array_agg((g.flow, g.step, g.id, p_outcome, null, null)::flow_end) filter (where g.flow is not null)
  into v_gone, v_ends from gone g;
  if v_ends is not null then
    perform note_ends(v_ends);
  end if;
  return v_gone;
end
$$;

-- Cancels jobs. Waiting jobs end at once (cancelled); the node of a running job hears of it with its next
-- heartbeat (signalled). busy: another session is claiming or settling the job, or it is on its way to another
-- installation; call again. A job that is missing from the answer has ended, or never existed.
create function cancel(p_ids uuid[])
  returns table (job_id uuid, verdict text)
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
#variable_conflict use_column
begin
  return query select u.id, 'cancelled'::text from unnest(end_waiting(recall(p_ids), 'cancelled')) as u (id);
  update work_queue w set cancelled = coalesce(w.cancelled, clock_timestamp())
  where w.position = any (array(
    select r.position from work_queue r
    where r.id = any (p_ids) and r.lock_key is not null for update skip locked));
  return query
    select q.id,
           case when (select w.id from work_queue w where w.id = q.id and w.cancelled is not null) is null then 'busy'
                else 'signalled' end
    from queue q where q.id = any (p_ids)
    union all
    select h.id, 'busy' from handover h where h.id = any (p_ids);
  if exists (select from work_queue w where w.id = any (p_ids) and w.cancelled is not null) then
    perform hint('cancel');
  end if;
end
$$;

-- Changes waiting jobs: their priority, their run_after, or both; p_now clears run_after. Returns the changed
-- jobs. Leaves running jobs alone.
create function amend(p_ids uuid[], p_priority integer default null, p_run_after timestamptz default null, p_now boolean default false)
  returns setof uuid
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_waiting uuid[] := recall(p_ids);
begin
  return query
    update queue q
    set priority = coalesce(p_priority, q.priority), run_after = case when p_now then null else coalesce(p_run_after, q.run_after) end
    where q.id = any (v_waiting)
    returning q.id;
end
$$;

-- Removes jobs without a trace, from whichever table they are in; a flow keeps of one that is done that its result is
-- lost, since its step has counted it. Leaves running jobs alone.
create function erase(p_ids uuid[]) returns setof uuid
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_waiting uuid[] := recall(p_ids);
  v_gone uuid[];
  v_ends flow_end[];
begin
  with gone as (delete from queue q where q.id = any (v_waiting) returning q.id, q.flow, q.step)
  select array_agg(g.id), array_agg((g.flow, g.step, g.id, 'erased', null, null)::flow_end) filter (where g.flow is not null)
  into v_gone, v_ends from gone g;
  if v_ends is not null then
    perform note_ends(v_ends);
  end if;
  return query select unnest(v_gone);
  return query delete from dead_letter d where d.id = any (p_ids) returning d.id;
  return query
    with gone as materialized (delete from history h where h.id = any (p_ids) returning h.id, h.flow, h.step),
    emptied as (
      update flow_result r set result = '{"pgqueue_error": "the job was erased"}'
      from gone g where r.flow = any (array[g.flow]) and r.step = g.step and r.job = g.id and r.result is not null
    )
    select g.id from gone g;
  perform forget_signals(array(select x.id from unnest(p_ids) as x (id) where (select q.id from queue q where q.id = x.id) is null), 'all');
end
$$;

-- Puts dead jobs back into QUEUE with fresh limits; they keep the errors of their attempts, and their checkpoint. A job whose
-- unique key belongs to a newer job stays dead, and is missing from the answer. Their steps keep the
-- notes of their ends until they end again (note_ends). Plain values of signals of a job that died of one, since its codec
-- refuses it, are forgotten: then it may be given another. An encrypted error does not tell: they are forgotten then, too.
-- Locks the jobs' flows first: else a step could end as done between the leader's look and its count, for a
-- job that is back.
create function redrive(p_ids uuid[]) returns setof uuid
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  perform from flow f
  where f.id = any (array(select distinct d.flow from dead_letter d where d.id = any (p_ids))) order by f.id for update;
  perform forget_signals(array(
    select d.id from dead_letter d
    where d.id = any (p_ids) and coalesce(d.errors -> -1 ->> 'code' = 'undecodable', d.errors -> -1 ? '$enc')), 'plain');
  return query
    with dead as materialized (
      select d.* from dead_letter d where d.id = any (p_ids) order by d.id for update
    ),
    back as (
      insert into queue (id, queue, task, key, priority, max_tries, max_crashes, created, timeout, payload_version, unique_key,
                         attributes, payload, retry, trace, errors, flow, step, checkpoint)
      select d.id, d.queue, d.task, d.key, d.priority, d.max_tries, d.max_crashes, d.created, d.timeout, d.payload_version,
             d.unique_key, d.attributes, d.payload, d.retry, d.trace, d.errors, d.flow, d.step, d.checkpoint
      from dead d order by d.died, d.id
      on conflict do nothing
      returning id, flow, step
    ),
    tallied as (
      insert into flow_tally (flow, step, failed) select b.flow, b.step, -count(*) from back b where b.flow is not null group by b.flow, b.step
    ),
    gone as (delete from dead_letter d using back b where d.id = any (array[b.id]) returning d.id)
    select g.id from gone g;
end
$$;

-- Ends jobs as expired that have not started by their expires_at: a sweep of the scheduler. Returns their
-- number.
create function expire(p_leader text, p_epoch bigint, p_max integer) returns integer
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
declare
  -- a constant for the query: an index can't be searched for a volatile function, so every job that expires
  -- would be read
  v_now timestamptz := clock_timestamp();
  v_ids uuid[];
begin
  perform assert_leader(p_leader, p_epoch);
  v_ids := array(
    select q.id from queue q
    where q.expires_at <= v_now
      and (select w.id from work_queue w where w.id = q.id and w.lock_key is not null) is null
    order by q.expires_at limit p_max for update skip locked);
  if cardinality(v_ids) = 0 then
    return 0;
  end if;
  return make_due(recall(v_ids), true);
end
$$;

-- functions/request.sql

-- Makes requests to the HTTP API with one idempotency key take turns until the transaction ends, then reports
-- whether the key has jobs of another request, as far back as history reaches. p_ids: the ids of this request's
-- jobs, UUIDs of version 8, which begin with 60 bits of the key. Answers about ids that begin as they do only.
--
-- Safe because: the lock comes first, and the search is a statement of its own, which sees what the transaction
-- before it committed. The rest of a key's ids is one range of the primary keys of QUEUE and DEAD_LETTER and of
-- history_id, a few rows long.
create function key_taken(p_ids uuid[]) returns boolean
  language plpgsql volatile security definer
  set search_path from current
  set enable_seqscan = off
  set jit = off
as $$
declare
  v_head text := left(p_ids[1]::text, 19);
  v_from uuid;
  v_to uuid;
begin
  perform assert_read_committed('a request with an idempotency key');
  if substr(v_head, 15, 1) is distinct from '8' then
    raise exception 'ids of a request are UUIDs of version 8' using errcode = '22023';
  end if;
  perform pg_advisory_xact_lock(hashtextextended(current_schema() || ':request:' || v_head, 0));
  v_from := v_head || '8000-000000000000';
  v_to := v_head || 'bfff-ffffffffffff';
  return exists (select from queue q where q.id >= v_from and q.id <= v_to and q.id <> all (p_ids))
      or exists (select from history h where h.id >= v_from and h.id <= v_to and h.id <> all (p_ids))
      or exists (select from dead_letter d where d.id >= v_from and d.id <= v_to and d.id <> all (p_ids));
end
$$;

-- functions/results.sql

-- Returns where each of the given jobs stands, for callers that wait for its end. status: as in the view job.
-- result: of a job that is done. error: of a dead job, the error of its last attempt, with the reason of the
-- death. Jobs that are in no table are left out: they never were, were erased, or their history is gone.
-- Without p_exact a job of a batch counts as pending, though it may be ready or running: with 300 batches of
-- 100 jobs, reading them takes 10 to 30 ms. Callers that look often need the end only.
--
-- Every caller can read the result of any job by its id. Producers can read the ids of waiting jobs, so they
-- are trusted with all results; payloads stay hidden from them.
--
-- Safe because: it changes nothing, and one statement sees one snapshot, in which a job stands in one table;
-- an unfinished row counts first. Each job is looked up by QUEUE's primary key, and only if it is not there,
-- by handover_id (it is on its way to another installation), and by those of DEAD_LETTER and of HISTORY's partitions (history_id): limit 1 ends the search. A waiting job's
-- work item is looked up by work_queue_id. Jobs of batches are read once a call, from the position where
-- batches begin, and hashed; the limit tells a planner with old statistics that they are few.
create function job_result(p_ids uuid[], p_exact boolean default true)
  returns table (id uuid, status text, result jsonb, error jsonb, task text)
  language sql stable security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_mergejoin = off
as $$
  with batched as materialized (
    select u.id, w.lock_key is not null as leased
    from (select w.jobs, w.lock_key from work_queue w where w.jobs is not null and w.position >= batches_from() order by w.position limit 10000) w
    cross join lateral unnest(w.jobs) as u (id)
  )
  select i.id, j.status, j.result, j.error, j.task
  from (select distinct x.id from unnest(p_ids) as x (id)) i
  cross join lateral (
    select coalesce(
             (select case when w.lock_key is null then 'ready' else 'running' end from work_queue w where w.id = q.id),
             case when q.run_after is not null then 'delayed'
                  when not p_exact then 'pending'
                  when q.id in (select b.id from batched b where b.leased) then 'running'
                  when q.id in (select b.id from batched b) then 'ready' else 'pending' end) as status,
           null::jsonb as result, null::jsonb as error, q.task
    from queue q where q.id = i.id
    union all
    select 'pending', null, null, o.job ->> 'task' from handover o where o.id = i.id
    union all
    select 'dead', null, (d.errors -> -1) || jsonb_build_object('reason', d.reason), d.task from dead_letter d where d.id = i.id
    union all
    select h.outcome, h.result, null, h.task from history h where h.id = i.id
    limit 1) j
$$;

-- functions/rewrap.sql

-- Writes payloads, errors and checkpoints of dead jobs, encrypted under another key. p_jobs: a list of {"id", "version", "payload",
-- "errors", "checkpoint"}; version: the xmin of the row that was read. A row that has another one now is left alone: it was written
-- meanwhile, or its job was redriven and died again. Returns the ids of the jobs that were written.
-- Safe because: one statement compares and writes under the row's lock, and no worker reads this table.
-- Served by dead_letter's primary key.
create function rewrap_dead(p_jobs jsonb) returns setof uuid
  language sql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
  update dead_letter d set payload = x.payload, errors = x.errors, checkpoint = x.checkpoint
  from jsonb_to_recordset(p_jobs) as x (id uuid, version text, payload jsonb, errors jsonb, checkpoint jsonb)
  where d.id = x.id and d.xmin = x.version::xid
  returning d.id
$$;

-- functions/scheduler/backlog.sql

-- Writes work items of a lane's next jobs, which the scheduler has not read: it only knows that they may all go, in
-- their order. Reading, planning and naming each job would take twice as long. p_backlog:
--   queue, key, priority, after   jobs of this lane and priority, behind this seq
--   task, version                 only jobs of this kind that no rule tells apart: they never ran, do not expire,
--                                 belong to no flow and have no attributes. The first other one ends the list
--   jobs, size, slots             so many jobs at most, as batches of so many; if there are fewer, spread over the slots
--   pool, wake                    their pool, and the payload of its hint; wake absent: the pool
-- Returns the database's time, the positions of the work items in order, separated by commas, the number of jobs,
-- the size of the items (the last has what is left), the seq of the last job, and whether more such jobs may follow.
-- Exact, safe and asynchronous as dispatch(): one statement reads what waits and what is in flight. Jobs whose rows are
-- locked are passed over. They stay behind the cursor of the lane, so ticks find them.
-- Served by queue_waiting and work_queue_id.
create function dispatch_backlog(p_leader text, p_epoch bigint, p_backlog jsonb)
  returns table (at_ms float8, positions text, jobs integer, size integer, last bigint, more boolean)
  language plpgsql volatile security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set work_mem = '64MB'
as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_queue constant text := p_backlog ->> 'queue';
  v_key constant text := p_backlog ->> 'key';
  v_priority constant integer := p_backlog -> 'priority';
  v_after constant bigint := p_backlog -> 'after';
  v_task constant text := p_backlog ->> 'task';
  v_version constant integer := p_backlog -> 'version';
  v_pool constant text := p_backlog ->> 'pool';
  v_jobs constant integer := p_backlog -> 'jobs';
  v_size integer := p_backlog -> 'size';
  v_slots constant integer := p_backlog -> 'slots';
  v_made integer;
  v_last bigint;
  v_positions text;
begin
  perform set_config('synchronous_commit', 'off', true);
  perform assert_leader(p_leader, p_epoch);
  v_now := clock_timestamp();
  with batched as materialized (
    select u.id from (select w.jobs from work_queue w where w.jobs is not null and w.position >= batches_from() limit 100000) b
    cross join lateral unnest(b.jobs) as u (id)
  ),
  waiting as materialized (
    select q.id, q.seq, q.timeout, q.alike, row_number() over (order by q.seq) as n
    from (
      select q.id, q.seq, q.timeout,
             q.task = v_task and q.payload_version = v_version and q.tries = 0 and q.crashes = 0 and q.expires_at is null
               and q.flow is null and pg_column_size(q.attributes) <= 8 and q.attributes = '{}' as alike
      from queue q
      where q.run_after is null and q.queue = v_queue and q.key = v_key and q.priority = v_priority and q.seq > v_after
        and (select w.id from work_queue w where w.id = q.id) is null and q.id not in (select b.id from batched b)
      order by q.queue, q.key, q.priority, q.seq limit v_jobs for update skip locked) q
  ),
  alike as materialized (
    select w.* from waiting w where w.n < coalesce((select min(o.n) from waiting o where not o.alike), v_jobs + 1)
  ),
  size as materialized (
    select case when count(*) = v_jobs then v_size else least(v_size, greatest(1, ceil(count(*)::float8 / v_slots)))::integer end as size from alike
  ),
  made as (
    insert into work_queue (position, id, jobs, version, pool, task, dispatched, timeout)
    overriding system value
    select nextval('work_queue_position_seq'), case when cardinality(g.ids) = 1 then g.ids[1] end,
           case when cardinality(g.ids) > 1 then g.ids end, v_version, v_pool, v_task, v_now, case when cardinality(g.ids) > 1 then g.timeout end
    from (
      select (a.n - 1) / (select s.size from size s) as row, array_agg(a.id order by a.n) as ids, max(a.timeout) as timeout from alike a group by 1) g
    order by g.row
    returning position)
  select (select count(*) from alike), (select s.size from size s), (select max(a.seq) from alike a),
         (select string_agg(m.position::text, ',' order by m.position) from made m)
  into v_made, v_size, v_last, v_positions;
  if v_made > 0 then
    perform hint('work', coalesce(p_backlog ->> 'wake', v_pool));
  end if;
  return query
    select extract(epoch from v_now)::float8 * 1000, coalesce(v_positions, ''), v_made, v_size, coalesce(v_last, v_after), v_made = v_jobs;
end
$$;

-- functions/scheduler/dispatch.sql

-- Writes one plan under the leader's epoch: work items in the plan's order, and the parts of the policy's
-- state that changed. Returns the database's time, the positions of the work items in the order of p_ids,
-- separated by commas (of a batch once), and the ids that got none: those jobs were taken, locked, moved,
-- changed or ended since they were read.
-- p_versions: each row's xmin as it was read, so that no limit counts a job by facts that have changed; null:
-- unchecked. p_plan:
--   pool, pools  the pool of all jobs, or of each
--   together     numbers of the work items that are bundles, as the text of an array
--   rows         the number of each job's work item, from 1 on in their order, as the text of an array: jobs
--                of one number are a batch; absent: each job is by itself
--   front        move the front up, too (advance_front)
--   parts        {"part": state}: the parts of the policy's state that changed
--   settled      numbers of the rows of settlement that the plan has taken into account
--   wake         the pool, and the nodes of it to wake; absent: all
--   supposed     assumptions that the plan makes without a read (holds_true). If one is false, nothing is
--                written, and at_ms is null. So such a plan keeps to the limits as others do.
--
-- Exact: only the leader writes work items, and a leader whose write has an unknown outcome gives up its
-- epoch before it plans again. So the items that a plan counted as in flight, plus the items it writes, are
-- all there are.
-- Safe because: a job's row is locked before its work item is written (SKIP LOCKED never waits behind an
-- application's transaction). A job that has an item already is left out before the insert would meet it:
-- there it would wait for a settlement, which waits for this lock.
-- Batches are few and read whole, before the rows are locked: only a leader puts a job into a batch. The
-- limit tells the planner that they are few.
-- No "on conflict", which takes a fifth of the time: only a leader makes work items, two leaders wait for
-- each other (assert_leader) before the statements below take their snapshots, and the row of a job whose
-- item is being removed is locked.
-- Commits asynchronously: a crash of Postgres that loses the plan only makes its jobs pending again.
-- Served by queue's primary key and work_queue_id.
create function dispatch(p_leader text, p_epoch bigint, p_ids uuid[], p_versions xid[], p_plan jsonb, p_notify boolean)
  returns table (at_ms float8, positions text, missing uuid[])
  language plpgsql volatile security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set work_mem = '64MB'
as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_ids uuid[];
  v_positions text := '';
  v_missing uuid[] := '{}';
  v_supposed jsonb := p_plan -> 'supposed';
  v_pool text := p_plan ->> 'pool';
  v_pools text[] := array(select jsonb_array_elements_text(p_plan -> 'pools'));
  v_together integer[] := p_plan ->> 'together';
  v_rows integer[] := p_plan ->> 'rows';
  v_batched uuid[] := '{}';
  v_made bigint;
begin
  perform set_config('synchronous_commit', 'off', true);
  perform assert_leader(p_leader, p_epoch);
  if v_supposed is not null and not holds_true(v_supposed) then
    return query select null::float8, '', p_ids;
    return;
  end if;
  v_now := clock_timestamp();
  if p_plan ? 'parts' then
    insert into policy_state as s (part, state, saved)
    select x.key, x.value, v_now from jsonb_each(p_plan -> 'parts') x
    on conflict (part) do update set state = excluded.state, saved = excluded.saved;
  end if;
  if p_plan ? 'front' then
    perform advance_front();
  end if;
  if p_plan ? 'settled' then
    delete from settlement where n = any (array(
      select x.n::bigint from jsonb_array_elements_text(p_plan -> 'settled') as x (n)));
  end if;
  if cardinality(p_ids) > 0 then
    if exists (select from work_queue w where w.jobs is not null and w.position >= batches_from()) then
      -- a hash of the plan's ids, which the jobs of batches are looked up in: far more may be in batches
      v_batched := array(
        select u.id from (select w.jobs from work_queue w where w.jobs is not null and w.position >= batches_from() limit 100000) b
        cross join lateral unnest(b.jobs) as u (id)
        where (u.id in (select x.id from unnest(p_ids) as x (id))) is true);
    end if;
    with grouped as (
      select p.row, case when count(*) = 1 then (array_agg(p.id))[1] end as id, case when count(*) > 1 then array_agg(p.id order by p.n) end as jobs,
             min(p.payload_version) as version, min(p.pool) as pool, min(p.task) as task, count(*) = 1 and bool_or(p.crashes > 0) as suspect,
             case when count(*) > 1 then max(p.timeout) end as timeout, count(*) as size
      from (
        select q.id, q.payload_version, q.task, q.timeout, q.crashes, coalesce(x.pool, v_pool) as pool, coalesce(x.row, x.n) as row, x.n
        from unnest(p_ids, v_pools, p_versions, v_rows) with ordinality as x (id, pool, version, row, n),
          lateral (
            select q.id, q.payload_version, q.task, q.timeout, q.crashes from queue q
            -- not "run_after is null": the planner would read the whole index of waiting jobs for each id, when
            -- it expects it to be empty
            where q.id = x.id and (x.version is null or q.xmin = x.version) and coalesce(q.run_after, '-infinity') = '-infinity'
              and (q.expires_at is null or q.expires_at > v_now)
              and (select w.id from work_queue w where w.id = q.id) is null and q.id <> all (v_batched)
            for update skip locked) q) p
      group by p.row
    ),
    made as (
      insert into work_queue (position, id, jobs, version, pool, task, dispatched, together, suspect, timeout)
      overriding system value
      -- positions for the parts of a batch that is taken apart: 2 * size + 1 of them behind its own
      select case when g.size <= 127 then nextval('work_queue_position_seq')
                  else (select min(nextval('work_queue_position_seq')) from generate_series(0, (2 * g.size + 1) / 256)) end,
             g.id, g.jobs, g.version, g.pool, g.task, v_now,
             case when g.size > 1 and g.row = any (v_together) then nextval('bundle_number') end, g.suspect, g.timeout
      from grouped g order by g.row
      returning id, jobs, position)
    select sum(coalesce(cardinality(m.jobs), 1)), string_agg(m.position::text, ',' order by m.position),
           case when sum(coalesce(cardinality(m.jobs), 1)) < cardinality(p_ids)
                then array(select u.id from made a cross join lateral unnest(coalesce(a.jobs, array[a.id])) as u (id)) end
    into v_made, v_positions, v_ids from made m;
    if coalesce(v_made, 0) < cardinality(p_ids) then
      v_missing := array(select unnest(p_ids) except select unnest(v_ids));
    end if;
    if p_notify and v_pool is not null then
      perform hint('work', coalesce(p_plan ->> 'wake', v_pool));
    elsif p_notify then
      perform hint('work', x.pool) from (select distinct unnest(v_pools) as pool) x;
    end if;
  end if;
  return query select extract(epoch from v_now)::float8 * 1000, coalesce(v_positions, ''), v_missing;
end
$$;

-- Tells whether the assumptions of a plan hold. p_supposed: {"ended": ids, "jobs": [...], "config": mark}.
--   ended   these jobs are gone, so they count for no limit
--   config  the settings of queues are still these (config_mark)
--   jobs    each of them waits, has the given values in all that a policy may read, and is the next of its
--           lane and priority behind the seq after: only other jobs of the list wait before it there, and no
--           job of its key waits for a retry or the end of a snooze
-- The assumptions come from hints, and any role that may NOTIFY can send one. Jobs in flight need no check:
-- the leader wrote all of them, and some may have ended since.
create function holds_true(p_supposed jsonb) returns boolean
  language plpgsql stable security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
declare
  v_ended uuid[] := array(select x.id::uuid from jsonb_array_elements_text(p_supposed -> 'ended') as x (id));
begin
  if config_mark() is distinct from p_supposed ->> 'config' or exists (select from queue q where q.id = any (v_ended)) then
    return false;
  end if;
  -- scalar subqueries, which can only be looked up: "exists" was planned as a join that reads a whole index
  return not exists (
    with job as materialized (
      select (x.job ->> 'id')::uuid as id, x.job ->> 'queue' as queue, x.job ->> 'key' as key, (x.job -> 'priority')::integer as priority,
             (x.job -> 'seq')::bigint as seq, (x.job -> 'after')::bigint as after, x.job
      from jsonb_array_elements(p_supposed -> 'jobs') as x (job)
    ),
    place as materialized (
      select j.queue collate "C" as queue, j.key collate "C" as key, j.priority, min(j.after) as after, max(j.seq) as seq from job j group by 1, 2, 3
    )
    select from job j
    where (
      select q.id from queue q
      where q.id = j.id and q.queue = j.queue and q.key = j.key and q.task = j.job ->> 'task'
        and q.payload_version = (j.job -> 'version')::integer and q.priority = j.priority and q.seq = j.seq
        and q.attributes = j.job -> 'attributes' and date_part('epoch', q.created) * 1000 = (j.job -> 'createdMs')::float8
        and coalesce(q.run_after, q.expires_at) is null and q.tries = 0 and q.crashes = 0 and q.flow is null) is null
    union all
    select from place p
    where (
        select q.id from queue q
        where q.queue = p.queue and q.key = p.key and q.run_after is not null and q.last_token is not null
        order by q.queue, q.key, q.run_after limit 1) is not null
      -- jobs in between must be in flight; the check reads 50 of them at most
      or (select count(*) = 50 or count(*) filter (where (select w.id from work_queue w where w.id = b.id) is null and not in_batch(b.id)) > 0
          from (
            select q.id from queue q
            where q.run_after is null and q.queue = p.queue and q.key = p.key and q.priority = p.priority
              and q.seq > p.after and q.seq < p.seq and q.id not in (select j.id from job j)
            order by q.queue, q.key, q.priority, q.seq limit 50) b));
end
$$;

-- Takes back work items that no node has leased: their jobs are pending again, and are planned anew. Returns
-- the jobs taken back; a node is claiming the others at this moment.
create function take_back(p_leader text, p_epoch bigint, p_ids uuid[]) returns setof uuid
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
begin
  perform set_config('synchronous_commit', 'off', true);
  perform assert_leader(p_leader, p_epoch);
  return query
    with gone as (
      delete from work_queue w
      where w.position = any (array(
        select r.position from work_queue r
        where r.jobs && p_ids and r.together is not null and r.lock_key is null and r.position >= batches_from() for update skip locked))
      returning w.jobs)
    select u.id from gone g cross join lateral unnest(g.jobs) as u (id);
  -- all but bundles without a lease: spread would wait for their jobs
  perform take_apart(array(
    select r.position from work_queue r
    where r.jobs is not null and (r.together is null or r.lock_key is not null) and r.position >= batches_from()
      and exists (select from unnest(r.jobs) as u (id) where (u.id in (select i.id from unnest(p_ids) as i (id))) is true)
    for update skip locked));
  return query
    delete from work_queue w
    where w.position = any (array(
      select r.position from work_queue r where r.id = any (p_ids) and r.lock_key is null for update skip locked))
    returning w.id;
end
$$;

-- Makes delayed jobs pending whose run_after has passed, up to p_max. next_due_ms: milliseconds until the
-- next one is due; null: none is delayed.
create function promote(p_leader text, p_epoch bigint, p_max integer)
  returns table (promoted integer, next_due_ms double precision)
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  -- a constant for the query: an index can't be searched for a volatile function, so every delayed job would
  -- be read
  v_now timestamptz := clock_timestamp();
  v_count integer;
begin
  perform assert_leader(p_leader, p_epoch);
  v_count := make_due(array(
    select q.id from queue q where q.run_after <= v_now
    order by q.run_after limit p_max for update skip locked));
  return query
    select v_count, (
      select extract(epoch from q.run_after - clock_timestamp())::float8 * 1000 from queue q
      where q.run_after is not null order by q.run_after limit 1);
end
$$;

-- functions/scheduler/explain.sql

-- Replaces the leader's report. Commits asynchronously: a lost report is followed by another.
create function report(p_leader text, p_epoch bigint, p_report jsonb) returns void
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  perform set_config('synchronous_commit', 'off', true);
  perform assert_leader(p_leader, p_epoch);
  insert into scheduler_report as r (leader, epoch, written, report) values (p_leader, p_epoch, clock_timestamp(), p_report)
  on conflict (only_row) do update
    set leader = excluded.leader, epoch = excluded.epoch, written = excluded.written, report = excluded.report;
end
$$;

-- Asks the leader why a job waits; returns the number of the question. Null: no scheduler leads, or 1,000
-- questions are open already.
create function ask_explain(p_job uuid) returns bigint
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_n bigint;
begin
  perform from scheduler_lease l where l.leader is not null and l.expires > clock_timestamp();
  if not found or (select count(*) from (select from explain_request r where r.answered is null limit 1000) open) >= 1000 then
    perform forget_explains();
    return null;
  end if;
  insert into explain_request (job) values (p_job) returning n into v_n;
  perform hint('queue');
  return v_n;
end
$$;

-- Takes the answer, once. Null: there is none yet, or the question was older than a minute and is gone.
create function take_explain(p_n bigint, p_job uuid) returns jsonb
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_answer jsonb;
begin
  delete from explain_request r where r.n = p_n and r.job = p_job and r.answered is not null returning r.answer into v_answer;
  return v_answer;
end
$$;

-- Returns the open questions of the last 10 s, oldest first, 20 at most; null: none. Nobody waits for older
-- ones. Begins behind p_after, so that a tick does not pass questions that are gone. Numbers commit a little
-- out of order: begin a few before the last one seen.
create function open_explains(p_after bigint) returns jsonb
  language plpgsql stable security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
begin
  return (
    select jsonb_agg(jsonb_build_object('n', o.n, 'job', o.job) order by o.n)
    from (select r.n, r.job from explain_request r
          where r.n > p_after and r.answered is null and r.asked > clock_timestamp() - interval '10 seconds'
          order by r.n limit 20) o);
end
$$;

-- Answers a question. False: the question is gone, or answered already.
create function answer_explain(p_leader text, p_epoch bigint, p_n bigint, p_answer jsonb) returns boolean
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_found boolean;
begin
  perform set_config('synchronous_commit', 'off', true);
  perform assert_leader(p_leader, p_epoch);
  update explain_request r set answered = clock_timestamp(), answer = p_answer where r.n = p_n and r.answered is null;
  v_found := found;
  perform forget_explains();
  return v_found;
end
$$;

-- Removes questions and answers older than a minute, which nobody waits for.
create function forget_explains() returns void
  language sql volatile security definer
  set search_path from current
as $$
  delete from explain_request
  where n = any (array(
    select r.n from explain_request r where r.asked < clock_timestamp() - interval '1 minute' for update skip locked))
$$;

-- Reads the facts of one waiting job, for the scheduler's answer: the job itself, the first waiting job of
-- its key, and when the first job of its key that waits for a retry or the end of a snooze is due. Null: the
-- job does not wait, or is delayed. Served by queue's primary key, queue_waiting and queue_retrying.
create function waiting_job(p_job uuid) returns jsonb
  language sql stable security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
  select jsonb_build_object(
    'id', q.id, 'queue', q.queue, 'key', q.key, 'task', q.task, 'version', q.payload_version, 'priority', q.priority, 'seq', q.seq,
    'createdMs', extract(epoch from q.created)::float8 * 1000, 'expiresMs', extract(epoch from q.expires_at)::float8 * 1000,
    'attributes', legible(q.attributes), 'tries', q.tries, 'flow', q.flow,
    'alone', q.crashes > 0 or (q.tries > 0 and q.tries + 1 >= q.max_tries),
    'firstId', (
      select f.id from queue f
      where f.run_after is null and f.queue = q.queue and f.key = q.key and (select w.id from work_queue w where w.id = f.id) is null
        and not in_batch(f.id)
      order by f.queue, f.key, f.priority, f.seq limit 1),
    'retryDueMs', (
      select retry_due_ms(r.id, r.run_after) from queue r
      where r.run_after is not null and r.last_token is not null and r.queue = q.queue and r.key = q.key
      order by r.queue, r.key, r.run_after limit 1))
  from queue q
  -- not "run_after is null": the planner would read the whole index of waiting jobs, when it expects it to be
  -- empty
  where q.id = p_job and coalesce(q.run_after, '-infinity') = '-infinity' and (select w.id from work_queue w where w.id = q.id) is null
    and not in_batch(q.id)
$$;

-- Returns the facts about an unfinished job that the database alone knows; null: there is no such job. Work
-- items are counted in its queue and in its key; the jobs of a bundle count once. "jobsAhead", counted up to
-- p_ahead_max, is served by queue_waiting. "waitsFor": the flow until whose end the job is suspended.
create function wait_facts(p_job uuid, p_ahead_max integer) returns jsonb
  language sql stable security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
  with one as materialized (
    select q.id, q.queue, q.key, q.priority, q.seq, q.task, q.payload_version, q.run_after, q.expires_at,
           w.position, w.lock_key, w.lock_timeout, w.started, w.cancelled,
           coalesce(c.paused, false) as paused,
           coalesce(w.pool, c.pool, 'default') as pool, c.concurrency, c.key_concurrency, c.rate, c.rate_burst, c.key_rate,
           c.key_rate_burst, clock_timestamp() as now
    from queue q
    left join work_item w on w.id = q.id
    left join queue_config c on c.queue = q.queue
    where q.id = p_job
  ),
  live as materialized (
    select n.id, n.slots,
           coalesce(one.payload_version between (n.tasks -> one.task -> 'min')::integer
                                            and (n.tasks -> one.task -> 'max')::integer, false) as capable
    from one join node n on n.pool = one.pool and n.state = 'alive'
      and n.heartbeat > one.now - n.lost_after_ms * interval '1 millisecond'
  ),
  items as materialized (
    select w.pool, w.position, w.lock_key, coalesce(-w.together, w.position) as slot, coalesce(w.together::text, w.id::text) as unit, w.id <> one.id as other,
           (select q.key from queue q where q.id = w.id and q.queue = one.queue) as key
    from one, work_item w
  )
  select jsonb_build_object(
    'paused', one.paused, 'pool', one.pool, 'expired', coalesce(one.expires_at <= one.now, false),
    'dueInMs', extract(epoch from one.run_after - one.now)::float8 * 1000,
    'startedAgoMs', extract(epoch from one.now - one.started)::float8 * 1000,
    'leaseEndsInMs', extract(epoch from one.lock_timeout - one.now)::float8 * 1000,
    'leader', (select l.leader from scheduler_lease l where l.expires > one.now),
    'nodes', (select count(*) from live),
    'capable', (select count(*) from live where capable),
    'slots', (select coalesce(sum(slots), 0) from live where capable),
    -- batches that a node has claimed beyond its slots wait in it
    'running', (
      select coalesce(sum(least(l.slots, h.taken)), 0)
      from (select i.lock_key, count(distinct i.slot) as taken from items i group by i.lock_key) h join live l on l.id = h.lock_key and l.capable),
    'ready', (select count(*) from items i where i.pool = one.pool and i.lock_key is null),
    'itemsAhead', (select count(*) from items i where i.pool = one.pool and i.lock_key is null and i.position < one.position),
    'queueInFlight', (select count(distinct i.unit) from items i where i.other and i.key is not null),
    'keyInFlight', (select count(distinct i.unit) from items i where i.other and i.key = one.key),
    'concurrency', one.concurrency, 'keyConcurrency', one.key_concurrency,
    'rate', case when one.rate is not null then jsonb_build_object('perSecond', one.rate, 'burst', one.rate_burst) end,
    'keyRate', case when one.key_rate is not null then jsonb_build_object('perSecond', one.key_rate, 'burst', one.key_rate_burst) end,
    'jobsAhead', case when one.run_after is null and one.lock_key is null then (
      select count(*) from (
        select from queue a
        where a.run_after is null and a.queue = one.queue and a.key = one.key and (a.priority, a.seq) < (one.priority, one.seq)
          and (select w.id from work_item w where w.id = a.id and w.lock_key is not null limit 1) is null
        limit p_ahead_max) ahead) end,
    'waitsFor', case when one.run_after > one.now then (
      select f.id from flow f where f.waiter = one.id and f.state = 'open' limit 1) end,
    'nodeState', n.state, 'nodeBeatAgoMs', extract(epoch from one.now - n.heartbeat)::float8 * 1000,
    'cancelAsked', one.cancelled is not null)
  from one left join node n on n.id = one.lock_key
$$;

-- functions/scheduler/lanes.sql

-- Walks over lanes with waiting jobs behind p_behind (queue, key), in order: p_lanes of them. Lanes of paused
-- queues do not count, and are skipped in one step. p_hot_queues, p_hot_keys: lanes in order that are returned
-- whether anything waits in them or not. The walk steps over them without an index lookup: they may have a
-- million dead rows there. p_end: the walk ends with the last of them.
create function walk_lanes(p_behind text[], p_lanes integer, p_paused jsonb, p_hot_queues text[], p_hot_keys text[], p_end boolean)
  returns table (queue text, key text, n integer)
  language plpgsql stable
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  return query
  with recursive
  walk (queue, key, n, hot) as ( -- hot: the place of the next hot lane
    select p_behind[1] collate "C", p_behind[2] collate "C", 0, 1 + (
      select count(*)::integer from unnest(p_hot_queues, p_hot_keys) as h (queue, key)
      where (h.queue collate "C", h.key collate "C") <= (p_behind[1], p_behind[2]))
    union all
    select x.queue, x.key, w.n + (not p_paused ? x.queue)::integer, w.hot + coalesce(((x.queue, x.key) = (c.queue, c.key))::integer, 0)
    from walk w
    cross join lateral (select p_hot_queues[w.hot] collate "C" as queue, p_hot_keys[w.hot] collate "C" as key offset 0) c
    cross join lateral (
      -- up to the next hot lane, each bounded by one column: before PostgreSQL 18, two don't end an index scan
      select s.queue, s.key from (
        (select q.queue, q.key from queue q
         where q.run_after is null and c.queue is null and not p_end and not p_paused ? w.queue
           and (q.queue, q.key) > (w.queue, w.key) order by q.queue, q.key limit 1)
        union all
        (select q.queue, q.key from queue q
         where q.run_after is null and c.queue is null and not p_end and p_paused ? w.queue and q.queue > w.queue
         order by q.queue, q.key limit 1)
        union all
        (select q.queue, q.key from queue q
         where q.run_after is null and not p_paused ? w.queue and c.queue <> w.queue
           and q.queue = w.queue and q.key > w.key order by q.queue, q.key limit 1)
        union all
        (select q.queue, q.key from queue q
         where q.run_after is null and not p_paused ? w.queue and c.queue = w.queue
           and q.queue = w.queue and q.key > w.key and q.key < c.key order by q.queue, q.key limit 1)
        union all
        (select q.queue, q.key from queue q
         where q.run_after is null and c.queue > w.queue and q.queue > w.queue and q.queue < c.queue order by q.queue, q.key limit 1)
        union all
        (select q.queue, q.key from queue q
         where q.run_after is null and c.queue > w.queue and q.queue = c.queue and q.key < c.key order by q.queue, q.key limit 1)
        union all
        select c.queue, c.key where c.queue is not null) s
      order by s.queue, s.key limit 1) x
    where w.n < p_lanes
  )
  select w.queue::text, w.key::text, w.n from walk w where w.n > 0 and not p_paused ? w.queue;
end
$$;

-- Lists the lanes of one page in order: those behind p_read's queue and key, then those from the beginning up
-- to it, while the page has room. Lanes of its ranges are listed whether anything waits in them or not.
create function page_of_lanes(p_read jsonb, p_paused jsonb, out queues text[], out keys text[])
  language plpgsql stable
  set search_path from current
as $$
#variable_conflict use_column
declare
  v_behind constant text[] := array[p_read ->> 'queue', p_read ->> 'key'];
  v_lanes constant integer := (p_read -> 'keys')::integer;
  v_hot_queues text[];
  v_hot_keys text[];
begin
  if p_read -> 'ranges' <> '{}' then
    select array_agg(h.queue order by h.queue, h.key), array_agg(h.key order by h.queue, h.key) into v_hot_queues, v_hot_keys
    from (select x.key collate "C" as queue, y.key collate "C" as key
          from jsonb_each(p_read -> 'ranges') x cross join lateral jsonb_object_keys(x.value) as y (key) where not p_paused ? x.key) h;
  end if;
  select array_agg(w.queue order by w.n), array_agg(w.key order by w.n) into queues, keys
  from walk_lanes(v_behind, v_lanes, p_paused, v_hot_queues, v_hot_keys, false) w;
  if coalesce(cardinality(queues), 0) < v_lanes and v_behind[1] <> '' then
    select queues || array_agg(w.queue order by w.n), keys || array_agg(w.key order by w.n) into queues, keys
    from walk_lanes('{"",""}', v_lanes - coalesce(cardinality(queues), 0), p_paused,
      array(select h.queue from unnest(v_hot_queues, v_hot_keys) as h (queue, key)
            where (h.queue collate "C", h.key collate "C") < (v_behind[1], v_behind[2])) || v_behind[1],
      array(select h.key from unnest(v_hot_queues, v_hot_keys) as h (queue, key)
            where (h.queue collate "C", h.key collate "C") < (v_behind[1], v_behind[2])) || v_behind[2], true) w;
  end if;
end
$$;

-- Returns attributes as a scheduler reads them; null: it can't, and leaves the job out. Legible is a flat
-- object of numbers that a double can hold, with a text of 64 KiB at most. Checks the numbers before it makes
-- a text: jsonb keeps 1e131071 in 16 bytes, and may be compressed.
create function legible(p_attributes jsonb) returns jsonb
  language plpgsql immutable parallel safe
  set search_path from current
as $$
begin
  if jsonb_typeof(p_attributes) <> 'object'
    or jsonb_path_exists(p_attributes, 'strict $.* ? (@.type() == "object" || @.type() == "array"
         || (@.type() == "number" && (@ > 1.7976931348623157e308 || @ < -1.7976931348623157e308 || (@ > -4e-324 && @ < 4e-324 && @ != 0))))', '{}', true)
    or octet_length(p_attributes::text) > 65536 then
    return null;
  end if;
  return p_attributes;
end
$$;

-- Lists the lanes that look reads, each once: those of its page, numbered in order, and those that are named
-- or have got a new job. wanted: jobs to read of each. A part of look, whose settings plan it.
create function lanes_to_read(p_read jsonb, p_paused jsonb, p_queues text[], p_keys text[])
  returns table (queue text, key text, paged boolean, n bigint, wanted integer, retry_due_ms float8)
  language plpgsql stable
  set search_path from current
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_from uuid := p_read ->> 'from';
  v_to uuid := p_read ->> 'to';
begin
  return query
  with
  page as materialized (
    select x.queue collate "C" as queue, x.key collate "C" as key, x.n from unnest(p_queues, p_keys) with ordinality as x (queue, key, n)
  ),
  named as materialized (
    select (x.lane ->> 0) collate "C" as queue, (x.lane ->> 1) collate "C" as key, (x.lane -> 2)::integer as depth
    from jsonb_array_elements(p_read -> 'named') as x (lane)
    union all
    (select q.queue, q.key, 1 from queue q
     where q.id between v_from and v_to and not p_paused ? q.queue
       and coalesce(q.run_after, '-infinity') = '-infinity' order by q.id desc limit 2000)
  ),
  depth as materialized (select greatest(1, ceil((p_read -> 'want')::float8 / greatest(1, count(*))))::integer as of_lane from page)
  select y.queue::text, y.key::text, y.paged, y.n, y.wanted, (
    select retry_due_ms(r.id, r.run_after) from queue r
    where r.run_after is not null and r.last_token is not null and r.queue = y.queue and r.key = y.key
    order by r.queue, r.key, r.run_after limit 1) as retry_due_ms
  from (
    select x.queue, x.key, bool_or(x.paged) as paged, min(x.n) as n, max(x.wanted) as wanted
    from (
      select p.queue, p.key, true as paged, p.n, (select of_lane from depth) as wanted from page p
      union all
      select named.queue, named.key, false, null, greatest(named.depth, (select of_lane from depth)) from named) x
    group by 1, 2) y;
end
$$;

-- Reads the first waiting jobs of lanes (a queue's keys). p_read, as one JSON object:
--   queue, key, keys   a page of that many lanes behind that one, wrapping around; skip: without {"queue": true}
--   want               jobs, shared out over the page
--   named              [[queue, key, depth], ...]: also these lanes, and at least that many jobs of each
--   from, to           also lanes with a waiting id between these (ids are ordered by time: sees new work at
--                      once, however many lanes there are)
--   starts, lookahead  {"queue": {"key": [priority, seq]}}: also lookahead jobs behind that place of its lane
--   ranges             {"queue": {"key": [[priority, seq, priority, seq, moved, free], ...]}}: in these
--                      lanes only places behind the first, up to the second; sorted, disjoint; each gives up
--                      to the lane's part of want. moved: only changed rows of the second priority. free: the
--                      leader knows of no items there: skips the lookup, a third of the time; dispatch checks
-- Returns JSON as text, which takes a third of the time of rows to read: a list for each lane, and for what is
-- ahead in it:
--   [queue, key, paged, ahead, wanted, retry_due_ms, [[id, seq, priority, task, version, row_version,
--    created_ms, expires_ms, tries, last, crashes, attributes, flow], ...]]
-- Lanes and jobs are in order. A job ends at created_ms if the rest is as in most jobs (null, 0, 0, 0, {}, none);
-- empty lists of jobs are left out. Skips paused queues, but not named lanes.
-- paged: the lane belongs to the page; the next page begins behind the last of them. ahead: behind a place of
-- starts. row_version: the xmin (dispatch refuses a changed job). created_ms: null for an infinite time.
-- last: 1 if the next try is the last, otherwise 0.
-- Plans: queue_waiting for the walk and the heads, queue_moved for changed rows; work_queue_id by a scalar
-- subquery, which can only be looked up. Small attributes are made a text twice: a tenth of legible()'s time.
create function look(p_read jsonb)
  returns text
  language plpgsql stable security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set work_mem = '64MB'
as $$
#variable_conflict use_column
declare
  -- as keys of an object, which a binary search finds, even if thousands of queues are paused
  v_paused jsonb := coalesce((select jsonb_object_agg(c.queue, true) from queue_config c where c.paused), '{}');
  v_ranges jsonb := p_read -> 'ranges';
  c_whole constant jsonb := '[[-2147483648, -9223372036854775808, 2147483647, 9223372036854775807, false, false]]';
  v_queues text[];
  v_keys text[];
begin
  select p.queues, p.keys into v_queues, v_keys from page_of_lanes(p_read, v_paused || coalesce(p_read -> 'skip', '{}')) p;
  return (
  with
  lanes as materialized (
    select l.queue collate "C" as queue, l.key collate "C" as key, l.paged, l.n, l.wanted, l.retry_due_ms
    from lanes_to_read(p_read, v_paused, v_queues, v_keys) l
  ),
  reads as materialized (
    select l.queue, l.key, l.paged, l.n, l.wanted, l.retry_due_ms, false as ahead, coalesce(v_ranges -> l.queue -> l.key, c_whole) as ranges
    from lanes l
    union all
    select l.queue, l.key, l.paged, l.n, (p_read -> 'lookahead')::integer, null, true,
           jsonb_build_array((p_read -> 'starts' -> l.queue -> l.key) || '[2147483647, 9223372036854775807, false, false]')
    from lanes l where p_read -> 'starts' -> l.queue -> l.key is not null
  ),
  -- numbered, so that sorting the jobs compares numbers only, and finds them in order
  numbered as materialized (
    select r.*, row_number() over (order by r.n, r.queue, r.key, r.ahead) as place,
           '[' || to_json(r.queue) || ',' || to_json(r.key) || ',' || r.paged || ',' || r.ahead || ',' || r.wanted || ','
             || coalesce(r.retry_due_ms::text, 'null') as head
    from reads r
  ),
  batched as materialized (
    select u.id from (select w.jobs from work_queue w where w.jobs is not null and w.position >= batches_from() limit 100000) b
    cross join lateral unnest(b.jobs) as u (id)
  )
  select '[' || coalesce(string_agg(l.head || coalesce(',[' || h.jobs || ']', '') || ']', ',' order by l.place), '') || ']'
  from numbered l
  left join lateral (
    select string_agg(j.jobs, ',' order by r.n) as jobs
    from (
      select x.n, (x.range -> 0)::integer as priority, (x.range -> 1)::bigint as seq, (x.range -> 2)::integer as to_priority, (x.range -> 3)::bigint as to_seq,
             (x.range -> 4)::boolean as moved, (x.range -> 5)::boolean as free
      from jsonb_array_elements(l.ranges) with ordinality as x (range, n) offset 0) r
    cross join lateral (
      -- one format() for most of them: concat and "||" take 1.7 times as long
      select string_agg(format('["%s",%s,%s,%s,%s,"%s",%s%s%s]', j.id, j.seq, j.priority, to_json(j.task), j.version, j.row_version,
               coalesce(j.created_ms::text, 'null'),
               case when j.expires_at is not null or j.tries <> 0 or j.crashes <> 0 or j.attributes <> '{}' then
                 concat(',', case when isfinite(j.expires_at) then (date_part('epoch', j.expires_at) * 1000)::text else 'null' end, ',',
                 j.tries, ',', (j.tries > 0 and j.tries + 1 >= j.max_tries)::integer, ',', j.crashes, ',', coalesce((
                   case when pg_column_size(j.attributes) <= 256 and pg_column_compression(j.attributes) is null
                          and octet_length(j.attributes::text) <= 65536 then j.attributes else legible(j.attributes) end)::text, 'null'))
                 when j.flow is not null then ',null,0,0,0,{}'
               end, case when j.flow is not null then ',"' || j.flow || '"' end), ',' order by j.priority, j.seq) as jobs
      from (
        (select q.id, q.seq, q.priority, q.task, q.payload_version as version, q.xmin as row_version,
                case when isfinite(q.created) then date_part('epoch', q.created) * 1000 end as created_ms, q.expires_at, q.tries, q.max_tries, q.crashes, q.attributes, q.flow
         from queue q
         where not r.moved and q.run_after is null and q.queue = l.queue and q.key = l.key
           and (q.priority, q.seq) > (r.priority, r.seq) and (q.priority, q.seq) <= (r.to_priority, r.to_seq)
           and (q.expires_at is null or q.expires_at > clock_timestamp())
           and (r.free or ((select w.id from work_queue w where w.id = q.id) is null and q.id not in (select b.id from batched b)))
         order by q.queue, q.key, q.priority, q.seq
         limit l.wanted)
        union all
        (select q.id, q.seq, q.priority, q.task, q.payload_version, q.xmin,
                case when isfinite(q.created) then date_part('epoch', q.created) * 1000 end, q.expires_at, q.tries, q.max_tries, q.crashes, q.attributes, q.flow
         from queue q
         where r.moved and q.moved and q.run_after is null and q.queue = l.queue and q.key = l.key
           and q.priority = r.to_priority and q.seq <= r.to_seq
           and (q.expires_at is null or q.expires_at > clock_timestamp())
           and ((select w.id from work_queue w where w.id = q.id) is null and q.id not in (select b.id from batched b))
         order by q.queue, q.key, q.priority, q.seq
         limit l.wanted)) j) j) h on true);
end
$$;

-- Finds, at each of these priorities of a lane, the first waiting job up to that seq whose row was not
-- changed: ticks begin behind it, and would miss it. Passes all dead rows of the lane while an old snapshot
-- is held: for a rescan beside the ticks.
create function behind(p_queue text, p_key text, p_priorities integer[], p_seqs bigint[])
  returns table (priority integer, seq float8)
  language plpgsql stable security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  return query
    select x.priority, h.seq::float8
    from unnest(p_priorities, p_seqs) as x (priority, seq)
    cross join lateral (
      select q.seq from queue q
      where q.run_after is null and q.queue = p_queue and q.key = p_key and q.priority = x.priority and q.seq <= x.seq
        and q.moved is null
        and (q.expires_at is null or q.expires_at > clock_timestamp())
        and (select w.id from work_queue w where w.id = q.id) is null and not in_batch(q.id)
      order by q.queue, q.key, q.priority, q.seq
      limit 1) h;
end
$$;

-- Lists the first items before a position: for a rescan beside the ticks, too.
create function items_behind(p_to bigint, p_max integer) returns bigint[]
  language sql stable security definer
  set search_path from current
  set enable_seqscan = off
  set enable_bitmapscan = off
as $$
  select array(select w.position from work_queue w where w.position < p_to order by w.position limit p_max)
$$;

-- functions/scheduler/leader.sql

-- Leadership. Hot functions set jit off: up to PostgreSQL 17 a plan that needs a step which enable_... = off
-- forbids counts as enormously expensive, and would be compiled at every call (a tick of 2,000 jobs took
-- 1,400 ms instead of 60).

-- Notes that a scheduler has reached the server. Each scheduler, leader or not, calls this before the lease
-- that it last read can end. A gap longer than p_gap_ms (one lease), or a clock that jumped ahead by as much,
-- is an outage: nodes get their whole time again to send a heartbeat. If the clock was set back by more than
-- a second, heartbeats in what is now the future would keep a dead node alive until then: they are set to
-- now, of a node whose row is locked by a later call.
create function note_reached(p_gap_ms integer) returns void
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_now timestamptz := clock_timestamp();
begin
  insert into reached as r (since, seen) values (v_now, v_now)
  on conflict (only_row) do update
    set since = case when r.seen is null or v_now between r.seen - interval '1 second' and r.seen + p_gap_ms * interval '1 millisecond'
                     then r.since else v_now end,
        seen = v_now;
  update node n set heartbeat = clock_timestamp()
  where n.id = any (array(
    select l.id from node l where l.heartbeat > clock_timestamp() + interval '1 second' for update skip locked));
end
$$;

-- Names these tables: server, timeline, database, and the table itself. A different name says that the tables
-- were restored from a backup (pg_dump makes other tables, recovery to a point in time another timeline) or
-- moved, or that their standby was promoted.
create function tables_place() returns text
  language sql stable
  set search_path from current
as $$
  select concat_ws('/', (select c.system_identifier from pg_control_system() c), left(pg_walfile_name(pg_current_wal_lsn()), 8),
                   (select d.oid from pg_database d where d.datname = current_database()), 'scheduler_lease'::regclass::oid)
$$;

-- Takes or renews the scheduler's lease. A new leader gets a new epoch, and every write names it.
-- A lease that ends later than twice its length from now was given before the clock was set back: it is over. So is
-- one without an end, which lead() gives to nobody.
-- Its holder still leads if it renews in time; if not, the next leader takes the next epoch, as always.
-- p_pid: the pid, as the driver knows it, of a session that the caller keeps for this alone. While that
-- session lives, the leader counts as alive. Once it is gone, standbys need not wait for the lease's end. At
-- worst this deposes a leader that only lost its connection.
create function lead(p_leader text, p_lease_ms integer, p_pid integer default null)
  returns table (leads boolean, epoch bigint, leader text, expires_in_ms double precision)
  language plpgsql volatile security definer
  set search_path from current
as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_gone boolean;
begin
  if p_leader is null or p_lease_ms is null or p_lease_ms < 1 then
    raise exception 'a leader has a name, and its lease a length' using errcode = '22023';
  end if;
  perform note_reached(p_lease_ms);
  -- the row is gone if somebody has emptied all tables
  insert into scheduler_lease (epoch) select 0 where not exists (select from scheduler_lease) on conflict do nothing;
  v_now := clock_timestamp();
  update scheduler_lease l
  set place = tables_place(), placed = case when l.place is null then l.placed else v_now end
  where l.place is distinct from tables_place();
  v_gone := coalesce(leader_gone(), false);
  if v_gone then
    -- again behind the row's lock: a leader that has just reconnected renews the lease and names its new
    -- session in one transaction
    perform from scheduler_lease l for update;
    v_gone := coalesce(leader_gone(), false);
    v_now := clock_timestamp();
  end if;
  update scheduler_lease l
  set epoch = l.epoch + (case when l.leader is not distinct from p_leader and l.expires > v_now then 0 else 1 end),
      leader = p_leader, expires = v_now + p_lease_ms * interval '1 millisecond', lease_ms = p_lease_ms
  where l.leader is not distinct from p_leader or l.expires <= v_now or v_gone
    or l.expires > v_now + l.lease_ms * interval '2 milliseconds' or l.expires = 'infinity';
  perform keep_leader_session(p_leader, p_pid);
  return query
    select l.leader is not distinct from p_leader, l.epoch, l.leader, extract(epoch from l.expires - v_now)::float8 * 1000
    from scheduler_lease l;
end
$$;

-- Notes the session in which the leader renews its lease; does nothing for other callers. Notes none if that
-- session is not the leader's own.
create function keep_leader_session(p_leader text, p_pid integer) returns void
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_epoch bigint;
  v_key bigint;
begin
  select l.epoch into v_epoch from scheduler_lease l where l.leader = p_leader;
  if not found then
    return;
  end if;
  v_key := hold_session((select s.key from leader_session s), p_pid);
  if v_key is null then
    delete from leader_session;
    return;
  end if;
  insert into leader_session as s (leader, epoch, key, pid, server)
  values (p_leader, v_epoch, v_key, p_pid, pg_postmaster_start_time())
  on conflict (only_row) do update
    set leader = excluded.leader, epoch = excluded.epoch, key = excluded.key, pid = excluded.pid, server = excluded.server
    where (s.leader, s.epoch, s.key, s.pid, s.server)
          is distinct from (excluded.leader, excluded.epoch, excluded.key, excluded.pid, excluded.server);
end
$$;

-- Tells whether the leader's session has ended before its lease, on a server that did not restart. Null: the
-- session tells nothing, only the end of the lease does. Reads no more than that, and locks nothing: a
-- standby asks several times a second.
create function leader_gone() returns boolean
  language sql stable security definer
  set search_path from current
as $$
  select not exists (select from held_sessions() h where h.key = s.key and h.pid = s.pid)
  from scheduler_lease l join leader_session s on s.leader = l.leader and s.epoch = l.epoch
  where l.expires > clock_timestamp() and s.server = pg_postmaster_start_time()
$$;

-- Tells a standby whether the leader is gone (leader_gone). p_seen: the last answer's seen, null at first. If
-- nothing was enqueued or dispatched since then, the call waits until the leader's session ends, until
-- something is, or for p_wait_ms: so a standby of an idle system asks every few seconds, and hears of the end
-- at once. The wait holds a snapshot, which holds vacuum back, so it ends within a second of new work. A
-- single wait for the lock is shorter than deadlock_timeout, after which the server would log it; all of them
-- take half of statement_timeout at most.
create function watch_leader(p_seen bigint, p_wait_ms integer) returns table (gone boolean, seen bigint)
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_until timestamptz := clock_timestamp() + least(p_wait_ms * interval '1 millisecond',
                                                   nullif(current_setting('statement_timeout')::interval, '0') * 0.5);
  v_wait interval;
  v_seen bigint;
  v_gone boolean;
begin
  loop
    v_seen := (select q.last_value + q.is_called::integer + w.last_value + w.is_called::integer from queue_seq_seq q, work_queue_position_seq w);
    v_gone := leader_gone();
    v_wait := least(v_until - clock_timestamp(), current_setting('deadlock_timeout')::interval * 0.9);
    exit when v_gone is distinct from false or v_seen is distinct from p_seen or v_wait < interval '1 millisecond';
    perform set_config('lock_timeout', ceil(extract(epoch from v_wait) * 1000)::integer::text, true);
    begin
      perform pg_advisory_unlock_shared(s.key) from leader_session s, lateral pg_advisory_lock_shared(s.key);
    exception when lock_not_available then
      null; -- the session is there still
    end;
  end loop;
  return query select v_gone, v_seen;
end
$$;

-- Gives the lease up; a standby that listens takes over at once.
create function resign(p_leader text, p_epoch bigint) returns boolean
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  update scheduler_lease set leader = null, expires = '-infinity' where leader = p_leader and epoch = p_epoch;
  if not found then
    return false;
  end if;
  perform hint('leader');
  return true;
end
$$;

-- Notes the policy of a scheduler that runs, and forgets schedulers that do not any more. p_policy null: this
-- one has stopped. Returns the leader and its policy; no row if nobody leads, or none is noted.
create function note_policy(p_scheduler text, p_policy text, p_parts text) returns table (leader text, policy text)
  language sql volatile security definer
  set search_path from current
as $$
  delete from scheduler_policy p
  where p.scheduler = p_scheduler and p_policy is null or p.seen < clock_timestamp() - interval '1 minute';
  insert into scheduler_policy as p (scheduler, policy, parts, seen)
  select p_scheduler, p_policy, p_parts, clock_timestamp() where p_policy is not null
  on conflict (scheduler) do update set policy = excluded.policy, parts = excluded.parts, seen = excluded.seen;
  select p.scheduler, p.policy from scheduler_policy p join scheduler_lease l on l.leader = p.scheduler and l.expires > clock_timestamp()
$$;

-- Holds the lease row until commit: a standby that takes over waits for this transaction, and sees all of it.
-- A leader whose lease has run out, or whose epoch has passed, gets an error and writes nothing.
create function assert_leader(p_leader text, p_epoch bigint) returns void
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  perform assert_read_committed('the leader');
  perform from scheduler_lease l
  where l.leader = p_leader and l.epoch = p_epoch and l.expires > clock_timestamp() for share;
  if not found then
    raise exception 'scheduler % no longer leads in epoch %', p_leader, p_epoch
      using errcode = 'PQ002', hint = 'Another scheduler has taken over; this one goes back to standby.';
  end if;
end
$$;

-- Sets whether ended attempts are recorded from now on. Deletes earlier records, since no scheduler knows
-- their jobs any more.
create function set_feed(p_leader text, p_epoch bigint, p_on boolean) returns void
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  update scheduler_lease l set feed = p_on
  where l.leader = p_leader and l.epoch = p_epoch and l.expires > clock_timestamp();
  if not found then
    raise exception 'scheduler % no longer leads in epoch %', p_leader, p_epoch using errcode = 'PQ002';
  end if;
  delete from settlement;
end
$$;

-- Tells whether a scheduler leads: for workers and producers, which may not read the lease. Served by the
-- table's one row.
create function has_leader() returns boolean
  language sql stable security definer
  set search_path from current
as $$
  select exists (select from scheduler_lease l where l.leader is not null and l.expires > clock_timestamp())
$$;

-- functions/scheduler/tick.sql

-- Reads everything for one tick: the state beside the lanes, and the text of look(). It is a function so that
-- its plan is kept: a statement around the parts would be planned anew at every tick, which took a third of a
-- small tick's time. Stable, so that everything in it sees the one snapshot of the calling statement.
-- p_read: the object of look(), and settled: read ended attempts; due: read when sweeps are due;
-- questions_after: read open questions behind that number; items_from, items: the work items to read, as in
-- tick_state.
create function tick(p_read jsonb)
  returns table (state json, marks json, due jsonb, questions jsonb, rows text)
  language plpgsql stable security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
as $$
begin
  return query
    select tick_state((p_read -> 'settled')::boolean, (p_read -> 'items_from')::bigint,
                      array(select x.position::bigint from jsonb_array_elements_text(p_read -> 'items') as x (position))),
           json_build_object('config', config_mark(), 'tallies', (select case when t.is_called then t.last_value else 0 end from flow_tally_n_seq t),
                             'enqueuers', case when p_read -> 'ranges' <> '{}' then to_json(enqueuers()) end),
           case when (p_read -> 'due')::boolean then tick_due() end,
           open_explains((p_read ->> 'questions_after')::bigint),
           look(p_read);
end
$$;

-- Reads the state of a tick beside its lanes, as one JSON value: live nodes, work items (positions by pool
-- and by holder), the queues with settings of their own, keys that are held while they move (null: none), ended attempts if p_settled, and whether a sweep of
-- leases or nodes would find anything. Stable, as look(): in one statement both see one snapshot. If an item
-- is gone here, its settlement is here, and its job is delayed or ended.
-- Work items: those from p_items_from on, and p_items, which are known to exist before it. As far as the
-- leader knows, all others before it are gone; their rows stay in the table until vacuum, and for as long as
-- some session holds an old snapshot. Served by work_queue's primary key.
-- A suspect without a lease is listed under the node id '', which no node can have: it counts as in flight,
-- not as ready. A node takes suspects one at a time, so those that wait must not take the place of other
-- ready items.
-- Makes json, as text: jsonb takes far more than twice as long for nodes of twice as many tasks.
create function tick_state(p_settled boolean, p_items_from bigint, p_items bigint[]) returns json
  language plpgsql stable security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
as $$
begin
  return (
  with working as materialized (
    select n.id, n.pool, n.tasks, n.state, n.slots, n.runs,
           n.heartbeat > clock_timestamp() - n.lost_after_ms * interval '1 millisecond' as beats
    from node n where n.state in ('alive', 'draining')
  ),
  items as materialized (
    select w.pool, coalesce(w.lock_key, case when w.suspect then '' end) as lock_key, array_agg(w.position) as positions, min(w.lock_timeout) as lock_timeout
    from (
      select r.position, r.pool, r.lock_key, r.suspect, r.lock_timeout from work_queue r where r.position >= p_items_from
      union all
      select r.position, r.pool, r.lock_key, r.suspect, r.lock_timeout from work_queue r where r.position = any (p_items)) w
    group by 1, 2
  )
  select json_build_object(
    'now', extract(epoch from clock_timestamp()) * 1000,
    'nodes', coalesce((
      select json_agg(json_build_object('id', n.id, 'pool', n.pool, 'slots', n.slots, 'tasks', n.tasks, 'runs', n.runs) order by n.id)
      from working n where n.state = 'alive' and n.beats), '[]'),
    'items', coalesce((
      select json_agg(json_build_object('pool', i.pool, 'node', i.lock_key, 'positions', to_json(i.positions))) from items i), '[]'),
    'queues', coalesce((
      select json_object_agg(c.queue, json_build_object(
        'paused', c.paused, 'pool', c.pool, 'concurrency', c.concurrency, 'keyConcurrency', c.key_concurrency,
        'rate', case when c.rate is not null then json_build_object('perSecond', c.rate, 'burst', c.rate_burst) end,
        'keyRate', case when c.key_rate is not null then json_build_object('perSecond', c.key_rate, 'burst', c.key_rate_burst) end,
        'weight', c.weight)) from queue_config c), '{}'),
    'moving', (select json_agg(json_build_object('key', m.key, 'over', m.opened is not null) order by m.key) from key_move m where m.held),
    'settled', case when p_settled then coalesce((
      select json_agg(json_build_object('n', s.n, 'atMs', extract(epoch from s.at) * 1000, 'positions', to_json(s.positions), 'sizes', to_json(s.sizes),
                                          'verdicts', to_json(s.verdicts), 'busyMs', to_json(s.busy_ms)) order by s.n)
      from (select * from settlement s order by s.n limit 500) s), '[]') else '[]' end,
    'expiredLeases', exists (select from items i where i.lock_timeout <= clock_timestamp()),
    'lostNodes', exists (select from working n where not n.beats)
      or exists (select from items i where i.lock_key <> '' and i.lock_key not in (select n.id from working n))));
end
$$;

-- Returns when the sweeps of waiting jobs and of schedules are next due, in milliseconds; null: not at all. A
-- schedule that is not planned yet is due now. Served by queue_due and queue_expiring.
create function tick_due() returns jsonb
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
begin
  return jsonb_build_object(
    'promoteMs', (
      select extract(epoch from q.run_after - clock_timestamp())::float8 * 1000 from queue q
      where q.run_after is not null order by q.run_after limit 1),
    'expireMs', (
      select extract(epoch from q.expires_at - clock_timestamp())::float8 * 1000 from queue q
      where q.expires_at is not null and (select w.id from work_queue w where w.id = q.id and w.lock_key is not null) is null
      order by q.expires_at limit 1),
    'cronMs', (
      select extract(epoch from min(greatest(coalesce(s.next_slot, clock_timestamp()), s.retry_after)) - clock_timestamp())::float8 * 1000
      from schedule s where not s.paused),
    'flowsMs', flows_due_ms());
end
$$;

-- Returns a text that differs after any change to the settings of queues, and to the keys that are held while they
-- move. In PL/pgSQL, whose plans are kept: as SQL, the second part took 15 us a tick.
create function config_mark() returns text
  language plpgsql stable security definer
  set search_path from current
as $$
begin
  return (select count(*) || ' ' || coalesce(sum(c.xmin::text::bigint), 0) from queue_config c)
    || coalesce((select ' ' || string_agg(concat_ws(' ', m.key, m.version, m.opened), ' ' order by m.key) from key_move m where m.held), '');
end
$$;

-- Lists transactions that may have drawn numbers of jobs that no other session can see yet: each takes a lock
-- on the table before it draws a number, and holds it until after the commit.
create function enqueuers() returns text[]
  language plpgsql stable security definer
  set search_path from current
as $$
begin
  return array(
    select distinct l.virtualtransaction from pg_locks l
    where l.locktype = 'relation' and l.relation = 'queue'::regclass and l.mode = 'RowExclusiveLock' and l.granted
      and l.database = (select d.oid from pg_database d where d.datname = current_database()) and l.pid is distinct from pg_backend_pid());
end
$$;

-- Describes the jobs of work items, in their order, for a scheduler that did not write them itself. Served by
-- the primary keys of work_queue and queue.
create function item_facts(p_positions bigint[])
  returns table ("position" bigint, pool text, bundle text, dispatched_ms float8, id uuid, queue text, key text, task text,
                 version integer, priority integer, seq bigint, created_ms float8, expires_ms float8, attributes jsonb, tries smallint, flow uuid)
  language sql stable security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
  select w.position, w.pool, w.together::text, extract(epoch from w.dispatched)::float8 * 1000, q.id, q.queue, q.key, q.task,
         q.payload_version, q.priority, q.seq, extract(epoch from q.created)::float8 * 1000,
         extract(epoch from q.expires_at)::float8 * 1000, coalesce(legible(q.attributes), '{}'), q.tries, q.flow
  from work_queue w cross join lateral unnest(coalesce(w.jobs, array[w.id])) with ordinality as u (id, n) cross join lateral (
    select q.* from queue q where q.id = u.id offset 0) q
  where w.position = any (p_positions)
  order by w.position, u.n
$$;

-- functions/scheduler/wanted.sql

-- Counts the jobs of lanes that wait behind a place of each: p_max of each lane at most. The leader plans with
-- them, to tell how many slots a pool could use. Served by queue_waiting: begins behind the place, so it
-- passes no dead rows before it.
create function count_behind(p_queues text[], p_keys text[], p_priorities integer[], p_seqs bigint[], p_max integer) returns integer[]
  language plpgsql stable security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
begin
  return array(
    select h.jobs
    from unnest(p_queues, p_keys, p_priorities, p_seqs) with ordinality as x (queue, key, priority, seq, n)
    cross join lateral (
      select count(*)::integer as jobs
      from (
        select from queue q
        where q.run_after is null and q.queue = x.queue and q.key = x.key and (q.priority, q.seq) > (x.priority, x.seq)
          and (select w.id from work_queue w where w.id = q.id) is null
        order by q.queue, q.key, q.priority, q.seq
        limit p_max) j) h
    order by x.n);
end
$$;

-- Returns the number of slots that a pool could use now, for autoscaling: its work items (they run, or are
-- ready), and those that its waiting jobs would make at once if there were slots for them. Counts neither
-- delayed jobs nor jobs that a limit, a rate or a pause holds. The leader counts it for its report, by its
-- policy, up to 1,000 more jobs than are in flight.
-- Null: nobody knows. No scheduler leads, or the leader has not reported within 90 seconds.
create function wanted_slots(p_pool text default 'default') returns integer
  language sql stable security definer
  set search_path from current
as $$
  select coalesce((r.report -> 'wanted' ->> p_pool)::integer, 0)
  from scheduler_lease l join scheduler_report r on r.leader = l.leader and r.epoch = l.epoch
  where l.expires > clock_timestamp() and r.written > clock_timestamp() - interval '90 seconds'
    and jsonb_typeof(r.report -> 'wanted') = 'object'
$$;

-- functions/worker/aside.sql

-- Isolates rows that can't be processed. A statement that serves many jobs and fails for good is retried with
-- one half of them and then with the other, until the failing job is alone; that job goes into the dead
-- letters, with the reason. Such rows are older than a rule, were written by hand, or are damaged on the
-- disk.

-- Tells whether a statement fails because of the contents of one of its rows (data, constraints, limits of
-- the program, damage), and would fail again. Any other error (locks, connections, disks, rights, missing
-- functions) concerns every row alike, and no job must die of it.
create function is_of_row(p_state text) returns boolean
  language sql immutable
  set search_path from current
as $$ select p_state ~ '^(22|23|54|XX001|XX002)' $$;

-- Moves a job that can't be processed into the dead letters, whatever it was about to do. The caller has
-- locked it. False: that fails, too, and the job stays as it is.
create function set_aside(p_id uuid, p_why text) returns boolean
  language plpgsql volatile
  set search_path from current
as $$
declare
  v_flow uuid;
  v_step integer;
begin
  if in_batch(p_id) then
    perform spread(array[p_id]);
    if in_batch(p_id) then
      return false;
    end if;
  end if;
  with item as (
    delete from work_queue w where w.id = p_id returning w.lock_key
  ),
  gone as (
    delete from queue q where q.id = p_id returning q.*
  )
  insert into dead_letter (id, queue, task, key, priority, reason, tries, max_tries, crashes, max_crashes, created, died,
                           timeout, payload_version, node, unique_key, attributes, payload, retry, trace, errors, flow, step, checkpoint)
  select g.id, g.queue, g.task, g.key, g.priority, 'gave_up', g.tries, g.max_tries, g.crashes, g.max_crashes, g.created,
         clock_timestamp(), g.timeout, g.payload_version, i.lock_key, g.unique_key, g.attributes, g.payload, g.retry, g.trace,
         with_error(g.errors, jsonb_build_object('kind', 'error', 'message', 'it can''t be processed: ' || left(p_why, 2000)),
                    i.lock_key, g.tries + 1, clock_timestamp()), g.flow, g.step, g.checkpoint
  from gone g left join item i on true
  on conflict (id) do update
    set (queue, task, key, priority, reason, tries, max_tries, crashes, max_crashes, created, died, timeout, payload_version, node,
         token, unique_key, attributes, payload, retry, trace, errors, flow, step, checkpoint) =
        (excluded.queue, excluded.task, excluded.key, excluded.priority, excluded.reason, excluded.tries, excluded.max_tries, excluded.crashes, excluded.max_crashes, excluded.created,
         excluded.died, excluded.timeout, excluded.payload_version, excluded.node, excluded.token, excluded.unique_key, excluded.attributes, excluded.payload, excluded.retry,
         excluded.trace, excluded.errors, excluded.flow, excluded.step, excluded.checkpoint)
  returning flow, step into v_flow, v_step;
  if v_flow is not null then
    perform note_ends(array[(v_flow, v_step, p_id, 'dead', null, null)::flow_end]);
  end if;
  return true;
exception when others then
  if not is_of_row(sqlstate) then
    raise;
  end if;
  raise warning 'job % can neither be processed nor be set aside: %', p_id, sqlerrm;
  return false;
end
$$;

-- Ends leases as crash_all does, and isolates jobs that make it fail.
create function crash(p_positions bigint[], p_charged bigint[], p_why text, p_wait boolean)
  returns table (job_id uuid, verdict text)
  language plpgsql volatile
  set search_path from current
as $$
#variable_conflict use_column
declare
  v_half integer := cardinality(p_positions) / 2;
  v_id uuid;
  v_error text;
begin
  begin
    return query select c.job_id, c.verdict from crash_all(p_positions, p_charged, p_why, p_wait) c;
    return;
  exception when others then
    if not is_of_row(sqlstate) then
      raise;
    end if;
    v_error := sqlerrm;
  end;
  if v_half > 0 then
    return query select c.job_id, c.verdict from crash(p_positions[:v_half], p_charged, p_why, p_wait) c;
    return query select c.job_id, c.verdict from crash(p_positions[v_half + 1:], p_charged, p_why, p_wait) c;
    return;
  end if;
  select w.id into v_id from work_queue w where w.position = p_positions[1];
  if set_aside(v_id, v_error) then
    return query select v_id, 'dead'::text;
  end if;
end
$$;

-- Makes delayed jobs pending, or ends waiting jobs as expired (p_expired), and isolates those that make it
-- fail; returns the number of the others. The caller has locked them, and taken back the work items of those
-- that expire.
create function make_due(p_ids uuid[], p_expired boolean default false) returns integer
  language plpgsql volatile
  set search_path from current
as $$
declare
  v_half integer := cardinality(p_ids) / 2;
  v_count integer;
begin
  begin
    if p_expired then
      return coalesce(cardinality(end_waiting(p_ids, 'expired')), 0);
    end if;
    update queue q set run_after = null where q.id = any (p_ids);
    get diagnostics v_count = row_count;
    return v_count;
  exception when others then
    if not is_of_row(sqlstate) then
      raise;
    elsif v_half = 0 then
      perform set_aside(p_ids[1], sqlerrm);
      return 0;
    end if;
  end;
  return make_due(p_ids[:v_half], p_expired) + make_due(p_ids[v_half + 1:], p_expired);
end
$$;

-- functions/worker/batches.sql

-- Batches: rows of WORK_QUEUE that hold several jobs. A node claims and settles them whole (claim_rows,
-- settle_rows); every operation on one job of a batch takes the row apart first.

-- Tells whether a job is in a batch. Served by work_queue_batches.
create function in_batch(p_id uuid) returns boolean
  language plpgsql stable security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
begin
  return exists (select from work_queue w where w.jobs is not null and w.position >= batches_from() and p_id = any (w.jobs));
end
$$;

-- Replaces batches by rows of single jobs with the same lease, or with none if the batch had none. With
-- p_ids, only those jobs get rows of their own, and the others stay together in a new row. Returns the
-- position of such a row, of the last of the batches.
-- A bundle without a lease has no rows of single jobs: its jobs in p_ids leave it, and wait in QUEUE again.
-- A job stays in at most one work item: this is one statement, and locks items before jobs, as settle does.
-- Positions, for a batch of n jobs at p: p + 1 to p + n for its jobs, p + n + 1 for the row of the others,
-- whose own parts follow up to p + 2 n. No position is used twice: jobs stay together only once, and when any
-- job is taken out of that row later, all of it is taken apart. A bundle without a lease moves on by one each
-- time, and has a job less.
create function take_apart(p_positions bigint[], p_ids uuid[] default null) returns bigint
  language sql volatile security definer
  set search_path from current
  set enable_seqscan = off
as $$
  with gone as (
    delete from work_queue w where w.position = any (p_positions) and w.jobs is not null
    returning w.*, w.together is not null and w.lock_key is null as waits
  ),
  members as (
    select g.*, u.id as job, u.n,
           p_ids is null or u.id = any (p_ids) or (not g.waits and (g.position % 256 > 0 or cardinality(g.jobs) > 100)) as alone
    from gone g cross join lateral unnest(g.jobs) with ordinality as u (id, n)
  ),
  singles as (
    insert into work_queue (position, id, version, pool, task, dispatched, lock_key, lock_token, lock_timeout, started, together)
    overriding system value
    select m.position + m.n, m.job, m.version, m.pool, m.task, m.dispatched, m.lock_key, m.lock_token, m.lock_timeout, m.started, m.together
    from members m where m.alone and not m.waits order by m.position, m.n
  ),
  back as (
    update queue q set moved = true where q.id = any (array(select m.job from members m where m.alone and m.waits))
  ),
  rest as (
    insert into work_queue (position, jobs, version, pool, task, dispatched, lock_key, lock_token, lock_timeout, started, timeout, together)
    overriding system value
    select m.position + case when m.waits then 1 else cardinality(m.jobs) + 1 end, array_agg(m.job order by m.n), m.version, m.pool, m.task,
           m.dispatched, m.lock_key, m.lock_token, m.lock_timeout, m.started, m.timeout, m.together
    from members m where not m.alone
    group by m.position, m.jobs, m.version, m.pool, m.task, m.dispatched, m.lock_key, m.lock_token, m.lock_timeout, m.started, m.timeout, m.together,
             m.waits
    order by m.position
    returning position
  )
  select max(r.position) from rest r
$$;

-- Takes apart the batches that contain any of these jobs. Skips batches that another session has locked: it
-- is claiming, settling or taking them apart at this moment. A bundle without a lease goes on without the
-- jobs.
create function spread(p_ids uuid[]) returns void
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
declare
  v_positions bigint[];
  v_bundles bigint[];
begin
  select array_agg(x.position) filter (where not x.waits), array_agg(x.position) filter (where x.waits) into v_positions, v_bundles
  from (
    select w.position, w.together is not null and w.lock_key is null as waits from work_queue w
    where w.jobs is not null and w.position >= batches_from()
      and exists (select from unnest(w.jobs) as u (id) where u.id in (select i.id from unnest(p_ids) as i (id)))
    for update skip locked) x;
  if v_positions is not null then
    perform take_apart(v_positions);
  end if;
  if v_bundles is not null then
    perform take_apart(v_bundles, p_ids);
  end if;
end
$$;

-- Removes jobs that are gone or have expired from ready bundles before the claim. Returns p_positions with
-- the bundles' new positions.
create function fresh_bundles(p_positions bigint[], p_now timestamptz) returns bigint[]
  language plpgsql volatile security definer
  set search_path from current
  set enable_seqscan = off
as $$
declare
  v_positions bigint[] := p_positions;
  v_bundle record;
begin
  for v_bundle in
    select w.position, array_agg(u.id) as ids from work_queue w cross join lateral unnest(w.jobs) as u (id)
    where w.position = any (p_positions) and w.together is not null
      and (select q.id from queue q where q.id = u.id and (q.expires_at is null or q.expires_at > p_now)) is null
    group by w.position
  loop
    v_positions := array_replace(v_positions, v_bundle.position, take_apart(array[v_bundle.position], v_bundle.ids));
  end loop;
  return array_remove(v_positions, null);
end
$$;

-- Locks the first ready batches from a position on that a node can run; no bundles. p_next: none behind a ready
-- item of another kind, seen among the next p_max items: a node that takes batches beyond its slots must not
-- pass by a single job each time, which came first.
create function ready_batches(p_pool text, p_tasks jsonb, p_from bigint, p_max integer, p_next boolean) returns bigint[]
  language plpgsql volatile security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
as $$
declare
  v_until bigint;
begin
  if p_next then
    v_until := (
      select min(r.position) from (
        select w.position, w.jobs is not null and w.together is null as batch from work_queue w
        where w.position >= p_from and w.lock_key is null and w.pool = p_pool
          and node_takes(p_tasks, w.task, w.version, w.suspect) and (w.together is null or p_tasks -> w.task -> 'batch' = 'true')
        order by w.position limit p_max) r
      where not r.batch);
  end if;
  return array(
    select w.position from work_queue w
    where w.jobs is not null and w.together is null and w.position >= greatest(p_from, batches_from()) and w.lock_key is null and w.pool = p_pool
      and w.position < coalesce(v_until, 9223372036854775807) and node_takes(p_tasks, w.task, w.version, false)
    order by w.position limit p_max for update skip locked);
end
$$;

-- Takes apart ready batches that a node can run: enough for p_jobs jobs, since each batch has at least two.
create function spread_ready(p_pool text, p_tasks jsonb, p_jobs integer) returns void
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_positions bigint[] := ready_batches(p_pool, p_tasks, 0, (p_jobs + 1) / 2, false);
begin
  if cardinality(v_positions) > 0 then
    perform take_apart(v_positions);
  end if;
end
$$;

-- Takes apart the batches that a node holds. Without p_wait, batches that another session has locked stay.
-- With p_wait none is left: take_out may hold the lock, and leave a row of remaining jobs that the query
-- before could not see.
create function spread_held(p_node text, p_wait boolean) returns void
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  while exists (select from work_queue w where w.jobs is not null and w.lock_key = p_node) loop
    if p_wait then
      perform take_apart(array(
        select w.position from work_queue w where w.jobs is not null and w.lock_key = p_node order by w.position for update));
    else
      perform take_apart(array(
        select w.position from work_queue w where w.jobs is not null and w.lock_key = p_node for update skip locked));
      return;
    end if;
  end loop;
end
$$;

-- Gives jobs of a batch that the node holds rows of their own, under the same token; all of them if p_ids is
-- null. Returns the position of the row that the other jobs are in; null: there is none. A batch that is not
-- held under that token stays as it is. Can be repeated: the row that an earlier call has left is found
-- behind the old position.
create function take_out(p_position bigint, p_token uuid, p_ids uuid[] default null) returns bigint
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
declare
  v_position bigint;
begin
  select w.position into v_position from work_queue w
  where w.position between p_position and p_position + 101 and w.lock_token = p_token and w.jobs is not null for update;
  if v_position > p_position and p_ids is not null then
    return v_position;
  end if;
  return case when found then take_apart(array[v_position], p_ids) end;
end
$$;

-- Gives whole work items back unrun: they are ready again at their old position.
create function release_rows(p_positions bigint[], p_tokens uuid[]) returns integer
  language plpgsql volatile security definer
  set search_path from current
  set enable_seqscan = off
as $$
declare
  v_count integer;
begin
  update work_queue w set lock_key = null, lock_token = null, lock_timeout = null, started = null
  from unnest(p_positions, p_tokens) as x (position, token)
  where w.position = any (p_positions) and w.position = x.position and w.lock_token = x.token and w.jobs is not null;
  get diagnostics v_count = row_count;
  if v_count > 0 then
    perform hint('work');
  end if;
  return v_count;
end
$$;

-- Ends batches whose jobs are all done, by the positions and tokens of the work items, so that no ids are
-- sent. p_sizes: the number of jobs of each batch. p_busy_ms: the run time of each job, in the order of the
-- batches and of the jobs in them. p_data: their results in the same order, null if none has one. Returns the
-- positions that were settled; a batch that is missing was lost, taken apart, or settled by an earlier call.
-- Exactly once because: the row goes by its token, and the jobs' end follows from the deleted row. A batch of
-- another size than its holder says is left alone, so that no result goes to another job.
-- Plans: as in settle; this is its shorter way for batches in which nothing failed.
create function settle_rows(p_positions bigint[], p_tokens uuid[], p_sizes integer[], p_busy_ms float4[], p_data text[] default null)
  returns bigint[]
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
declare
  v_now timestamptz := clock_timestamp();
  v_forgets boolean;
  v_feeds boolean := (select l.feed from scheduler_lease l);
  v_jobs bigint := (select sum(s.size) from unnest(p_sizes) as s (size));
  v_settled bigint[];
  v_sizes integer[];
  v_busy float4[];
  v_ends flow_end[];
begin
  if cardinality(p_positions) <> any (array[coalesce(cardinality(p_tokens), -1), coalesce(cardinality(p_sizes), -1)])
     or cardinality(p_busy_ms) is distinct from v_jobs or coalesce(cardinality(p_data), v_jobs) <> v_jobs then
    raise exception 'positions, tokens and sizes must be lists of one length, busy_ms and data as long as all sizes together' using errcode = '22023';
  end if;
  if exists (select from unnest(p_data) as x (data)
             where (octet_length(x.data) > 1000 or x.data ~ '[eE][-+]?[0-9]{3}') and not fits(x.data::jsonb, 1572864)) then
    raise exception 'a result is at most 1 MiB, nested 500 levels deep' using errcode = '22023';
  end if;
  v_forgets := exists (select from queue_config c where c.retention = '0');
  with given as materialized (
    select x.position, x.token, x.size, sum(x.size) over (order by x.n) - x.size as before
    from unnest(p_positions, p_tokens, p_sizes) with ordinality as x (position, token, size, n)
  ),
  gone as (
    delete from work_queue w using given g
    where w.position = any (p_positions) and w.position = g.position and w.lock_token = g.token and cardinality(w.jobs) = g.size
    returning w.position, w.jobs, w.lock_key, w.lock_token, w.started, g.before
  ),
  members as materialized (
    select g.lock_key, g.lock_token, g.started, u.id, (g.before + u.n)::integer as n,
           least(greatest(p_busy_ms[g.before + u.n], 0), 3.2e11)::float4 as busy_ms
    from gone g cross join lateral unnest(g.jobs) with ordinality as u (id, n)
  ),
  ended as (
    delete from queue q using members m
    where q.id = any (array(select x.id from members x)) and q.id = m.id
    returning q.id, q.queue, q.task, q.key, q.priority, q.tries, q.crashes, q.created, q.payload_version, q.unique_key, q.attributes,
              q.payload, q.errors, q.trace, q.flow, q.step, m.lock_key, m.lock_token, m.n,
              greatest(m.started, v_now - m.busy_ms * interval '1 millisecond') as started
  ),
  kept as (
    insert into history (id, queue, task, key, priority, outcome, tries, crashes, created, started, finished, payload_version,
                         node, token, unique_key, attributes, payload, result, errors, trace, flow, step)
    select e.id, e.queue, e.task, e.key, e.priority, 'done', e.tries, e.crashes, e.created, e.started, v_now, e.payload_version, e.lock_key,
           e.lock_token, e.unique_key, e.attributes, e.payload, p_data[e.n]::jsonb, e.errors, e.trace, e.flow, e.step
    from ended e
    where not v_forgets or coalesce((select c.retention from queue_config c where c.queue = e.queue), interval '7 days') > interval '0'
  )
  select array_agg(g.position order by g.before), array_agg(cardinality(g.jobs) order by g.before),
         case when v_feeds then (select array_agg(m.busy_ms order by m.n) from members m) end,
         (select array_agg((e.flow, e.step, e.id, 'done', p_data[e.n], e.task)::flow_end) filter (where e.flow is not null) from ended e)
  into v_settled, v_sizes, v_busy, v_ends from gone g;
  if v_busy is not null then
    insert into settlement (at, positions, sizes, busy_ms) values (v_now, v_settled, v_sizes, v_busy);
  end if;
  if v_ends is not null then
    perform note_ends(v_ends);
  end if;
  return coalesce(v_settled, '{}');
end
$$;

-- functions/worker/claim.sql

-- Leases up to p_max ready items that the node can run, in dispatch order, and returns their jobs with
-- payloads. The caller draws a new p_token for each claim: with a job's id it names one lease. p_from: the
-- caller's low-water mark; items before it are not read. p_reap: if slots are left, expired leases are
-- reaped, and their jobs claimed like any other: this is how a node steals.
-- A bundle takes one of the p_max slots: its jobs are leased together, until the shortest of their timeouts,
-- and share "bundle". Only nodes get bundles whose registered tasks take them ("batch": true). Suspects come
-- before other jobs, as next_suspect permits. Batches are taken apart before (claim_rows gives them whole),
-- bundles after they are leased.
-- Safe because: one statement locks the items (SKIP LOCKED, in lease_items). The next one, with a newer
-- snapshot, leases them (lease_all) and reads their jobs as they are under the lock: every writer of a job
-- locks its item first. lock_timeout is by the database's clock, read once at the start. A node that was reset,
-- lost or replaced is refused by its incarnation. A job that was replaced, cancelled or delayed has no ready
-- item any more, so an old payload can't be read here.
-- A lease counts in seconds, ten years at most: no job's row can make the claim fail for all other jobs.
-- Plans: work_queue's primary key from p_from on, and queue's primary key. Jobs are joined by "= any
-- (array[...])": for a plain "=", PostgreSQL may also scan a whole index in its order, for a merge join: half a
-- second for ten jobs, in a session that planned its claim while no jobs existed, until the next ANALYZE.
create function claim(p_node text, p_incarnation uuid, p_max integer, p_token uuid default gen_random_uuid(), p_from bigint default 0,
                      p_reap boolean default true)
  returns table ("position" bigint, id uuid, token uuid, queue text, task text, key text, priority integer, attributes jsonb,
                 payload jsonb, payload_version integer, tries smallint, max_tries smallint, crashes smallint,
                 retry jsonb, trace jsonb, created timestamptz, lease_ms double precision, bundle bigint, checkpoint jsonb)
  language plpgsql volatile security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_leased bigint[] := lease_items(p_node, p_incarnation, p_token, jsonb_build_object('max', p_max, 'from', p_from, 'reap', p_reap, 'single', true));
begin
  return query
    select w.position, w.id, w.lock_token, q.queue, q.task, q.key, q.priority, q.attributes, q.payload, q.payload_version,
           q.tries, q.max_tries, q.crashes, q.retry, q.trace, q.created,
           date_part('epoch', w.lock_timeout - w.started) * 1000, w.together, q.checkpoint
    from work_queue w, queue q
    where w.position = any (v_leased) and q.id = any (array[w.id]);
end
$$;

-- Claims as claim does, but batches whole. Returns a row for each work item, with its jobs as one JSON text:
-- rows of columns take the reader three times as long. A list for each job: [id, queue, task, key, created,
-- payload] if the rest is as in most jobs, otherwise
--   [id, queue, task, key, priority, attributes, payload, payload_version, tries, max_tries, crashes, retry,
--    trace, created, timeout, checkpoint]
-- with null for no key, 0 and {}; created is in milliseconds, timeout in seconds. p_take, as one JSON object:
--   max    work items at most
--   ahead  batches at most beyond them, before the next item that is none; all have about 1,000 jobs at most
--   from   the caller's low-water mark; items before it are not read
--   reap   reap expired leases if slots are left
-- lease_ms: for a batch, 1 s more than the timeout of jobs without one of their own. suspect: see next_suspect.
create function claim_rows(p_node text, p_incarnation uuid, p_token uuid, p_take jsonb)
  returns table ("position" bigint, size integer, lease_ms float8, bundle bigint, jobs text, suspect boolean)
  language plpgsql volatile security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_leased bigint[] := lease_items(p_node, p_incarnation, p_token, p_take);
begin
  if v_leased = '{}' then return; end if; -- many claims find nothing, and need not begin the query below
  return query
    select w.position, coalesce(cardinality(w.jobs), 1), case when w.timeout is null or w.together is not null then date_part('epoch', w.lock_timeout - w.started) * 1000
             else 1000 + coalesce((select (n.tasks -> w.task ->> 'timeoutMs')::float8 from node n where n.id = p_node), 300000) end, w.together, (
      select '[' || string_agg(case when q.priority = 0 and q.payload_version = 1 and q.tries = 0 and q.crashes = 0 and q.max_tries = 20
          and q.attributes = '{}' and num_nulls(q.retry, q.trace, q.timeout, q.checkpoint) = 4
        then format('["%s",%s,%s,%s]', q.id, case when q.queue = h.queue and q.task = h.task and q.key = h.key then h.names
               else format('%s,%s,%s', to_json(q.queue), to_json(q.task), to_json(q.key)) end,
             floor(date_part('epoch', q.created) * 1000 + 0.0005), q.payload)
        else json_build_array(
               q.id, q.queue, q.task, nullif(q.key, ''), nullif(q.priority, 0), nullif(q.attributes, '{}'), q.payload, q.payload_version,
               nullif(q.tries, 0), q.max_tries, nullif(q.crashes, 0), q.retry, q.trace, floor(date_part('epoch', q.created) * 1000 + 0.0005),
               date_part('epoch', q.timeout), q.checkpoint)::text end, ',' order by u.n) || ']'
      from unnest(coalesce(w.jobs, array[w.id])) with ordinality as u (id, n), queue q
      where q.id = any (array[u.id])), w.suspect
    from work_queue w
    -- the names of most jobs of a batch, made once: for each job they would take a fifth of the time
    left join lateral (
      select b.queue, b.task, b.key, format('%s,%s,%s', to_json(b.queue), to_json(b.task), to_json(b.key)) as names
      from queue b where b.id = any (array[w.jobs[1]])) h on true
    where w.position = any (v_leased);
end
$$;

-- Takes the leases of a claim; returns the positions. p_take: as in claim_rows; with single, batches are
-- taken apart first, for callers that claim single jobs.
create function lease_items(p_node text, p_incarnation uuid, p_token uuid, p_take jsonb)
  returns bigint[]
  language plpgsql volatile security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_pool text;
  v_tasks jsonb;
  v_left integer := least((p_take ->> 'max')::integer, 10000);
  v_from bigint := greatest((p_take ->> 'from')::bigint, items_from());
  v_ahead integer := coalesce((p_take ->> 'ahead')::integer, 0);
  v_single boolean := coalesce((p_take ->> 'single')::boolean, false);
  v_positions bigint[];
  v_bundles bigint;
  v_batches bigint;
  v_suspect bigint;
  v_wary boolean := false;
  v_got bigint[];
  v_leased bigint[] := '{}';
begin
  if v_left is null or v_left < 0 then
    raise exception 'claim takes a number of jobs, not %', p_take -> 'max' using errcode = '22023';
  end if;
  select n.pool, n.tasks into v_pool, v_tasks
  from node n where n.id = p_node and n.incarnation = p_incarnation and n.state in ('alive', 'draining')
  for key share; -- a reset of this node waits for this claim, and then takes back what it leased
  if not found then
    raise exception 'node % is not registered as incarnation %', p_node, p_incarnation
      using errcode = 'PQ001', hint = 'It was reset, lost or replaced: register again, and drop what it was running.';
  end if;
  if v_single and v_left > 0 then
    perform spread_ready(v_pool, v_tasks, v_left);
  end if;
  for round in 1..3 loop
    v_suspect := null;
    if v_left > 0 and exists (select from work_queue w where w.suspect and w.pool = v_pool) then
      v_suspect := next_suspect(p_node, v_pool, v_tasks);
      v_left := v_left - (v_suspect is not null)::integer;
    end if;
    select array_agg(x.position), count(x.jobs), count(x.together) into v_positions, v_batches, v_bundles
    from (
      select r.position, r.together, case when r.jobs is not null then true end as jobs from work_queue r
      where r.position >= v_from and r.lock_key is null and r.pool = v_pool and (not v_single or r.jobs is null or r.together is not null)
        and node_takes(v_tasks, r.task, r.version, r.suspect) and (r.together is null or v_tasks -> r.task -> 'batch' = 'true')
        and (not v_wary or r.jobs is not null
             or (select j.id from queue j where j.id = r.id and (j.expires_at is null or j.expires_at > v_now)) is not null)
      order by r.position limit v_left for update skip locked) x;
    if v_bundles > 0 then
      v_bundles := cardinality(v_positions);
      v_positions := fresh_bundles(v_positions, v_now);
      v_bundles := v_bundles - cardinality(v_positions);
    end if;
    v_left := v_left - coalesce(cardinality(v_positions), 0);
    if v_suspect is not null then
      v_positions := v_suspect || v_positions;
    end if;
    if v_left <= 0 and v_ahead > 0 and round = 1 then
      v_positions := v_positions || ready_batches(v_pool, v_tasks, greatest(v_from, v_positions[cardinality(v_positions)] + 1), v_ahead, true);
      v_batches := 1;
    end if;
    if cardinality(v_positions) > 0 then
      if cardinality(v_positions) > 40 or v_batches > 0 then
        v_positions := within_bytes(v_positions, not v_single);
      end if;
      v_got := lease_all(p_node, p_token, v_positions, v_tasks, v_now);
      v_leased := v_leased || v_got;
      -- an item whose job is gone, or has expired, must not take the slot of one that can run
      if cardinality(v_got) < cardinality(v_positions) and not v_wary then
        v_left := v_left + cardinality(v_positions) - cardinality(v_got);
        v_wary := true;
        continue;
      end if;
    end if;
    continue when v_left > 0 and v_bundles > 0; -- none of the bundles was left with a job that can run
    exit when v_left <= 0 or not (p_take -> 'reap')::boolean or not exists (select from work_queue w where w.position >= v_from and w.lock_timeout <= v_now);
    exit when not exists (select from reap(greatest(v_left, 1000)));
  end loop;
  return case when v_single then single_rows(v_leased) else v_leased end;
end
$$;

-- Takes leased bundles apart, for callers that claim single jobs; returns all positions, with their jobs'.
create function single_rows(p_positions bigint[]) returns bigint[]
  language plpgsql volatile security definer
  set search_path from current
  set enable_seqscan = off
as $$
declare
  v_bundles bigint[] := array(select w.position from work_queue w where w.position = any (p_positions) and w.jobs is not null);
  v_ids uuid[];
begin
  if cardinality(v_bundles) = 0 then
    return p_positions;
  end if;
  v_ids := array(select u.id from work_queue w cross join lateral unnest(w.jobs) as u (id) where w.position = any (v_bundles));
  perform take_apart(v_bundles);
  return array(select w.position from work_queue w where w.position = any (p_positions))
      || array(select w.position from work_queue w where w.id = any (v_ids));
end
$$;

-- Writes the leases of a claim, whose items are locked; returns the positions of items whose jobs exist and
-- have not expired. A batch is leased for 1 s more than the longest timeout in it: its last job begins within
-- 250 ms, or is given back. A bundle for the shortest.
create function lease_all(p_node text, p_token uuid, p_positions bigint[], p_tasks jsonb, p_now timestamptz) returns bigint[]
  language plpgsql volatile security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
declare
  v_leased bigint[];
  v_batches bigint[];
begin
  -- along the primary key, so in the order of positions; "= any" of one leaves no other index for the join
  with leased as (
    update work_queue w
    set lock_key = p_node, lock_token = p_token, started = p_now,
        lock_timeout = p_now + least(3.2e8, coalesce(
          date_part('epoch', q.timeout), (p_tasks -> w.task ->> 'timeoutMs')::float8 / 1000, 300)) * interval '1 second'
    from queue q
    where w.position = any (p_positions) and q.id = any (array[w.id]) and (q.expires_at is null or q.expires_at > p_now)
    returning w.position)
  select array_agg(l.position) into v_leased from leased l;
  if coalesce(cardinality(v_leased), 0) < cardinality(p_positions) then
    with leased as (
      update work_queue w
      set lock_key = p_node, lock_token = p_token, started = p_now,
          lock_timeout = p_now + least(3.2e8, case when w.timeout is null then coalesce((p_tasks -> w.task ->> 'timeoutMs')::float8 / 1000, 300)
              + (w.together is null)::integer
            else (select case when w.together is null then 1 + max(x.s) else min(x.s) end
                  from (select coalesce(date_part('epoch', q.timeout), (p_tasks -> w.task ->> 'timeoutMs')::float8 / 1000, 300) as s
                        from queue q where q.id = any (w.jobs)) x) end) * interval '1 second'
      where w.position = any (p_positions) and w.jobs is not null
      returning w.position)
    select array_agg(l.position) into v_batches from leased l;
  end if;
  return coalesce(v_leased, '{}') || coalesce(v_batches, '{}');
end
$$;

-- Returns the first items whose jobs have 32 MiB of text between them: a claim must fit into memory. 40 jobs
-- of any size that check_job allows fit: claim asks for no fewer. Reading all jobs costs a third of the claim:
-- only if any payload is over 2 kB as stored, or for more than 1,000. p_few: leaves out those beyond instead.
create function within_bytes(p_positions bigint[], p_few boolean) returns bigint[]
  language plpgsql stable
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
declare
  v_some bigint[] := p_positions;
begin
  if p_few then
    v_some := array(
      select s.position
      from (select w.position, coalesce(cardinality(w.jobs), 1) as jobs, sum(coalesce(cardinality(w.jobs), 1)) over (order by w.position) as so_far
            from work_queue w where w.position = any (p_positions)) s
      where s.so_far - s.jobs < 1000);
  end if;
  if (p_few or cardinality(v_some) <= 1000)
     and pg_relation_size((select c.reltoastrelid from pg_class c where c.oid = 'queue'::regclass)) = 0 then
    return v_some;
  end if;
  return array(
    select s.position
    from (select w.position, b.bytes, sum(b.bytes) over (order by w.position) as bytes_so_far
          from work_queue w cross join lateral (
            select coalesce(sum(octet_length(q.payload::text) + coalesce(octet_length(q.checkpoint::text), 0)), 0) as bytes
            from queue q where q.id = any (coalesce(w.jobs, array[w.id]))) b
          where w.position = any (v_some)) s
    where s.bytes_so_far - s.bytes < 33554432);
end
$$;

-- functions/worker/crash.sql

-- Ends the leases of the given items, whose holder is gone. The caller has locked the rows. Each item is
-- ready again at its old position, as a suspect; jobs of bundles wait in QUEUE again (pending), and are
-- charged in any case.
-- The crashes of the jobs in p_charged go up by one. A job that reaches its limit is dead (crash_limit).
-- Charged attempts are recorded for a policy that reads them (feed). A job whose cancellation was asked for
-- ends as cancelled. Rows of ended jobs have no token: no settlement was accepted, so one that is repeated is stale.
-- A lease from before these tables were restored belongs to a node of the place they were restored from: it
-- charges no crash, its attempt is not recorded, and the item is no suspect.
-- Locks the jobs before it changes any, in the order of ids as everywhere. Without p_wait, jobs that another
-- session has locked (an application's transaction, which may be long) are left to the next sweep, so that
-- the sweep never blocks. So are those whose id has an older dead letter that is locked: a death would replace it.
-- Called by crash, which isolates jobs that make it fail.
create function crash_all(p_positions bigint[], p_charged bigint[], p_why text, p_wait boolean)
  returns table (job_id uuid, verdict text)
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_nestloop = off
  set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_ids uuid[];
  v_tokens uuid[];
  v_feed boolean;
  v_crashed uuid[];
  v_verdicts text[];
  v_ends flow_end[];
  v_placed timestamptz; -- earlier leases are from before a restore; until a scheduler leads again, all are
begin
  select l.feed, case when l.place is distinct from tables_place() and l.place is not null then 'infinity' else l.placed end
  into v_feed, v_placed from scheduler_lease l;
  select array_agg(w.id), array_agg(w.lock_token) into v_ids, v_tokens from work_queue w where w.position = any (p_positions) and w.lock_key is not null;
  if p_wait then
    perform from queue q where q.id = any (v_ids) order by q.id for update;
  else
    v_ids := array(select unlocked_jobs(v_ids, v_tokens));
  end if;
  with lost as materialized (
    select w.position, w.id, w.lock_key, w.started, w.cancelled is not null as stop, w.started >= v_placed as here, w.together is not null as bundled,
           (w.started >= v_placed and (w.position = any (p_charged) or w.together is not null))::integer as charge
    from work_queue w where w.position = any (p_positions) and w.id = any (v_ids) and w.lock_key is not null
  ),
  counted as (
    update queue q
    set crashes = q.crashes + l.charge,
        errors = case when l.charge = 0 then q.errors else with_error(q.errors, jsonb_build_object('kind', 'crash', 'message', p_why), l.lock_key, q.tries + 1, v_now) end
    from lost l
    where q.id = any (v_ids) and q.id = l.id and not l.stop and (l.charge = 0 or q.crashes + 1 < q.max_crashes)
    returning q.id
  ),
  ended as (
    delete from queue q using lost l
    where q.id = any (v_ids) and q.id = l.id and (l.stop or (l.charge = 1 and q.crashes + 1 >= q.max_crashes))
    returning q.id, q.queue, q.task, q.key, q.priority, q.tries, q.max_tries, q.crashes, q.max_crashes, q.created, q.timeout, q.payload_version, q.unique_key, q.attributes, q.payload, q.retry, q.trace, q.flow, q.step, q.checkpoint,
      l.lock_key, l.started, l.stop, l.charge, with_error(q.errors, jsonb_build_object('kind', 'crash', 'message', p_why), l.lock_key, q.tries + 1, v_now) as all_errors
  ),
  freed as (
    update work_queue w
    set lock_key = null, lock_token = null, lock_timeout = null, started = null, progress = null, suspect = w.suspect or l.here
    from lost l
    where w.position = any (p_positions) and w.position = l.position and not l.bundled and l.id in (select c.id from counted c)
    returning w.id
  ),
  removed as (
    delete from work_queue w using lost l
    where w.position = any (p_positions) and w.position = l.position and (l.bundled or l.id not in (select c.id from counted c))
    returning w.id
  ),
  kept as (
    insert into history (id, queue, task, key, priority, outcome, tries, crashes, created, started, finished, payload_version,
                         node, unique_key, attributes, payload, errors, trace, flow, step, settings)
    select e.id, e.queue, e.task, e.key, e.priority, 'cancelled', e.tries, e.crashes + e.charge, e.created, e.started, v_now,
           e.payload_version, e.lock_key, e.unique_key, e.attributes, e.payload, e.all_errors, e.trace, e.flow, e.step,
           case when e.flow is not null then settings_of(e.timeout, e.max_tries, e.max_crashes, e.retry) end
    from ended e
    where e.stop and coalesce((select c.retention from queue_config c where c.queue = e.queue), interval '7 days') > interval '0'
  ),
  buried as (
    insert into dead_letter (id, queue, task, key, priority, reason, tries, max_tries, crashes, max_crashes, created, died,
                             timeout, payload_version, node, unique_key, attributes, payload, retry, trace, errors, flow, step, checkpoint)
    select e.id, e.queue, e.task, e.key, e.priority, 'crash_limit', e.tries, e.max_tries, e.crashes + 1, e.max_crashes,
           e.created, v_now, e.timeout, e.payload_version, e.lock_key, e.unique_key, e.attributes, e.payload,
           e.retry, e.trace, e.all_errors, e.flow, e.step, e.checkpoint
    from ended e where not e.stop
    on conflict (id) do update
      set (queue, task, key, priority, reason, tries, max_tries, crashes, max_crashes, created, died, timeout, payload_version, node,
           token, unique_key, attributes, payload, retry, trace, errors, flow, step, checkpoint) =
          (excluded.queue, excluded.task, excluded.key, excluded.priority, excluded.reason, excluded.tries, excluded.max_tries, excluded.crashes, excluded.max_crashes, excluded.created,
           excluded.died, excluded.timeout, excluded.payload_version, excluded.node, excluded.token, excluded.unique_key, excluded.attributes, excluded.payload, excluded.retry,
           excluded.trace, excluded.errors, excluded.flow, excluded.step, excluded.checkpoint)
  ),
  fed as (
    insert into settlement (at, positions, verdicts, busy_ms) select v_now, array_agg(l.position), array_agg('crash'::text), array_agg((extract(epoch from v_now - l.started) * 1000)::float4)
    from lost l where v_feed and l.charge = 1 having count(*) > 0
  ),
  verdicts (id, verdict, flow, step) as (
    select f.id, 'ready', null::uuid, null::integer from freed f
    union all select c.id, 'pending', null, null from counted c join lost l on l.id = c.id where l.bundled
    union all select e.id, case when e.stop then 'cancelled' else 'dead' end, e.flow, e.step from ended e
  )
  select array_agg(v.id), array_agg(v.verdict), array_agg((v.flow, v.step, v.id, v.verdict, null, null)::flow_end) filter (where v.flow is not null)
  into v_crashed, v_verdicts, v_ends from verdicts v;
  if v_ends is not null then
    perform note_ends(v_ends);
  end if;
  return query select x.id, x.verdict from unnest(v_crashed, v_verdicts) as x (id, verdict);
end
$$;

-- Ends an attempt whose own process or thread died, as its node reports, which lives on: it counts as a
-- crash. Returns ready, dead (crash_limit), cancelled or pending; null: the lease was lost, and nothing was
-- changed.
create function crash_job(p_id uuid, p_token uuid, p_why text) returns text
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
declare
  v_position bigint;
  v_suspect boolean;
  v_verdict text;
begin
  select w.position, w.suspect into v_position, v_suspect from work_queue w where w.id = p_id and w.lock_token = p_token for update;
  if not found then
    return null;
  end if;
  select c.verdict into v_verdict from crash(array[v_position], array[v_position], left(p_why, 2000), true) c;
  if v_verdict = 'ready' then
    -- no other job suffered from this crash
    update work_queue w set suspect = v_suspect where w.position = v_position;
    perform hint('work');
  end if;
  return v_verdict;
end
$$;

-- Takes over expired leases, oldest items first. Each charges its own job, whatever its node does. Any node
-- and the scheduler call it, so that neither depends on the other being alive.
-- SKIP LOCKED: an item that is being settled or extended at this moment is not expired; an item whose job is
-- locked waits for the next sweep.
create function reap(p_max integer default 1000)
  returns table (job_id uuid, verdict text)
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_expired bigint[];
begin
  perform take_apart(array(
    select w.position from work_queue w
    where w.jobs is not null and w.lock_timeout <= clock_timestamp() order by w.position limit p_max for update skip locked));
  v_expired := array(
    select w.position from work_queue w
    where w.id is not null and w.lock_timeout <= clock_timestamp() order by w.position limit p_max for update skip locked);
  return query select c.job_id, c.verdict from crash(v_expired, v_expired, 'lease expired', false) c;
  if found then
    perform hint('work');
  end if;
end
$$;

-- functions/worker/front.sql

-- The front: positions that searches begin at (work_front). In PL/pgSQL, as all that runs for each job or tick: up to
-- PostgreSQL 17, a statement plans the SQL functions that it calls each time that it runs.

create function batches_from() returns bigint
  language plpgsql stable security definer
  set search_path from current
as $$
begin
  return coalesce((select f.batch from work_front f), 0);
end
$$;

create function items_from() returns bigint
  language plpgsql stable security definer
  set search_path from current
as $$
begin
  return coalesce((select f.item from work_front f), 0);
end
$$;

-- Moves the front up to the first item and the first batch. Only the leader calls it, in a transaction that
-- asserts that it leads: it alone makes items, at positions behind all that were drawn before. The parts of a
-- batch lie behind its position, and are seen as soon as the batch is not.
create function advance_front() returns void
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
as $$
begin
  insert into work_front as f (item, batch)
  select coalesce((select w.position from work_queue w where w.position >= items_from() order by w.position limit 1), e.next),
         coalesce((select w.position from work_queue w where w.jobs is not null and w.position >= batches_from() order by w.position limit 1), e.next)
  from (select s.last_value + s.is_called::integer as next from work_queue_position_seq s) e
  on conflict (only_row) do update set item = excluded.item, batch = excluded.batch;
end
$$;

-- functions/worker/lease.sql

-- Extends leases: each ends p_ms from now, ten years on at most. A lease that has run out can be extended while nobody has taken it
-- over. An id that is missing from the answer was lost. Served by work_queue_id; settle says why nested loops
-- are off.
create function extend(p_ids uuid[], p_tokens uuid[], p_ms float8[])
  returns table (job_id uuid, lease_ms double precision, cancelled boolean)
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
declare
  v_now timestamptz := clock_timestamp();
begin
  if exists (select from unnest(p_ms) m where m is null or m <= 0) then
    raise exception 'a lease is extended by a positive number of milliseconds, not %', p_ms using errcode = '22023';
  end if;
  return query
    update work_queue w set lock_timeout = v_now + x.ms * interval '1 millisecond'
    from (select u.id, u.token, least(u.ms, 3.2e11) as ms from unnest(p_ids, p_tokens, p_ms) as u (id, token, ms)) x
    where w.id = any (p_ids) and w.id = x.id and w.lock_token = x.token
    returning w.id, x.ms, w.cancelled is not null;
end
$$;

create function extend(p_id uuid, p_token uuid, p_by interval) returns boolean
  language sql volatile security definer
  set search_path from current
as $$
  select exists (select from extend(array[p_id], array[p_token], array[extract(epoch from p_by)::float8 * 1000]))
$$;

-- Gives leases back unrun: the items are ready again at their old position, and nothing is counted. A job
-- whose cancellation was asked for ends as cancelled instead, since no other node should begin it. Jobs of a
-- bundle wait in QUEUE again. Locks the leases first, in the order of ids, as settle does: if some are to be
-- cancelled, two passes over WORK_QUEUE could meet an extension or a settlement of the same leases in the
-- opposite order.
create function release(p_ids uuid[], p_tokens uuid[]) returns setof uuid
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
declare
  v_batches bigint[];
begin
  v_batches := array(
    select w.position from work_queue w
    where w.jobs is not null and w.position >= batches_from() and w.lock_token = any (p_tokens) and w.jobs && p_ids for update skip locked);
  if v_batches <> '{}' then
    perform take_apart(v_batches);
  end if;
  perform from work_queue w where w.id = any (p_ids) and w.lock_token = any (p_tokens) order by w.id for update;
  if exists (select from work_queue w where w.id = any (p_ids) and w.together is not null) then
    return query
      with gone as (
        delete from work_queue w using unnest(p_ids, p_tokens) as x (id, token)
        where w.id = any (p_ids) and w.id = x.id and w.lock_token = x.token and w.cancelled is null and w.together is not null
        returning w.id)
      update queue q set moved = true where q.id = any (p_ids) and q.id in (select g.id from gone g) returning q.id;
  end if;
  return query
    update work_queue w
    set lock_key = null, lock_token = null, lock_timeout = null, started = null, progress = null
    from unnest(p_ids, p_tokens) as x (id, token)
    where w.id = any (p_ids) and w.id = x.id and w.lock_token = x.token and w.cancelled is null and w.together is null
    returning w.id;
  if found then
    perform hint('work');
  end if;
  -- a cancellation is never taken back, so the items that the statement above passed over are here
  if exists (select from work_queue w where w.id = any (p_ids) and w.cancelled is not null) then
    return query
      select s.job_id
      from settle(p_ids, p_tokens, array_fill('cancelled'::text, array[cardinality(p_ids)]),
                  array_fill(null::float8, array[cardinality(p_ids)]), array_fill(null::text, array[cardinality(p_ids)])) s;
  end if;
end
$$;

create function release(p_id uuid, p_token uuid) returns boolean
  language sql volatile security definer
  set search_path from current
as $$
  select exists (select from release(array[p_id], array[p_token]))
$$;

-- Stores the progress that a running job reports; the view job shows it. False: the lease was lost.
create function report_progress(p_id uuid, p_token uuid, p_progress jsonb) returns boolean
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  if not fits(p_progress, 12288) then
    raise exception 'progress is at most 8 KiB, nested 500 levels deep' using errcode = '22023';
  end if;
  update work_queue set progress = p_progress where id = p_id and lock_token = p_token;
  return found;
end
$$;

-- Keeps resume data for the next attempt; null removes it. False: the lease was lost, and nothing was
-- changed. Locks the work item before the job, as everywhere: a settlement or a takeover under way ends
-- first, and this finds its token gone.
create function save_checkpoint(p_id uuid, p_token uuid, p_checkpoint jsonb) returns boolean
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
begin
  if not fits(p_checkpoint, 393216) then
    raise exception 'a checkpoint is at most 256 KiB, nested 500 levels deep' using errcode = '22023', hint = 'Store it elsewhere, and keep a reference.';
  end if;
  perform from work_queue w where w.id = p_id and w.lock_token = p_token for update;
  if not found then
    return false;
  end if;
  update queue q set checkpoint = nullif(p_checkpoint, 'null') where q.id = p_id;
  return found;
end
$$;

-- Lists the leases of a node, for the node: a settlement lost in a failover leaves a lease that the node has
-- done with.
create function held_leases(p_node text, p_incarnation uuid) returns table (id uuid, token uuid)
  language sql stable security definer
  set search_path from current
  set jit = off
as $$
  select w.id, w.lock_token from work_item w
  where w.lock_key = p_node and exists (select from node n where n.id = p_node and n.incarnation = p_incarnation)
$$;

-- Gives back the leases of a claim that got no reply, uncounted; returns their number. For the node that
-- claimed. Locks the node's row first, so that a claim still under way ends before. 0 after the incarnation's end, which
-- has taken back all of its leases.
create function release_claim(p_node text, p_incarnation uuid, p_token uuid) returns integer
  language plpgsql volatile security definer
  set search_path from current
  set enable_seqscan = off
as $$
declare
  v_count integer;
begin
  perform assert_read_committed('the return of a claim');
  perform from node n where n.id = p_node and n.incarnation = p_incarnation for update;
  if not found then
    return 0;
  end if;
  perform spread_held(p_node, true);
  select count(*) into v_count
  from (select array_agg(w.id) as ids, array_agg(w.lock_token) as tokens
        from work_queue w where w.position >= 0 and w.lock_key = p_node and w.lock_token = p_token having count(*) > 0) held,
    lateral release(held.ids, held.tokens);
  return v_count;
end
$$;

-- Returns the jobs of these leases as claim does. If one job's contents make a claim fail (a text can't be
-- made, or not in the client's encoding), its node claims without reading, then reads by halves until that
-- job is alone. Served by work_queue_id and queue's primary key.
create function leased(p_token uuid, p_ids uuid[])
  returns table ("position" bigint, id uuid, token uuid, queue text, task text, key text, priority integer, attributes jsonb,
                 payload jsonb, payload_version integer, tries smallint, max_tries smallint, crashes smallint,
                 retry jsonb, trace jsonb, created timestamptz, lease_ms double precision, bundle bigint, checkpoint jsonb)
  language sql stable security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
  select w.position, w.id, w.lock_token, q.queue, q.task, q.key, q.priority, q.attributes, q.payload, q.payload_version,
         q.tries, q.max_tries, q.crashes, q.retry, q.trace, q.created,
         date_part('epoch', w.lock_timeout - w.started) * 1000, w.together, q.checkpoint
  from work_queue w cross join lateral (select q.* from queue q where q.id = w.id offset 0) q
  where w.id = any (p_ids) and w.lock_token = p_token
$$;

-- functions/worker/node.sql

-- Begins an incarnation. accepted is false while another one may be alive under this id: its heartbeat is
-- newer than its own lost_after_ms. A caller that has watched that heartbeat stand still for two of its
-- intervals (p_seen: the value it saw before) is accepted. A caller that has seen it move must not try again:
-- two live nodes can't share an id. A caller that is refused has locked nothing: a lock would hold up the other's
-- heartbeats until the caller's transaction ends.
-- incarnation: null if not accepted, since the other incarnation is a secret of its holder.
-- Takes back what the node's last incarnation still held.
create function register_node(
    p_node text, p_tasks jsonb, p_slots integer default 1, p_pool text default 'default', p_heartbeat_ms integer default 5000,
    p_lost_after_ms integer default 30000, p_software text default '', p_incarnation uuid default gen_random_uuid(),
    p_seen timestamptz default null)
  returns table (accepted boolean, incarnation uuid, other_heartbeat timestamptz, other_heartbeat_ms integer)
  language plpgsql volatile security definer
  set search_path from current
as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_other node;
  v_refused boolean;
begin
  perform assert_read_committed('a registration of a node');
  perform assert_tasks(p_tasks);
  select * into v_other from node n where n.id = p_node;
  v_refused := is_other_alive(v_other, p_incarnation, p_seen);
  if not v_refused then
    loop -- the row may be removed between the two statements
      insert into node (id, incarnation, state, slots, tasks, heartbeat, heartbeat_ms, lost_after_ms, started)
      values (p_node, p_incarnation, 'left', 0, '{}', '-infinity', 5000, 30000, clock_timestamp())
      on conflict (id) do nothing;
      select * into v_other from node n where n.id = p_node for update;
      exit when found;
    end loop;
    v_refused := is_other_alive(v_other, p_incarnation, p_seen);
  end if;
  if v_refused then
    return query select false, null::uuid, v_other.heartbeat, v_other.heartbeat_ms;
    return;
  end if;
  v_now := clock_timestamp();
  if v_other.incarnation <> p_incarnation then
    perform end_node(p_node, 'node restarted');
  end if;
  update node
  set incarnation = p_incarnation, state = 'alive', pool = p_pool, slots = p_slots, running = 0, hung = 0, tasks = p_tasks, runs = '{}',
      heartbeat = v_now, heartbeat_ms = p_heartbeat_ms, lost_after_ms = p_lost_after_ms, started = v_now, software = p_software
  where id = p_node;
  return query select true, p_incarnation, null::timestamptz, null::integer;
end
$$;

-- Tells whether another incarnation of a node counts as alive for one that wants to register (register_node).
create function is_other_alive(p_other node, p_incarnation uuid, p_seen timestamptz) returns boolean
  language sql volatile
  set search_path from current
as $$
  select (p_other.state in ('alive', 'draining') and p_other.incarnation <> p_incarnation
    and p_other.heartbeat > clock_timestamp() - p_other.lost_after_ms * interval '1 millisecond'
    and (p_seen is null or p_other.heartbeat is distinct from p_seen
         or p_other.heartbeat > clock_timestamp() - 2 * p_other.heartbeat_ms * interval '1 millisecond')) is true
$$;

-- Records a heartbeat. alive is false: the node was reset, lost or replaced, holds nothing, and must register
-- anew. lost: places, from 1, of the given leases that the node does not hold any more. cancelled: its
-- running jobs that are to be cancelled. p_pid: the pid, as the driver knows it, of a session that the node
-- keeps for this alone. When that session has been gone for 3 s, the node is lost.
create function heartbeat_node(
    p_node text, p_incarnation uuid, p_running integer default 0, p_draining boolean default false,
    p_ids uuid[] default '{}', p_tokens uuid[] default '{}', p_pid integer default null, p_hung integer default 0)
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
  set heartbeat = clock_timestamp(), running = p_running, hung = p_hung, state = case when p_draining then 'draining' else 'alive' end
  where id = p_node and incarnation = p_incarnation and state in ('alive', 'draining');
  if not found then
    return query select false, '{}'::uuid[], array(select generate_series(1, cardinality(p_ids)));
    return;
  end if;
  perform keep_node_session(p_node, p_incarnation, p_pid);
  return query
    select true,
      array(select w.id from work_queue w where w.cancelled is not null and w.lock_key = p_node),
      array(select x.n::integer from unnest(p_ids, p_tokens) with ordinality as x (id, token, n)
            where (select w.position from work_queue w where w.id = x.id and w.lock_token = x.token) is null
              and (x.id, x.token) not in (
                select u.id, b.lock_token from work_queue b cross join lateral unnest(b.jobs) as u (id)
                where b.jobs is not null and b.position >= batches_from() and b.lock_key = p_node));
end
$$;

-- Stores the run times that a node has measured: milliseconds by task, 0.001 to 1e6, of 1,000 tasks at most.
-- Replaces the earlier ones.
create function tell_runs(p_node text, p_incarnation uuid, p_runs jsonb) returns boolean
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  if jsonb_typeof(p_runs) <> 'object' or (select count(*) from jsonb_object_keys(p_runs)) > 1000
     or exists (select from jsonb_each(p_runs) x
                where length(x.key) > 200 or jsonb_typeof(x.value) <> 'number' or x.value::numeric not between 0.001 and 1e6) then
    raise exception 'runs are milliseconds by task, 0.001 to 1e6, of 1,000 tasks at most' using errcode = '22023';
  end if;
  update node set runs = p_runs where id = p_node and incarnation = p_incarnation and state in ('alive', 'draining');
  return found;
end
$$;

-- Ends an incarnation in order. Releases its leases: a shutdown counts neither as a try nor as a crash.
create function leave_node(p_node text, p_incarnation uuid) returns boolean
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  perform assert_read_committed('the end of a node');
  perform from node n where n.id = p_node and n.incarnation = p_incarnation and n.state in ('alive', 'draining') for update;
  if not found then
    return false;
  end if;
  perform spread_held(p_node, true);
  perform release(array_agg(w.id), array_agg(w.lock_token)) from work_queue w where w.lock_key = p_node having count(*) > 0;
  update node set state = 'left', running = 0 where id = p_node;
  delete from node_session where node = p_node;
  return true;
end
$$;

-- Takes back everything that a node holds and ends its incarnation, so that it can claim nothing more. Locks
-- the node's row first: a claim under way (which holds it FOR KEY SHARE) ends before its items are looked
-- for, and a later claim waits, and is refused. Locks items in the order of ids, as settle does. Waits for who has
-- locked one of its jobs: an ended node holds none.
-- charged_by_death decides which jobs are charged with the crash.
create function end_node(p_node text, p_why text)
  returns table (job_id uuid, verdict text)
  language plpgsql volatile security definer
  set search_path from current
as $$
#variable_conflict use_column
begin
  perform assert_read_committed('the end of a node');
  perform from node n where n.id = p_node for update;
  update node set state = 'lost', incarnation = gen_random_uuid(), running = 0 where id = p_node;
  perform spread_held(p_node, true);
  return query
    select c.job_id, c.verdict
    from crash(array(select w.position from work_queue w where w.lock_key = p_node order by w.id for update), charged_by_death(p_node),
               p_why, true) c;
  if found then
    perform hint('work');
  end if;
end
$$;

-- Makes a dead node's items ready for other nodes at once, however long their leases still run.
create function reset_node(p_node text)
  returns table (job_id uuid, verdict text)
  language sql volatile security definer
  set search_path from current
as $$
  select r.job_id, r.verdict from end_node(p_node, 'node reset') r
$$;

-- Takes back the leases of nodes whose heartbeat stopped, and ends these nodes. Also takes back leases of a
-- holder that has no live node row. A node's silence counts from its last heartbeat, or from when schedulers
-- could reach this server again (note_reached), if that is later.
-- A node whose session has been missing for 3 s is lost, too, if for that time (p_well_ms) the leader could
-- always poll, and open new connections: then the node could have reconnected.
--
-- A sweep of the scheduler. It waits for no lock of others, since its own lock on the leader's lease would
-- make the standby wait, too. A node whose row is locked is claiming or sending a heartbeat. A lease whose
-- item or job is locked stays, since the transaction that settles it may still commit or roll back. Its node
-- does not end while it has such a lease, so every lease is held by a node that has not ended. The next sweep
-- finds the node again by its silence, and charges such a job even if the node also held a suspect.
--
-- Returns the nodes that ended or lost leases.
create function lose_nodes(p_leader text, p_epoch bigint, p_well_ms integer default 0)
  returns table (node_id text, jobs bigint)
  language plpgsql volatile security definer
  set search_path from current
as $$
#variable_conflict use_column
declare
  v_node text;
  v_state text;
  v_silent boolean;
  v_held bigint[];
  v_jobs bigint;
  v_ends boolean;
  v_since timestamptz;
  v_gone text[];
begin
  perform assert_leader(p_leader, p_epoch);
  v_since := coalesce((select r.since from reached r), 'infinity');
  v_gone := case when p_well_ms >= 3000 then array(select gone_nodes()) else '{}' end;
  for v_node in
    select n.id from node n
    where n.state in ('alive', 'draining')
      and (n.id = any (v_gone) or greatest(n.heartbeat, v_since) <= clock_timestamp() - n.lost_after_ms * interval '1 millisecond')
    union
    select w.lock_key from work_queue w
    where w.lock_key is not null and not exists (select from node n where n.id = w.lock_key and n.state in ('alive', 'draining'))
    order by 1
  loop
    -- again under the row's lock, which waits for nobody: the node may have sent a heartbeat, or come back,
    -- since
    select n.state, greatest(n.heartbeat, v_since) <= clock_timestamp() - n.lost_after_ms * interval '1 millisecond'
    into v_state, v_silent from node n where n.id = v_node for update skip locked;
    continue when not found and exists (select from node n where n.id = v_node);
    continue when v_state in ('alive', 'draining') and not v_silent
      and not (v_node = any (v_gone) and v_node in (select gone_nodes()));
    perform spread_held(v_node, false);
    v_held := array(select w.position from work_queue w where w.lock_key = v_node);
    select count(*) into v_jobs
    from crash(array(select w.position from work_queue w where w.position = any (v_held) and w.lock_key = v_node and w.id is not null for update skip locked),
               charged_by_death(v_node), 'node lost', false);
    v_ends := v_state in ('alive', 'draining') and v_jobs = cardinality(v_held);
    if v_ends then
      update node set state = 'lost', incarnation = gen_random_uuid(), running = 0 where id = v_node;
    end if;
    if v_jobs > 0 then
      perform hint('work');
    end if;
    if v_ends or v_jobs > 0 then
      return query select v_node, v_jobs;
    end if;
  end loop;
  delete from node n
  where n.id = any (array(
    select l.id from node l where l.state in ('left', 'lost') and l.heartbeat < clock_timestamp() - interval '1 day' for update skip locked));
  delete from node_session s
  where s.node = any (array(
    select l.node from node_session l where not exists (select from node n where n.id = l.node) for update skip locked));
end
$$;

-- functions/worker/session.sql

-- Sessions that stand for a process: when the process is killed, its connection ends, and the server ends the
-- session. A session is recognised by an advisory lock on a random key, which nobody else could take before
-- it; its pid would be used again.

-- Makes this session hold such a lock for as long as it lives, and returns the key: the given one if it is
-- free. Null if the session is not the caller's own: a pooler that lends sessions by the transaction gives
-- its clients other pids than the server's, so p_pid is the pid that the client got when it connected. The
-- session may take the same lock any number of times.
create function hold_session(p_key bigint, p_pid integer) returns bigint
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_key bigint := p_key;
begin
  if p_pid is distinct from pg_backend_pid() then
    return null;
  end if;
  if v_key is not null and pg_try_advisory_lock(v_key) then
    return v_key;
  end if;
  v_key := hashtextextended(gen_random_uuid()::text, 0);
  return case when pg_try_advisory_lock(v_key) then v_key end;
end
$$;

-- Lists the advisory locks of this database, with the pids of their holders.
create function held_sessions() returns table (key bigint, pid integer)
  language plpgsql stable security definer
  set search_path from current
as $$
begin
  return query
    select (l.classid::bigint << 32) | l.objid::bigint, l.pid
    from pg_locks l
    where l.locktype = 'advisory' and l.objsubid = 1 and l.granted
      and l.database = (select d.oid from pg_database d where d.datname = current_database());
end
$$;

-- Notes the session in which a node sends heartbeats, and that the session is there. Notes none if the
-- session is not the node's own: then only silence counts.
create function keep_node_session(p_node text, p_incarnation uuid, p_pid integer) returns void
  language plpgsql volatile security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
as $$
declare
  v_key bigint := hold_session((select s.key from node_session s where s.node = p_node), p_pid);
begin
  if v_key is null then
    delete from node_session s where s.node = p_node;
    return;
  end if;
  insert into node_session as s (node, incarnation, key, pid, server)
  values (p_node, p_incarnation, v_key, p_pid, pg_postmaster_start_time())
  on conflict (node) do update
    set incarnation = excluded.incarnation, key = excluded.key, pid = excluded.pid, server = excluded.server, missed = null
    where s.missed is not null
      or (s.incarnation, s.key, s.pid, s.server) is distinct from (excluded.incarnation, excluded.key, excluded.pid, excluded.server);
end
$$;

-- Lists live nodes that have a session, and whether that session is there. All sessions from before a restart
-- of the server have ended, so they say nothing and are left out.
create function node_sessions() returns table (node text, held boolean, missed timestamptz)
  language plpgsql stable security definer
  set search_path from current
  set jit = off
as $$
begin
  return query
    select s.node, h.key is not null, s.missed
    from node_session s
    join node n on n.id = s.node and n.incarnation = s.incarnation and n.state in ('alive', 'draining')
    left join held_sessions() h on h.key = s.key and h.pid = s.pid
    where s.server = pg_postmaster_start_time();
end
$$;

-- Counts the nodes whose session is missing, for the leader's polls; tells whether note_missing_nodes would change
-- anything, and in how many milliseconds the first of those nodes is lost. Reads only.
create function missing_nodes() returns table (missing integer, changed boolean, lost_in_ms double precision)
  language plpgsql stable security definer
  set search_path from current
as $$
begin
  return query
    select (count(*) filter (where not s.held))::integer,
      coalesce(bool_or(s.held = (s.missed is not null)), false),
      extract(epoch from min(s.missed) filter (where not s.held) + interval '3 seconds' - clock_timestamp())::float8 * 1000
    from node_sessions() s;
end
$$;

-- Notes since when sessions of nodes are missing. Waits for no lock, for the reason in lose_nodes: a locked
-- row is being written by its node.
create function note_missing_nodes(p_leader text, p_epoch bigint) returns void
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  perform assert_leader(p_leader, p_epoch);
  update node_session s set missed = case when s.missed is null then clock_timestamp() end
  where s.node = any (array(
    select l.node from node_session l
    where l.node in (select x.node from node_sessions() x where x.held = (x.missed is not null))
    for update of l skip locked));
end
$$;

-- Lists nodes whose session has been missing for 3 s.
create function gone_nodes() returns setof text
  language sql stable security definer
  set search_path from current
as $$
  select s.node from node_sessions() s where not s.held and s.missed <= clock_timestamp() - interval '3 seconds'
$$;

-- functions/worker/settle.sql

-- Ends attempts.
-- outcome done       data = the result              -> HISTORY
--         retry      data = the error, delay_ms     -> delayed, or DEAD_LETTER (max_tries) after its last try
--         dead       data = the error               -> DEAD_LETTER (gave_up)
--         snooze     delay_ms; counts no try        -> delayed
--         cancelled  data = null                    -> HISTORY
-- A job whose cancellation was asked for while it ran is not retried: it ends as cancelled. p_waited_ms: the
-- time that each job waited in its node after the claim, for a slot; it is no part of the run.
--
-- Returns the verdict of each accepted settlement: done, cancelled, retry, snooze, dead. An id that is
-- missing was stale: its lease had been lost, and nothing was changed. With p_repeat (the reply of an earlier
-- call with the same tokens was lost) a settlement that this token made before is returned as 'repeated', if
-- it left a trace: with retention 0, a job that is done leaves none, and looks stale. An item whose job is
-- gone (removed by hand) is removed, and looks stale too.
--
-- Safe because: each way (settle_done, settle_mixed) is one statement. It deletes the work item by id and token,
-- which is the fence, and ends only the jobs of deleted items; settle_rows (batches.sql) does the same for
-- whole batches. If a retry deleted the item in one statement and made the job pending in another, a scheduler
-- that read between them would skip the job for ever.
-- Work items are locked before jobs, as everywhere. Served by work_queue_id and queue's primary key.
-- Plans: each table also has the condition "id = any (p_ids)", and nested loops are off. So the only plan is
-- an index lookup of these ids, hashed against the input. With nested loops, a planner that expected one row
-- read all jobs for each of them.
create function settle(p_ids uuid[], p_tokens uuid[], p_outcomes text[], p_delays_ms float8[], p_data text[], p_repeat boolean default false,
                       p_waited_ms float8[] default null)
  returns table (job_id uuid, verdict text)
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
declare
  v_now timestamptz := clock_timestamp();
  v_ids uuid[];
  v_verdicts text[];
  v_positions bigint[];
  v_busy float4[];
  v_ends flow_end[];
begin
  if exists (select from unnest(p_outcomes) o where o is null or o not in ('done', 'retry', 'dead', 'snooze', 'cancelled')) then
    raise exception 'unknown outcome in %', p_outcomes using errcode = '22023';
  end if;
  if cardinality(p_waited_ms) <> cardinality(p_ids) then
    raise exception 'waited_ms must be a list as long as ids, or none' using errcode = '22023';
  end if;
  -- a shorter list would be filled up with nulls: the item would go, and its job would stay as it is
  if cardinality(p_ids) <> any (array[coalesce(cardinality(p_tokens), -1), coalesce(cardinality(p_outcomes), -1),
                                       coalesce(cardinality(p_delays_ms), -1), coalesce(cardinality(p_data), -1)]) then
    raise exception 'ids, tokens, outcomes, delays and data must be lists of one length' using errcode = '22023';
  end if;
  -- short texts are within the limits, unless they have numbers of many digits
  if exists (
      select from unnest(p_outcomes, p_data) as x (outcome, data)
      where (octet_length(x.data) > 1000 or x.data ~ '[eE][-+]?[0-9]{3}')
        and not fits(x.data::jsonb, case when x.outcome = 'done' then 1572864 else 131072 end)) then
    raise exception 'a result is at most 1 MiB, an error 128 KiB, nested 500 levels deep' using errcode = '22023';
  end if;
  if 'done' = all (p_outcomes) then
    select s.ids, s.verdicts, s.positions, s.busy_ms, s.ends into v_ids, v_verdicts, v_positions, v_busy, v_ends
    from settle_done(v_now, p_ids, p_tokens, p_data, p_waited_ms) s;
  else
    select s.ids, s.verdicts, s.positions, s.busy_ms, s.ends into v_ids, v_verdicts, v_positions, v_busy, v_ends
    from settle_mixed(p_ids, p_tokens, p_outcomes, p_delays_ms, p_data, p_waited_ms) s;
  end if;
  if v_ids is not null and (select l.feed from scheduler_lease l) then
    insert into settlement (at, positions, verdicts, busy_ms) values (v_now, v_positions, case when 'done' <> any (v_verdicts) then v_verdicts end, v_busy);
  end if;
  if v_ends is not null then
    perform note_ends(v_ends);
  end if;
  return query select x.id, x.verdict from unnest(v_ids, v_verdicts) as x (id, verdict);
  if p_repeat then
    return query
      select x.id, 'repeated'::text
      from unnest(p_ids, p_tokens, p_outcomes) as x (id, token, outcome)
      -- scalar subqueries can only be looked up; EXISTS under OR is hashed, from a scan of everything
      where x.id <> all (coalesce(v_ids, '{}')) -- without the ids of this call
        -- a job that was given back under this token, as its cancellation was asked for, is not done
        and ((select h.id from history h where h.id = x.id and h.token = x.token and (h.outcome = 'done') = (x.outcome = 'done') limit 1) is not null
             or (x.outcome <> 'done'
                 and ((select d.id from dead_letter d where d.id = x.id and d.token = x.token) is not null
                      or (select q.id from queue q where q.id = x.id and q.last_token = x.token) is not null)));
  end if;
end
$$;

-- Returns the given jobs that no other transaction has locked, that are gone, or whose lease has another token:
-- nothing holds up their settlement. Nor has any locked an older dead letter of the same id, which a death replaces.
-- A worker calls it when a settlement has met a lock: an application may hold a running job's row for as long as
-- its transaction is open.
--
-- Safe because: it changes nothing, waits for nothing, and its locks end with its transaction. It locks only jobs
-- whose token the caller has, which may settle them. Served by work_queue_id and the primary keys of queue and
-- dead_letter.
create function unlocked_jobs(p_ids uuid[], p_tokens uuid[]) returns setof uuid
  language sql volatile security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_nestloop = off
  set enable_mergejoin = off
as $$
  with leased as materialized (
    select w.id from work_queue w, unnest(p_ids, p_tokens) as x (id, token)
    where w.id = any (p_ids) and w.id = x.id and w.lock_token = x.token
  ),
  free as materialized (
    select q.id from queue q where q.id = any (p_ids) and q.id in (select l.id from leased l) order by q.id for update skip locked
  ),
  dead as materialized (
    select d.id from dead_letter d where d.id = any (p_ids) and d.id in (select l.id from leased l) order by d.id for update skip locked
  )
  select x.id from unnest(p_ids) as x (id)
  where x.id not in (select l.id from leased l)
    or ((x.id in (select f.id from free f) or (select q.id from queue q where q.id = x.id) is null)
        and (x.id in (select d.id from dead d) or (select d.id from dead_letter d where d.id = x.id) is null))
$$;

-- Ends attempts that are all done: a part of settle, whose settings plan it. A shorter way than settle_mixed
-- to the same rows.
create function settle_done(
  p_now timestamptz, p_ids uuid[], p_tokens uuid[], p_data text[], p_waited_ms float8[],
  out ids uuid[], out verdicts text[], out positions bigint[], out busy_ms float4[], out ends flow_end[])
  language plpgsql volatile
  set search_path from current
as $$
#variable_conflict use_column
declare
  v_forgets boolean;
begin
  v_forgets := exists (select from queue_config c where c.retention = '0');
  with gone as (
    delete from work_queue w using unnest(p_ids, p_tokens, p_data, p_waited_ms) as i (id, token, data, waited_ms)
    where w.id = any (p_ids) and w.id = i.id and w.lock_token = i.token
    returning w.id, w.position, w.lock_key, w.lock_token, i.data,
      case when i.waited_ms > 0 and i.waited_ms <> 'NaN'
           then least(w.started + least(i.waited_ms, 3.2e11) * interval '1 millisecond', greatest(w.started, p_now))
           else w.started end as started
  ),
  ended as (
    delete from queue q using gone g
    where q.id = any (p_ids) and q.id = g.id
    returning q.id, q.queue, q.task, q.key, q.priority, q.tries, q.crashes, q.created, q.payload_version, q.unique_key, q.attributes,
              q.payload, q.errors, q.trace, q.flow, q.step, g.position, g.lock_key, g.lock_token, g.started, g.data
  ),
  kept as (
    insert into history (id, queue, task, key, priority, outcome, tries, crashes, created, started, finished, payload_version,
                         node, token, unique_key, attributes, payload, result, errors, trace, flow, step)
    select e.id, e.queue, e.task, e.key, e.priority, 'done', e.tries, e.crashes, e.created, e.started, p_now, e.payload_version, e.lock_key,
           e.lock_token, e.unique_key, e.attributes, e.payload, e.data::jsonb, e.errors, e.trace, e.flow, e.step
    from ended e
    where not v_forgets or coalesce((select c.retention from queue_config c where c.queue = e.queue), interval '7 days') > interval '0'
  )
  select array_agg(e.id), array_agg(e.position), array_agg((date_part('epoch', p_now - e.started) * 1000)::float4),
         array_agg((e.flow, e.step, e.id, 'done', e.data, e.task)::flow_end) filter (where e.flow is not null)
  into ids, positions, busy_ms, ends from ended e;
  verdicts := array_fill('done'::text, array[coalesce(cardinality(ids), 0)]);
end
$$;

-- Ends attempts of any outcome: a part of settle, whose settings plan it.
create function settle_mixed(
  p_ids uuid[], p_tokens uuid[], p_outcomes text[], p_delays_ms float8[], p_data text[], p_waited_ms float8[],
  out ids uuid[], out verdicts text[], out positions bigint[], out busy_ms float4[], out ends flow_end[])
  language plpgsql volatile
  set search_path from current
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
begin
  with input as materialized (
    select x.id, x.token, x.outcome, least(greatest(coalesce(nullif(x.delay_ms, 'NaN'), 0), 0), 3.2e11) as delay_ms, x.data::jsonb as data,
           least(greatest(coalesce(nullif(x.waited_ms, 'NaN'), 0), 0), 3.2e11) * interval '1 millisecond' as waited
    from unnest(p_ids, p_tokens, p_outcomes, p_delays_ms, p_data, p_waited_ms) as x (id, token, outcome, delay_ms, data, waited_ms)
  ),
  gone as (
    delete from work_queue w using input i
    where w.id = any (p_ids) and w.id = i.id and w.lock_token = i.token
    returning w.id, w.position, w.lock_key, w.lock_token, greatest(w.started, least(w.started + i.waited, v_now)) as started, w.cancelled is not null as stop, i.outcome, i.delay_ms, i.data
  ),
  -- QUEUE is changed in two passes, and a pass may go by the order of items: so the locks are taken first, in the
  -- order of ids as everywhere. The key stays free: signal_job shares it, and may wait for a flow that the caller
  -- (suspend_job) has made.
  locked as materialized (
    select q.id from queue q where q.id = any (p_ids) and q.id in (select g.id from gone g) order by q.id for no key update
  ),
  ended as (
    delete from queue q using gone g
    where q.id = any (p_ids) and q.id = g.id and (select count(*) from locked) >= 0
      and (g.outcome in ('done', 'dead', 'cancelled') or (g.outcome in ('retry', 'snooze') and g.stop)
           or (g.outcome = 'retry' and q.tries + 1 >= q.max_tries))
    returning q.id, q.queue, q.task, q.key, q.priority, q.tries, q.max_tries, q.crashes, q.max_crashes, q.created, q.timeout, q.payload_version,
      q.unique_key, q.attributes, q.payload, q.retry, q.trace, q.flow, q.step, q.checkpoint, g.position, g.lock_key, g.lock_token, g.started, g.data, g.stop, g.outcome,
      case when g.outcome = 'dead' then 'gave_up' when g.outcome = 'retry' and not g.stop then 'max_tries' end as reason,
      case when g.outcome in ('retry', 'dead') then with_error(q.errors, g.data, g.lock_key, q.tries + 1, v_now) else q.errors end as all_errors
  ),
  again as (
    update queue q
    set run_after = v_now + g.delay_ms * interval '1 millisecond', last_token = g.lock_token,
        tries = q.tries + (g.outcome = 'retry')::integer,
        errors = case when g.outcome = 'retry' then with_error(q.errors, g.data, g.lock_key, q.tries + 1, v_now) else q.errors end,
        -- it pauses in the middle of its steps: what has begun does not expire, unless it was superseded meanwhile
        expires_at = case when g.outcome = 'retry' or q.checkpoint is null or q.expires_at <= g.started then q.expires_at end
    from gone g
    where q.id = any (p_ids) and q.id = g.id and not g.stop and (select count(*) from locked) >= 0
      and (g.outcome = 'snooze' or (g.outcome = 'retry' and q.tries + 1 < q.max_tries))
    returning q.id, g.position, g.started, g.outcome
  ),
  kept as (
    insert into history (id, queue, task, key, priority, outcome, tries, crashes, created, started, finished, payload_version,
                         node, token, unique_key, attributes, payload, result, errors, trace, flow, step, settings)
    select e.id, e.queue, e.task, e.key, e.priority, case when e.outcome = 'done' then 'done' else 'cancelled' end,
           e.tries + (e.outcome = 'retry')::integer, e.crashes, e.created, e.started, v_now, e.payload_version, e.lock_key,
           e.lock_token, e.unique_key, e.attributes, e.payload, case when e.outcome = 'done' then e.data end, e.all_errors, e.trace, e.flow, e.step,
           case when e.flow is not null and e.outcome <> 'done' then settings_of(e.timeout, e.max_tries, e.max_crashes, e.retry) end
    from ended e
    where e.reason is null
      and coalesce((select c.retention from queue_config c where c.queue = e.queue), interval '7 days') > interval '0'
  ),
  buried as (
    insert into dead_letter (id, queue, task, key, priority, reason, tries, max_tries, crashes, max_crashes, created, died,
                             timeout, payload_version, node, token, unique_key, attributes, payload, retry, trace, errors, flow, step, checkpoint)
    select e.id, e.queue, e.task, e.key, e.priority, e.reason, e.tries + 1, e.max_tries, e.crashes, e.max_crashes, e.created,
           v_now, e.timeout, e.payload_version, e.lock_key, e.lock_token, e.unique_key, e.attributes, e.payload, e.retry,
           e.trace, e.all_errors, e.flow, e.step, e.checkpoint
    from ended e
    where e.reason is not null
    -- an id may be enqueued once more after its job died: the newer job's death must not fail because of the
    -- older row
    on conflict (id) do update
      set (queue, task, key, priority, reason, tries, max_tries, crashes, max_crashes, created, died, timeout, payload_version, node,
           token, unique_key, attributes, payload, retry, trace, errors, flow, step, checkpoint) =
          (excluded.queue, excluded.task, excluded.key, excluded.priority, excluded.reason, excluded.tries, excluded.max_tries, excluded.crashes, excluded.max_crashes, excluded.created,
           excluded.died, excluded.timeout, excluded.payload_version, excluded.node, excluded.token, excluded.unique_key, excluded.attributes, excluded.payload, excluded.retry,
           excluded.trace, excluded.errors, excluded.flow, excluded.step, excluded.checkpoint)
  ),
  settled (id, verdict, position, started, flow, step, result, task) as (
    select e.id, case when e.reason is not null then 'dead' when e.outcome = 'done' then 'done' else 'cancelled' end, e.position, e.started,
           e.flow, e.step, case when e.outcome = 'done' then e.data end, e.task
    from ended e
    union all
    select a.id, a.outcome, a.position, a.started, null, null, null, null from again a
  )
  select array_agg(v.id), array_agg(v.verdict), array_agg(v.position), array_agg((extract(epoch from v_now - v.started) * 1000)::float4),
         array_agg((v.flow, v.step, v.id, v.verdict, v.result, v.task)::flow_end) filter (where v.flow is not null)
  into ids, verdicts, positions, busy_ms, ends from settled v;
end
$$;

-- Appends one attempt's error, whose message is a text in any case; keeps the newest 100.
create function with_error(p_errors jsonb, p_error jsonb, p_node text, p_try integer, p_at timestamptz) returns jsonb
  language plpgsql stable
  set search_path from current
as $$
declare
  v_error jsonb := case when jsonb_typeof(p_error) = 'object' then p_error else jsonb_build_object('message', p_error) end;
begin
  if jsonb_typeof(v_error -> 'message') is distinct from 'string' then
    v_error := v_error || jsonb_build_object('message', coalesce(v_error ->> 'message', ''));
  end if;
  return (case when jsonb_array_length(coalesce(p_errors, '[]')) >= 100 then p_errors - 0 else coalesce(p_errors, '[]') end)
    || jsonb_build_array(v_error || jsonb_build_object('node', p_node, 'try', p_try, 'at', p_at));
end
$$;

-- functions/worker/single.sql

-- Ends of one job's attempt, for workers in any language: settle with a single job. Safe to repeat: after a lost
-- reply, false or null may also mean that the earlier call was accepted.

-- Ends one job as done, with a result. False: the lease was lost, and nothing
-- was changed.
create function ack(p_id uuid, p_token uuid, p_result jsonb default null) returns boolean
  language sql volatile security definer
  set search_path from current
as $$
  select exists (select from settle(array[p_id], array[p_token], array['done'], array[null::float8], array[p_result::text]))
$$;

-- Ends one attempt as failed. Without p_delay, the job's own retry policy gives
-- the delay, or 1 s doubling up to 1 h. The error is cut to 2,000 characters. Returns retry, dead or
-- cancelled; null: the lease was lost, and nothing was changed.
create function nack(p_id uuid, p_token uuid, p_error text, p_delay interval default null) returns text
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_retry jsonb;
  v_tries integer;
  v_verdict text;
begin
  select q.retry, q.tries into v_retry, v_tries from queue q where q.id = p_id;
  select s.verdict into v_verdict
  from settle(
    array[p_id], array[p_token], array['retry'],
    array[coalesce(extract(epoch from p_delay)::float8 * 1000, backoff_ms(v_retry, v_tries + 1))],
    array[jsonb_build_object('message', left(p_error, 2000))::text]) s;
  return v_verdict;
end
$$;

-- Ends one job for good: it goes into the dead letters, with the reason gave_up. The error is cut to 2,000
-- characters. False: the lease was lost, and nothing was changed.
create function give_up(p_id uuid, p_token uuid, p_error text) returns boolean
  language sql volatile security definer
  set search_path from current
as $$
  select exists (select from settle(array[p_id], array[p_token], array['dead'], array[null::float8],
                                    array[jsonb_build_object('message', left(p_error, 2000))::text]))
$$;

-- Makes one job wait for p_delay and then run again; counts no try. A job whose cancellation was asked for ends
-- as cancelled instead. False: the lease was lost, and nothing was changed.
create function snooze(p_id uuid, p_token uuid, p_delay interval) returns boolean
  language sql volatile security definer
  set search_path from current
as $$
  select exists (select from settle(array[p_id], array[p_token], array['snooze'],
                                    array[extract(epoch from p_delay)::float8 * 1000], array[null::text]))
$$;

-- Returns the delay before the next attempt, by a job's own retry policy: {"kind": "fixed" | "linear" |
-- "exponential", "baseMs", "factor", "maxMs", "jitter": 0..1}. p_try counts from 1. The same arithmetic as
-- retryDelayMs in @pgqueue/core, limited so that PostgreSQL raises no overflow or underflow: a job with an
-- odd policy must fail like others.
create function backoff_ms(p_retry jsonb, p_try integer) returns double precision
  language sql volatile
  set search_path from current
as $$
  select greatest(0, raw * (1 - jitter * random()))
  from (
    select least(coalesce(round((p_retry ->> 'maxMs')::numeric, 6)::float8, 3600000), case coalesce(p_retry ->> 'kind', 'exponential')
             when 'fixed' then base
             when 'linear' then base * p_try
             else base * power(greatest(1, least(1000, coalesce((p_retry ->> 'factor')::float8, 2))), least(p_try - 1, 60)) end) as raw,
           round(coalesce((p_retry ->> 'jitter')::numeric, 0.2), 6)::float8 as jitter
    from (select coalesce(round((p_retry ->> 'baseMs')::numeric, 6)::float8, 1000) as base) b
  ) r
$$;

-- functions/worker/suspects.sql

-- Suspects: jobs that were lost with their node. One of a dead node's jobs may have killed it (poison), and
-- nobody knows which. So a node starts one suspect at first, beside ordinary jobs (next_suspect). Its death
-- is charged to the suspects that it held, and to no other job; if it held none, to all jobs that it held
-- (charged_by_death). A job that is not charged is ready again, and a suspect from then on (crash).
-- Most nodes die of something else: the machine was taken away, or out of memory. So their jobs must run
-- again within seconds: a node may start as many more suspects as it holds that have run for 1 s, which makes
-- one, two, four, and eight of them after three seconds. A suspect in its last life (its next crash is its
-- last) never runs beside another one.
--
-- A strike is a node's death by poison, however long the poison has run by then.
-- 1. Poison is dead after max_crashes strikes, or one more. Its first strike makes it a suspect: it is
-- charged, or released beside a suspect that is charged. Each later strike charges it, as a suspect of the
-- node that died.
-- 2. An innocent job is charged once for the same poison, by the first strike. It is charged again only if
-- both ran on a node of which a suspect had run for 1 s. From its last life on it runs alone.
-- 3. No job dies of another job's later strike. A job suffers its last crash as the only suspect of its node,
-- so the crash is its own, or it is the first strike of a job that was no suspect, or the machine failed.
-- (With max_crashes = 1 the first loss is the last.)
-- A lease that ends before its node is known to be dead (reap) charges its own job, whatever ran beside it. 1
-- holds: the poison is charged one way or the other. 2 holds: jobs that were no suspects before are suspects
-- now. 3 holds, since it depends only on which jobs run together.
-- The mark belongs to the work item: it stays when the lease is given back, and goes with an attempt that
-- ends; dispatch sets it again by the job's crashes.
-- Charging only the suspects that began last would let poison go free that needs a minute: other suspects
-- begin beside it.
--
-- Jobs of a bundle are always charged: they wait in QUEUE again, where their first crash is the mark.
-- Jobs whose task the node runs in processes of their own are no suspects there: their crash costs no other
-- job.

-- Tells whether a node takes a job in the ordinary way, not as a suspect. Sets no search path, so that
-- PostgreSQL inlines it into the calling statements instead of calling it for each row. Numbers are cast by value: the
-- text of a whole one may be 1.0.
create function node_takes(p_tasks jsonb, p_task text, p_version integer, p_suspect boolean) returns boolean
  language sql immutable parallel safe
as $$
  select p_version between (p_tasks -> p_task -> 'min')::integer and (p_tasks -> p_task -> 'max')::integer
    and (not p_suspect or coalesce(p_tasks -> p_task -> 'isolated' = 'true', false))
$$;

-- Locks the oldest suspect that a node may start now, and returns its position; null: none.
-- Safe because: of two claims of one node that look for suspects, one gets the lock on the node's row, and
-- the other takes none. It does not wait for the lock: a reset of the node waits for both. Another node's
-- claim skips the item, which is locked.
-- Served by work_queue_suspect.
create function next_suspect(p_node text, p_pool text, p_tasks jsonb) returns bigint
  language plpgsql volatile security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_held integer;
  v_young integer;
  v_last boolean;
  v_position bigint;
begin
  perform from node n where n.id = p_node for no key update skip locked;
  if not found then
    return null;
  end if;
  select count(*), count(*) filter (where w.started between v_now - interval '1 second' and v_now),
         bool_or((select q.crashes + 1 >= q.max_crashes from queue q where q.id = w.id))
  into v_held, v_young, v_last
  from work_queue w
  where w.suspect and w.pool = p_pool and w.lock_key = p_node and p_tasks -> w.task -> 'isolated' is distinct from 'true';
  if v_last or v_young >= greatest(1, v_held - v_young) then
    return null;
  end if;
  select w.position into v_position from work_queue w
  where w.suspect and w.pool = p_pool and w.lock_key is null
    and node_takes(p_tasks, w.task, w.version, false) and p_tasks -> w.task -> 'isolated' is distinct from 'true'
    and (select q.crashes + 1 >= q.max_crashes from queue q
         where q.id = w.id and (q.expires_at is null or q.expires_at > v_now)) in (false, v_held = 0)
  order by w.position + 0 limit 1 for update skip locked;
  return v_position;
end
$$;

-- Returns the positions whose jobs are charged with a crash when a node dies: its suspects, or if it holds
-- none, everything that it holds. Items that another session has locked are included.
create function charged_by_death(p_node text) returns bigint[]
  language sql stable security definer
  set search_path from current
as $$
  select coalesce(array_agg(w.position) filter (where w.suspect and n.tasks -> w.task -> 'isolated' is distinct from 'true'), array_agg(w.position))
  from work_queue w left join node n on n.id = p_node
  where w.lock_key = p_node
$$;

-- views.sql

-- One status per job, in whichever table its row is; one that is on its way to another installation waits. Without
-- payloads and results: those are in the tables.
create view job as
  select q.id, case when w.id is null and q.run_after is not null then 'delayed' when w.id is null then 'pending'
                    when w.lock_key is null then 'ready' else 'running' end as status,
         q.queue, q.task, q.key, q.priority, q.attributes, q.tries, q.max_tries, q.crashes, q.max_crashes, q.run_after,
         q.expires_at, q.timeout, q.unique_key, q.payload_version, q.trace, q.created, w.position, w.pool,
         w.lock_key as node, w.started, w.lock_timeout, w.cancelled, w.progress, null::timestamptz as finished,
         null::text as reason, q.errors -> -1 as last_error, q.errors,
         q.checkpoint is not null as has_checkpoint, coalesce(w.suspect, q.crashes > 0) as suspect, q.flow, q.step
  from queue q left join work_item w on w.id = q.id
  union all
  select o.id, case when q.run_after is not null then 'delayed' else 'pending' end, q.queue, q.task, q.key, q.priority, q.attributes,
         q.tries, q.max_tries, q.crashes, q.max_crashes, q.run_after, q.expires_at, q.timeout, q.unique_key, q.payload_version, q.trace,
         q.created, null, null, null, null, null, null, null, null, null, q.errors -> -1, q.errors, q.checkpoint is not null,
         q.crashes > 0, null, null
  from handover o cross join lateral json_populate_record(null::queue, o.job) q where o.id is not null
  union all
  select d.id, 'dead', d.queue, d.task, d.key, d.priority, d.attributes, d.tries, d.max_tries, d.crashes, d.max_crashes, null,
         null, d.timeout, d.unique_key, d.payload_version, d.trace, d.created, null, null,
         d.node, null, null, null, null, d.died, d.reason, d.errors -> -1, d.errors, d.checkpoint is not null, false, d.flow, d.step
  from dead_letter d
  union all
  select h.id, h.outcome, h.queue, h.task, h.key, h.priority, h.attributes, h.tries, null, h.crashes, null, null,
         null, null, h.unique_key, h.payload_version, h.trace, h.created, null, null,
         h.node, h.started, null, null, null, h.finished, null, h.errors -> -1, h.errors, false, false, h.flow, h.step
  from history h;

-- Counts of held jobs by reason, for monitoring. at: the time of the report; compare it with the clock.
create view queue_held as
  select q.key as queue, r.key as reason, r.value::text::float8::bigint as jobs, s.written as at
  from scheduler_report s, jsonb_each(s.report -> 'held') q, jsonb_each(q.value) r;

-- Three numbers of a queue's health, and its depth. oldest_s: age of the oldest job that could run and
-- doesn't; claim_age_s: age of the oldest lease; retry_rate: failed attempts as a share of all attempts.
-- exact: all jobs were counted. window_s: the seconds that failed, attempts and retry_rate cover; done_5m and
-- dead_5m are extrapolated from it if it is shorter than five minutes.
create view queue_status as
  select (n.queue collate "C") as queue, coalesce(c.paused, false) as paused, (coalesce(c.pool, 'default') collate "C") as pool,
         n.delayed, n.pending, n.ready, n.running, n.dead, n.oldest_s, n.claim_age_s,
         n.failed::float8 / nullif(n.attempts, 0) as retry_rate,
         round(n.done * 300 / n.window_s)::bigint as done_5m, round(n.died * 300 / n.window_s)::bigint as dead_5m,
         n.exact, n.window_s, n.failed, n.attempts
  from queue_numbers() n left join queue_config c on c.queue = n.queue;

-- The whole installation in one row, for monitoring. leader: null when no scheduler leads; lost_nodes: nodes
-- lost within the last day; tick_p50_s and tick_p99_s: null when the last report is another leader's, or
-- older than 90 seconds.
create view overview as
  select q.delayed, q.pending, q.ready, q.running, q.dead, q.exact, q.oldest_s, q.claim_age_s,
         q.failed::float8 / nullif(q.attempts, 0) as retry_rate, q.done_5m, q.dead_5m,
         case when l.expires > clock_timestamp() then l.leader end as leader, l.epoch,
         n.alive as alive_nodes, n.draining as draining_nodes, n.lost as lost_nodes, n.slots,
         (r.report -> 'ticks' ->> 'p50Ms')::float8 / 1000 as tick_p50_s, (r.report -> 'ticks' ->> 'p99Ms')::float8 / 1000 as tick_p99_s
  from (select coalesce(sum(s.delayed), 0)::bigint as delayed, coalesce(sum(s.pending), 0)::bigint as pending,
               coalesce(sum(s.ready), 0)::bigint as ready, coalesce(sum(s.running), 0)::bigint as running,
               coalesce(sum(s.dead), 0)::bigint as dead, coalesce(bool_and(s.exact), true) as exact, max(s.oldest_s) as oldest_s,
               max(s.claim_age_s) as claim_age_s, sum(s.failed) as failed, sum(s.attempts) as attempts,
               coalesce(sum(s.done_5m), 0)::bigint as done_5m, coalesce(sum(s.dead_5m), 0)::bigint as dead_5m
        from queue_status s) q
  cross join scheduler_lease l
  cross join (select count(*) filter (where n.state = 'alive') as alive, count(*) filter (where n.state = 'draining') as draining,
                     count(*) filter (where n.state = 'lost') as lost,
                     coalesce(sum(n.slots) filter (where n.state = 'alive'), 0)::bigint as slots
              from node n) n
  left join scheduler_report r on r.leader = l.leader and r.epoch = l.epoch and l.expires > clock_timestamp()
    and r.written > clock_timestamp() - interval '90 seconds';
