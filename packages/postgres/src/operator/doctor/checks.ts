import { schemaVersion } from '../../connection/schema.ts';
import { invariants, jobsOfItems } from './invariants.ts';

export type Severity = 'error' | 'warning';

/** A condition that should hold. */
export interface Expectation {
  readonly name: string;
  readonly says: string;
  readonly severity: Severity;
  /** Remedy: applied by `doctor({ mend: true })` if there is a mend of this name, else left to the reader. */
  readonly remedy: string;
}

/**
 * One question that the doctor asks the database. `find` selects the `id` (text) of each thing that is wrong.
 */
export interface Check extends Expectation {
  readonly find: (schema: string) => string;
}

const ofInvariants: Readonly<Record<(typeof invariants)[number]['name'], string>> = {
  orphan_items: 'removes the work items; nothing can be run for them',
  items_of_delayed_jobs: 'takes back those that are ready; a running job counts as due',
  items_that_differ: 'takes back those that are ready: they are scheduled anew',
  jobs_in_two_items:
    'takes back those that are ready, and where several are leased, all but the first; a node that runs such a job is told that it lost it',
  items_behind_front: 'has all items looked at again; the leading scheduler says anew where they begin',
  jobs_in_two_places:
    'a job that is done leaves QUEUE and DEAD_LETTER, unless it runs; one that waits or runs leaves DEAD_LETTER; HISTORY keeps what is removed, as cancelled',
  leases_of_ended_nodes: 'takes the leases back, as "pgqueue nodes reset" does',
};

/**
 * Indexes that the migrations create, by table. A missing index makes statements slow or wrong; a further one
 * makes every claim pay.
 */
const indexes = {
  queue: [
    'queue_pkey',
    'queue_waiting',
    'queue_due',
    'queue_expiring',
    'queue_unique',
    'queue_retrying',
    'queue_moved',
    'queue_flow',
  ],
  work_queue: [
    'work_queue_pkey',
    'work_queue_id',
    'work_queue_batches',
    'work_queue_suspect',
    'work_queue_cancelled',
  ],
  history: ['history_id', 'history_finished', 'history_flow'],
  dead_letter: ['dead_letter_pkey', 'dead_letter_died', 'dead_letter_flow'],
} as const;

const indexRows = Object.entries(indexes)
  .flatMap(([table, names]) => names.map((name) => `('${table}', '${name}')`))
  .join(', ');

/** SQL for the name of tomorrow's partition of history. */
const tomorrow = `'history_' || to_char((now() at time zone 'UTC')::date + 1, 'YYYYMMDD')`;

