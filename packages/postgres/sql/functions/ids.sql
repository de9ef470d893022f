-- Makes a UUID v7 for plain SQL inserts (clients make their own): 48 bits of milliseconds, then version,
-- variant and 74 random bits. In an installation that has a number, the first ten bits after the variant are the
-- number. Security definer: whoever may insert a job need not read the table.
create function uuid_v7() returns uuid
  language plpgsql volatile parallel safe security definer
  set search_path from current
as $$
declare
  v_bytes bytea := overlay(uuid_send(gen_random_uuid()) placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1);
  v_number constant integer := (select i.number from installation i);
begin
  v_bytes := set_byte(v_bytes, 6, (get_byte(v_bytes, 6) & 15) | 112);
  if v_number is not null then
    v_bytes := set_byte(set_byte(v_bytes, 8, 128 | (v_number >> 4)), 9, ((v_number & 15) << 4) | (get_byte(v_bytes, 9) & 15));
  end if;
  return encode(v_bytes, 'hex')::uuid;
end
$$;

-- Returns the number of the installation that an id names. An id that was made without a number names any one.
create function installation_of(p_id uuid) returns integer
  language sql immutable strict parallel safe
  set search_path from current
as $$
  select ((get_byte(b.bytes, 8) & 63) << 4) | (get_byte(b.bytes, 9) >> 4) from (select uuid_send(p_id) as bytes) b
$$;
