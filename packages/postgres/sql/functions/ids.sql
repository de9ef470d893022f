-- Makes a UUID v7 for plain SQL inserts (clients make their own): 48 bits of milliseconds, then version,
-- variant and 74 random bits. In an installation that has a number, the first ten bits after the variant are the
-- number. Security definer: whoever may insert a job need not read the table.
create function uuid_v7() returns uuid
  language sql volatile parallel safe security definer
  set search_path from current
as $$
  select encode(
    substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
      || case when i.number is null then t.bits
              else set_byte(set_byte(t.bits, 2, 128 | (i.number >> 4)), 3, ((i.number & 15) << 4) | (get_byte(t.bits, 3) & 15)) end, 'hex')::uuid
  from (select set_byte(substring(r.bits from 7), 0, (get_byte(r.bits, 6) & 15) | 112) as bits
        from (select uuid_send(gen_random_uuid()) as bits) r) t
  left join installation i on i.only_row
$$;

-- Returns the number of the installation that an id names. An id that was made without a number names any one.
create function installation_of(p_id uuid) returns integer
  language sql immutable strict parallel safe
  set search_path from current
as $$
  select ((get_byte(b.bytes, 8) & 63) << 4) | (get_byte(b.bytes, 9) >> 4) from (select uuid_send(p_id) as bytes) b
$$;
