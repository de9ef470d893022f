import type { Codec, CodecPlace } from '@pgqueue/core';
import { isUuid } from '@pgqueue/core/internal';
import type { SelectQueryBuilder } from 'kysely';
import { sql } from 'kysely';
import type { Database } from '../connection/database.ts';
import type { Tables } from '../connection/tables.ts';
import type { Target } from '../connection/target.ts';
import type { Page } from './page.ts';
import { badCursor, checkLimit, checkTexts, pageOf } from './page.ts';

/** State of a flow. Failed: a step failed or was cancelled, and no other step takes that as its end. */
export type FlowStatus = (typeof flowStates)[number];

export const flowStates = ['open', 'done', 'failed', 'cancelled'] as const;

/** Numbers of a flow's steps and jobs, as the leading scheduler counted them last. */
export interface FlowProgress {
  readonly steps: number;
  readonly stepsEnded: number;
  /** Jobs of all steps, also of those that are still blocked. */
  readonly added: number;
  readonly done: number;
  /** Dead jobs. */
  readonly dead: number;
  /** Jobs that were cancelled, expired or erased. */
  readonly other: number;
}

/** A flow in listings. */
export interface FlowInfo {
  readonly id: string;
  readonly name: string;
  readonly key: string;
  /** Unique among the open flows of its name; null: it has none. */
  readonly uniqueKey: string | null;
  readonly state: FlowStatus;
  /** Reason of its failure or cancellation, for people. */
  readonly reason: string | null;
  readonly created: Date;
  /** Time since it was created, in milliseconds, by the database's clock. */
  readonly ageMs: number;
  readonly deadline: Date | null;
  /** Time at which its cancellation was asked for. It is open until the last of its jobs has ended. */
  readonly stopping: Date | null;
  readonly ended: Date | null;
  /** Job that waits for the flow's end without a slot, or has waited; null: none. */
  readonly waiter: string | null;
  readonly progress: FlowProgress;
}

/** A step that another one waits for. */
export interface NeedInfo {
  /** Number of the needed step. */
  readonly step: number;
  readonly name: string;
  /** Outcome that meets the need: `done`, `failed` (or cancelled), or any (`ended`). */
  readonly condition: 'done' | 'ended' | 'failed';
}

/** A step of a flow. */
export interface StepInfo {
  /** Its number: steps are numbered from 0, each behind those that it needs. */
  readonly step: number;
  readonly name: string;
  readonly kind: 'jobs' | 'signal' | 'timer';
  readonly state: 'blocked' | 'open' | 'ended';
  /** Null until it has ended. Skipped: what it waited for can't come any more. */
  readonly outcome: 'done' | 'failed' | 'cancelled' | 'skipped' | null;
  readonly needs: readonly NeedInfo[];
  /** Opens when all of its needs are met, or any of them. */
  readonly wants: 'all' | 'any';
  /** Number of steps on the longest way to it through needs. */
  readonly layer: number;
  readonly added: number;
  readonly done: number;
  readonly dead: number;
  readonly other: number;
  /** Dead jobs after which its other jobs are cancelled; null: no number is. */
  readonly stopAfter: number | null;
  /** Its jobs are being cancelled. */
  readonly stopping: boolean;
  /** Its value has been given; false for other steps than signals. */
  readonly signalled: boolean;
  /** Time of a timer from its opening to its end, in milliseconds; null for other steps. */
  readonly delayMs: number | null;
  /** End of an open timer. */
  readonly due: Date | null;
  readonly opened: Date | null;
  readonly ended: Date | null;
}

/** A flow with its steps, in the order of their numbers. */
export interface FlowDetails extends FlowInfo {
  readonly steps: readonly StepInfo[];
}

/** A filter of flows: a flow must match every given field. */
export interface FlowFilter {
  readonly state?: FlowStatus;
  readonly name?: string;
  readonly key?: string;
}

/** One page of the flows that match a filter. */
export interface FlowListOptions extends FlowFilter {
  /** The `next` of the previous page. */
  readonly after?: string;
  /** 1 to 1000. Default 50. */
  readonly limit?: number;
}

