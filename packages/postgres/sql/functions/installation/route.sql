-- Has this transaction commit durably, whatever the server's default: what other installations write relies on it.
create function commit_durably() returns void
  language plpgsql volatile
  set search_path from current
as $$
begin
  if current_setting('synchronous_commit') = 'off' then
    perform set_config('synchronous_commit', 'on', true);
  end if;
end
$$;

-- Returns the advisory lock of a key: enqueues through a router share it, set_route takes it alone. 1,024 locks for
-- all keys, so that a large batch takes few.
create function route_lock(p_key text) returns bigint
  language sql stable
  set search_path from current
as $$
  select hashtextextended(current_schema() || ':route', abs(hashtext(p_key) % 1024))
$$;

-- Checks the keys of an enqueue that came through a router, a part of its statement: refuses it with PQ004 if a key
-- has its home elsewhere by a route that is newer than the one the router knows. p_versions: the version that the
-- router knows of each key; 0: none. p_ids: ids that an earlier try may have written. The detail of the refusal names
-- those of them that are known here, so that the router enqueues only the others elsewhere. p_repeated: an earlier try
-- with these versions may have been accepted. Then any newer route is refused, also one that leads here: the job may have
-- left, and ended elsewhere, before its key came back.
--
-- Safe because: the lock is held until the enqueue commits, and set_route waits for it. After set_route, no job of
-- the key is enqueued here by a router that does not know of it. Each statement of this function sees what was
-- committed while it waited. Served by route's primary key.
create function at_home(p_keys text[], p_versions bigint[], p_ids uuid[] default null, p_repeated boolean default false) returns integer
  language plpgsql volatile security definer
  set search_path from current
  set enable_seqscan = off
as $$
declare
  v_route route;
begin
  perform pg_advisory_xact_lock_shared(l.lock)
  from (select distinct route_lock(k.key) as lock from unnest(p_keys) as k (key) where k.key <> '' order by 1) l;
  select r.* into v_route
  from unnest(p_keys, p_versions) as k (key, version) join route r on r.key = k.key
  where r.version > k.version and (p_repeated or r.installation <> (select i.number from installation i where i.only_row))
  limit 1;
  if found then
    raise exception 'key % has moved to installation %', v_route.key, v_route.installation
      using errcode = 'PQ004', detail = jsonb_build_object('key', v_route.key, 'installation', v_route.installation, 'version', v_route.version,
        'known', (select coalesce(jsonb_agg(x.id), '[]') from unnest(p_ids) as x (id)
                  where exists (select from queue q where q.id = x.id) or exists (select from ended_jobs(array[x.id]))
                     or exists (select from flow f where f.id = x.id)
                     or exists (select from handover h where h.id = x.id)))::text;
  end if;
  return 1;
end
$$;

-- Writes this installation's copy of the route of a key, unless it has the same version or a newer one. Returns
-- whether it wrote. Waits for enqueues of the key that are under way; later ones see the new route.
-- Set routes of several keys in transactions of their own: together they can deadlock with an enqueue of both.
create function set_route(p_key text, p_installation integer, p_version bigint, p_moving_from integer default null) returns boolean
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_change bigint;
begin
  update installation set changes = changes + 1 returning changes into v_change;
  if not found then
    raise exception 'this installation has no number' using errcode = '22023', hint = 'Give it one: pgqueue installations init --number N --name NAME.';
  end if;
  perform pg_advisory_xact_lock(route_lock(p_key));
  insert into route as r (key, installation, version, moving_from, state, change)
  values (p_key, p_installation, p_version, p_moving_from, case when p_moving_from is null then 'settled' else 'moving' end, v_change)
  on conflict (key) do update
  set installation = excluded.installation, version = excluded.version, moving_from = excluded.moving_from, state = excluded.state,
      change = excluded.change
  where r.version < excluded.version;
  return found;
end
$$;
