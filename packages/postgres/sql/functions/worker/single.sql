-- Ends of one job's attempt, for workers in any language: settle with a single job. Safe to repeat: after a lost
-- reply, false or null may also mean that the earlier call was accepted.

-- Ends one job as done, with a result. False: the lease was lost, and nothing
-- was changed.
create function ack(p_id uuid, p_token uuid, p_result jsonb default null) returns boolean
  language sql volatile security definer
  set search_path from current
as $$
  select exists (select from settle(array[p_id], array[p_token], array['done'], array[null::float8], array[p_result::text]))
$$;

-- Ends one attempt as failed. Without p_delay, the job's own retry policy gives
-- the delay, or 1 s doubling up to 1 h. The error is cut to 2,000 characters. Returns retry, dead or
-- cancelled; null: the lease was lost, and nothing was changed.
create function nack(p_id uuid, p_token uuid, p_error text, p_delay interval default null) returns text
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_retry jsonb;
  v_tries integer;
  v_verdict text;
begin
  select q.retry, q.tries into v_retry, v_tries from queue q where q.id = p_id;
  select s.verdict into v_verdict
  from settle(
    array[p_id], array[p_token], array['retry'],
    array[coalesce(extract(epoch from p_delay)::float8 * 1000, backoff_ms(v_retry, v_tries + 1))],
    array[jsonb_build_object('message', left(p_error, 2000))::text]) s;
  return v_verdict;
end
$$;

-- Ends one job for good: it goes into the dead letters, with the reason gave_up. The error is cut to 2,000
-- characters. False: the lease was lost, and nothing was changed.
create function give_up(p_id uuid, p_token uuid, p_error text) returns boolean
  language sql volatile security definer
  set search_path from current
as $$
  select exists (select from settle(array[p_id], array[p_token], array['dead'], array[null::float8],
                                    array[jsonb_build_object('message', left(p_error, 2000))::text]))
$$;

-- Makes one job wait for p_delay and then run again; counts no try. A job whose cancellation was asked for ends
-- as cancelled instead. False: the lease was lost, and nothing was changed.
create function snooze(p_id uuid, p_token uuid, p_delay interval) returns boolean
  language sql volatile security definer
  set search_path from current
as $$
  select exists (select from settle(array[p_id], array[p_token], array['snooze'],
                                    array[extract(epoch from p_delay)::float8 * 1000], array[null::text]))
$$;

-- Returns the delay before the next attempt, by a job's own retry policy: {"kind": "fixed" | "linear" |
-- "exponential", "baseMs", "factor", "maxMs", "jitter": 0..1}. p_try counts from 1. The same arithmetic as
-- retryDelayMs in @pgqueue/core, limited so that PostgreSQL raises no overflow or underflow: a job with an
-- odd policy must fail like others.
create function backoff_ms(p_retry jsonb, p_try integer) returns double precision
  language sql volatile
  set search_path from current
as $$
  select greatest(0, raw * (1 - jitter * random()))
  from (
    select least(coalesce(round((p_retry ->> 'maxMs')::numeric, 6)::float8, 3600000), case coalesce(p_retry ->> 'kind', 'exponential')
             when 'fixed' then base
             when 'linear' then base * p_try
             else base * power(greatest(1, least(1000, coalesce((p_retry ->> 'factor')::float8, 2))), least(p_try - 1, 60)) end) as raw,
           round(coalesce((p_retry ->> 'jitter')::numeric, 0.2), 6)::float8 as jitter
    from (select coalesce(round((p_retry ->> 'baseMs')::numeric, 6)::float8, 1000) as base) b
  ) r
$$;
