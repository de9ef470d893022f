import type { JobState, NodeState, Operation } from './model.ts';
import { limits } from './model.ts';
import type { Blocker, Side } from './schedules.ts';
import { tokenOf } from './allowed.ts';

/** The first job has the greater position: what goes by ids and what goes by positions meets them in opposite orders. */
export const jobs = ['00000000-0000-7000-8000-00000000000a', '00000000-0000-7000-8000-00000000000b'] as const;

const tokens: Readonly<Record<string, string>> = {
  t1: '00000000-0000-4000-8000-000000000001',
  t2: '00000000-0000-4000-8000-000000000002',
  ta: '00000000-0000-4000-8000-00000000000a',
  tb: '00000000-0000-4000-8000-00000000000b',
};
export const tokenNames: ReadonlyMap<string, string> = new Map(
  Object.entries(tokens).map(([name, token]) => [token, name]),
);

const incarnations = {
  n1: '00000000-0000-4000-8000-0000000000f1',
  n2: '00000000-0000-4000-8000-0000000000f2',
} as const;

export const leader = 'interleavings';

const all = (values: readonly string[], type: string): string =>
  `array[${values.map((value) => `'${value}'`).join(', ')}]::${type}[]`;
const ids = all(jobs, 'uuid');
const held = `${ids}, ${all([tokens['t1'] ?? '', tokens['t1'] ?? ''], 'uuid')}`;

/** The operation as its one statement: rows of `id` and `told`. */
export function statementOf(operation: Operation, side: Side, epoch: number): string {
  switch (operation.kind) {
    case 'tick':
      return `select x.id, 'scheduled' as told
              from pgqueue.dispatch('${leader}', ${epoch}, ${ids}, null, '{"pool": "default"}', true) d,
                unnest(${ids}) x (id) where x.id <> all (d.missing)`;
    case 'promote':
      return `select null as id, null as told from pgqueue.promote('${leader}', ${epoch}, 10)`;
    case 'claim':
      return `select id, 'claimed' as told
              from pgqueue.claim('${operation.node}', '${incarnations[operation.node]}', 10, '${tokens[tokenOf(side)]}', 1, false)`;
    case 'extend':
      return `select job_id as id, case when cancelled then 'cancelled' else 'held' end as told
              from pgqueue.extend(${held}, array[60000, 60000]::float8[])`;
    case 'settle':
      return `select job_id as id, verdict as told
              from pgqueue.settle(${held}, ${all(operation.outcomes, 'text')}, array[0, 0]::float8[], array['{}', '{}'])`;
    case 'release':
      return `select id, 'released' as told from pgqueue.release(${held}) as id`;
    case 'reset':
      return `select job_id as id, verdict as told from pgqueue.reset_node('n1')`;
    case 'beat':
      return `select x.id, case when alive then 'beats' else 'ended' end as told
              from pgqueue.heartbeat_node('n1', '${incarnations.n1}'), unnest(${ids}) x (id)`;
    case 'leave':
      return `select x.id, 'left' as told from pgqueue.leave_node('n1', '${incarnations.n1}') l, unnest(${ids}) x (id) where l`;
    case 'register':
      return `select x.id, case when accepted then 'registered' else 'refused' end as told
              from pgqueue.register_node('n1', ${tasks}, 10, 'default', 60000, 600000, '', '${tokens[tokenOf(side)]}'), unnest(${ids}) x (id)`;
    case 'lose':
      return `select null as id, null as told from pgqueue.lose_nodes('${leader}', ${epoch})`;
    case 'miss':
      return `select null as id, null as told from pgqueue.lose_nodes('${leader}', ${epoch}, 3000)`;
    case 'steal':
      return `select job_id as id, verdict as told from pgqueue.reap()`;
    case 'cancel':
      return `select job_id as id, verdict as told from pgqueue.cancel(${ids})`;
    case 'redrive':
      return `select id, 'redriven' as told from pgqueue.redrive(${ids}) as id`;
    default:
      return operation satisfies never;
  }
}

export function blockerStatement(blocker: Blocker): string {
  const [table, which] = blocker.split(' ');
  if (table === 'node') return `select from pgqueue.node where id = 'n1' for update`;
  const name = table === 'item' ? 'work_queue' : 'queue';
  return `select from pgqueue.${name} where id = '${jobs[Number(which)]}' for update`;
}

