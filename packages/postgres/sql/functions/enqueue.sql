-- Refuses stricter isolation levels than READ COMMITTED. Several functions decide by rows that other sessions
-- committed while they waited for a lock, and only READ COMMITTED shows those rows to a later statement of
-- the same transaction. At a stricter level cancel left a work item without its job. p_what: what was to be done.
create function assert_read_committed(p_what text) returns void
  language plpgsql stable
  set search_path from current
as $$
begin
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    raise exception '% needs a transaction that is read committed, and this one is %', p_what, current_setting('transaction_isolation')
      using errcode = '25001', hint = 'Begin it with: begin isolation level read committed.';
  end if;
end
$$;

-- Returns those of the given jobs that have ended, as far back as history is kept. Makes it safe to repeat an
-- enqueue with an id chosen by the caller, or an enqueue whose reply was lost, even when the job is done
-- already. Served by history_id and dead_letter's primary key.
create function ended_jobs(p_ids uuid[]) returns table (id uuid)
  language sql stable security definer
  set search_path from current
as $$
  select h.id from history h where h.id = any (p_ids)
  union
  select d.id from dead_letter d where d.id = any (p_ids)
$$;

-- Refuses what enqueue_unique can't do: unknown modes of unique keys, a max_wait_ms that goes with no other mode, and
-- to tell by an old snapshot whether a job has ended, which would run it twice.
create function assert_modes(p_jobs jsonb) returns void
  language plpgsql stable
  set search_path from current
as $$
declare
  v record;
begin
  -- read once: it may hold thousands of jobs
  select bool_or(x.again) as again, bool_or(x.mode not in ('keep', 'replace', 'debounce', 'supersede')) as odd_mode,
         bool_or(x.max_wait_ms is not null and (x.mode is distinct from 'debounce' or x.max_wait_ms <= 0 or x.max_wait_ms > 3.2e11)) as odd_wait
  into v from jsonb_to_recordset(p_jobs) as x (again boolean, mode text, max_wait_ms float8);
  if v.again then
    perform assert_read_committed('an enqueue with an id of its own');
  end if;
  if v.odd_mode then
    raise exception 'mode is keep, replace, debounce or supersede' using errcode = '22023';
  end if;
  if v.odd_wait then
    raise exception 'max_wait_ms is above 0, up to 3.2e11, and goes with mode debounce' using errcode = '22023';
  end if;
end
$$;

-- Locks the jobs that replace, debounce and supersede are about to change: a part of enqueue_unique, whose settings plan
-- it. Batches with the same unique keys take turns by advisory locks: jobs that exist are locked by id and
-- new ones by unique key, so two batches that see different jobs could deadlock. The keys map to 1,024 locks,
-- so even a large batch takes few.
create function lock_unique_keys(p_jobs jsonb) returns void
  language plpgsql volatile
  set search_path from current
as $$
begin
  if not exists (select from jsonb_to_recordset(p_jobs) as x (mode text) where x.mode <> 'keep') then
    return;
  end if;
  perform assert_read_committed('an enqueue that replaces, debounces or supersedes');
  perform pg_advisory_xact_lock(b.bucket) from (
    select distinct hashtextextended(current_schema() || ':unique', abs(hashtext(x.task || ':' || x.unique_key) % 1024)) as bucket
    from jsonb_to_recordset(p_jobs) as x (task text, unique_key text, mode text)
    where x.mode <> 'keep' order by bucket) b;
  perform from queue where id = any (array(
    select (select q.id from queue q where q.task = x.task and q.unique_key = x.unique_key)
    from jsonb_to_recordset(p_jobs) as x (task text, unique_key text, mode text) where x.mode <> 'keep'))
  order by id for update;
end
$$;

