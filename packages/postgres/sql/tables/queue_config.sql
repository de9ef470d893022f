-- Settings by queue. Changes take effect at the next tick. A limit that is null does not exist.
create table queue_config (
  queue           text collate "C" primary key check (length(queue) between 1 and 100),
  paused          boolean  not null default false,
  pool            text collate "C" not null default 'default' check (length(pool) between 1 and 100),
  retention       interval not null default interval '7 days' check (retention between interval '0' and interval '3650 days'),
  updated         timestamptz not null default clock_timestamp(),
  concurrency     integer check (concurrency >= 0),
  key_concurrency integer check (key_concurrency >= 0),
  rate            float8 check (rate > 0 and rate < 'Infinity'),
  rate_burst      float8 check (rate_burst >= 1 and rate_burst < 'Infinity'),
  key_rate        float8 check (key_rate > 0 and key_rate < 'Infinity'),
  key_rate_burst  float8 check (key_rate_burst >= 1 and key_rate_burst < 'Infinity'),
  weight          float8 not null default 1 check (weight between 0.000001 and 1000000),
  key_pending     integer check (key_pending between 1 and 100000),
  constraint queue_config_rate_whole check ((rate is null) = (rate_burst is null)),
  constraint queue_config_key_rate_whole check ((key_rate is null) = (key_rate_burst is null))
);
comment on table queue_config is 'What differs from the defaults, by queue: a queue needs no row to exist. Retention 0 keeps no history.';
comment on column queue_config.rate is 'Jobs a second, and at most rate_burst at once: over any window of w seconds at most rate * w + rate_burst are dispatched.';
comment on column queue_config.key_pending is
  'Up to this many jobs of one key may wait or run; a statement that would leave more is refused. Null: no limit. Delayed jobs count when they are due.';
-- Tells settle with one lookup whether any queue keeps no history.
create index queue_config_forgets on queue_config (queue) where retention = '0';
