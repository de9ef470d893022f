// An append-only record beside the queue's own tables, written by test-only triggers in the transactions that move
// jobs, and by handlers.
import type { Database } from '@pgqueue/postgres';
import type { Outcome } from './graph.ts';

/**
 * Jobs of flows as they get into QUEUE and leave it. The time of an arrival is that of its statement, whose commit
 * comes later; a departure's is right before its commit. So a record can't show an order that was not there.
 */
const ddl = `
  create schema proof;
  create table proof.moved (
    n bigint generated always as identity primary key, kind text not null, job uuid not null, flow uuid not null, step integer not null,
    xid xid8 not null default pg_current_xact_id(), at timestamptz not null default clock_timestamp());
  create table proof.ran (
    n bigint generated always as identity primary key, job uuid not null, flow uuid not null, step integer not null, what text not null,
    at timestamptz not null default clock_timestamp());
  create index on proof.ran (flow);
  create table proof.retry (
    n bigint generated always as identity primary key, flow uuid not null, xid xid8 not null default pg_current_xact_id(),
    answer text not null, at timestamptz not null default clock_timestamp(), cancelled boolean not null, step text,
    opened integer[] not null, unfinished uuid[] not null);
  create index on proof.retry (flow);
  create table proof.reign (epoch bigint not null, leader text, at timestamptz not null default clock_timestamp());
  create table proof.drawn (job uuid not null, value text not null, unique (job, value));
  create table proof.stopped (flow uuid not null, step integer not null, primary key (flow, step));
  create table proof.wrong (n bigint generated always as identity primary key, flow uuid, what text not null);

  create function proof.arrive() returns trigger language plpgsql as $$
  begin
    insert into proof.moved (kind, job, flow, step) values ('in', new.id, new.flow, new.step);
    return null;
  end $$;
  create function proof.depart() returns trigger language plpgsql as $$
  begin
    insert into proof.moved (kind, job, flow, step) values ('out', old.id, old.flow, old.step);
    return null;
  end $$;
  create function proof.elect() returns trigger language plpgsql as $$
  begin
    insert into proof.reign (epoch, leader) values (new.epoch, new.leader);
    return null;
  end $$;
  -- steps of which jobs were to be cancelled while they were open, the last time that they were
  create function proof.halt() returns trigger language plpgsql as $$
  begin
    if new.stop then
      insert into proof.stopped (flow, step) values (new.flow, new.step) on conflict do nothing;
    elsif new.ended is null then
      delete from proof.stopped s where s.flow = new.flow and s.step = new.step;
    end if;
    return null;
  end $$;
  create trigger proof_halt after update of stop, ended on pgqueue.flow_step for each row
    when (new.stop is distinct from old.stop or new.ended is distinct from old.ended) execute function proof.halt();
  create trigger proof_arrive after insert on pgqueue.queue for each row when (new.flow is not null) execute function proof.arrive();
  create constraint trigger proof_depart after delete on pgqueue.queue deferrable initially deferred
    for each row when (old.flow is not null) execute function proof.depart();
  create trigger proof_elect after update on pgqueue.scheduler_lease for each row
    when (new.epoch is distinct from old.epoch) execute function proof.elect();

  -- retries, and notes what had run before
  create function proof.retry(p_flow uuid, p_step text) returns text language plpgsql as $$
  declare
    v_opened integer[];
    v_unfinished uuid[];
    v_answer text;
    v_cancelled boolean;
  begin
    select f.state = 'cancelled' into v_cancelled from pgqueue.flow f where f.id = p_flow for update;
    v_opened := array(select s.step from pgqueue.flow_step s
                      where s.flow = p_flow and s.state <> 'blocked' and s.outcome is distinct from 'skipped');
    v_unfinished := array(select q.id from pgqueue.queue q where q.flow = p_flow
                          union select d.id from pgqueue.dead_letter d where d.flow = p_flow
                          union select r.job from pgqueue.flow_result r where r.flow = p_flow and r.outcome <> 'done');
    select r.outcome into v_answer from pgqueue.retry_flow(p_flow, p_step) r;
    insert into proof.retry (flow, answer, cancelled, step, opened, unfinished) values (p_flow, v_answer, v_cancelled, p_step, v_opened, v_unfinished);
    return v_answer;
  end $$;
`;

export async function recordFlows(database: Database): Promise<void> {
  await database.pool.query(ddl);
}

/** A job that got into QUEUE, or left it. Times in Unix milliseconds of the database's clock. */
export interface Move {
  readonly n: number;
  readonly kind: 'in' | 'out';
  readonly job: string;
  readonly step: number;
  readonly atMs: number;
  /** True if a retry put it there. */
  readonly again: boolean;
}

export interface Ran {
  readonly job: string;
  readonly step: number;
  readonly what: 'begin' | 'ok' | 'effect';
  readonly atMs: number;
}

export interface Retried {
  readonly answer: string;
  readonly atMs: number;
  /** True if the flow had been cancelled. */
  readonly cancelled: boolean;
  /** Name of the step from which on it was retried; null: all of it. */
  readonly step: string | null;
  /** Steps that had opened before. */
  readonly opened: readonly number[];
  /** Jobs that had not ended as done before. */
  readonly unfinished: readonly string[];
}

