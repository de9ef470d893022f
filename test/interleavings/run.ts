import { isDeepStrictEqual } from 'node:util';
import type { Target } from '@pgqueue/postgres/internal';
import { breaches } from '@pgqueue/postgres/internal';
import pg from 'pg';
import type { Pair, Possible } from './allowed.ts';
import { allowed, nodeAtStart } from './allowed.ts';
import type { World } from './job.ts';
import type { Operation } from './model.ts';
import type { Schedule, Side } from './schedules.ts';
import type { ReadBack } from './statements.ts';
import { blockerStatement, jobsOf, leader, readBack, setUp, statementOf, tokenNames } from './statements.ts';
import type { Start } from './worlds.ts';
import { nameOf } from './worlds.ts';

/** Two operations, their start, and their order. */
export interface Case {
  readonly a: Operation;
  readonly b: Operation;
  readonly start: Start;
  readonly schedule: Schedule;
}

export interface Ran {
  /** Violations found; empty for a good run. */
  readonly violations: readonly string[];
  /** True if one side had to wait for a lock. */
  readonly waited: boolean;
}

/** Runs cases one after another, and fills the tables anew for each. */
export interface Stage {
  readonly run: (one: Case) => Promise<Ran>;
  readonly close: () => Promise<void>;
}

type Told = Readonly<Record<string, string | null>>;
type Answer = { readonly told: Told } | { readonly error: string };

interface Session {
  readonly client: pg.Client;
  readonly pid: number;
}

const waitMs = 10_000;

export async function openStage(url: string): Promise<Stage> {
  const sessions = await Promise.all(['a', 'b', 'blocker', 'looks'].map(() => openSession(url)));
  const [a, b, blocker, looks] = sessions as [Session, Session, Session, Session];
  const database = lookingOf(looks);
  // new work items get positions behind those that are set up
  await database.query(`select setval('pgqueue.work_queue_position_seq', 1024)`, []);
  const [led] = await database.query<{ epoch: number }>(
    `select epoch::integer as epoch from pgqueue.lead('${leader}', 86400000)`,
    [],
  );
  const epoch = led?.epoch ?? 0;
  return {
    run: (one) => runCase({ database, sides: { a, b }, blocker, epoch }, one),
    close: async () => {
      await Promise.all(sessions.map(({ client }) => client.end()));
    },
  };
}

interface Props {
  readonly database: Target;
  readonly sides: Readonly<Record<Side, Session>>;
  readonly blocker: Session;
  readonly epoch: number;
}

async function openSession(connectionString: string): Promise<Session> {
  const client = new pg.Client({ connectionString, application_name: 'interleaving' });
  await client.connect();
  // find deadlocks at once, not after a second
  await client.query(`set deadlock_timeout = '20ms'`);
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
  return { client, pid: rows[0]?.pid ?? 0 };
}

/**
 * Returns a target that prepares its statements: the same few read every case, and planning them anew took
 * more time than everything else.
 */
function lookingOf({ client }: Session): Target {
  const names = new Map<string, string>();
  return {
    schema: 'pgqueue',
    query: async <Row>(text: string, values: readonly unknown[]) => {
      const name = names.get(text) ?? `look ${names.size}`;
      names.set(text, name);
      return (await client.query({ name, text, values: [...values] })).rows as Row[];
    },
  };
}

/** A statement under way on one side. */
interface Flight {
  readonly answer: Promise<Answer>;
  answered: boolean;
}

async function runCase(props: Props, one: Case): Promise<Ran> {
  const { database, sides, blocker } = props;
  const { schedule } = one;
  const jobs = jobsOf(one.start.jobs);
  await blocker.client.query(setUp(one.start.jobs, nodeAtStart(one.a, one.b)));
  if (schedule.blocker !== null) {
    await blocker.client.query('begin');
    await blocker.client.query(blockerStatement(schedule.blocker));
  }
  const flights = new Map<Side, Flight>();
  const ended = new Set<Side>();
  let waited = false;
  const end = async (side: Side): Promise<void> => {
    const answer = await flights.get(side)?.answer;
    const failed = answer !== undefined && 'error' in answer;
    await sides[side].client.query(failed ? 'rollback' : schedule.ends[side]);
    ended.add(side);
  };
  for (const [index, side] of schedule.order.entries()) {
    const flight = flights.get(side);
    if (flight === undefined) {
      const begun = begin(sides[side].client, statementOf(one[side], jobs, { side, epoch: props.epoch }));
      flights.set(side, begun);
      waited = (await answeredOrWaits(database, sides[side], begun)) === 'waits' || waited;
      if (index === 1 && schedule.blocker !== null) {
        await blocker.client.query('commit');
        for (const [name, other] of flights) await answeredOrWaits(database, sides[name], other);
      }
    } else if (flight.answered) await end(side);
  }
  // the side that waited for the other ends after it
  for (const side of ['a', 'b'] as const) {
    if (!ended.has(side) && flights.get(side)?.answered === true) await end(side);
  }
  for (const side of ['a', 'b'] as const) if (!ended.has(side)) await end(side);
  const answers = { a: await flights.get('a')?.answer, b: await flights.get('b')?.answer };
  return { violations: await judge(props, one, answers), waited };
}

