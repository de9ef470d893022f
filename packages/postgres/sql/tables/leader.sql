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
