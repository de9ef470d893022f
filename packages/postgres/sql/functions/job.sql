-- Checks all rules for a QUEUE row as one constraint. PostgreSQL parses the text of every check of a table
-- anew for each statement that writes to it: 22 checks took 60 of the 120 us of an INSERT of one job, without
-- its commit. Each session parses this function once. A BEFORE INSERT trigger would be as fast, but COPY would
-- insert row by row. A refusal names the broken rule as a constraint, and does not quote the row, which may
-- hold secrets.
-- Sizes are sizes of texts. The text of a small stored value is made here: a call of fits() would cost as
-- much again. A timeout is compared in seconds, as claim uses it: as an interval, a month less 29 days is
-- positive, but in February it is negative.
-- The first condition is a shortcut for most jobs, which are small and use no rare column; it keeps all
-- rules. PL/pgSQL prepares a condition anew in each transaction, with all of its parts: of an INSERT's 47 to
-- 55 us the second condition takes 17 to 20, the first 12.
-- Attributes are flat, and their numbers are within the range of a double: each tick of the scheduler reads
-- them. Their JSON path is here twice, since a path in a variable would be parsed anew for each row.
create function check_job(p_job queue) returns boolean
  language plpgsql stable
  set search_path from current
as $$
declare
  v_broken text;
begin
  if num_nulls(p_job.timeout, p_job.checkpoint, p_job.retry, p_job.trace) = 4 and p_job.attributes = '{}'
      and least(octet_length(p_job.queue), octet_length(p_job.task), octet_length(p_job.unique_key), p_job.payload_version, p_job.max_tries, p_job.max_crashes) >= 1
      and greatest(octet_length(p_job.queue), octet_length(p_job.task), octet_length(p_job.key), octet_length(p_job.unique_key), p_job.max_tries, p_job.max_crashes) <= 100
      and least(p_job.tries, p_job.crashes) >= 0 and coalesce(jsonb_typeof(p_job.errors), 'array') = 'array'
      and isfinite(least(p_job.created, p_job.expires_at, p_job.run_after)) and isfinite(greatest(p_job.created, p_job.expires_at, p_job.run_after))
      and pg_column_size(p_job.payload) <= 1000 and pg_column_compression(p_job.payload) is null and octet_length(p_job.payload::text) <= 1000 then
    return true;
  end if;
  if (least(length(p_job.queue), length(p_job.task), length(p_job.unique_key), p_job.payload_version, p_job.max_tries, p_job.max_crashes) >= 1
      and length(p_job.queue) <= 100 and length(p_job.task) <= 200 and length(p_job.key) <= 200 and length(p_job.unique_key) <= 500
      and (p_job.unique_key is null or octet_length(p_job.task) + octet_length(p_job.unique_key) <= 2600)
      and greatest(p_job.max_tries, p_job.max_crashes) <= 1000 and least(p_job.tries, p_job.crashes) >= 0
      and ((pg_column_size(p_job.payload) <= 1000 and pg_column_compression(p_job.payload) is null and octet_length(p_job.payload::text) <= 1000)
           or fits(p_job.payload, 393216))
      and (p_job.attributes = '{}' or (jsonb_typeof(p_job.attributes) = 'object' and fits(p_job.attributes, 16384)
           and not jsonb_path_exists(
             p_job.attributes, 'strict $.* ? (@.type() == "object" || @.type() == "array" || (@.type() == "number" && (@ > 1.7976931348623157e308 || @ < -1.7976931348623157e308 || (@ > -4e-324 && @ < 4e-324 && @ != 0))))', '{}', true)))
      and (p_job.checkpoint is null or fits(p_job.checkpoint, 393216))
      and (p_job.retry is null or (fits(p_job.retry, 4096) and retry_fits(p_job.retry)))
      and (p_job.trace is null or (jsonb_typeof(p_job.trace) = 'object' and fits(p_job.trace, 4096)))
      and jsonb_typeof(p_job.errors) = 'array'
      and isfinite(p_job.created) and isfinite(p_job.expires_at) and isfinite(p_job.run_after)
      and date_part('epoch', p_job.timeout) between 0.001 and 3.2e8) is not false then
    return true;
  end if;
  select c.name into v_broken
  from (values
    ('queue_attributes_check', jsonb_typeof(p_job.attributes) = 'object' and not jsonb_path_exists(
       p_job.attributes, 'strict $.* ? (@.type() == "object" || @.type() == "array" || (@.type() == "number" && (@ > 1.7976931348623157e308 || @ < -1.7976931348623157e308 || (@ > -4e-324 && @ < 4e-324 && @ != 0))))', '{}', true)),
    ('queue_attributes_size', fits(p_job.attributes, 16384)),
    ('queue_checkpoint_size', fits(p_job.checkpoint, 393216)),
    ('queue_crashes_check', p_job.crashes >= 0),
    ('queue_created_check', isfinite(p_job.created)),
    ('queue_errors_check', jsonb_typeof(p_job.errors) = 'array'),
    ('queue_expires_at_check', isfinite(p_job.expires_at)),
    ('queue_key_check', length(p_job.key) <= 200),
    ('queue_max_crashes_check', p_job.max_crashes between 1 and 1000),
    ('queue_max_tries_check', p_job.max_tries between 1 and 1000),
    ('queue_payload_size', fits(p_job.payload, 393216)),
    ('queue_payload_version_check', p_job.payload_version >= 1),
    ('queue_queue_check', length(p_job.queue) between 1 and 100),
    ('queue_retry_check', retry_fits(p_job.retry)),
    ('queue_retry_size', fits(p_job.retry, 4096)),
    ('queue_run_after_check', isfinite(p_job.run_after)),
    ('queue_task_check', length(p_job.task) between 1 and 200),
    ('queue_timeout_check', date_part('epoch', p_job.timeout) between 0.001 and 3.2e8),
    ('queue_trace_check', jsonb_typeof(p_job.trace) = 'object'),
    ('queue_trace_size', fits(p_job.trace, 4096)),
    ('queue_tries_check', p_job.tries >= 0),
    -- an entry of the index queue_unique has 2,704 bytes at most
    ('queue_unique_key_check', length(p_job.unique_key) between 1 and 500
       and octet_length(p_job.task) + octet_length(p_job.unique_key) <= 2600)) as c(name, holds)
  where not c.holds order by c.name limit 1;
  raise exception 'new row for relation "queue" violates check constraint "%"', v_broken
    using errcode = 'check_violation', table = 'queue', constraint = v_broken,
      hint = case v_broken when 'queue_retry_check' then
        'retry takes kind (fixed, linear or exponential), baseMs and maxMs (0 to 3.2e11), factor (1 to 1000), jitter (0 to 1), and nothing else.'
        else '' end;
