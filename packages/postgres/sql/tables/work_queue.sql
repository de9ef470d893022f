-- One row per work item: what one slot of a node does in one go. That is one job (id), or a batch of short jobs (jobs, in their
-- order), which are leased and settled as one. Narrow and short: about what free slots take within a short horizon.
-- A batch is whole, or there is none: a job of it that needs a state of its own (extended, cancelled, released, lost with its node)
-- has the whole row replaced by rows of single jobs (take_apart). So what a position holds never changes.
-- Positions are 256 apart: what a batch is taken apart into stands right behind its old place, in its order, before all that was dispatched later. And
-- whoever has seen a batch knows where its parts will be, however late the transaction commits that takes it apart.
-- A bundle (together) is a batch whose jobs one handler call takes, and limits count once. It is claimed whole, by nodes that take bundles. Where one of its
-- jobs needs a state of its own while it runs, its rows keep the number. Those that did not end there wait in QUEUE again: no row of a single job
-- is ready with that number, so no two handlers have a part of one bundle.
-- A claim updates no indexed column, so it stays HOT. It makes the row wider by the node's name and a lease, and claims a
-- whole page at one go: the fill factor leaves room for all rows of the page.
create table work_queue (
  position     bigint      generated always as identity (start with 256 increment by 256) primary key,
  batch        bigint      not null,
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
    and (jobs is null or (cardinality(jobs) between 1 and case when together is null then 100 else 1000 end
                          and not suspect and progress is null and cancelled is null))),
  constraint work_queue_together check (together is null or jobs is not null or lock_key is not null),
  constraint work_queue_lease_whole check (
    (lock_key is null) = (lock_token is null) and (lock_key is null) = (lock_timeout is null)
    and (lock_key is null) = (started is null) and (lock_key is not null or (progress is null and cancelled is null)))
) with (fillfactor = 35, toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0);
-- It is read once and deleted: to compress it costs more than to write it.
alter table work_queue alter jobs set storage external;
comment on table work_queue is 'One row per work item: a job, or a batch of short jobs that one slot takes in one go. No foreign key to queue: it costs a quarter of the throughput; pgqueue doctor checks instead.';
comment on column work_queue.together is 'A number that jobs share which one handler call takes together (a bundle). Null: each is a call of its own.';
comment on column work_queue.jobs is 'A batch: jobs that one slot runs one after another, in their order. Null: the row is the one job id.';
comment on column work_queue.timeout is 'The longest timeout that a job of a batch has of its own; null: none has one.';
comment on column work_queue.suspect is 'Its job was lost with its node before: a node runs one such job at a time.';

-- The few rows that hold several jobs, from batches_from() on.
create index work_queue_batches on work_queue (position) where jobs is not null;
-- Empty most of the time.
create index work_queue_suspect on work_queue (pool) where suspect;
-- A heartbeat finds its cancellations by it: behind an old snapshot the table has millions of dead rows.
create index work_queue_cancelled on work_queue (id) where cancelled is not null;

create sequence batch_number;

-- No batch lies before this position: a look for the item of a job passes only what has ended since the leader said so. Logged, and so readable on a
-- standby, where the views read it. A crash can't leave it ahead of the positions that are drawn next: what drew them is before it in the log.
create table batch_front (
  only_row boolean primary key default true check (only_row),
  position bigint  not null
) with (fillfactor = 50);

-- Every job that has a work item, with its lease.
create view work_item as
  select w.position, w.batch, w.id, w.version, w.pool, w.task, w.lock_key, w.lock_token, w.lock_timeout, w.started, w.cancelled,
         w.progress, w.dispatched, w.together, w.suspect
  from work_queue w where w.id is not null
  union all
  select w.position, w.batch, u.id, w.version, w.pool, w.task, w.lock_key, w.lock_token, w.lock_timeout, w.started, w.cancelled,
         w.progress, w.dispatched, w.together, w.suspect
  from work_queue w cross join lateral unnest(w.jobs) as u (id)
  where w.jobs is not null and w.position >= coalesce((select f.position from batch_front f), 0);
