-- The policy's saved state: one row for each part (gate or order) that has a state, such as the levels of rates.
-- Written with each batch that it accounts for, and read by a new leader.
create table policy_state (
  part  text        primary key,
  state jsonb       not null,
  saved timestamptz not null
) with (fillfactor = 50);