end
$$;

-- Not valid, so that pg_dump writes it after the data: the check and the table depend on each other.
alter table queue add constraint queue_check check (check_job(queue.*)) not valid;

-- Refuses a statement whose inserted rows leave more jobs of a key than its queue takes (key_pending). Jobs of
-- a flow count when it starts: a step that is released later, or grows, must not fail for it. Nor must a slice of jobs
-- that comes from another installation: nothing counts for a key while it moves here. Counts
-- along queue_waiting, up to the limit and no further. The limit is not exact: concurrent transactions don't
-- see each other's jobs. An exact limit would make producers of one key wait for each other's commits, and a
-- counter for each key would be a hot row.
create function refuse_crowds() returns trigger
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
declare
  v record;
begin
  for v in
    select c.queue, i.key, c.key_pending
    from (select distinct x.queue, x.key from inserted x
          where x.run_after is null and not exists (select from key_move m where m.key = x.key and m.side = 'in' and m.opened is null)
            and (x.flow is null or (select f.created from flow f where f.id = x.flow) >= transaction_timestamp())) i
    join queue_config c on c.queue = i.queue and c.key_pending is not null
  loop
    if (select count(*) from (
          select from queue q
          where q.queue = v.queue and q.key = v.key and q.run_after is null limit v.key_pending + 1) waiting) > v.key_pending then
      raise exception 'queue_key_pending: queue % takes % jobs of one key, and there are so many of %',
          to_json(v.queue), v.key_pending, to_json(v.key)
        using errcode = 'PQ003', hint = 'Enqueue later, or raise key_pending of the queue.';
    end if;
  end loop;
  return null;
end
$$;

-- Creates the trigger while some queue has such a limit, and drops it otherwise: its copy of the inserted
-- rows would cost every enqueue, even while it is disabled. Creating it takes a lock that waits for
-- transactions that have enqueued, while other statements wait behind it. After 3 s (lock_timeout) the change
-- of the setting is refused.
create function watch_crowds() returns trigger
  language plpgsql volatile security definer
  set search_path from current
  set lock_timeout = '3s'
as $$
declare
  v_wanted boolean;
  v_there boolean;
begin
  perform pg_advisory_xact_lock(hashtextextended(current_schema() || ':crowds', 0));
  v_wanted := exists (select from queue_config c where c.key_pending is not null);
  v_there := exists (
    select from pg_trigger t where t.tgrelid = to_regclass(quote_ident(current_schema()) || '.queue') and t.tgname = 'queue_key_pending');
  if v_wanted and not v_there then
    create trigger queue_key_pending after insert on queue
      referencing new table as inserted for each statement execute function refuse_crowds();
  elsif v_there and not v_wanted then
    drop trigger queue_key_pending on queue;
  end if;
  return null;
end
$$;

create trigger queue_config_crowds after insert or update of key_pending or delete on queue_config
  for each statement execute function watch_crowds();

-- Resets a waiting job whose payload an enqueue replaces: a new payload is another piece of work, and must
-- not inherit the resume data, failures, crashes and signals of the old one. The condition is in the function, since
-- every statement that writes to the table copies the condition of a trigger, an INSERT, too.
create function begin_anew() returns trigger
  language plpgsql
  set search_path from current
as $$
begin
  if old.payload is distinct from new.payload then
    new.checkpoint := null;
    new.tries := 0;
    new.crashes := 0;
    new.errors := null;
    perform forget_signals(array[new.id], 'all');
  end if;
  return new;
end
$$;

create trigger queue_new_payload before update of payload on queue for each row execute function begin_anew();

create function note_move() returns trigger
  language plpgsql
  set search_path from current
as $$
begin
  new.moved := true;
  return new;
end
$$;

-- Marks jobs that were changed while they waited, or that wait again, as moved. A job that is pending at once
-- and done at its first attempt is never updated, so this costs it nothing.
create trigger queue_move before update on queue for each row
  when (new.run_after is null and new.moved is null) execute function note_move();
