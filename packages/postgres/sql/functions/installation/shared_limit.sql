-- Leases an installation its part of a shared limit, for p_lease_ms by this server's clock, and makes the limit at
-- its first lease. Called by leaders of installations about once a second.
--   p_epoch      of the leader; one of an earlier epoch is refused (PQ002)
--   p_size, p_per_second  the limit as the holder tells it; p_per_second null: a concurrency
--   p_seen       number of the answer whose part the holder keeps to; 0: none
--   p_in_flight  jobs in flight, counted by the plan that began to keep to that part or a later one; 0 for a rate
--   p_wants      what it could use; null: jobs of it are held, so all it can get
--
-- Exact: the parts that holders may use never add up to more than the size, because a part grows only into what
-- nobody has reserved, and a reservation shrinks only when its holder tells back the number of the answer that made
-- its part smaller. Time frees nothing: a holder that falls silent keeps its reservation. An answer has a new number if
-- its part is another one. After a failover that may have lost leases, all parts are 0 and everything is reserved for
-- each holder until it tells back the number of such an answer; numbers then jump, so that none was used before.
-- Safe because: all leases of a limit take the lock of its row. The commit is synchronous: a lease that a crash could
-- undo would be given twice.
create function lease_limit(p_name text, p_installation integer, p_epoch bigint, p_size integer, p_per_second float8,
                            p_seen bigint, p_in_flight integer, p_wants integer, p_lease_ms integer)
  returns table (number bigint, part integer, rate float8, size integer, per_second float8)
  language plpgsql volatile security definer
  set search_path from current
as $$
#variable_conflict use_column
declare
  v_limit shared_limit;
  v_me shared_limit_part;
  v_now timestamptz;
  v_place text := tables_place();
  v_part integer;
  v_rate float8;
  v_size integer;
  v_per_second float8;
  v_others integer;
  v_others_rate float8;
begin
  perform assert_read_committed('a lease of a shared limit');
  perform commit_durably();
  insert into shared_limit as l (name, size, per_second, place) values (p_name, p_size, p_per_second, v_place) on conflict (name) do nothing;
  select * into v_limit from shared_limit l where l.name = p_name for update;
  v_now := clock_timestamp();
  if (v_limit.per_second is null) <> (p_per_second is null) then
    raise exception 'shared limit % is a % here, not a %', p_name,
        case when v_limit.per_second is null then 'concurrency' else 'rate' end, case when p_per_second is null then 'concurrency' else 'rate' end
      using errcode = '55000', hint = 'Give it the same definition in every installation; to change its kind, take another name.';
  end if;
  if v_limit.place <> v_place then
    -- one whose lease had ended long before the last of the others is gone
    update shared_limit_part m
    set part = 0, rate = 0, number = greatest(m.number + 1000000, (extract(epoch from clock_timestamp()) * 1000)::bigint),
        reserved = greatest(m.reserved, m.size), reserved_rate = greatest(m.reserved_rate, coalesce(m.per_second, 0))
    where m.name = p_name
      and (m.reserved > 0 or m.expires > (select max(o.expires) from shared_limit_part o where o.name = p_name) - interval '1 minute');
  end if;
  insert into shared_limit_part as m (name, installation, size, per_second) values (p_name, p_installation, p_size, p_per_second)
  on conflict (name, installation) do nothing;
  select * into v_me from shared_limit_part m where m.name = p_name and m.installation = p_installation;
  if p_epoch < v_me.epoch then
    raise exception 'installation % has a later leader than that of epoch %, which has leased its part of %', p_installation, p_epoch, p_name
      using errcode = 'PQ002', hint = 'If its database was restored from a backup: stop its schedulers for a minute, and forfeit its part.';
  end if;
  if p_seen = v_me.number then
    v_me.reserved := greatest(v_me.part, p_in_flight);
    v_me.reserved_rate := v_me.rate;
  else
    v_me.reserved := greatest(v_me.reserved, p_in_flight);
  end if;
  select least(p_size, min(o.size) filter (where o.expires > v_now)), least(p_per_second, min(o.per_second) filter (where o.expires > v_now)),
         coalesce(sum(o.reserved), 0), coalesce(sum(o.reserved_rate), 0)
  into v_size, v_per_second, v_others, v_others_rate
  from shared_limit_part o where o.name = p_name and o.installation <> p_installation;
  v_part := greatest(0, least(fair_part(p_name, p_installation, v_size, p_wants, v_now), greatest(v_size - v_others, v_me.part)));
  v_rate := case when v_part = 0 or v_per_second is null then 0
                 else greatest(0, least(v_per_second * v_part / v_size, greatest(v_per_second - v_others_rate, v_me.rate))) end;
  update shared_limit l
  set size = v_size, per_second = v_per_second, place = v_place
  where l.name = p_name and (l.size, l.per_second, l.place) is distinct from (v_size, v_per_second, v_place);
  return query
    update shared_limit_part m
    set epoch = p_epoch, number = m.number + case when (v_part, v_rate) = (v_me.part, v_me.rate) then 0 else 1 end,
        size = p_size, per_second = p_per_second, part = v_part, rate = v_rate,
        reserved = greatest(v_me.reserved, v_part), reserved_rate = greatest(v_me.reserved_rate, v_rate),
        in_flight = p_in_flight, wants = p_wants, expires = v_now + p_lease_ms * interval '1 millisecond'
    where m.name = p_name and m.installation = p_installation
    returning m.number, m.part, m.rate, v_size, v_per_second;
