import type { BatchOperation } from './batch-model.ts';
import { isOfBatches, one, out } from './batch-model.ts';
import type { JobState, NodeState } from './job.ts';
import { limits } from './job.ts';
import type { JobOperation, Operation } from './model.ts';
import type { Blocker, Side } from './schedules.ts';
import { tokenOf } from './allowed.ts';

const ids = ['a', 'b', 'c'].map((last) => `00000000-0000-7000-8000-00000000000${last}`);

/**
 * Returns the ids of the jobs. The first job has the greatest position: operations by id and operations by
 * position meet the jobs in opposite orders.
 */
export function jobsOf(start: readonly JobState[]): readonly string[] {
  return ids.slice(0, start.length);
}

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
const t1 = `'${tokens['t1']}'::uuid`;

/** Position of the batch at the start, and of its rest after the first job was taken out. */
const places = { whole: 512, rest: 516 } as const;
const sizes = { whole: 3, rest: 2 } as const;

interface Speaker {
  readonly side: Side;
  readonly epoch: number;
}

/** Returns the operation as one statement, whose rows have `id` and `told`. */
export function statementOf(operation: Operation, jobs: readonly string[], speaker: Speaker): string {
  return isOfBatches(operation)
    ? batchStatementOf(operation, jobs, speaker)
    : jobStatementOf(operation, jobs, speaker);
}

function ticked(jobs: readonly string[], epoch: number, rows: string): string {
  const ids = all(jobs, 'uuid');
  return `select x.id, 'scheduled' as told
          from pgqueue.dispatch('${leader}', ${epoch}, ${ids}, null, '{"pool": "default"${rows}}', true) d,
            unnest(${ids}) x (id) where x.id <> all (d.missing)`;
}