/** End of one job of a step: its result, or the way in which it ended without being done. */
export interface StepResult<Result = unknown> {
  /** Id of the job; null: the value of a signal. */
  readonly job: string | null;
  readonly outcome: 'done' | 'dead' | 'cancelled' | 'expired' | 'erased';
  /** Null unless the job is done. */
  readonly result: Result | null;
}

/**
 * Lists flows in the order of their ids, newest first (UUID v7). A flow in which one job waits for a signal has
 * an id made of that job's: it stands somewhere between. Served by flow_pkey, flow_open (open
 * ones), flow_name and flow_key; other states are filtered, and flows that ended are kept for some days only.
 */
export async function listFlows(database: Database, options: FlowListOptions): Promise<Page<FlowInfo>> {
  const { state, name, key, after, limit = 50 } = options;
  checkLimit(limit);
  checkTexts({ name, key });
  if (after !== undefined && !isUuid(after)) throw badCursor(after);
  let query = ofFlows(database)
    .orderBy('id', 'desc')
    .limit(limit + 1);
  if (state !== undefined) query = query.where('state', '=', state);
  if (name !== undefined) query = query.where('name', '=', name);
  if (key !== undefined) query = query.where('key', '=', key);
  // the indexes by name and key leave out the empty one
  if (name !== undefined && name !== '') query = query.where('name', '<>', '');
  if (key !== undefined && key !== '') query = query.where('key', '<>', '');
  if (after !== undefined) query = query.where('id', '<', after);
  const rows = await withProgress(database, query);
  return pageOf<FlowInfo, FlowInfo>(rows, limit, { toItem: (row) => row, cursor: ({ id }) => id });
}

/** Reads flows by their ids, newest first; unknown ones are left out. */
export async function readFlowInfos(
  database: Database,
  ids: readonly string[],
): Promise<readonly FlowInfo[]> {
  if (ids.length === 0) return [];
  return withProgress(database, ofFlows(database).where('id', '=', sql<string>`any (${ids}::uuid[])`));
}

type FlowQuery = SelectQueryBuilder<Tables, 'flow', Omit<FlowInfo, 'progress'>>;

function ofFlows({ kysely }: Database): FlowQuery {
  return kysely
    .selectFrom('flow')
    .select(['id', 'name', 'key', 'unique_key as uniqueKey', 'state', 'reason', 'created'])
    .select(['deadline', 'stopping', 'ended', 'waiter'])
    .select(sql<number>`extract(epoch from clock_timestamp() - created)::float8 * 1000`.as('ageMs'));
}

async function withProgress({ kysely }: Database, query: FlowQuery): Promise<readonly FlowInfo[]> {
  return kysely
    .selectFrom(query.as('f'))
    .innerJoinLateral(
      (steps) => steps.selectFrom('flow_step as s').select(progress).whereRef('s.flow', '=', 'f.id').as('p'),
      (join) => join.onTrue(),
    )
    .selectAll()
    .orderBy('f.id', 'desc')
    .execute();
}

const progress = sql<FlowProgress>`jsonb_build_object(
  'steps', count(*), 'stepsEnded', count(*) filter (where s.state = 'ended'),
  'added', coalesce(sum(s.added), 0), 'done', coalesce(sum(s.done), 0),
  'dead', coalesce(sum(s.failed), 0), 'other', coalesce(sum(s.other), 0))`.as('progress');

type StepRow = Omit<StepInfo, 'needs' | 'layer'> & {
  readonly needs: readonly (readonly [needed: number, condition: NeedInfo['condition']])[];
};

/**
 * Reads a flow with all of its steps, in one statement and so in one snapshot. Undefined: there is none.
 * Served by the primary keys of flow, flow_step and flow_result. An EXISTS in place of the
 * look for a signal's value would let the planner hash all results of all flows.
 */