const health: readonly Check[] = [
  {
    name: 'expired_leases',
    says: 'no lease ran out more than a minute ago',
    severity: 'error',
    remedy: 'takes them over; find out why no scheduler and no worker did',
    find: (schema) =>
      `select w.id::text as id from ${jobsOfItems(schema)} w where w.lock_timeout < clock_timestamp() - interval '1 minute'`,
  },
  {
    name: 'forgotten_leases',
    says: 'no worker has held leases for over a minute that it knows nothing of',
    severity: 'warning',
    remedy:
      'it should have given them back by itself, as after a failover that lost their settlements: restart it in order, or they last until they end',
    find: (schema) =>
      // other software need not report how many jobs it runs
      `select n.id::text as id from ${schema}.node n
       where n.state in ('alive', 'draining') and n.software like '@pgqueue/worker%'
         and n.heartbeat > clock_timestamp() - n.lost_after_ms * interval '1 millisecond'
         and n.running < (select count(*) from ${jobsOfItems(schema)} w
                          where w.lock_key = n.id and w.started < clock_timestamp() - interval '1 minute'
                            and w.lock_timeout > clock_timestamp())`,
  },
  {
    name: 'moves_that_stand',
    says: 'no move of a key between installations has stood still for over a minute',
    severity: 'warning',
    remedy:
      'run "pgqueue keys move" for it again, to the same installation: it goes on. Its jobs wait until then',
    find: (schema) =>
      `select m.key as id from ${schema}.key_move m
       where m.opened is null and m.advanced < clock_timestamp() - interval '1 minute'`,
  },
  {
    name: 'history_partitions',
    says: "history has tomorrow's partition, and its default partition has nothing of today or later",
    severity: 'error',
    remedy:
      'makes the partitions and moves the rows; a leading scheduler does so by itself, unless the default partition is beyond 64 MB: settlements wait while it is read, so choose a quiet moment',
    find: (schema) =>
      `select name as id from (values (${tomorrow})) v (name)
       where not exists (select from pg_inherits i where i.inhparent = '${schema}.history'::regclass
                           and i.inhrelid = to_regclass('${schema}.' || name))
       union all
       (select 'history_default' where exists (
          select from ${schema}.history_default d where d.finished >= (now() at time zone 'UTC')::date::timestamp at time zone 'UTC'))`,
  },
  {
    name: 'history_lock',
    says: "no session keeps the leading scheduler from making history's partitions",
    severity: 'error',
    remedy:
      'any user of the database can hold that advisory lock: end the session, by pg_terminate_backend(PID)',
    find: (schema) =>
      `select concat('pid ', l.pid, ', user ', a.usename, ', application ', a.application_name) as id
       from (select hashtextextended('${schema}:history', 0) as key) k
       join pg_locks l on l.locktype = 'advisory' and l.objsubid = 1 and l.granted
         and l.database = (select d.oid from pg_database d where d.datname = current_database())
         and l.classid::bigint = (k.key >> 32) & 4294967295 and l.objid::bigint = k.key & 4294967295
       left join pg_stat_activity a on a.pid = l.pid
       where to_regclass('${schema}.' || ${tomorrow}) is null`,
  },
  {
    name: 'invalid_indexes',
    says: 'every index is valid',
    severity: 'error',
    remedy:
      'drop those with _ccnew or _ccold in their names, which a "reindex concurrently" left behind; run "reindex index concurrently" on the others',
    find: (schema) =>
      `select c.relname::text as id from pg_index i join pg_class c on c.oid = i.indexrelid
       where c.relnamespace = '${schema}'::regnamespace and not (i.indisvalid and i.indisready)`,
  },
  {
    name: 'missing_indexes',
    says: 'every index of the migrations exists',
    severity: 'error',
    remedy: 'create them as the files in migrations/ say',
    find: (schema) =>
      `select x.name::text as id from (values ${indexRows}) x (on_table, name)
       where not exists (
         select from pg_index i join pg_class c on c.oid = i.indexrelid join pg_class t on t.oid = i.indrelid
         where t.relnamespace = '${schema}'::regnamespace and t.relname = x.on_table and c.relname = x.name)`,
  },
  {
    name: 'unexpected_indexes',
    says: 'QUEUE and WORK_QUEUE have no further indexes',
    severity: 'warning',
    remedy: 'drop them, or expect slower claims: an index on a lease column ends HOT updates',
    find: (schema) =>
      `select c.relname::text as id
       from pg_index i join pg_class c on c.oid = i.indexrelid join pg_class t on t.oid = i.indrelid
       where t.relnamespace = '${schema}'::regnamespace and t.relname in ('queue', 'work_queue')
         and (t.relname::text, c.relname::text) not in (values ${indexRows})`,
  },
  {
    name: 'unlogged_tables',
    says: 'a crash of the server empties no table that has to last',
    severity: 'error',
    remedy:
      'run "alter table … set logged" on them: until then, a crash or a failover loses all that is in them',
    find: (schema) =>
      `select c.relname::text as id from pg_class c
       where c.relnamespace = '${schema}'::regnamespace and c.relkind = 'r' and c.relpersistence = 'u' and c.relname not in ('explain_request', 'leader_session', 'node_session', 'reached', 'settlement', 'shared_use')`,
  },
  {
    name: 'open_to_public',
    says: 'PUBLIC can execute no function, and read no table',
    severity: 'error',
    remedy: 'revokes those rights from PUBLIC',
    find: (schema) =>
      `select p.oid::regprocedure::text as id from pg_proc p
       where p.pronamespace = '${schema}'::regnamespace and has_function_privilege('public', p.oid, 'execute')
       union all
       select c.oid::regclass::text from pg_class c
       where c.relnamespace = '${schema}'::regnamespace and c.relkind in ('r', 'p', 'v')
         and has_table_privilege('public', c.oid, 'select, insert, update, delete')`,
  },
  {
    name: 'roles_without_rights',
    says: 'where some roles of the schema may use it, all of them may',
    severity: 'error',
    remedy: 'run "pgqueue migrate --roles": until then all that their programs ask for is refused',
    find: (schema) =>
      `select r.name as id
       from (select a.rolname::text as name, p.may, bool_or(p.may) over () as any_may
             from unnest(array['producer', 'scheduler', 'worker', 'viewer', 'operator']) as x (kind)
             join pg_roles a on a.rolname = '${schema}_' || x.kind, has_schema_privilege(a.oid, '${schema}', 'usage') as p (may)) r
       where r.any_may and not r.may`,
  },
  {
    name: 'old_snapshot',
    says: 'no session has held vacuum back for a minute, by a snapshot or by what it has written',
    severity: 'warning',
    remedy:
      'what ended since stays in the tables, and each look passes more of it: end the session, by pg_terminate_backend(PID)',
    find: () =>
      `select concat('pid ', a.pid, ', user ', a.usename, ', application ', a.application_name) as id
       from pg_stat_activity a
       where coalesce(a.backend_xmin, a.backend_xid) is not null and a.usesysid is not null and a.pid <> pg_backend_pid()
         and a.datname = current_database() and a.xact_start < clock_timestamp() - interval '1 minute'`,
  },
  {
    name: 'hidden_snapshots',
    says: 'this user sees for how long other sessions have held vacuum back',
    severity: 'warning',
    remedy:
      'an old snapshot is not told of, here, by "pgqueue status" and by metrics: as an administrator, grant pg_read_all_stats to the schema\'s roles (_scheduler, _operator; not _viewer, whom it would show payloads in the statements of others), or to the users of these programs',
    find: () =>
      `select distinct concat('sessions of ', a.usename) as id from pg_stat_activity a
       where a.datname = current_database() and a.usesysid is not null and a.pid <> pg_backend_pid()
         and not pg_has_role('pg_read_all_stats', 'usage') and not pg_has_role(a.usesysid, 'usage')`,
  },
  {
    name: 'full_notify_queue',
    says: "the server's queue of notifications is less than half full",
    severity: 'warning',
    remedy:
      "a session that listens reads none, in any database: one that stays in a transaction, or whose client stands still; the log of the server names it: end it, by pg_terminate_backend(PID). Nearly full, hints are not sent, and jobs start a second later; full, other programs' commits with a NOTIFY fail",
    find: () =>
      `select concat(round(u.used * 100), ' % full') as id from (select pg_notification_queue_usage()::numeric as used) u where u.used >= 0.5`,
  },
  {
    name: 'schema_version',
    says: 'every migration of this package is applied, and none that it does not know',
    severity: 'warning',
    remedy: 'run "pgqueue migrate", or upgrade the packages that are behind',
    find: (schema) =>
      `select 'version ' || max(version) as id from ${schema}.migration having max(version) <> ${schemaVersion.knows}`,
  },
  {
    name: 'no_leader',
    says: 'a scheduler leads while jobs wait',
    severity: 'error',
    remedy: 'start one: "pgqueue scheduler"',
    find: (schema) =>
      `select coalesce(l.leader, 'nobody') as id from ${schema}.scheduler_lease l
       where l.expires < clock_timestamp() - interval '1 minute'
         and exists (select from ${schema}.queue q
                     where q.created < clock_timestamp() - interval '1 minute'
                       and (q.run_after is null or q.run_after < clock_timestamp() - interval '1 minute'))`,
  },
  {
    name: 'silent_leader',
    says: 'the scheduler that leads has reported in the last 90 seconds',
    severity: 'error',
    remedy: 'it holds the lease, but plans nothing, or can not write its plans: look at its log',
    find: (schema) =>
      `select l.leader as id from ${schema}.scheduler_report r join ${schema}.scheduler_lease l on (l.leader, l.epoch) = (r.leader, r.epoch)
       where l.expires > clock_timestamp() and r.written < clock_timestamp() - interval '90 seconds'`,
  },
  {
    name: 'policies_that_differ',
    says: 'all schedulers have the same policy',
    severity: 'warning',
    remedy: 'other rules hold once another one leads: stop those with the older policy',
    find: (schema) =>
      `select concat(p.scheduler, ' with ', p.policy) as id from ${schema}.scheduler_policy p
       where p.seen > clock_timestamp() - interval '1 minute'
         and exists (select from ${schema}.scheduler_policy o
                     where o.seen > clock_timestamp() - interval '1 minute' and (o.policy, o.parts) <> (p.policy, p.parts))`,
  },
  {
    name: 'unreadable_rows',
    says: 'the leading scheduler can read all jobs, nodes and settings that it looks at',
    severity: 'error',
    remedy:
      'it leaves them out, and "pgqueue status" says why: delete or amend the job, register the node again, set the queue again',
    find: (schema) =>
      `select concat_ws(' ', u.kind, u.id) as id
       from ${schema}.scheduler_report r join ${schema}.scheduler_lease l on l.leader = r.leader and l.epoch = r.epoch
       cross join jsonb_to_recordset(coalesce(r.report -> 'unreadable', '[]')) as u (kind text, id text)
       where l.expires > clock_timestamp()`,
  },
  {
    name: 'overdue_schedules',
    says: 'no schedule is overdue by more than a minute',
    severity: 'error',
    remedy: 'a leading scheduler fires them: look at its log',
    find: (schema) =>
      `select s.name::text as id from ${schema}.schedule s
       where not s.paused and coalesce(s.next_slot, s.since) < clock_timestamp() - interval '1 minute'`,
  },
];

