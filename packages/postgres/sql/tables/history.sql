-- Jobs that ended as done, cancelled or expired, partitioned by day in UTC: retention drops whole partitions. Columns
-- of fixed width come first, which saves padding. token: of the settlement that ended the job, also in dead_letter; null:
-- none did.
create table history (
  id              uuid        not null,
  created         timestamptz not null,
  started         timestamptz,
  finished        timestamptz not null,
  priority        integer     not null,
  payload_version integer     not null,
  step            integer,
  tries           smallint    not null,
  crashes         smallint    not null,
  queue           text collate "C" not null,
  task            text collate "C" not null,
  key             text collate "C" not null,
  outcome         text        not null check (outcome in ('done', 'cancelled', 'expired')),
  node            text,
  token           uuid,
  unique_key      text,
  attributes      jsonb       not null,
  payload         jsonb       not null,
  result          jsonb,
  errors          jsonb,
  trace           jsonb,
  flow            uuid,
  settings        jsonb
) partition by range (finished);
comment on column history.settings is 'What retry_flow needs to enqueue a cancelled or expired job of a flow as it was; null for other jobs.';
create index history_id on history (id);
create index history_finished on history (finished);
create index history_flow on history (flow, step) where flow is not null;
-- Takes rows of days that have no partition yet, so that a settlement never fails for lack of one.
create table history_default partition of history default;
alter table history_default replica identity full;
-- For publications that publish partitions as this table: deletes of a subscriber's rows go by its identity.
alter table history replica identity full;
-- Progress of trim_history. kept_at: rows of queues with a shorter retention than the longest have been
-- deleted as of this time; settings: a hash of the retentions that this was done by.
create table history_trim (
  only_row boolean     primary key default true check (only_row),
  settings bigint      not null,
  kept_at  timestamptz not null
);

-- Jobs that gave up, used up their tries, or reached their crash limit. An operator can put them back into
-- QUEUE.
create table dead_letter (
  id              uuid        primary key,
  queue           text collate "C" not null,
  task            text collate "C" not null,
  key             text collate "C" not null,
  priority        integer     not null,
  reason          text        not null check (reason in ('max_tries', 'crash_limit', 'gave_up')),
  tries           smallint    not null,
  max_tries       smallint    not null,
  crashes         smallint    not null,
  max_crashes     smallint    not null,
  created         timestamptz not null,
  died            timestamptz not null,
  timeout         interval,
  payload_version integer     not null,
  node            text,
  token           uuid,
  unique_key      text collate "C",
  attributes      jsonb       not null,
  payload         jsonb       not null,
  retry           jsonb,
  trace           jsonb,
  errors          jsonb       not null,
  flow            uuid,
  step            integer,
  checkpoint      jsonb
);
create index dead_letter_flow on dead_letter (flow, step) where flow is not null;
-- Every row fits its condition, but only queries that say so use it: look-ups by id were planned to read all of it for each
-- id, while statistics told of no row.
create index dead_letter_died on dead_letter (died, id) where died > '-infinity';
