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