/** SQL that is true while a scheduler leads. */
function isLed(schema: string): string {
  return `exists (select from ${schema}.scheduler_lease l where l.expires > clock_timestamp())`;
}

/** SQL for the steps of jobs that are open without a job left, and that the leader is not about to look at. */
export function idleSteps(schema: string): string {
  return `select s.flow, s.step from ${schema}.flow_step s
    where s.kind = 'jobs' and s.state = 'open' and s.unreleased = 0 and s.opened < clock_timestamp() - interval '1 minute'
      and not exists (select from ${schema}.queue q where q.flow = s.flow and q.step = s.step)
      and not exists (select from ${schema}.flow_tally t where t.flow = s.flow)`;
}

/** SQL for the flows that are open without a step left, and that the leader is not about to look at. */
export function endlessFlows(schema: string): string {
  return `select f.id from ${schema}.flow f
    where f.state = 'open'
      and not exists (select from ${schema}.flow_step s where s.flow = f.id and s.ended is null)
      and not exists (select from ${schema}.flow_tally t where t.flow = f.id)`;
}

/** Tables whose rows go with their flow. */
export const tablesOfFlows = ['flow_step', 'flow_result'] as const;

const ofFlows: readonly Check[] = [
  {
    name: 'jobs_of_gone_flows',
    says: 'every job of a flow has its step',
    severity: 'warning',
    remedy: 'makes them jobs without a flow, which run as they are',
    find: (schema) =>
      `select q.id::text as id from ${schema}.queue q
       where q.flow is not null and not exists (select from ${schema}.flow_step s where s.flow = q.flow and s.step = q.step)`,
  },
  {
    name: 'idle_steps',
    says: 'no step is open without a job for over a minute while a scheduler leads',
    severity: 'error',
    remedy: 'has the leading scheduler look at them: a tally of their jobs is missing',
    find: (schema) =>
      `select concat(i.flow, ' step ', i.step) as id from (${idleSteps(schema)}) i where ${isLed(schema)}`,
  },
  {
    name: 'late_tallies',
    says: 'no tally of a flow waits for over a minute while a scheduler leads',
    severity: 'error',
    remedy:
      'the leading scheduler takes them: look at its log, and end a session that holds a lock on the row of the flow',
    find: (schema) =>
      `select distinct t.flow::text as id from ${schema}.flow_tally t
       where t.at < clock_timestamp() - interval '1 minute' and ${isLed(schema)}`,
  },
  {
    name: 'endless_flows',
    says: 'a flow whose steps have all ended has ended',
    severity: 'error',
    remedy: 'has the leading scheduler end them',
    find: (schema) => `select e.id::text as id from (${endlessFlows(schema)}) e`,
  },
  {
    name: 'unreleased_jobs',
    says: 'a step that is done has enqueued all of its jobs',
    severity: 'error',
    remedy: 'they never ran, and stand in flow_step.jobs: enqueue them, or start the flow again',
    // steps that were skipped or cancelled keep theirs for a retry
    find: (schema) =>
      `select concat(s.flow, ' step ', s.step) as id from ${schema}.flow_step s
       where s.unreleased > 0 and s.outcome = 'done'`,
  },
  {
    name: 'rows_of_gone_flows',
    says: 'nothing is kept of a flow that is gone',
    severity: 'warning',
    remedy: 'deletes its steps, needs, jobs that were never enqueued, and results',
    find: (schema) =>
      tablesOfFlows
        .map(
          (table) =>
            `select concat(t.flow, ' in ${table}') as id from (select distinct t.flow from ${schema}.${table} t) t
             where not exists (select from ${schema}.flow f where f.id = t.flow)`,
        )
        .join(' union all '),
  },
];

/**
 * Checked here and not in SQL, since the database can't read cron expressions. A schedule that was set by SQL
 * has not been checked before.
 */
export const readableSchedules: Expectation = {
  name: 'unreadable_schedules',
  says: 'every schedule has a cron expression and a time zone by which it can come',
  severity: 'error',
  remedy: 'it never enqueues a job: set it again, or remove it',
};

/** All questions of the doctor, invariants first. */
export const checks: readonly Check[] = [
  ...invariants.map(({ name, says, find }): Check => ({
    name,
    says,
    severity: 'error',
    remedy: ofInvariants[name],
    find,
  })),
  ...health,
  ...ofFlows,
];