const tasks = `'{"t": {"min": 1, "max": 1, "timeoutMs": 3600000, "isolated": true}}'`;
/** Longer than a node may be silent. */
const silence = `interval '1 h'`;
const ends = { past: `clock_timestamp() - interval '1 s'`, future: `clock_timestamp() + interval '1 h'` };

/** Makes the tables hold two jobs in these states, and two nodes. */
export function setUp(start: readonly [JobState, JobState], n1: NodeState): string {
  const parts = start.flatMap((job, which) => rowsOf(job, which));
  const nodes = (['n1', 'n2'] as const).map(
    (id) =>
      `('${id}', '${incarnations[id]}', 'alive', 10, ${tasks},
        clock_timestamp() - ${id === 'n1' && n1 === 'silent' ? silence : `interval '0'`}, 60000, 600000, clock_timestamp())`,
  );
  const session =
    n1 === 'gone'
      ? `insert into pgqueue.node_session values ('n1', '${incarnations.n1}', 1, 0, pg_postmaster_start_time(), clock_timestamp() - ${silence});`
      : '';
  return `delete from pgqueue.queue; delete from pgqueue.work_queue; delete from pgqueue.history; delete from pgqueue.dead_letter;
    delete from pgqueue.node; delete from pgqueue.node_session; ${session}
    insert into pgqueue.node (id, incarnation, state, slots, tasks, heartbeat, heartbeat_ms, lost_after_ms, started) values ${nodes.join(', ')};
    ${parts.join(';\n')}`;
}

function rowsOf(job: JobState, which: number): readonly string[] {
  const { where, tries, crashes } = job;
  const id = jobs[which] ?? '';
  if (where === 'dead') {
    return [
      `insert into pgqueue.dead_letter (id, queue, task, key, priority, reason, tries, max_tries, crashes, max_crashes, created, died,
         payload_version, attributes, payload, errors)
       values ('${id}', 'default', 't', '', 0, 'max_tries', ${tries}, ${limits.tries}, ${crashes}, ${limits.crashes},
         clock_timestamp(), clock_timestamp(), 1, '{}', '{}', '[]')`,
    ];
  }
  const due = where === 'delayed' ? ends.past : 'null';
  const row = `insert into pgqueue.queue (id, task, tries, max_tries, crashes, max_crashes, run_after)
    values ('${id}', 't', ${tries}, ${limits.tries}, ${crashes}, ${limits.crashes}, ${due})`;
  if (where !== 'ready' && where !== 'running') return [row];
  const lease =
    where === 'ready'
      ? 'null, null, null, null, null'
      : `'${job.node}', '${tokens[job.token ?? '']}', ${job.expired ? ends.past : ends.future}, clock_timestamp(),
         ${job.stop ? 'clock_timestamp()' : 'null'}`;
  return [
    row,
    `insert into pgqueue.work_queue (position, batch, id, version, pool, task, lock_key, lock_token, lock_timeout, started, cancelled, suspect)
     overriding system value values (${which === 0 ? 2 : 1}, 1, '${id}', 1, 'default', 't', ${lease}, ${crashes > 0})`,
  ];
}

/** The two jobs as they are, and n1; one row. */
export const readBack = `
  select (select case when state not in ('alive', 'draining') then 'ended' when incarnation <> '${incarnations.n1}' then 'replaced'
                      when heartbeat < clock_timestamp() - lost_after_ms * interval '1 ms' then 'silent'
                      when exists (select from pgqueue.gone_nodes() g where g = 'n1') then 'gone' else 'beats' end
          from pgqueue.node where id = 'n1') as n1,
    coalesce((select jsonb_object_agg(j.id, jsonb_build_object('where', j.status, 'tries', j.tries, 'crashes', j.crashes, 'token', w.lock_token,
      'node', w.lock_key, 'expired', coalesce(w.lock_timeout <= clock_timestamp(), false), 'stop', w.cancelled is not null))
    from pgqueue.job j left join pgqueue.work_queue w on w.id = j.id), '{}') as jobs,
    (select count(*)::integer from pgqueue.job) as rows`;
