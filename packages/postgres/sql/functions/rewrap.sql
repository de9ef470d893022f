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
