import { randomBytes, randomUUID } from 'node:crypto';
import type { ClaimedJob } from '@pgqueue/core/internal';
import { uuidV7 } from '@pgqueue/core';
import type { Database } from '@pgqueue/postgres';
import type { Lease, SettleRequest, Target, SettleVerdict } from '@pgqueue/postgres/internal';
import { breaches, claim, openDatabase, registerNode, settle } from '@pgqueue/postgres/internal';
import type { RunFacts } from '../chaos/checker/history.ts';
import type { Write } from '../chaos/record.ts';
import { monotonicMs } from '../chaos/record.ts';
import { dispatchAll, promoteAll } from '../support/dispatch-all.ts';

export interface Member {
  readonly id: string;
  readonly incarnation: string;
}

export interface NewJobs {
  readonly count?: number;
  readonly task?: string;
  readonly queue?: string;
  readonly tenant?: string;
  readonly timeoutMs?: number;
}

/** One database, whose every call about leases is written into the history by tap.ts, and the short ways to act on it. */
export interface Stage {
  readonly url: string;
  readonly database: Database;
  readonly write: Write;
  /** The first line of the history. */
  readonly facts: (more?: Partial<RunFacts>) => void;
  readonly enqueue: (jobs?: NewJobs) => Promise<readonly string[]>;
  readonly node: (id: string) => Promise<Member>;
  readonly dispatch: () => Promise<number>;
  /** Claims, and says of each job that its handler begins. */
  readonly begin: (node: Member, options?: { readonly target?: Target }) => Promise<readonly ClaimedJob[]>;
  readonly settle: (
    lease: Lease,
    outcome: SettleRequest['outcome'],
    target?: Target,
  ) => Promise<ReadonlyMap<string, SettleVerdict>>;
  readonly reset: (node: Member) => Promise<void>;
  /** Looks for broken invariants. */
  readonly look: () => Promise<void>;
  /** The database's clock goes on by so much. */
  readonly pass: (ms: number) => Promise<void>;
  /** Whatever is left is run to its end. */
  readonly finish: () => Promise<void>;
}

/** Tasks that nodes made here can run. */
const tasks = ['plain', 'poison'] as const;

export function openStage(url: string, write: Write): Stage & { readonly close: () => Promise<void> } {
  const database = openDatabase({ connectionString: url, connectionsMax: 4 });
  const node: Stage['node'] = async (id) => {
    const incarnation = randomUUID();
    const range = { min: 1, max: 1, timeoutMs: 60_000, isolated: true };
    const times = { heartbeatMs: 60_000, lostAfterMs: 600_000 };
    const shape = { slots: 100, pool: 'default', software: 'test', seen: null };
    const can = Object.fromEntries(tasks.map((task) => [task, range]));
    await registerNode(database, { node: id, incarnation, tasks: can, ...shape, ...times });
    return { id, incarnation };
  };
  const begin: Stage['begin'] = async ({ id, incarnation }, { target = database } = {}) => {
    const jobs = await claim(target, { node: id, incarnation, max: 100, token: randomUUID() });
    for (const job of jobs) write({ type: 'start', id: job.id, token: job.token, node: id });
    return jobs;
  };
  const stage: Omit<Stage, 'finish'> = {
    url,
    database,
    write,
    facts: (more = {}) => {
      const facts = { seed: 1, lostAfterMs: 600_000, epochMs: Date.now() - monotonicMs(), ...more };
      write({ type: 'run', facts });
    },
    enqueue: (jobs = {}) => enqueue(database, write, jobs),
    node,
    dispatch: () => dispatchAll(database),
    begin,
    settle: (lease, outcome, target = database) =>
      settle(target, [{ id: lease.id, token: lease.token, outcome, delayMs: 0, data: '{}' }]),
    reset: async ({ id }) => {
      write({ type: 'reset', node: id });
      await database.query('select from pgqueue.reset_node($1)', [id]);
    },
    look: async () => {
      const broken = await breaches(database);
      write({ type: 'snapshot', broken: broken.map(({ name, count }) => `${name}: ${count}`) });
    },
    pass: async (ms) => {
      await database.query('select pg_sleep($1)', [ms / 1_000]);
    },
  };
  return { ...stage, finish: () => finish(stage), close: () => database.close() };
}

async function enqueue(database: Database, write: Write, jobs: NewJobs): Promise<readonly string[]> {
  const { count = 1, task = 'plain', queue = 'default', tenant = '', timeoutMs = 60_000 } = jobs;
  const ids = Array.from({ length: count }, () => uuidV7(Date.now(), randomBytes(10)));
  const op = randomUUID();
  write({ type: 'enqueue', phase: 'invoke', op, ids });
  await database.query(
    `insert into pgqueue.queue (id, task, queue, attributes, payload, timeout)
     select id, $2, $3, jsonb_build_object('tenant', $4::text), '{}', $5::float8 * interval '1 millisecond' from unnest($1::uuid[]) as x (id)`,
    [ids, task, queue, tenant, timeoutMs],
  );
  write({ type: 'enqueue', phase: 'ok', op });
  return ids;
}

/** A scheduler whose lease is over, and a node that runs everything. */
async function finish(stage: Omit<Stage, 'finish'>): Promise<void> {
  const { database, node, begin } = stage;
  await database.query(`update pgqueue.scheduler_lease set leader = null, expires = '-infinity'`, []);
  const closer = await node('closer');
  for (let round = 0; round < 20; round += 1) {
    // what has a work item first: limits are not to be exceeded here
    for (const job of await begin(closer)) await stage.settle(job, 'done');
    await promoteAll(database);
    const [left] = await database.query<{ jobs: number }>(
      'select count(*)::integer as jobs from pgqueue.queue',
      [],
    );
    if (left?.jobs === 0) return;
    if (round % 3 < 2) continue;
    // what somebody has still leased, and will never settle: its node is over
    const held = await database.query<{ node: string }>(
      `select distinct lock_key as node from pgqueue.work_queue where lock_key is not null`,
      [],
    );
    for (const { node: id } of held) await stage.reset({ id, incarnation: '' });
  }
}
