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
