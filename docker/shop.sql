-- The example app's own table, in the same database as the queue: an order and its webhook are one transaction.
create table shop_order (
  id     uuid    primary key,
  tenant text    not null,
  cents  integer not null
);
