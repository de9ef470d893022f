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
