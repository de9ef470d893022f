-- Gives this installation its number and its name, or changes them. Another number is refused once jobs or flows
-- have ids with the present one: routers would look for them elsewhere. Returns created, changed or unchanged.
-- The search reads all ids, which an operator does once.
create function init_installation(p_number integer, p_name text) returns text
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_old installation;
begin
  lock table installation in share row exclusive mode;
  select * into v_old from installation;
  if not found then
    insert into installation (number, name) values (p_number, p_name);
    return 'created';
  elsif v_old.number = p_number and v_old.name = p_name then
    return 'unchanged';
  elsif v_old.number <> p_number and (
      exists (select from queue q where installation_of(q.id) = v_old.number)
      or exists (select from history h where installation_of(h.id) = v_old.number)
      or exists (select from dead_letter d where installation_of(d.id) = v_old.number)
      or exists (select from flow f where installation_of(f.id) = v_old.number)) then
    raise exception 'this is installation %, and jobs have ids with that number', v_old.number
      using errcode = '55000', hint = 'Keep the number. Only an installation without jobs of its own can get another one.';
  end if;
  update installation set number = p_number, name = p_name;
  return 'changed';
end
$$;
