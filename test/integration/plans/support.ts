import { randomUUID } from 'node:crypto';
import pg from 'pg';

/** The fields used of a node of PostgreSQL's EXPLAIN (FORMAT JSON). */
interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Index Cond'?: string;
  readonly 'Index Name'?: string;
  readonly Filter?: string;
  readonly Plans?: readonly PlanNode[];
}

export interface Plan {
  readonly query: string;
  readonly root: PlanNode;
  /** True if PostgreSQL compiled the plan (JIT), a cost at every call without any gain. */
  readonly compiled: boolean;
  /** Leading columns of indexes, by the index's name, as far as they were looked up. */
  readonly leads: ReadonlyMap<string, string>;
}

/** Turns notices of auto_explain into plans. */
function collect(
  plans: Plan[],
  message: string | undefined,
  leads: ReadonlyMap<string, string> = new Map(),
): void {
  const json = message === undefined ? -1 : message.indexOf('{');
  if (message === undefined || !message.startsWith('duration:') || json === -1) return;
  const explained = JSON.parse(message.slice(json)) as {
    readonly 'Query Text': string;
    readonly Plan: PlanNode;
    readonly JIT?: object;
  };
  const { 'Query Text': query, Plan: root, JIT } = explained;
  plans.push({ query, root, compiled: JIT !== undefined, leads });
}

const explaining = {
  'auto_explain.log_min_duration': '0',
  'auto_explain.log_nested_statements': 'on',
  'auto_explain.log_analyze': 'off',
  'auto_explain.log_format': 'json',
  client_min_messages: 'log',
} as const;

/** Opens a session that sends the plan of every statement to the client, those inside functions included. */
export async function openExplained(
  url: string,
  planCacheMode: string,
): Promise<{ readonly client: pg.Client; readonly take: () => readonly Plan[] }> {
  const client = new pg.Client({ connectionString: url });
  const plans: Plan[] = [];
  const leads = new Map<string, string>();
  client.on('notice', ({ message }) => collect(plans, message, leads));
  await client.connect();
  const { rows } = await client.query<{ readonly index: string; readonly lead: string }>(
    `select c.relname as index, a.attname as lead from pg_index i join pg_class c on c.oid = i.indexrelid
     join pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[0]
     where c.relnamespace = 'pgqueue'::regnamespace`,
  );
  for (const { index, lead } of rows) leads.set(index, lead);
  await client.query(`load 'auto_explain'`);
  const settings = { plan_cache_mode: planCacheMode, search_path: 'pgqueue', ...explaining };
  for (const [name, value] of Object.entries(settings)) {
    await client.query('select set_config($1, $2, false)', [name, value]);
  }
  plans.length = 0;
  return { client, take: () => plans.splice(0) };
}

/** Opens a pool whose sessions do so, for reads that take a database. */
export function openExplainedPool(url: string): {
  readonly pool: pg.Pool;
  readonly take: () => readonly Plan[];
} {
  const plans: Plan[] = [];
  const options = Object.entries({ session_preload_libraries: 'auto_explain', ...explaining })
    .map(([name, value]) => `-c ${name}=${value}`)
    .join(' ');
  const pool = new pg.Pool({ connectionString: url, options, max: 4 });
  pool.on('connect', (client) => client.on('notice', ({ message }) => collect(plans, message)));
  return { pool, take: () => plans.splice(0) };
}

const tables = /^(?:queue|work_queue|history\w*|dead_letter|flow|flow_step|flow_tally|flow_result)$/;

/**
 * Returns the parts of a plan that get slower as tables grow: full scans, sequential or along an index, and
 * joins that begin with one. A hash join alone is no problem. If its tables are asked for given ids only, it
 * is the one join whose cost is linear whatever the planner expects; a nested loop may run in the wrong order
 * and read a table once for each id.
 */