export interface StepRow {
  readonly step: number;
  readonly name: string;
  readonly state: 'blocked' | 'open' | 'ended';
  readonly outcome: Outcome | null;
  readonly openNeeds: number;
  readonly added: number;
  readonly done: number;
  readonly failed: number;
  readonly other: number;
  /** True if its jobs were to be cancelled, the last time that it was open. */
  readonly stop: boolean;
  readonly dueMs: number | null;
  readonly openedMs: number | null;
  readonly endedMs: number | null;
}

/** Everything that is known about a flow. */
export interface FlowRecord {
  readonly id: string;
  readonly state: string;
  readonly reason: string | null;
  readonly createdMs: number;
  readonly deadlineMs: number | null;
  readonly stoppingMs: number | null;
  readonly endedMs: number | null;
  readonly steps: readonly StepRow[];
  readonly moves: readonly Move[];
  readonly ran: readonly Ran[];
  readonly retries: readonly Retried[];
  /** Ends that are not done, and those with a result. */
  readonly results: ReadonlyMap<string, { readonly step: number; readonly outcome: string }>;
  readonly dead: ReadonlySet<string>;
  readonly history: ReadonlyMap<string, string>;
  /** Rows of chunks that were not released: step and number of jobs. */
  readonly unreleased: ReadonlyMap<number, number>;
  readonly waiting: number;
}

const ms = (column: string): string => `extract(epoch from ${column})::float8 * 1000`;

type Of<Row> = Row & { readonly flow: string };
type FlowRow = Pick<FlowRecord, 'state' | 'reason' | 'createdMs' | 'deadlineMs' | 'stoppingMs' | 'endedMs'>;

/** Each query lists rows of the flows whose ids are $1. */
const texts = {
  flows: `
    select id as flow, state, reason, ${ms('created')} as "createdMs", ${ms('deadline')} as "deadlineMs",
           ${ms('stopping')} as "stoppingMs", ${ms('ended')} as "endedMs"
    from pgqueue.flow where id = any ($1)`,
  steps: `
    select flow, step, name, state, outcome, open_needs as "openNeeds", added, done, failed, other,
           exists (select from proof.stopped p where p.flow = s.flow and p.step = s.step) as stop,
           ${ms('due')} as "dueMs", ${ms('opened')} as "openedMs", ${ms('ended')} as "endedMs"
    from pgqueue.flow_step s where flow = any ($1) order by flow, step`,
  moves: `
    select m.n::float8 as n, m.kind, m.job, m.flow, m.step, ${ms('m.at')} as "atMs",
           m.kind = 'in' and exists (select from proof.retry r where r.flow = m.flow and r.xid = m.xid) as again
    from proof.moved m where m.flow = any ($1) order by m.at, m.n`,
  ran: `select flow, job, step, what, ${ms('at')} as "atMs" from proof.ran where flow = any ($1) order by n`,
  retries: `
    select flow, answer, ${ms('at')} as "atMs", cancelled, step, opened, unfinished from proof.retry where flow = any ($1) order by n`,
  results: 'select flow, step, job, outcome from pgqueue.flow_result where flow = any ($1)',
  dead: 'select flow, id from pgqueue.dead_letter where flow = any ($1)',
  history: 'select flow, id, outcome from pgqueue.history where flow = any ($1)',
  unreleased: `
    select flow, step, unreleased as jobs from pgqueue.flow_step where flow = any ($1) and unreleased > 0`,
  waiting: 'select flow from pgqueue.queue where flow = any ($1)',
} as const;

async function byFlow<Row extends { readonly flow: string }>(
  asked: Promise<readonly Row[]>,
): Promise<(id: string) => readonly Row[]> {
  const rows = Map.groupBy(await asked, ({ flow }) => flow);
  return (id) => rows.get(id) ?? [];
}

/** Reads the records of these flows; ids that there are none of are missing. */
export async function readFlows(
  { query }: Database,
  ids: readonly string[],
): Promise<ReadonlyMap<string, FlowRecord>> {
  const flows = await byFlow(query<Of<FlowRow>>(texts.flows, [ids]));
  const steps = await byFlow(query<Of<StepRow>>(texts.steps, [ids]));
  const moves = await byFlow(query<Of<Move>>(texts.moves, [ids]));
  const ran = await byFlow(query<Of<Ran>>(texts.ran, [ids]));
  const retries = await byFlow(query<Of<Retried>>(texts.retries, [ids]));
  const results = await byFlow(
    query<Of<{ step: number; job: string; outcome: string }>>(texts.results, [ids]),
  );
  const dead = await byFlow(query<Of<{ id: string }>>(texts.dead, [ids]));
  const history = await byFlow(query<Of<{ id: string; outcome: string }>>(texts.history, [ids]));
  const unreleased = await byFlow(query<Of<{ step: number; jobs: number }>>(texts.unreleased, [ids]));
  const waiting = await byFlow(query<Of<object>>(texts.waiting, [ids]));
  const recordOf = (id: string, flow: FlowRow): FlowRecord => ({
    ...flow,
    id,
    steps: steps(id),
    moves: moves(id),
    ran: ran(id),
    retries: retries(id),
    results: new Map(results(id).map(({ job, step, outcome }) => [job, { step, outcome }])),
    dead: new Set(dead(id).map((row) => row.id)),
    history: new Map(history(id).map((row) => [row.id, row.outcome])),
    unreleased: new Map(unreleased(id).map(({ step, jobs }) => [step, jobs])),
    waiting: waiting(id).length,
  });
  return new Map(
    ids.flatMap((id) => {
      const [flow] = flows(id);
      return flow === undefined ? [] : [[id, recordOf(id, flow)] as const];
    }),
  );
}
