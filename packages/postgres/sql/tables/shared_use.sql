-- Recent use of shares in several installations, of fair orders whose home is this one. uses: amounts by share, as the
-- leader of the installation told them at that time. Unlogged: it is told again within a second.
create unlogged table shared_use (
  name         text collate "C" check (name <> '' and length(name) <= 100),
  installation smallint    not null check (installation between 0 and 1023),
  epoch        bigint      not null,
  uses         json        not null check (octet_length(uses::text) <= 1048576),
  told         timestamptz not null,
  primary key (name, installation)
) with (fillfactor = 50);
comment on table shared_use is 'Recent use of the shares of orders over several installations. Written by share_uses alone.';