export async function readFlow({ query, schema }: Target, id: string): Promise<FlowDetails | undefined> {
  const rows = await query<{ readonly flow: Omit<FlowInfo, 'progress'>; readonly step: StepRow | null }>(
    `select case when row_number() over (order by s.step) = 1 then to_jsonb(f) end as flow, to_jsonb(s) as step
     from (select f.id, f.name, f.key, f.unique_key as "uniqueKey", f.state, f.reason, f.created, f.deadline, f.stopping, f.ended,
                  f.waiter, extract(epoch from clock_timestamp() - f.created)::float8 * 1000 as "ageMs"
           from ${schema}.flow f where f.id = $1::uuid) f
     left join (
       select s.step, s.name, s.kind, s.state, s.outcome, s.wants, s.added, s.done, s.failed as dead, s.other,
              s.stop_after as "stopAfter", s.stop as stopping, extract(epoch from s.delay)::float8 * 1000 as "delayMs",
              s.due, s.opened, s.ended, coalesce(n.needs, '[]') as needs,
              s.kind = 'signal' and (
                select r.job from ${schema}.flow_result r where r.flow = s.flow and r.step = s.step limit 1) is not null as signalled
       from ${schema}.flow_step s
       left join (
         select f.step, jsonb_agg(jsonb_build_array(e.step, f.condition) order by e.step) as needs
         from ${schema}.flow_step e cross join lateral unnest(e.feeds, e.conditions) as f (step, condition)
         where e.flow = $1::uuid group by f.step) n on n.step = s.step
       where s.flow = $1::uuid) s on true
     order by s.step`,
    [id],
  );
  const [first] = rows;
  if (first === undefined) return undefined;
  const steps = withNeeds(rows.flatMap(({ step }) => (step === null ? [] : [step])));
  return {
    ...dated(first.flow, ['created', 'deadline', 'stopping', 'ended']),
    progress: sumOf(steps),
    steps,
  };
}

/** Names the needed steps, which come first in the list, and tells how far from the start each step is. */
function withNeeds(rows: readonly StepRow[]): readonly StepInfo[] {
  const steps = new Map<number, StepInfo>();
  for (const { needs: given, ...row } of rows) {
    const needs = given.map(([step, condition]) => ({ step, name: steps.get(step)?.name ?? '', condition }));
    const layer = needs.reduce((most, { step }) => Math.max(most, (steps.get(step)?.layer ?? -1) + 1), 0);
    steps.set(row.step, { ...dated(row, ['due', 'opened', 'ended']), needs, layer });
  }
  return [...steps.values()];
}

/** Turns the times of a row that was read as JSON into dates. */
function dated<Row extends object>(row: Row, names: readonly (keyof Row)[]): Row {
  const dates = names.map((name) => [name, row[name] === null ? null : new Date(String(row[name]))]);
  return { ...row, ...(Object.fromEntries(dates) as Partial<Row>) };
}

function sumOf(steps: readonly StepInfo[]): FlowProgress {
  const sum = (of: (step: StepInfo) => number): number => steps.reduce((total, step) => total + of(step), 0);
  return {
    steps: steps.length,
    stepsEnded: sum(({ state }) => (state === 'ended' ? 1 : 0)),
    added: sum(({ added }) => added),
    done: sum(({ done }) => done),
    dead: sum(({ dead }) => dead),
    other: sum(({ other }) => other),
  };
}

/** A step of a flow, and the bounds of a page of its results. */
export interface ResultsOptions {
  readonly flow: string;
  readonly step: string;
  readonly after?: string;
  readonly limit: number;
  readonly codec: Codec | undefined;
  /** Decodes a result: `opened` for people, and `decoded` for programs. */
  readonly decode: (codec: Codec | undefined, stored: unknown, place: CodecPlace) => unknown;
}

/**
 * Lists the ends of a step's jobs in the order of job ids, by the SQL function `step_results`. Undefined:
 * there is no such step.
 */
