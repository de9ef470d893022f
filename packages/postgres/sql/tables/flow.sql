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
