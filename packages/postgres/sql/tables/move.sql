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
