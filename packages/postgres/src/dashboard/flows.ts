import type { RawBuilder } from 'kysely';
import { sql } from 'kysely';
import type { Database } from '../connection/database.ts';
import type { FlowFilter, FlowInfo } from '../reads/flows.ts';
import { readFlowInfos } from '../reads/flows.ts';
import type { Found, WalkLimits } from './walk.ts';
import { pageOfWalks, walked } from './walk.ts';

/** One page of the flows that match a filter. */
export interface FindFlowsOptions extends FlowFilter, WalkLimits {
  /** The `next` of the previous page: a flow's id. */
  readonly after?: string;
}

/** Matching flows, newest first. */
export interface FoundFlows extends Omit<Found, 'ids'> {
  readonly flows: readonly FlowInfo[];
}

/**
 * Finds a page of flows in the order of their ids, newest first. It walks down one index (of open or failed
 * flows, of a name, of a key, or of all ids) for up to `walkMax` flows, so rare matches take several pages.
 */
export async function findFlows(database: Database, options: FindFlowsOptions): Promise<FoundFlows> {
  const { limit } = options;
  const found = await walked(database, { rows: walk(database, options), fits: fits(options), limit });
  const { ids, ...page } = pageOfWalks([found], options);
  return { flows: await readFlowInfos(database, ids), ...page };
}

/**
 * Returns SQL for the newest flows of one index. Ranges of one value, in the order of the index, pin it where
 * an equality would let stale statistics choose the primary key, and so a walk past all others.
 */
function walk(
  { schema }: Database,
  { state, name, key, after, walkMax }: FindFlowsOptions,
): RawBuilder<unknown> {
  const flows = sql.table(`${schema}.flow`);
  const columns = sql`select f.id, f.state, f.name, f.key from ${flows} f`;
  const from = after === undefined ? sql`true` : sql`f.id < ${after}::uuid`;
  // as constants, which the predicates of the partial indexes need
  if (state === 'open') {
    return sql`${columns} where f.state = 'open' and ${from} order by f.id desc limit ${walkMax}`;
  }
  if (state === 'failed') {
    return sql`${columns} where f.state = 'failed' and ${from} order by f.id desc limit ${walkMax}`;
  }
  if (name !== undefined) {
    return sql`${columns} where f.name <> '' and f.name >= ${name} and f.name <= ${name} and ${from} order by f.name desc, f.id desc limit ${walkMax}`;
  }
  if (key !== undefined && key !== '') {
    return sql`${columns} where f.key <> '' and f.key >= ${key} and f.key <= ${key} and ${from} order by f.key desc, f.id desc limit ${walkMax}`;
  }
  return sql`${columns} where ${from} order by f.id desc limit ${walkMax}`;
}

function fits({ state, name, key }: FlowFilter): RawBuilder<boolean> {
  const parts = [
    ...(state === undefined ? [] : [sql`t.state = ${state}`]),
    ...(name === undefined ? [] : [sql`t.name = ${name}`]),
    ...(key === undefined ? [] : [sql`t.key = ${key}`]),
  ];
  return parts.length === 0 ? sql<boolean>`true` : sql<boolean>`${sql.join(parts, sql` and `)}`;
}

/** Counts failed flows, up to `max`. Served by flow_failed. */
export async function countFailedFlows({ query, schema }: Database, max: number): Promise<number> {
  const [row] = await query<{ failed: number }>(
    `select count(*)::integer as failed from (select from ${schema}.flow f where f.state = 'failed' limit $1) f`,
    [max],
  );
  return row?.failed ?? 0;
}

/** Reads the name and key of a flow; undefined: it is no longer kept. */
export async function readFlowNames(
  { query, schema }: Database,
  id: string,
): Promise<{ readonly name: string; readonly key: string } | undefined> {
  const [row] = await query<{ name: string; key: string }>(
    `select f.name, f.key from ${schema}.flow f where f.id = $1::uuid`,
    [id],
  );
  return row;
}

/** End of a job of a step, without its result. */
export interface StepEnd {
  /** Id of the job; null: the value of a signal. */
  readonly job: string | null;
  readonly outcome: 'done' | 'dead' | 'cancelled' | 'expired' | 'erased';
}

/**
 * Lists the ends of a step's jobs in the order of job ids, for roles that may not read results. Served by the
 * primary key of flow_result. Undefined: there is no such step.
 */
export async function listStepEnds(
  { query, schema }: Database,
  {
    flow,
    step,
    after,
    limit,
  }: { readonly flow: string; readonly step: string; readonly after?: string; readonly limit: number },
): Promise<{ readonly items: readonly StepEnd[]; readonly next: string | null } | undefined> {
  const rows = await query<{ job: string | null; outcome: StepEnd['outcome'] | null; isSignal: boolean }>(
    `select r.job::text as job, r.outcome, s.kind = 'signal' as "isSignal"
     from ${schema}.flow_step s left join lateral (
       select r.job, r.outcome from ${schema}.flow_result r
       where r.flow = s.flow and r.step = s.step and ($3::uuid is null or r.job > $3::uuid)
       order by r.flow, r.step, r.job limit $4) r on true
     where s.flow = $1::uuid and s.name = $2 order by r.job`,
    [flow, step, after ?? null, limit + 1],
  );
  if (rows.length === 0) return undefined;
  const ends = rows.flatMap(({ job, outcome, isSignal }) =>
    outcome === null ? [] : [{ job: isSignal ? null : job, outcome }],
  );
  const items = ends.slice(0, limit);
  return { items, next: ends.length > limit ? (items.at(-1)?.job ?? null) : null };
}
