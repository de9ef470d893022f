-- One login for each role, with no more rights than it needs (docs/operations.md, Roles). The image runs this file once, when it makes the
-- database: `pgqueue migrate --roles` comes later, finds the roles, and says what they may.
\getenv scheduler SCHEDULER_PASSWORD
\getenv worker WORKER_PASSWORD
\getenv app APP_PASSWORD
\getenv operator OPERATOR_PASSWORD

create role pgqueue_producer;
create role pgqueue_scheduler;
create role pgqueue_worker;
create role pgqueue_viewer;
create role pgqueue_operator;

create user scheduler password :'scheduler' in role pgqueue_scheduler;
create user worker password :'worker' in role pgqueue_worker;
create user app password :'app' in role pgqueue_producer;
create user operator password :'operator' in role pgqueue_operator;

grant insert on shop_order to app;
