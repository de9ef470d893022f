-- pgqueue 0019: what ended, counted in buckets of time; and who did what.
-- compatible: yes (an older scheduler counts nothing)

-- Of a minute (grain 60, kept for three hours) or a quarter of an hour (900, kept for eight days), by queue; queue '' is all of them.
-- waits and runs are histograms, {"bucket": jobs}: bucket 0 is up to 1 ms, bucket b up to 1.25^b ms.
create table activity (
  grain     integer     not null check (grain in (60, 900)),
  at        timestamptz not null,
  queue     text collate "C" not null,
  done      bigint      not null,
  cancelled bigint      not null,
  expired   bigint      not null,
  dead      bigint      not null,
  failures  bigint      not null,
  busy_ms   float8      not null,
  waits     jsonb       not null,
  runs      jsonb       not null,
  primary key (grain, at, queue)
) with (fillfactor = 50);
comment on table activity is 'What ended, by queue and bucket of time: what dashboards show of the last hour and day. Queues that keep no history are not in it.';

create table activity_mark (
  only_row   boolean primary key default true check (only_row),
  counted_to timestamptz not null
) with (fillfactor = 50);
insert into activity_mark (counted_to) values ('-infinity');

-- Counts what ended since it was called last, for about p_max_ms; returns how far behind it still is, in milliseconds. What ended more than
-- a day ago is left out. Each row of history is read once, along history_finished, in slices of one quarter of an hour at most: as long as
-- can be read in a few ten milliseconds. A settlement that commits more than five seconds after its time is missed: these are statistics,
-- and no record.
create function count_activity(p_leader text, p_epoch bigint, p_max_ms integer) returns float8
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
declare
  v_begun timestamptz := clock_timestamp();
  v_end timestamptz := date_trunc('second', v_begun) - interval '5 seconds';
  v_slice interval := interval '1 minute';
  v_from timestamptz;
  v_to timestamptz;
  v_at timestamptz;
begin
  perform set_config('synchronous_commit', 'off', true);
  -- without a lock on the lease: its holder must be able to renew it meanwhile
  perform from scheduler_lease l where l.leader = p_leader and l.epoch = p_epoch and l.expires > clock_timestamp();
  if not found then
    raise exception 'scheduler % no longer leads in epoch %', p_leader, p_epoch using errcode = 'PQ002';
  end if;
  select m.counted_to into v_from from activity_mark m for update skip locked;
  if not found then
    return 0;
  end if;
  v_from := greatest(v_from, date_bin('15 minutes', v_end, 'epoch') - interval '1 day');
  loop
    v_at := clock_timestamp();
    exit when v_from >= v_end or v_at > v_begun + p_max_ms * interval '1 millisecond';
    v_to := least(v_end, v_from + v_slice, date_bin('15 minutes', v_from, 'epoch') + interval '15 minutes');
    perform count_slice(v_from, v_to);
    v_from := v_to;
    v_slice := case when clock_timestamp() - v_at < interval '20 milliseconds' then least(interval '15 minutes', 2 * v_slice)
                    else greatest(interval '1 second', v_slice / 2) end;
  end loop;
  update activity_mark m set counted_to = v_from;
  delete from activity a where a.grain = 60 and a.at < v_end - interval '3 hours';
  delete from activity a where a.grain = 900 and a.at < v_end - interval '8 days';
  return greatest(0, extract(epoch from v_end - v_from)) * 1000;
end
$$;

