-- Number and name of this installation among several that a router knows, one row; empty: it stands alone. changes
-- counts the changes of route, which all take this row's lock: so they commit in the order of their numbers.
create table installation (
  only_row boolean     primary key default true check (only_row),
  number   smallint    not null check (number between 0 and 1023),
  name     text        not null check (name ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
  changes  bigint      not null default 0
) with (fillfactor = 50);

-- Keys whose home is not the one that their hash says. Each installation keeps a copy; the row of the greatest
-- version counts. moving_from: the installation that still has jobs of the key, while state is moving.
-- change: the count of installation.changes at which the row was written here, so that readers ask for newer ones.
create table route (
  key          text collate "C" primary key check (key <> '' and length(key) <= 200),
  installation smallint    not null check (installation between 0 and 1023),
  version      bigint      not null check (version > 0),
  moving_from  smallint    check (moving_from between 0 and 1023),
  state        text        not null default 'settled' check (state in ('settled', 'moving')),
  change       bigint      not null,
  check ((state = 'moving') = (moving_from is not null))
);
create index route_change on route (change);
comment on table route is 'Homes of keys that were moved. Written by set_route alone; a copy in each installation.';