function jobStatementOf(operation: JobOperation, jobs: readonly string[], { side, epoch }: Speaker): string {
  const ids = all(jobs, 'uuid');
  const held = `${ids}, array_fill(${t1}, array[${jobs.length}])`;
  const each = (value: string): string =>
    all(
      jobs.map(() => value),
      'text',
    );
  switch (operation.kind) {
    case 'tick':
      return ticked(jobs, epoch, '');
    case 'promote':
      return `select null as id, null as told from pgqueue.promote('${leader}', ${epoch}, 10)`;
    case 'claim':
      return `select id, 'claimed' as told
              from pgqueue.claim('${operation.node}', '${incarnations[operation.node]}', 10, '${tokens[tokenOf(side)]}', 1, false)`;
    case 'extend':
      return `select job_id as id, case when cancelled then 'cancelled' else 'held' end as told
              from pgqueue.extend(${held}, ${each('60000')}::float8[])`;
    case 'settle':
      return `select job_id as id, verdict as told
              from pgqueue.settle(${held}, ${all(operation.outcomes, 'text')}, ${each('0')}::float8[], ${each('{}')})`;
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

/**
 * Returns the statement of an operation on batches, with parameters as nodes send them: positions, tokens,
 * sizes.
 */
function batchStatementOf(
  operation: BatchOperation,
  jobs: readonly string[],
  { side, epoch }: Speaker,
): string {
  const ids = all(jobs, 'uuid');
  const taken = (some: string): string =>
    `select id, 'back' as told from pgqueue.take_back('${leader}', ${epoch}, ${some}) as id`;
  switch (operation.kind) {
    case 'tickTogether':
      return ticked(jobs, epoch, `, "rows": "{${jobs.map(() => 1).join(',')}}"`);
    case 'takeBack':
      return taken(ids);
    case 'takeBackOne':
      return taken(`array['${jobs[one]}']::uuid[]`);
    case 'claimRows':
      return `select (j ->> 0)::uuid as id, 'claimed' as told
              from pgqueue.claim_rows('${operation.node}', '${incarnations[operation.node]}', '${tokens[tokenOf(side)]}', '{"max": 10, "ahead": 2, "from": 1, "reap": false}') c,
                jsonb_array_elements(c.jobs::jsonb) j`;
    case 'settleRows': {
      const [place, size] = [places[operation.of], sizes[operation.of]];
      return `select x.id, 'done' as told
              from pgqueue.settle_rows(array[${place}], array[${t1}], array[${size}], array_fill(1::float4, array[${size}])) s,
                unnest(${membersOf(operation.of, jobs)}) x (id) where s = array[${place}]::bigint[]`;
    }
    case 'releaseRows':
      return `select x.id, 'released' as told
              from pgqueue.release_rows(array[${places[operation.of]}], array[${t1}]) r, unnest(${membersOf(operation.of, jobs)}) x (id) where r = 1`;
    case 'takeOut':
      return `select x.id, 'rest' as told
              from pgqueue.take_out(${places.whole}, ${t1}, array['${jobs[out]}']::uuid[]) r, unnest(${membersOf('rest', jobs)}) x (id) where r = ${places.rest}`;
    case 'takeApart':
      return `select null as id, null as told from pgqueue.take_out(${places.whole}, ${t1})`;
    case 'progress':
      return `select '${jobs[out]}' as id, 'kept' as told from pgqueue.report_progress('${jobs[out]}', ${t1}, '1') r where r`;
    case 'checkpoint':
      return `select '${jobs[out]}' as id, 'kept' as told from pgqueue.save_checkpoint('${jobs[out]}', ${t1}, '1') r where r`;
    case 'cancelOne':
      return `select job_id as id, verdict as told from pgqueue.cancel(array['${jobs[one]}']::uuid[])`;
    case 'releaseClaim':
      return `select null as id, null as told from pgqueue.release_claim('n1', '${incarnations.n1}', ${t1})`;
    case 'beatHolding':
      return `select x.id, case when not alive then 'ended' when x.n = any (lost) then 'lost' else 'held' end as told
              from pgqueue.heartbeat_node('n1', '${incarnations.n1}', 0, false, ${ids}, array_fill(${t1}, array[${jobs.length}])),
                unnest(${ids}) with ordinality as x (id, n)`;
    default:
      return operation satisfies never;
  }
}

function membersOf(row: 'whole' | 'rest', jobs: readonly string[]): string {
  return all(row === 'whole' ? jobs : jobs.filter((_id, which) => which !== out), 'uuid');
}

export function blockerStatement(blocker: Blocker): string {
  const [table, which] = blocker.split(' ');
  if (table === 'node') return `select from pgqueue.node where id = 'n1' for update`;
  const id = ids[Number(which)];
  return table === 'item'
    ? `select from pgqueue.work_queue where id = '${id}' or '${id}' = any (jobs) for update`
    : `select from pgqueue.queue where id = '${id}' for update`;
}

const tasks = `'{"t": {"min": 1, "max": 1, "timeoutMs": 3600000, "isolated": true}}'`;
/** A silence longer than any node's limit. */
const silence = `interval '1 h'`;
const ends = { past: `clock_timestamp() - interval '1 s'`, future: `clock_timestamp() + interval '1 h'` };

/** Returns SQL that fills the tables with jobs in these states, and two nodes. */
export function setUp(start: readonly JobState[], n1: NodeState): string {
  const parts = [...start.flatMap((job, which) => rowOf(job, which) ?? []), ...itemsOf(start)];
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

function rowOf({ where, tries, crashes }: JobState, which: number): string {
  const id = ids[which] ?? '';
  if (where === 'dead') {
    return `insert into pgqueue.dead_letter (id, queue, task, key, priority, reason, tries, max_tries, crashes, max_crashes, created, died,
         payload_version, attributes, payload, errors)
       values ('${id}', 'default', 't', '', 0, 'max_tries', ${tries}, ${limits.tries}, ${crashes}, ${limits.crashes},
         clock_timestamp(), clock_timestamp(), 1, '{}', '{}', '[]')`;
  }
  const due = where === 'delayed' ? ends.past : 'null';
  return `insert into pgqueue.queue (id, task, tries, max_tries, crashes, max_crashes, run_after)
    values ('${id}', 't', ${tries}, ${limits.tries}, ${crashes}, ${limits.crashes}, ${due})`;
}

/** Returns inserts of the work items. The jobs of a batch are in the opposite order of their ids. */
function itemsOf(start: readonly JobState[]): readonly string[] {
  const first = start.length === sizes.whole ? places.whole : 0;
  const batches = new Map<'whole' | 'rest', string[]>();
  const items: string[] = [];
  for (const [which, job] of start.entries()) {
    if (job.where !== 'ready' && job.where !== 'running') continue;
    const { row } = job;
    const id = ids[which] ?? '';
    if (row === 'own' || row === 'new') {
      const position = first + start.length - which;
      items.push(itemOf(job, { position, id: `'${id}'`, jobs: 'null', suspect: job.crashes > 0 }));
      continue;
    }
    const members = [id, ...(batches.get(row) ?? [])];
    batches.set(row, members);
    if (members.length === sizes[row])
      items.push(
        itemOf(job, { position: places[row], id: 'null', jobs: all(members, 'uuid'), suspect: false }),
      );
  }
  return items;
}

function itemOf(
  { where, node, token, expired, stop }: JobState,
  item: { readonly position: number; readonly id: string; readonly jobs: string; readonly suspect: boolean },
): string {
  const { position, id, jobs, suspect } = item;
  const lease =
    where === 'ready'
      ? 'null, null, null, null, null'
      : `'${node}', '${tokens[token ?? '']}', ${expired ? ends.past : ends.future}, clock_timestamp(),
         ${stop ? 'clock_timestamp()' : 'null'}`;
  return `insert into pgqueue.work_queue (position, id, jobs, version, pool, task, lock_key, lock_token, lock_timeout, started, cancelled, suspect)
     overriding system value values (${position}, ${id}, ${jobs}, 1, 'default', 't', ${lease}, ${suspect})`;
}

export interface ReadBack {
  readonly n1: NodeState;
  /** Number of rows of jobs, in any table. */
  readonly rows: number;
  /**
   * Number of rows in the batch's range of positions that neither the batch nor its parts should have there.
   */
  readonly misplaced: number;
  readonly jobs: Readonly<Record<string, JobState>>;
}

const [a, b, c] = ids;
/**
 * Condition that a row is where the batch or a part of it belongs: the batch, its single jobs in order, or
 * the rest and its jobs.
 */
const inPlace = `(w.position, coalesce(w.jobs, array[w.id])) in (
  (${places.whole}, array['${c}', '${b}', '${a}']::uuid[]), (${places.whole + 1}, array['${c}']::uuid[]), (${places.whole + 2}, array['${b}']::uuid[]),
  (${places.whole + 3}, array['${a}']::uuid[]), (${places.rest}, array['${c}', '${b}']::uuid[]), (${places.rest + 1}, array['${c}']::uuid[]),
  (${places.rest + 2}, array['${b}']::uuid[]))`;

/** Selects the current state of the jobs and n1: one row, a {@link ReadBack}. */
export const readBack = `
  select (select case when state not in ('alive', 'draining') then 'ended' when incarnation <> '${incarnations.n1}' then 'replaced'
                      when heartbeat < clock_timestamp() - lost_after_ms * interval '1 ms' then 'silent'
                      when exists (select from pgqueue.gone_nodes() g where g = 'n1') then 'gone' else 'beats' end
          from pgqueue.node where id = 'n1') as n1,
    coalesce((select jsonb_object_agg(j.id, jsonb_build_object('where', j.status, 'tries', j.tries, 'crashes', j.crashes, 'token', w.lock_token,
      'node', w.lock_key, 'expired', coalesce(w.lock_timeout <= clock_timestamp(), false), 'stop', w.cancelled is not null, 'row',
      case when i.jobs is null then 'own' when i.position = ${places.whole} then 'whole' when i.position < ${places.whole + 256} then 'rest' else 'new' end))
    from pgqueue.job j left join pgqueue.work_item w on w.id = j.id left join pgqueue.work_queue i on i.position = w.position), '{}') as jobs,
    (select count(*)::integer from pgqueue.work_queue w where w.position between ${places.whole} and ${places.whole + 255} and not ${inPlace}) as misplaced,
    (select count(*)::integer from pgqueue.job) as rows`;