-- Cancels superseded jobs that recall did not get back: they run, or another session is claiming or settling
-- them. The last step of enqueue_unique, so that all its jobs share one wait.
-- A claim or an extension holds a work item for milliseconds, so the function calls cancel again, for up to
-- 31 ms. It waits for no lock, and can't wait for a settlement, which itself waits for the job that this
-- transaction has locked. A job that such a settlement retries, or that a slower claim gets, is not signalled.
-- Its expires_at keeps it from starting again.
create function cancel_superseded(p_ids uuid[]) returns void
  language plpgsql volatile
  set search_path from current
as $$
declare
  v_busy uuid[] := p_ids;
begin
  for attempt in 0..5 loop
    if attempt > 0 then
      perform pg_sleep(0.0005 * 2 ^ attempt);
    end if;
    v_busy := array(select c.job_id from cancel(v_busy) c where c.verdict = 'busy');
    if cardinality(v_busy) = 0 then
      return;
    end if;
  end loop;
  update queue set expires_at = created where id = any (v_busy);
end
$$;

-- Enqueues jobs that have a unique key, or that may have been enqueued before (again). At most one job of
-- (task, unique_key) is in QUEUE, waiting or running. Other jobs are inserted by the producer's own single
-- statement, or by any INSERT.
--
-- mode keep      the existing job stays as it is (the default)
--      replace   a waiting job takes the new payload, priority and attributes, and keeps its time and place
--      debounce  the same, and its run_after is set anew (pushed back), at most to max_wait_ms after it was
--                created
--      supersede the new job is enqueued under its own id; a waiting job ends as cancelled
-- A job that is already running can't take a new payload, and must not swallow it: under replace, debounce and
-- supersede it gives up its unique key, and the new job is enqueued behind it. Under supersede its
-- cancellation is asked for, too. So does a suspended one: its handler waits in the middle of the old work. One that
-- sleeps takes the new payload, and begins anew: nothing tells it from one that was snoozed, or waits for its next try.
--
-- bound: the payload is encrypted for the new id, so a waiting job keeps its own under replace and debounce. That one comes
-- back as stored if it is encrypted: the caller compares the two, and enqueues once more what differs, encrypted for the
-- id of that job, in the same transaction. Equal payloads differ once they are encrypted, and would begin the job anew.
--
-- again: an id that has ended counts as repeated, as far back as history reaches. The function looks for it
-- before it changes anything, and once more after the insert, which waits for a settlement of the same id
-- under way and would come after it. Only READ COMMITTED shows both.
--
-- Safe because: the QUEUE row is locked before anything is decided, and the scheduler skips locked rows. A
-- ready work item is deleted by recall (the job is pending again), so no claim can read the old payload. A
-- work item that another session has locked is being claimed or settled, and counts as running.
-- No deadlock with settle: this function waits for no lock on work items (settle locks those first), and
-- locks jobs in the order of their ids before it changes any, as settle does. No deadlock between two batches
-- of the same keys: they take turns by advisory locks of the transaction (1,024 for all keys, so batches of
-- other keys wait now and then, too). Two transactions that each call this more than once can deadlock, as
-- with any upsert. The jobs that a transaction changed here can't be settled until it ends: keep it short.
-- Served by queue_unique, the primary keys, and work_queue_id.
create function enqueue_unique(p_jobs jsonb)
  returns table (ordinal integer, job_id uuid, outcome text, stored jsonb)
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  j record;
  v_existing uuid;
  v_outcome text;
  v_stored jsonb;
  v_after timestamptz;
  v_max_wait interval;
  v_running uuid[] := '{}';
  v_supersedes boolean;
