-- Makes a UUID v7 for plain SQL inserts (clients make their own): 48 bits of milliseconds, then version,
-- variant and 74 random bits.
create function uuid_v7() returns uuid
  language sql volatile parallel safe
  set search_path from current
as $$
  select encode(
    substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
      || set_byte(substring(r from 7), 0, (get_byte(r, 6) & 15) | 112), 'hex')::uuid
  from (select uuid_send(gen_random_uuid()) as r) random
$$;
