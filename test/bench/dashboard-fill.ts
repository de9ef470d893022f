import type { Database } from '@pgqueue/postgres';

const queues = 20;
const nodes = 5;
const dead = 20_000;
const running = 200;
const chunk = 500_000;

/** An id of that time, and a number. */
const idOf = (time: string, n: string): string =>
  `encode(substring(int8send((extract(epoch from ${time}) * 1000)::bigint) from 3) || '\\x7000'::bytea || '\\x80'::bytea
     || substring(int8send(${n}) from 2), 'hex')::uuid`;

/** A database as a busy month leaves it: many keys, one tenant with half of what waits, a week of history. */
export async function fill(
  database: Database,
  { jobs, history }: { readonly jobs: number; readonly history: number },
): Promise<void> {
  const run = async (what: string, statements: readonly string[]): Promise<void> => {
    const begun = performance.now();
    for (const statement of statements) await database.query(statement, []);
    console.log(`${what}: ${((performance.now() - begun) / 1_000).toFixed(1)} s`);
  };
  await run('partitions', [partitions]);
  await run(
    'jobs',
    parts(jobs).map(([from, to]) => waiting(from, to, jobs)),
  );
  await run(
    'history',
    parts(history).map(([from, to]) => ended(from, to, history)),
  );
  await run('dead letters', [deadLetters]);
  await run('nodes and what they run', nodesAndItems);
  await run(
    'vacuum',
    ['queue', 'history', 'dead_letter', 'work_queue'].map((table) => `vacuum analyze pgqueue.${table}`),
  );
}

function parts(count: number): readonly (readonly [number, number])[] {
  return Array.from({ length: Math.ceil(count / chunk) }, (_, n) => [
    n * chunk + 1,
    Math.min(count, (n + 1) * chunk),
  ]);
}

const partitions = `do $$ declare d date; n text; begin
  for i in 1..7 loop
    d := (now() at time zone 'UTC')::date - i;
    n := 'history_' || to_char(d, 'YYYYMMDD');
    execute format('create table pgqueue.%I (like pgqueue.history including defaults including constraints)', n);
    execute format('alter table pgqueue.history attach partition pgqueue.%I for values from (%L) to (%L)', n,
                   to_char(d, 'YYYY-MM-DD') || ' 00:00:00+00', to_char(d + 1, 'YYYY-MM-DD') || ' 00:00:00+00');
  end loop;
end $$`;

function waiting(from: number, to: number, jobs: number): string {
  return `insert into pgqueue.queue (id, created, queue, task, key, payload, priority, run_after)
    select ${idOf('t', 'i')}, t, 'q' || (i % ${queues}), 'task' || (i % 7), case when i % 2 = 0 then 'big' else 'k' || (i % 997) end,
           jsonb_build_object('customer', jsonb_build_object('id', i % 1000), 'n', i), i % 3,
           case when i % 50 = 0 then now() + interval '1 hour' end
    from (select i, now() - (${jobs} - i) * interval '3600 seconds' / ${jobs} as t from generate_series(${from}::bigint, ${to}) i) s`;
}

function ended(from: number, to: number, history: number): string {
  return `insert into pgqueue.history (id, queue, task, key, priority, outcome, tries, crashes, created, started, finished,
                                      payload_version, node, token, attributes, payload, result, errors)
    select ${idOf(`(t - interval '2 seconds')`, 'i')}, 'q' || (i % ${queues}), 'task' || (i % 7), 'k' || (i % 997), 0,
           case when i % 50 = 0 then 'cancelled' else 'done' end, (i % 20 = 0)::integer, 0,
           t - (random() * 3000 + 100) * interval '1 ms', t - random() * 100 * interval '1 ms', t, 1, 'node-' || (i % ${nodes}),
           gen_random_uuid(), '{"region": "eu"}', jsonb_build_object('customer', jsonb_build_object('id', i % 1000), 'n', i), '{"ok": true}',
           case when i % 20 = 0 then jsonb_build_array(jsonb_build_object('kind', 'error', 'name', 'Error', 'message',
             'connect ECONNREFUSED ' || i, 'stack', repeat('at f ', 20), 'node', 'node-1', 'try', 1, 'at', t)) end
    from (select i, now() - (${history} - i) * interval '7 days' / ${history} as t from generate_series(${from}::bigint, ${to}) i) s`;
}

const deadLetters = `insert into pgqueue.dead_letter (id, queue, task, key, priority, reason, tries, max_tries, crashes, max_crashes, created,
                                                      died, payload_version, node, attributes, payload, errors)
  select ${idOf('t', '(i + 1000000000)')}, 'q' || (i % ${queues}), 'task' || (i % 7), 'k' || (i % 997), 0, 'max_tries', 3, 3, 0, 3,
         t - interval '1 minute', t, 1, 'node-1', '{}', '{}', jsonb_build_array(jsonb_build_object('kind', 'error', 'name', 'Error',
         'message', 'user ' || i || ' was not found', 'stack', repeat('at f ', 40), 'node', 'node-1', 'try', 3, 'at', t))
  from (select i, now() - (${dead} - i) * interval '1 day' / ${dead} as t from generate_series(1::bigint, ${dead}) i) s`;

const nodesAndItems = [
  `insert into pgqueue.node (id, incarnation, state, slots, tasks, heartbeat, heartbeat_ms, lost_after_ms, started)
   select 'node-' || i, gen_random_uuid(), 'alive', 100,
          (select jsonb_object_agg('task' || t, '{"min": 1, "max": 1, "timeoutMs": 1000}'::jsonb) from generate_series(0, 6) t),
          now(), 1000, 3600000, now() from generate_series(0, ${nodes - 1}) i`,
  `insert into pgqueue.work_queue (id, version, pool, task, lock_key, lock_token, lock_timeout, started)
   select q.id, 1, 'default', q.task, 'node-' || (q.seq % ${nodes}), gen_random_uuid(), now() + interval '1 hour', now()
   from (select * from pgqueue.queue where run_after is null order by id limit ${running}) q`,
];