begin
  perform assert_modes(p_jobs);
  perform lock_unique_keys(p_jobs);
  for j in
    -- a payload may be null, and is {} if there is none
    select x.*, coalesce(x.payload, p_jobs -> (x.ordinality - 1)::integer -> 'payload', '{}') as given
    from rows from (jsonb_to_recordset(p_jobs) as (
      n integer, id uuid, queue text, task text, key text, priority integer, attributes jsonb, run_after timestamptz,
      delay_ms float8, expires_at timestamptz, timeout_ms float8, max_tries smallint, max_crashes smallint, retry jsonb,
      unique_key text, mode text, max_wait_ms float8, payload jsonb, payload_version integer, trace jsonb, again boolean, bound boolean))
      with ordinality as x
    -- unique keys in one order for all producers: no deadlock between two batches
    order by x.unique_key is not null, case when x.unique_key is not null then x.task end, x.unique_key, x.n
  loop
    v_max_wait := j.max_wait_ms * interval '1 millisecond';
    v_after := coalesce(j.run_after, clock_timestamp() + j.delay_ms * interval '1 millisecond');
    v_after := case when v_after > clock_timestamp() then least(v_after, clock_timestamp() + v_max_wait) end;
    select null, false into v_outcome, v_supersedes;
    for attempt in 1..20 loop
      if j.again and exists (select from ended_jobs(array[j.id])) then
        select j.id, 'repeated' into v_existing, v_outcome;
        exit;
      end if;
      insert into queue (id, queue, task, key, priority, attributes, run_after, expires_at, timeout, max_tries,
                         max_crashes, retry, unique_key, payload, payload_version, trace)
      values (coalesce(j.id, uuid_v7()), coalesce(j.queue, 'default'), j.task, coalesce(j.key, ''), coalesce(j.priority, 0),
              coalesce(j.attributes, '{}'), v_after, j.expires_at, j.timeout_ms * interval '1 millisecond',
              coalesce(j.max_tries, 20), coalesce(j.max_crashes, 3), j.retry, j.unique_key, j.given, coalesce(j.payload_version, 1), j.trace)
      on conflict do nothing
      returning id into v_existing;
      if found then
        v_outcome := case when v_supersedes then 'superseded' else 'enqueued' end;
        if j.again and exists (select from ended_jobs(array[v_existing])) then
          delete from queue where id = v_existing;
          v_outcome := 'repeated';
        end if;
        exit;
      end if;
      -- the insert may have waited for a settlement of this id
      if exists (select from queue where id = j.id) or (j.again and exists (select from ended_jobs(array[j.id]))) then
        select j.id, 'repeated' into v_existing, v_outcome;
        exit;
      end if;
      if coalesce(j.mode, 'keep') = 'keep' then
        select id, 'kept' into v_existing, v_outcome from queue where task = j.task and unique_key = j.unique_key;
        exit when found;
        continue;
      end if;
      select id, payload into v_existing, v_stored from queue where task = j.task and unique_key = j.unique_key for update;
      continue when not found;
      v_supersedes := j.mode = 'supersede';
      if cardinality(recall(array[v_existing])) = 0 or (not v_supersedes and is_suspended(v_existing)) then
        update queue set unique_key = null where id = v_existing;
        v_running := v_running || case when v_supersedes then array[v_existing] end;
        continue;
      elsif v_supersedes then
        perform cancel(array[v_existing]);
        continue;
      end if;
      update queue
      set payload = case when j.bound then payload else j.given end, payload_version = coalesce(j.payload_version, 1),
          attributes = coalesce(j.attributes, '{}'), priority = coalesce(j.priority, 0), trace = coalesce(j.trace, trace),
          expires_at = j.expires_at,
          run_after = case when j.mode <> 'debounce' then run_after
                           when v_after is null or created + v_max_wait <= clock_timestamp() then null
                           else least(v_after, created + v_max_wait) end
      where id = v_existing;
      v_outcome := case when j.mode = 'debounce' then 'debounced' else 'replaced' end;
      exit;
    end loop;
    if v_outcome is null then
      raise exception 'unique key % of task % changes hands too fast', j.unique_key, j.task using errcode = '40001';
    end if;
    return query select j.n, v_existing, v_outcome,
      case when j.bound and v_outcome in ('replaced', 'debounced') and v_stored ->> '$enc' <> '' then v_stored end;
  end loop;
  if cardinality(v_running) > 0 then
    perform cancel_superseded(v_running);
  end if;
end
$$;
