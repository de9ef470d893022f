-- Retention of a line in audit. To keep lines for a longer or shorter time, replace this function.
create function audit_kept() returns interval
  language sql immutable parallel safe
  set search_path from current
as $$
  select interval '400 days'
$$;

-- Notes an action before it is done: an action that can't be noted is not done. Removes up to 100 lines whose
-- retention has passed.
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

-- Notes the result after the action: once, and only by the database user that noted the action. False: there
-- is no such line without a result.
create function note_result(p_n bigint, p_result jsonb) returns boolean
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  update audit a set result = p_result where a.n = p_n and a.result is null and a.db_user = session_user;
  return found;
end
$$;