-- What ended from p_from on and before p_to, which are of one quarter of an hour.
create function count_slice(p_from timestamptz, p_to timestamptz) returns void
  language sql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
  with facts as materialized (
    select h.finished as at, h.queue, h.outcome, h.tries,
           case when h.outcome = 'done' then extract(epoch from h.started - h.created)::float8 * 1000 end as wait_ms,
           case when h.outcome = 'done' then extract(epoch from h.finished - h.started)::float8 * 1000 end as run_ms,
           extract(epoch from h.finished - h.started)::float8 * 1000 as busy_ms
    from history h where h.finished >= p_from and h.finished < p_to
    union all
    select d.died, d.queue, 'dead', d.tries, null, null, null from dead_letter d where d.died >= p_from and d.died < p_to
  ),
  parts as materialized (
    select date_bin('1 minute', f.at, 'epoch') as at, f.queue, f.outcome,
           case when f.wait_ms <= 1 then 0 when f.wait_ms > 1 then least(160, ceil(ln(f.wait_ms) / ln(1.25::float8)))::integer end as wait,
           case when f.run_ms <= 1 then 0 when f.run_ms > 1 then least(160, ceil(ln(f.run_ms) / ln(1.25::float8)))::integer end as run,
           count(*) as jobs, sum(f.tries) as failures, coalesce(sum(f.busy_ms), 0) as busy_ms
    from facts f group by 1, 2, 3, 4, 5
  ),
  grains as materialized (
    select g.grain, date_bin(g.grain * interval '1 second', p.at, 'epoch') as at, n.queue, p.outcome, p.wait, p.run,
           sum(p.jobs) as jobs, sum(p.failures) as failures, sum(p.busy_ms) as busy_ms
    from parts p
    cross join lateral (values (p.queue), ('')) n (queue)
    cross join (values (60), (900)) g (grain)
    where g.grain = 900 or p.at > clock_timestamp() - interval '3 hours'
    group by 1, 2, 3, 4, 5, 6
  ),
  sums as (
    select g.grain, g.at, g.queue, coalesce(sum(g.jobs) filter (where g.outcome = 'done'), 0) as done,
           coalesce(sum(g.jobs) filter (where g.outcome = 'cancelled'), 0) as cancelled,
           coalesce(sum(g.jobs) filter (where g.outcome = 'expired'), 0) as expired,
           coalesce(sum(g.jobs) filter (where g.outcome = 'dead'), 0) as dead,
           sum(g.failures) as failures, sum(g.busy_ms) as busy_ms
    from grains g group by 1, 2, 3
  ),
  waits as (
    select w.grain, w.at, w.queue, jsonb_object_agg(w.wait, w.jobs) as counts
    from (select g.grain, g.at, g.queue, g.wait, sum(g.jobs) as jobs from grains g where g.wait is not null group by 1, 2, 3, 4) w
    group by 1, 2, 3
  ),
  runs as (
    select r.grain, r.at, r.queue, jsonb_object_agg(r.run, r.jobs) as counts
    from (select g.grain, g.at, g.queue, g.run, sum(g.jobs) as jobs from grains g where g.run is not null group by 1, 2, 3, 4) r
    group by 1, 2, 3
  )
  insert into activity as a (grain, at, queue, done, cancelled, expired, dead, failures, busy_ms, waits, runs)
  select s.grain, s.at, s.queue, s.done, s.cancelled, s.expired, s.dead, s.failures, s.busy_ms, coalesce(w.counts, '{}'),
         coalesce(r.counts, '{}')
  from sums s
  left join waits w on (w.grain, w.at, w.queue) = (s.grain, s.at, s.queue)
  left join runs r on (r.grain, r.at, r.queue) = (s.grain, s.at, s.queue)
  on conflict (grain, at, queue) do update
    set done = a.done + excluded.done, cancelled = a.cancelled + excluded.cancelled, expired = a.expired + excluded.expired,
        dead = a.dead + excluded.dead, failures = a.failures + excluded.failures, busy_ms = a.busy_ms + excluded.busy_ms,
        waits = (select coalesce(jsonb_object_agg(x.key, x.n), '{}')
                 from (select e.key, sum(e.value::bigint) as n
                       from (select * from jsonb_each_text(a.waits) union all select * from jsonb_each_text(excluded.waits)) e
                       group by e.key) x),
        runs = (select coalesce(jsonb_object_agg(x.key, x.n), '{}')
                from (select e.key, sum(e.value::bigint) as n
                      from (select * from jsonb_each_text(a.runs) union all select * from jsonb_each_text(excluded.runs)) e
                      group by e.key) x)
$$;

-- What operators did: who, what, when. No role writes it but by the two functions below, and none changes or removes a line.
create table audit (
  n       bigint      generated always as identity primary key,
  at      timestamptz not null default clock_timestamp(),
  actor   text        not null check (length(actor) between 1 and 200),
  via     text        not null check (via in ('dashboard', 'cli')),
  db_user text        not null,
  action  text        not null check (length(action) between 1 and 100),
  target  text        check (length(target) <= 500),
  details jsonb       not null default '{}' check (pg_column_size(details) <= 16384),
  result  jsonb       check (pg_column_size(result) <= 16384)
);
comment on table audit is 'What operators did. actor is whom the dashboard or the command says; db_user is who the database knows. result is null while an action is under way, where it failed, and where its process ended.';
create index audit_at on audit (at);

-- For so long a line is kept. To keep lines longer, or shorter, replace this function.
create function audit_kept() returns interval
  language sql immutable parallel safe
  set search_path from current
as $$
  select interval '400 days'
$$;

-- Before an action: an action that can't be noted is not done. Removes a few lines that have been kept for long enough.
create function note_action(p_actor text, p_via text, p_action text, p_target text, p_details jsonb) returns bigint
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_n bigint;
begin
  insert into audit (actor, via, db_user, action, target, details)
  values (p_actor, p_via, session_user, p_action, p_target, coalesce(p_details, '{}')) returning n into v_n;
  delete from audit
  where n = any (array(select a.n from audit a where a.at < clock_timestamp() - audit_kept() order by a.at limit 100 for update skip locked));
  return v_n;
end
$$;

-- After it: once, and only by the same user of the database. False: there is no such line without a result.
create function note_result(p_n bigint, p_result jsonb) returns boolean
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  update audit a set result = p_result where a.n = p_n and a.result is null and a.db_user = session_user;
  return found;
end
$$;
