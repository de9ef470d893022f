-- One status per job, in whichever table its row is; one that is on its way to another installation waits. Without
-- payloads and results: those are in the tables.
create view job as
  select q.id, case when w.id is null and q.run_after is not null then 'delayed' when w.id is null then 'pending'
                    when w.lock_key is null then 'ready' else 'running' end as status,
         q.queue, q.task, q.key, q.priority, q.attributes, q.tries, q.max_tries, q.crashes, q.max_crashes, q.run_after,
         q.expires_at, q.timeout, q.unique_key, q.payload_version, q.trace, q.created, w.position, w.pool,
         w.lock_key as node, w.started, w.lock_timeout, w.cancelled, w.progress, null::timestamptz as finished,
         null::text as reason, q.errors -> -1 as last_error, q.errors,
         q.checkpoint is not null as has_checkpoint, coalesce(w.suspect, q.crashes > 0) as suspect, q.flow, q.step
  from queue q left join work_item w on w.id = q.id
  union all
  select o.id, case when q.run_after is not null then 'delayed' else 'pending' end, q.queue, q.task, q.key, q.priority, q.attributes,
         q.tries, q.max_tries, q.crashes, q.max_crashes, q.run_after, q.expires_at, q.timeout, q.unique_key, q.payload_version, q.trace,
         q.created, null, null, null, null, null, null, null, null, null, q.errors -> -1, q.errors, q.checkpoint is not null,
         q.crashes > 0, null, null
  from handover o cross join lateral json_populate_record(null::queue, o.job) q where o.id is not null
  union all
  select d.id, 'dead', d.queue, d.task, d.key, d.priority, d.attributes, d.tries, d.max_tries, d.crashes, d.max_crashes, null,
         null, d.timeout, d.unique_key, d.payload_version, d.trace, d.created, null, null,
         d.node, null, null, null, null, d.died, d.reason, d.errors -> -1, d.errors, d.checkpoint is not null, false, d.flow, d.step
  from dead_letter d
  union all
  select h.id, h.outcome, h.queue, h.task, h.key, h.priority, h.attributes, h.tries, null, h.crashes, null, null,
         null, null, h.unique_key, h.payload_version, h.trace, h.created, null, null,
         h.node, h.started, null, null, null, h.finished, null, h.errors -> -1, h.errors, false, false, h.flow, h.step
  from history h;

-- Counts of held jobs by reason, for monitoring. at: the time of the report; compare it with the clock.
create view queue_held as
  select q.key as queue, r.key as reason, r.value::text::float8::bigint as jobs, s.written as at
  from scheduler_report s, jsonb_each(s.report -> 'held') q, jsonb_each(q.value) r;

-- Three numbers of a queue's health, and its depth. oldest_s: age of the oldest job that could run and
-- doesn't; claim_age_s: age of the oldest lease; retry_rate: failed attempts as a share of all attempts.
-- exact: all jobs were counted. window_s: the seconds that failed, attempts and retry_rate cover; done_5m and
-- dead_5m are extrapolated from it if it is shorter than five minutes.
create view queue_status as
  select (n.queue collate "C") as queue, coalesce(c.paused, false) as paused, (coalesce(c.pool, 'default') collate "C") as pool,
         n.delayed, n.pending, n.ready, n.running, n.dead, n.oldest_s, n.claim_age_s,
         n.failed::float8 / nullif(n.attempts, 0) as retry_rate,
         round(n.done * 300 / n.window_s)::bigint as done_5m, round(n.died * 300 / n.window_s)::bigint as dead_5m,
         n.exact, n.window_s, n.failed, n.attempts
  from queue_numbers() n left join queue_config c on c.queue = n.queue;

-- The whole installation in one row, for monitoring. leader: null when no scheduler leads; lost_nodes: nodes
-- lost within the last day; tick_p50_s and tick_p99_s: null when the last report is another leader's, or
-- older than 90 seconds.
create view overview as
  select q.delayed, q.pending, q.ready, q.running, q.dead, q.exact, q.oldest_s, q.claim_age_s,
         q.failed::float8 / nullif(q.attempts, 0) as retry_rate, q.done_5m, q.dead_5m,
         case when l.expires > clock_timestamp() then l.leader end as leader, l.epoch,
         n.alive as alive_nodes, n.draining as draining_nodes, n.lost as lost_nodes, n.slots,
         (r.report -> 'ticks' ->> 'p50Ms')::float8 / 1000 as tick_p50_s, (r.report -> 'ticks' ->> 'p99Ms')::float8 / 1000 as tick_p99_s
  from (select coalesce(sum(s.delayed), 0)::bigint as delayed, coalesce(sum(s.pending), 0)::bigint as pending,
               coalesce(sum(s.ready), 0)::bigint as ready, coalesce(sum(s.running), 0)::bigint as running,
               coalesce(sum(s.dead), 0)::bigint as dead, coalesce(bool_and(s.exact), true) as exact, max(s.oldest_s) as oldest_s,
               max(s.claim_age_s) as claim_age_s, sum(s.failed) as failed, sum(s.attempts) as attempts,
               coalesce(sum(s.done_5m), 0)::bigint as done_5m, coalesce(sum(s.dead_5m), 0)::bigint as dead_5m
        from queue_status s) q
  cross join scheduler_lease l
  cross join (select count(*) filter (where n.state = 'alive') as alive, count(*) filter (where n.state = 'draining') as draining,
                     count(*) filter (where n.state = 'lost') as lost,
                     coalesce(sum(n.slots) filter (where n.state = 'alive'), 0)::bigint as slots
              from node n) n
  left join scheduler_report r on r.leader = l.leader and r.epoch = l.epoch and l.expires > clock_timestamp()
    and r.written > clock_timestamp() - interval '90 seconds';
