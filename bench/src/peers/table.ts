// The lower bound: one table and a hand-tuned loop of `DELETE … SKIP LOCKED`. No retries, no history, no
// keys, no fencing: only the hand-over of jobs.
import pg from 'pg';
import type { BenchJob, Payload } from '../load.ts';
import type { BenchProducer, Peer, Place, Runner, Stoppable, Wish } from './peer.ts';
import { anyRow, runSql } from './sql.ts';

const batch = 500;
/** Loops a process, each on its own connection: one runs jobs while the other waits for its commit. */
const loops = 2;
const pollMs = 50;

const take = {
  name: 'take',
  text: `delete from jobs where id = any (array(
    select id from jobs order by id limit ${batch} for update skip locked)) returning payload`,
};

export const peer: Peer = {
  name: 'table',
  store: 'postgres',
  packageName: undefined,
  settings: [
    {
      name: 'hand-tuned',
      says: `DELETE … SKIP LOCKED, ${batch} at a time, ${loops} connections a process, prepared, LISTEN; NOTIFY in the enqueue`,
    },
    {
      name: 'raw',
      says: 'the same, without NOTIFY in the enqueue: one INSERT and its commit',
      works: ['enqueue'],
    },
  ],
  install: ({ databaseUrl }) =>
    runSql(
      databaseUrl,
      'create table jobs (id bigint generated always as identity primary key, payload jsonb not null)',
      'alter table jobs set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0)',
    ),
  remains: ({ databaseUrl }) => anyRow(databaseUrl, 'select 1 from jobs order by id limit 1'),
  startWorker,
  openProducer,
};

async function startWorker({ databaseUrl }: Place, wish: Wish, { handle }: Runner): Promise<Stoppable> {
  const stopping = new AbortController();
  const waiting = new Set<() => void>();
  const wake = (): void => {
    for (const resolve of waiting) resolve();
  };
  const pause = (): Promise<void> =>
    new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        waiting.delete(end);
        resolve();
      };
      const timer = setTimeout(end, pollMs);
      waiting.add(end);
    });
  const listener = new pg.Client({ connectionString: databaseUrl });
  await listener.connect();
  listener.on('notification', wake);
  await listener.query('listen jobs');
  const size = wish.concurrency ?? batch;
  const loop = async (): Promise<void> => {
    const client = new pg.Client({ connectionString: databaseUrl });
    await client.connect();
    while (!stopping.signal.aborted) {
      await client.query('begin');
      const query =
        size === batch ? take : { name: 'take', text: take.text.replace(`limit ${batch}`, `limit ${size}`) };
      const { rows } = await client.query<{ payload: Payload }>(query);
      const running = rows.flatMap(({ payload }) => handle(payload) ?? []);
      if (running.length > 0) await Promise.all(running);
      await client.query('commit');
      if (rows.length === 0 && !stopping.signal.aborted) await pause();
    }
    await client.end();
  };
  const running = Promise.all(Array.from({ length: wish.concurrency === undefined ? loops : 1 }, loop));
  return {
    stop: async () => {
      stopping.abort();
      wake();
      await running;
      await listener.end();
    },
  };
}

function openProducer(
  { databaseUrl }: Place,
  { setting }: Wish,
  { calls }: { readonly calls: number },
): Promise<BenchProducer> {
  const pool = new pg.Pool({ connectionString: databaseUrl, max: calls + 1 });
  const notify = setting !== 'raw';
  const insert = 'insert into jobs (payload) values ($1)';
  const one = {
    name: 'one',
    text: notify ? `with new as (${insert}) select pg_notify('jobs', '')` : insert,
  };
  const insertMany = 'insert into jobs (payload) select * from unnest($1::jsonb[])';
  const many = {
    name: 'many',
    text: notify ? `with new as (${insertMany}) select pg_notify('jobs', '')` : insertMany,
  };
  const texts = (jobs: readonly BenchJob[]): string[] => jobs.map(({ payload }) => JSON.stringify(payload));
  return Promise.resolve({
    one: async ({ payload }) => void (await pool.query({ ...one, values: [JSON.stringify(payload)] })),
    many: async (jobs) => void (await pool.query({ ...many, values: [texts(jobs)] })),
    close: () => pool.end(),
  });
}
