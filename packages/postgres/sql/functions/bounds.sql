-- Limits of stored values are limits of their text, which is the form that is sent. A value may be far
-- smaller as jsonb: 1e131071 takes 16 bytes and is 131,072 digits as text, and an INSERT ... SELECT may take
-- compressed values from another table.

-- Tells whether a value has at most p_bytes as text, and at most 500 levels of arrays and objects. A value of
-- which PostgreSQL can make no text (the maximum is 1 GB) does not fit. The function catches that error only
-- for values that may raise it: an exception block costs more than the text of a small value. Packages count
-- JSON as they write it, without spaces; PostgreSQL's text is up to half as long again.
create function fits(p_value jsonb, p_bytes integer) returns boolean
  language plpgsql stable
  set search_path from current
as $$
declare
  v_bytes integer;
begin
  if pg_column_size(p_value) <= 8000 and pg_column_compression(p_value) is null then
    v_bytes := octet_length(p_value::text);
  else
    begin
      v_bytes := octet_length(p_value::text);
    exception when program_limit_exceeded then
      return false;
    end;
  end if;
  return v_bytes is null or (v_bytes <= p_bytes and (
    v_bytes <= 1000 or not jsonb_path_exists(p_value, 'strict $.**{500} ? (@.type() == "object" || @.type() == "array")', '{}', true)));
end
$$;

-- Tells whether a job's retry policy is valid: {"kind": "fixed" | "linear" | "exponential", "baseMs",
-- "factor", "maxMs", "jitter": 0..1}, every member optional.
create function retry_fits(p_retry jsonb) returns boolean
  language plpgsql stable
  set search_path from current
as $$
begin
  return jsonb_typeof(p_retry) = 'object'
    and p_retry - array['kind', 'baseMs', 'factor', 'maxMs', 'jitter'] = '{}'
    and coalesce(p_retry -> 'kind', '"fixed"') in ('"fixed"', '"linear"', '"exponential"')
    and coalesce(p_retry -> 'baseMs', '0') between '0' and '3.2e11'
    and coalesce(p_retry -> 'maxMs', '0') between '0' and '3.2e11'
    and coalesce(p_retry -> 'factor', '1') between '1' and '1000'
    and coalesce(p_retry -> 'jitter', '0') between '0' and '1';
end
$$;

-- Refuses a node's tasks that can't be read: claims count with them, and each tick of the scheduler reads
-- them.
create function assert_tasks(p_tasks jsonb) returns void
  language plpgsql stable
  set search_path from current
as $$
declare
  v_task text;
begin
  if jsonb_typeof(p_tasks) is distinct from 'object' then
    raise exception 'tasks must be an object, such as {"mail": {"min": 1, "max": 1}}'
      using errcode = 'check_violation', table = 'node', constraint = 'node_tasks_check';
  elsif not fits(p_tasks, 262144) then
    raise exception 'tasks are at most 256 KiB' using errcode = 'check_violation', table = 'node', constraint = 'node_tasks_size';
  elsif (select count(*) from jsonb_object_keys(p_tasks)) > 1000 then
    raise exception 'a node has at most 1,000 tasks: give each of several nodes a part of them'
      using errcode = 'check_violation', table = 'node', constraint = 'node_tasks_size';
  end if;
  -- jsonb orders values by their kind first: a value between two numbers is a number
  select t.key into v_task
  from jsonb_each(p_tasks) t
  where not coalesce(
      jsonb_typeof(t.value) = 'object'
      and t.value -> 'min' between '1' and t.value -> 'max' and t.value -> 'max' between '1' and '2147483647'
      and jsonb_path_match(t.value, '$.min.floor() == $.min && $.max.floor() == $.max', '{}', true)
      and coalesce(nullif(t.value -> 'timeoutMs', 'null'), '1') between '0.001' and '3.2e11', false)
  limit 1;
  if found then
    raise exception 'task % must be {"min": 1, "max": 1}: payload versions from 1 on, whole numbers; "timeoutMs" up to 3.2e11 or null', to_json(v_task)
      using errcode = 'check_violation', table = 'node', constraint = 'node_tasks_check';
  end if;
end
$$;

alter table schedule
  add constraint schedule_payload_size check (fits(payload, 393216)),
  add constraint schedule_options_size check (fits(options, 65536)),
  add constraint schedule_retry_check check (retry_fits(nullif(options -> 'retry', 'null')));
alter table audit
  add constraint audit_details_size check (fits(details, 24576)),
  add constraint audit_result_size check (fits(result, 24576));
