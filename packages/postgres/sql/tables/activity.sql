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