export async function listResults(
  { query, schema }: Target,
  { flow, step, after, limit, codec, decode }: ResultsOptions,
): Promise<Page<StepResult> | undefined> {
  const rows = await query<StepResult & { readonly ended: boolean; readonly task: string | null }>(
    `select r.job::text as job, r.outcome, r.result, r.task, r.ended
     from ${schema}.step_results($1::uuid, $2::text, $3::uuid, $4::integer) r`,
    [flow, step, after ?? null, limit + 1],
  );
  if (rows.length === 0) return undefined;
  const found = rows
    .filter(({ ended }) => ended)
    .map(({ job, outcome, result, task }): StepResult => {
      const place: CodecPlace =
        job === null
          ? { id: flow, field: 'signal', name: step }
          : { id: job, field: 'result', name: task ?? '' };
      const isNone = job !== null && result === null;
      return { job, outcome, result: isNone ? null : decode(codec, result, place) };
    });
  // a signal has one value, and so no second page
  return pageOf(found, limit, { toItem: (row) => row, cursor: ({ job }) => job ?? '' });
}

/** Names of a flow's steps, for a message about one that is missing. */
export async function readStepNames(
  { query, schema }: Target,
  {
    flow,
    kind,
    max,
  }: { readonly flow: string; readonly kind: StepInfo['kind'] | null; readonly max: number },
): Promise<readonly string[] | undefined> {
  const [row] = await query<{ readonly names: readonly string[] }>(
    `select array(select s.name from ${schema}.flow_step s
                  where s.flow = f.id and ($2::text is null or s.kind = $2) order by s.step limit $3) as names
     from ${schema}.flow f where f.id = $1::uuid`,
    [flow, kind, max],
  );
  return row?.names;
}

/** Returns the open flow that has the unique key of this one; null: there is none. */
export async function readKeyHolder({ query, schema }: Target, flow: string): Promise<string | null> {
  const [row] = await query<{ readonly id: string }>(
    `select o.id from ${schema}.flow f join ${schema}.flow o on o.name = f.name and o.unique_key = f.unique_key and o.state = 'open'
     where f.id = $1::uuid and o.id <> f.id`,
    [flow],
  );
  return row?.id ?? null;
}

/** Numbers of flows: of those that have not ended, and of those that ended lately. */
export interface FlowNumbers {
  /** Counted up to 10,000. */
  readonly open: number;
  /** There are more than were counted. */
  readonly more: boolean;
  /** Age of the oldest of those, in milliseconds; null: there is none. */
  readonly oldestMs: number | null;
  /** Flows that ended in the last five minutes, by their state; the newest 10,000 of them are counted. */
  readonly done5m: number;
  readonly failed5m: number;
  readonly cancelled5m: number;
  /** More have ended in these five minutes than were counted. */
  readonly more5m: boolean;
}

const countedMax = 10_000;

/** Counts open flows, and flows that ended lately, up to 10,000 each. Served by flow_open and flow_ended. */
export async function readFlowNumbers({ query, schema }: Target): Promise<FlowNumbers> {
  const [row] = await query<Omit<FlowNumbers, 'more' | 'more5m'> & { readonly ended: number }>(
    `select o.open, o."oldestMs", e.ended, e."done5m", e."failed5m", e."cancelled5m"
     from (select count(*)::integer as open, extract(epoch from clock_timestamp() - min(f.created))::float8 * 1000 as "oldestMs"
           from (select created from ${schema}.flow where state = 'open' order by id limit $1 + 1) f) o
     cross join (select count(*)::integer as ended,
                        count(*) filter (where f.n <= $1 and f.state = 'done')::integer as "done5m",
                        count(*) filter (where f.n <= $1 and f.state = 'failed')::integer as "failed5m",
                        count(*) filter (where f.n <= $1 and f.state = 'cancelled')::integer as "cancelled5m"
                 from (select state, row_number() over (order by ended desc) as n from ${schema}.flow
                       where ended > now() - interval '5 minutes' order by ended desc limit $1 + 1) f) e`,
    [countedMax],
  );
  const { open = 0, oldestMs = null, ended = 0 } = row ?? {};
  const { done5m = 0, failed5m = 0, cancelled5m = 0 } = row ?? {};
  return {
    open: Math.min(open, countedMax),
    more: open > countedMax,
    oldestMs,
    done5m,
    failed5m,
    cancelled5m,
    more5m: ended > countedMax,
  };
}
