-- pgqueue 0014: outages and clocks that are set: no node is lost for a time in which nobody could beat, and no lease of the leader's
-- outlives its own length.
-- compatible: yes (older schedulers call the same functions)

-- Since when schedulers have reached this server without a gap, and when one did last. Unlogged: a crash of Postgres and the promotion
-- of a standby empty it, which says just what it should: nobody can have beaten until now.
create unlogged table reached (
  only_row boolean     primary key default true check (only_row),
  since    timestamptz not null,
  seen     timestamptz
) with (fillfactor = 50);
-- Before the first scheduler there was nobody who could be lost.
insert into reached (since) values ('-infinity');

-- How long a lease lasts that nobody renews. Null: it was given by an older version.
alter table scheduler_lease add column lease_ms integer;

-- Called by each scheduler, leader or not, in every half of a lease. A gap of a whole one, or a clock that went ahead by as much, is an
-- outage: nodes have their whole time again to beat. Where the clock was set back, what nodes wrote in what is now the future would
-- count for as long: it counts from now on.
create function note_reached(p_gap_ms integer) returns void
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_last timestamptz;
begin
  select r.seen into v_last from reached r;
  insert into reached as r (since, seen) values (v_now, v_now)
  on conflict (only_row) do update
    set since = case when r.seen is null or v_now between r.seen - interval '1 second' and r.seen + p_gap_ms * interval '1 millisecond'
                     then r.since else v_now end,
        seen = v_now;
  if v_last > v_now + interval '1 second' then
    update node n set heartbeat = least(n.heartbeat, v_now), alone_until = least(n.alone_until, v_now)
    where n.heartbeat > v_now or n.alone_until > v_now;
  end if;
end
$$;

-- As in 0003. A lease that ends later than twice its length from now was given before the clock was set back: it is over. Whoever gave
-- it still leads where it renews in time; if not, the next one takes the next epoch, as ever.
create or replace function lead(p_leader text, p_lease_ms integer)
  returns table (leads boolean, epoch bigint, leader text, expires_in_ms double precision)
  language plpgsql volatile security definer
  set search_path from current
as $$
#variable_conflict use_column
declare
  v_now timestamptz;
begin
  if p_leader is null or p_lease_ms is null or p_lease_ms < 1 then
    raise exception 'a leader has a name, and its lease a length' using errcode = '22023';
  end if;
  perform note_reached(p_lease_ms);
  v_now := clock_timestamp();
  update scheduler_lease l
  set epoch = l.epoch + (case when l.leader is not distinct from p_leader and l.expires > v_now then 0 else 1 end),
      leader = p_leader, expires = v_now + p_lease_ms * interval '1 millisecond', lease_ms = p_lease_ms
  where l.leader is not distinct from p_leader or l.expires <= v_now
    or l.expires > v_now + 2 * l.lease_ms * interval '1 millisecond';
  return query
    select l.leader is not distinct from p_leader, l.epoch, l.leader, extract(epoch from l.expires - v_now)::float8 * 1000
    from scheduler_lease l;
end
$$;

-- As in 0007; but silence counts from when the server was there to be spoken to.
create or replace function lose_nodes(p_leader text, p_epoch bigint)
  returns table (node_id text, jobs bigint)
  language plpgsql volatile security definer
  set search_path from current
as $$
#variable_conflict use_column
declare
  v_node text;
  v_alive boolean;
  v_jobs bigint;
  v_since timestamptz;
begin
  perform assert_leader(p_leader, p_epoch);
  v_since := coalesce((select r.since from reached r), 'infinity');
  for v_node in
    select n.id from node n
    where n.state in ('alive', 'draining')
      and greatest(n.heartbeat, v_since) <= clock_timestamp() - n.lost_after_ms * interval '1 millisecond'
    union
    select w.lock_key from work_queue w
    where w.lock_key is not null and not exists (select from node n where n.id = w.lock_key and n.state in ('alive', 'draining'))
    order by 1
  loop
    -- again under the row's lock: it may have beaten, or come back, since
    perform from node n
    where n.id = v_node and n.state in ('alive', 'draining')
      and n.heartbeat > clock_timestamp() - n.lost_after_ms * interval '1 millisecond' for update;
    continue when found;
    v_alive := exists (select from node n where n.id = v_node and n.state in ('alive', 'draining'));
    select count(*) into v_jobs from end_node(v_node, 'lost', 'node lost', false);
    if v_alive or v_jobs > 0 then
      return query select v_node, v_jobs;
    end if;
  end loop;
  delete from node n where n.state in ('left', 'lost') and n.heartbeat < clock_timestamp() - interval '1 day';
end
$$;
