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
