-- Notes the recent use of shares in an installation, and returns that of the others, with its age in milliseconds by this
-- server's clock. Called by leaders of installations about once a second. p_uses null: notes nothing. One of an earlier
-- epoch changes nothing. Use that was told a day ago is deleted: it has long decayed.
create function share_uses(p_name text, p_installation integer, p_epoch bigint, p_uses json) returns table (uses json, age_ms float8)
  language plpgsql volatile security definer
  set search_path from current
as $$
#variable_conflict use_column
begin
  perform set_config('synchronous_commit', 'off', true);
  if p_uses is not null then
    insert into shared_use as u (name, installation, epoch, uses, told) values (p_name, p_installation, p_epoch, p_uses, clock_timestamp())
    on conflict (name, installation) do update set epoch = excluded.epoch, uses = excluded.uses, told = excluded.told
      where u.epoch <= excluded.epoch;
    delete from shared_use u where u.told < clock_timestamp() - interval '1 day';
  end if;
  return query
    select u.uses, (extract(epoch from clock_timestamp() - u.told) * 1000)::float8 from shared_use u
    where u.name = p_name and u.installation <> p_installation order by u.installation;
end
$$;
