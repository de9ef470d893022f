-- Sends a hint: a NOTIFY on a channel of this installation. While the server's queue of notifications is nearly full, since a
-- session that listens does not read them, it sends none: a commit with one would fail (54000), and losing a hint costs time
-- only. Statements of clients that carry a hint ask for the same.
create function hint(p_channel text, p_payload text default '') returns void
  language plpgsql volatile
  set search_path from current
as $$
begin
  if pg_notification_queue_usage() < 0.9 then
    perform pg_notify(current_schema() || ':' || p_channel, p_payload);
  end if;
end
$$;
