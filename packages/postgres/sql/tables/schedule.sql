-- since: its slots count from then on until the first is planned; it was set then, got another expression or was resumed.
-- last_slot: the slot that was enqueued last; it and earlier ones are not enqueued again. retry_after: time before which it is not tried, since it failed; next_slot stays due meanwhile.
create table schedule (
  name        text collate "C" primary key check (length(name) between 1 and 200),
  cron        text        not null check (length(cron) <= 200),
  timezone    text        not null default 'UTC' check (length(timezone) <= 100),
  task        text        not null check (length(task) between 1 and 200),
  payload     jsonb       not null default '{}',
  options     jsonb       not null default '{}' check (jsonb_typeof(options) = 'object'),
  paused      boolean     not null default false,
  since       timestamptz not null default clock_timestamp() check (isfinite(since)),
  next_slot   timestamptz check (isfinite(next_slot)),
  last_slot   timestamptz check (isfinite(last_slot)),
  retry_after timestamptz,
  updated     timestamptz not null default clock_timestamp()
);
