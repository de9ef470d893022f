-- Makes requests to the HTTP API with one idempotency key take turns until the transaction ends, then reports
-- whether the key has jobs of another request, as far back as history reaches. p_ids: the ids of this request's
-- jobs, UUIDs of version 8, which begin with 60 bits of the key. Answers about ids that begin as they do only.
--
-- Safe because: the lock comes first, and the search is a statement of its own, which sees what the transaction
-- before it committed. The rest of a key's ids is one range of the primary keys of QUEUE and DEAD_LETTER and of
-- history_id, a few rows long.
create function key_taken(p_ids uuid[]) returns boolean
  language plpgsql volatile security definer
  set search_path from current
  set enable_seqscan = off
  set jit = off
as $$
declare
  v_head text := left(p_ids[1]::text, 19);
  v_from uuid;
  v_to uuid;
begin
  perform assert_read_committed('a request with an idempotency key');
  if substr(v_head, 15, 1) is distinct from '8' then
    raise exception 'ids of a request are UUIDs of version 8' using errcode = '22023';
  end if;
  perform pg_advisory_xact_lock(hashtextextended(current_schema() || ':request:' || v_head, 0));
  v_from := v_head || '8000-000000000000';
  v_to := v_head || 'bfff-ffffffffffff';
  return exists (select from queue q where q.id >= v_from and q.id <= v_to and q.id <> all (p_ids))
      or exists (select from history h where h.id >= v_from and h.id <= v_to and h.id <> all (p_ids))
      or exists (select from dead_letter d where d.id >= v_from and d.id <= v_to and d.id <> all (p_ids));
end
$$;