function begin(client: pg.Client, text: string): Flight {
  const flight: Flight = {
    answered: false,
    answer: client
      .query(`begin; ${text}`)
      .then(
        (results: unknown): Answer => ({ told: toldIn(results) }),
        (error: { readonly code?: string; readonly message: string }): Answer => ({
          error: error.code ?? error.message,
        }),
      )
      .finally(() => (flight.answered = true)),
  };
  return flight;
}

/** Two statements in one message have two results. */
function toldIn(results: unknown): Told {
  const [, { rows }] = results as readonly [
    unknown,
    pg.QueryResult<{ id: string | null; told: string | null }>,
  ];
  return Object.fromEntries(rows.flatMap(({ id, told }) => (id === null ? [] : [[id, told]])));
}

/** Resolves when the statement has its answer, or its session waits for a lock. */
async function answeredOrWaits(
  database: Target,
  { pid }: Session,
  flight: Flight,
): Promise<'answered' | 'waits'> {
  const deadline = performance.now() + waitMs;
  for (;;) {
    const [row] = await database.query<{ waits: boolean }>(
      'select cardinality(pg_blocking_pids($1)) > 0 as waits',
      [pid],
    );
    if (flight.answered) return 'answered';
    if (row?.waits === true) return 'waits';
    if (performance.now() > deadline) throw new Error('a statement neither ends nor waits for a lock');
  }
}

async function judge(
  { database }: Props,
  one: Case,
  answers: Readonly<Record<Side, Answer | undefined>>,
): Promise<readonly string[]> {
  const jobs = jobsOf(one.start.jobs);
  const [read] = await database.query<ReadBack>(readBack, []);
  if (read === undefined) throw new Error('nothing could be read back');
  const broken = await breaches(database);
  const problems = broken.map(({ name, count }) => `invariant ${name}: ${count}`);
  if (read.misplaced > 0) problems.push(`${read.misplaced} rows out of their places`);
  if (read.rows !== jobs.length) problems.push(`${read.rows} rows of ${jobs.length} jobs`);
  for (const [side, answer] of Object.entries(answers)) {
    if (answer !== undefined && 'error' in answer && answer.error !== 'PQ001') {
      problems.push(`${side} failed: ${answer.error}`);
    }
  }
  for (const [which, id] of jobs.entries()) {
    const row = read.jobs[id];
    if (row === undefined) {
      problems.push(`job ${which} is nowhere`);
      continue;
    }
    const token = row.token === null ? null : (tokenNames.get(row.token) ?? row.token);
    const found: Possible = {
      world: { n1: read.n1, job: { ...row, token } },
      told: { a: toldOf(answers.a, id), b: toldOf(answers.b, id) },
    };
    const pair: Pair = one;
    const start = one.start.jobs[which];
    const possible = start === undefined ? [] : allowed(pair, start, which);
    if (possible.some((each) => isDeepStrictEqual(each, found))) continue;
    problems.push(`job ${which}: ${say(found.world)} ${JSON.stringify(found.told)}`);
  }
  return problems.map((problem) => `${titleOf(one)}: ${problem}`);
}

function toldOf(answer: Answer | undefined, id: string): string | undefined {
  if (answer === undefined) return undefined;
  return 'error' in answer ? answer.error : (answer.told[id] ?? undefined);
}

const say = ({ job, n1 }: World): string => `${JSON.stringify(job)}, n1 ${n1}`;

export function titleOf({ a, b, start, schedule }: Case): string {
  const { order, ends, blocker } = schedule;
  const behind = blocker === null ? '' : ` behind ${blocker}`;
  return `${nameOf(a)} × ${nameOf(b)} from ${start.name}, ${order.join('')} ${ends.a}/${ends.b}${behind}`;
}