export function planProblems({ query, root, compiled, leads }: Plan): readonly string[] {
  const problems = compiled ? [`compiled: ${query.trim().slice(0, 200)}`] : [];
  const visit = (node: PlanNode, parent: PlanNode | undefined): boolean => {
    const own = tables.test(node['Relation Name'] ?? '');
    const below = (node.Plans ?? []).map((child) => visit(child, node));
    const scans = own || below.includes(true);
    const type = node['Node Type'];
    const where = `${type} on ${node['Relation Name'] ?? 'a join'} by ${node['Index Name'] ?? 'none'} in: ${query.trim().slice(0, 200)}`;
    if (own && type === 'Seq Scan') problems.push(where);
    if (scans && type === 'Merge Join') problems.push(where);
    // a full index scan is no better, unless it reads the first entries only: under a limit, and without a
    // filter
    const lead = leads.get(node['Index Name'] ?? '');
    const condition = node['Index Cond'];
    // so is one whose conditions leave the leading column open
    const whole =
      own &&
      type.startsWith('Index') &&
      (condition === undefined || (lead !== undefined && !new RegExp(`\\b${lead}\\b`).test(condition)));
    const first = ['Limit', 'LockRows'].includes(parent?.['Node Type'] ?? '') && node.Filter === undefined;
    // a list of no id "implies" any condition of a partial index; nothing is read
    const nothing = /= ANY \('\{(?:NULL)?\}'/.test(`${condition} ${node.Filter}`);
    if (whole && !first && !nothing) {
      problems.push(`whole ${where}`);
    }
    return scans;
  };
  visit(root, undefined);
  return problems;
}

/**
 * Inserts delayed, pending, ready and running jobs in the shares of a busy queue; some are in batches, a
 * third of which are bundles.
 */
export async function load(client: pg.Client, jobs: number): Promise<void> {
  await client.query(
    `insert into pgqueue.queue (task, queue, key, priority, run_after, expires_at, unique_key)
     select 't', 'q' || n % 3, 'k' || n % 1000, n % 3, case when n % 10 = 0 then clock_timestamp() + (n - $1 / 2) * interval '1 ms' end,
            case when n % 100 = 1 then clock_timestamp() + (n - $1 / 2) * interval '1 ms' end, case when n % 5 = 0 then 'u' || gen_random_uuid() end
     from generate_series(1, $1::integer) n`,
    [jobs],
  );
  await client.query(
    `insert into pgqueue.work_queue (id, version, pool, task, lock_key, lock_token, lock_timeout, started, suspect)
     select q.id, 1, 'default', 't', case when held then 'node' end, case when held then $1::uuid end,
            case when held then clock_timestamp() + (n - 500) * interval '1 s' end, case when held then clock_timestamp() end,
            n % 50 = 3
     from (select q.id, row_number() over (order by q.seq) as n, q.seq % 2 = 0 as held
           from pgqueue.queue q where q.run_after is null and q.expires_at is null limit $2::integer / 20) q
     on conflict do nothing`,
    [tokenOfLoad, jobs],
  );
  // the first jobs have items of their own: the last jobs form batches of ten, every other one held
  await client.query(
    `insert into pgqueue.work_queue (jobs, version, pool, task, together, lock_key, lock_token, lock_timeout, started)
     select array_agg(q.id order by q.n), 1, 'default', 't', case when q.batch % 3 = 0 then q.batch end, case when q.batch % 2 = 0 then 'node' end, case when q.batch % 2 = 0 then $1::uuid end,
            case when q.batch % 2 = 0 then clock_timestamp() + (q.batch - 5) * interval '1 s' end, case when q.batch % 2 = 0 then clock_timestamp() end
     from (select q.id, row_number() over (order by q.seq desc) as n, row_number() over (order by q.seq desc) / 10 as batch
           from pgqueue.queue q where q.run_after is null and q.expires_at is null
           order by q.seq desc limit $2::integer / 50) q
     group by q.batch having count(*) > 1`,
    [tokenOfLoad, jobs],
  );
}

export const tokenOfLoad: string = randomUUID();