end
$$;

-- Returns the part that an installation should have: max-min fair among those that hold a lease. Each gets what it
-- wants, and those that want more than an even part divide the rest evenly. An idle one gets 1 for its first job, if
-- that leaves nine tenths to the others. If jobs of more installations wait than there are units, every 5 s others
-- go without.
create function fair_part(p_name text, p_installation integer, p_size integer, p_wants integer, p_now timestamptz) returns integer
  language plpgsql stable security definer
  set search_path from current
as $$
declare
  v_row record;
  v_part integer;
  -- parts of silent installations stay reserved
  v_left bigint := greatest(0, p_size - (select coalesce(sum(o.reserved), 0) from shared_limit_part o
                                         where o.name = p_name and o.installation <> p_installation and o.expires <= p_now));
  v_count bigint := 1 + (select count(*) from shared_limit_part o where o.name = p_name and o.installation <> p_installation and o.expires > p_now);
  v_least integer := case when p_size >= 10 * v_count then 1 else 0 end;
begin
  for v_row in
    select x.installation, greatest(coalesce(x.wants, p_size), v_least) as wants
    from (select o.installation::integer, o.wants from shared_limit_part o
          where o.name = p_name and o.installation <> p_installation and o.expires > p_now
          union all select p_installation, p_wants) x (installation, wants)
    order by 2, (row_number() over (order by x.installation) + floor(extract(epoch from p_now) / 5)::bigint) % v_count
  loop
    v_part := least(v_row.wants, v_left / v_count);
    exit when v_row.installation = p_installation;
    v_left := v_left - v_part;
    v_count := v_count - 1;
  end loop;
  return v_part;
end
$$;

-- Gives the part of an installation back, because an operator says that it runs no jobs of the limit and will not
-- lease again. Refused until its lease has ended a minute ago. Returns what was reserved for it. If it does lease
-- again, its jobs in flight are reserved first.
create function forfeit_part(p_name text, p_installation integer) returns integer
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_part shared_limit_part;
begin
  perform from shared_limit l where l.name = p_name for update;
  select * into v_part from shared_limit_part m where m.name = p_name and m.installation = p_installation;
  if not found then
    raise exception 'installation % has no part of shared limit % here', p_installation, p_name using errcode = 'P0002';
  elsif v_part.expires > clock_timestamp() - interval '1 minute' then
    raise exception 'installation % leased its part of shared limit % less than a minute ago', p_installation, p_name
      using errcode = '55000', hint = 'Stop its schedulers and workers, and repeat this a minute later.';
  end if;
  update shared_limit_part m
  set number = m.number + 1, epoch = 0, part = 0, rate = 0, reserved = 0, reserved_rate = 0, in_flight = 0, wants = 0
  where m.name = p_name and m.installation = p_installation;
  return v_part.reserved;
end
$$;

-- Removes a limit that no installation has leased for a minute, and of which none has jobs in flight, so that it may get
-- another home or kind.
create function remove_limit(p_name text) returns void
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  perform from shared_limit l where l.name = p_name for update;
  if not found then
    raise exception 'there is no shared limit % here', p_name using errcode = 'P0002';
  elsif exists (select from shared_limit_part m where m.name = p_name and m.expires > clock_timestamp() - interval '1 minute') then
    raise exception 'shared limit % was leased less than a minute ago', p_name
      using errcode = '55000', hint = 'Take it out of the policies of all installations, and repeat this a minute later.';
  elsif exists (select from shared_limit_part m where m.name = p_name and m.in_flight > 0) then
    raise exception 'shared limit % had jobs in flight in installation % when that was heard of last', p_name,
        (select min(m.installation) from shared_limit_part m where m.name = p_name and m.in_flight > 0)
      using errcode = '55000', hint = 'Make sure that none runs there, and forfeit its part first.';
  end if;
  delete from shared_limit where name = p_name;
end
$$;
