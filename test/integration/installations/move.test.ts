// Moves of a key from one installation to another: what comes along, in which order, while it is enqueued to and worked on.
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { defineTask, flow, implement } from '@pgqueue/core';
import { createRouter, homeOf } from '@pgqueue/router';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { until } from '../../support/until.ts';
import { nth, useRunning, useSeveral, waitingIn } from './support.ts';

const task = defineTask({ name: 'hello', payload: z.object({ n: z.number() }) });
const { several, router } = useSeveral(3);
const key = Array.from({ length: 99 }, (_, n) => `k${n}`).find((one) => homeOf(one, [1, 2, 3]) === 1) ?? '';
const acme = { key };

const { running, schedule } = useRunning(several);

async function work(run: (n: number) => Promise<void> | void, concurrency = 10): Promise<void> {
  const handler = implement(task, async ({ n }) => run(n));
  const worker = router.worker({ tasks: [handler], concurrency });
  running.push(worker);
  await worker.start();
}

/** Rows of QUEUE in an installation, in the order of one key's jobs. */
const rowsIn = (number: number, columns: string) =>
  nth(several.databases, number - 1).query<Record<string, unknown>>(
    `select ${columns} from pgqueue.queue order by priority, seq`,
    [],
  );

/** Rows that moves have left behind, in all installations. */
async function leftovers(): Promise<readonly unknown[]> {
  const found = several.databases.map((database) =>
    database.query(
      'select key from pgqueue.key_move where opened is null union all select key from pgqueue.handover',
      [],
    ),
  );
  return (await Promise.all(found)).flat();
}

test('what waits comes along whole, in its order, and before what was enqueued since', async () => {
  const { producer, operator } = router;
  const jobs = await producer.enqueueMany(
    Array.from({ length: 30 }, (_, n) =>
      task.job({ n }, { ...acme, priority: n % 3, queue: n % 2 ? 'mail' : 'bulk' }),
    ),
  );
  await producer.enqueueMany([
    task.job(
      { n: 100 },
      { ...acme, delay: '1h', uniqueKey: 'u', attributes: { region: 'eu' }, retry: { maxTries: 7 } },
    ),
    task.job(
      { n: 101 },
      {
        ...acme,
        timeout: '10m',
        expiresAt: new Date(Date.now() + 3_600_000),
        retry: { backoff: 'fixed', base: '5s' },
      },
    ),
  ]);
  const old = nth(several.databases, 0);
  await old.query(
    `update pgqueue.queue set tries = 2, crashes = 1, errors = '[{"message": "no"}]', checkpoint = '{"at": 1e300, "of": "${'x'.repeat(9_000)}"}',
       trace = '{"traceparent": "00-1"}', last_token = gen_random_uuid(), payload = 'null' where payload ->> 'n' = '100'`,
    [],
  );
  const columns =
    'id, run_after, expires_at, created, timeout, priority, payload_version, tries, max_tries, crashes, queue, task, key, unique_key, attributes, payload::text, retry, trace, errors, last_token, checkpoint::text';
  const before = await rowsIn(1, columns);
  await nth(several.databases, 1).query('alter table pgqueue.queue alter seq restart with 1000000', []);
  const moved = await operator.keys.move(key, { to: 'two' });
  expect(moved).toMatchObject({ key, from: 'one', to: 'two', jobs: 32, known: 0, freed: 0, unreachable: [] });
  expect(await waitingIn(several)).toEqual([0, 32, 0]);
  expect(await rowsIn(2, columns)).toEqual(before);
  expect(router.homeOf(key).name).toBe('two');
  const last = await producer.enqueue(task, { n: 200 }, acme);
  expect((await rowsIn(2, 'id, priority')).findLast(({ priority }) => priority === 0)).toMatchObject({
    id: last.id,
  });
  expect(await operator.jobs.get(nth(jobs, 3).id)).toMatchObject({ id: nth(jobs, 3).id, payload: { n: 3 } });
  expect(await leftovers()).toEqual([]);
  // and on, to one where numbers are small, and back
  await operator.keys.move(key, { to: 3 });
  await operator.keys.move(key, { to: 'one' });
  expect((await rowsIn(1, columns)).map(({ id }) => id).filter((id) => id !== last.id)).toEqual(
    before.map(({ id }) => id),
  );
  expect(await waitingIn(several)).toEqual([33, 0, 0]);
});

test('while it is enqueued to and worked on, nothing is lost, doubled or out of order', async () => {
  const ran: number[] = [];
  const total = 6_000;
  // one at a time: else a batch that a slow node gives back starts after the next one
  await router.operator.queues.set('default', { keyConcurrency: 1 });
  await router.producer.enqueueMany(Array.from({ length: 3_000 }, (_, n) => task.job({ n }, acme)));
  await schedule(1, 2, 3);
  await work((n) => void ran.push(n), 1);
  const old = createRouter({ installations: several.installations, pollMs: 60_000 });
  running.push({ stop: () => old.close() });
  let enqueued = 3_000; // more follow while it moves
  let moving = true;
  const enqueue = async (): Promise<void> => {
    while (enqueued < total) {
      // one router that learns of moves by itself, and one that is refused
      const from = enqueued % 200 === 0 && moving ? old : router;
      const some = Array.from({ length: 10 }, (_, n) => task.job({ n: enqueued + n }, acme));
      await from.producer.enqueueMany(some);
      enqueued += 10;
    }
  };
  const enqueuing = enqueue();
  for (const to of ['two', 'three', 'one', 'two']) {
    const moved = await router.operator.keys.move(key, { to });
    expect(moved.to).toBe(to);
  }
  moving = false;
  await enqueuing;
  // one after the other, so that all of them take as long as the machine needs
  for (let seen = ran.length; seen < total; seen = ran.length)
    await until(`one more than ${seen} to run`, () => ran.length > seen);
  expect(ran.length).toBe(total);
  const wrongAt = ran.findIndex((n, at) => n !== at);
  expect({ wrongAt, ran: wrongAt < 0 ? [] : ran.slice(Math.max(0, wrongAt - 3), wrongAt + 40) }).toEqual({
    wrongAt: -1,
    ran: [],
  });
  expect(await leftovers()).toEqual([]);
}, 900_000);

test('what comes back to a home whose leader had passed its place goes before what is new', async () => {
  const ran: number[] = [];
  const one = nth(several.databases, 0);
  await schedule(1);
  await work((n) => void ran.push(n), 1);
  await router.producer.enqueueMany(Array.from({ length: 40 }, (_, n) => task.job({ n }, acme)));
  await until('all have run', () => ran.length === 40);
  await delay(1_500); // the leader looks once more for commits that come late
  await router.operator.keys.move(key, { to: 'two' });
  await router.producer.enqueue(task, { n: 40 }, acme); // nobody leads there, so it waits
  await router.operator.keys.move(key, { to: 'one' });
  await until(
    'the hold has ended',
    async () => (await one.query('select from pgqueue.key_move', [])).length === 0,
  );
  await router.producer.enqueue(task, { n: 41 }, acme);
  await until('both have run', () => ran.length === 42);
  expect(ran.slice(40)).toEqual([40, 41]);
});

test('a job that runs is waited for, and what is new waits for it, and explain says so', async () => {
  let end = (): void => {};
  const long = new Promise<void>((resolve) => (end = resolve));
  const ran: number[] = [];
  await router.producer.enqueue(task, { n: 0 }, acme);
  await schedule(1, 2);
  await work((n) => {
    ran.push(n);
    return n === 0 ? long : undefined;
  });
  await until('it runs', () => ran.length === 1);
  await router.producer.enqueueMany(Array.from({ length: 20 }, (_, n) => task.job({ n: n + 1 }, acme)));
  await nth(several.operators, 0).queues.set('default', { concurrency: 1 });
  const told: unknown[] = [];
  const moving = router.operator.keys.move(key, { to: 'two', onProgress: (progress) => told.push(progress) });
  await until('it waits for the one that runs', () =>
    told.some((one) => (one as { left?: string }).left === 'running'),
  );
  const late = await router.producer.enqueue(task, { n: 99 }, acme);
  const explained = await router.operator.explain(late.id, { waitMs: 60_000 });
  expect(JSON.stringify(explained.reasons)).toContain('moves between installations');
  const ranBefore = [...ran];
  end();
  expect(await moving).toMatchObject({ from: 'one', to: 'two' });
  await until('all have run', () => ran.length === 22);
  expect(ranBefore.length).toBeLessThanOrEqual(21);
  expect(ran.at(-1)).toBe(99);
});

test('jobs of flows and those that wait for signals stay; dead and ended ones are found by id', async () => {
  const run = await router.producer.start(flow('f').step('a', task.job({ n: 1 }, acme)), acme);
  const job = await router.producer.enqueue(task, { n: 2 }, acme);
  const told = await router.producer.enqueue(task, { n: 3 }, acme);
  await router.producer.signalJob(told.id, 'go', { yes: true });
  const gone = await router.producer.enqueue(task, { n: 4 }, acme);
  await router.operator.jobs.cancel([gone.id]);
  expect(await router.operator.keys.plan(key, { to: 'two' })).toMatchObject({ jobs: 1 });
  await until(
    'the step is there',
    async () => (await waitingIn(several))[0] === 3 || (await stepMade(), false),
  );
  await router.operator.keys.move(key, { to: 'two' });
  expect(await waitingIn(several)).toEqual([2, 1, 0]);
  for (const { id } of [job, told, gone]) expect(await router.operator.jobs.get(id)).toMatchObject({ id });
  expect(run.id).toBeTruthy();
});

async function stepMade(): Promise<void> {
  if (running.length === 0) await schedule(1);
}

test('a job on its way is known by its id, and its result comes from where it ran', async () => {
  const job = await router.producer.enqueue(task, { n: 1 }, acme);
  const result = router.producer.result(job, { timeout: '5m' });
  const stop = new AbortController();
  stop.abort();
  await expect(router.operator.keys.move(key, { to: 'two', signal: stop.signal })).rejects.toThrow(/aborted/);
  const [old] = several.databases;
  await old?.query('select pgqueue.hand_over($1, 1, null, 10, false)', [key]);
  expect(await waitingIn(several)).toEqual([0, 0, 0]);
  expect(await old?.query('select status from pgqueue.job_result(array[$1::uuid])', [job.id])).toEqual([
    { status: 'pending' },
  ]);
  const { producer, operator } = router;
  expect(await operator.jobs.cancel([job.id])).toMatchObject([{ verdict: 'busy', status: 'pending' }]);
  expect(await operator.jobs.get(job.id)).toMatchObject({ status: 'pending', ...acme, payload: { n: 1 } });
  expect((await operator.explain(job.id)).reasons).toMatchObject([
    { kind: 'held', gate: 'moving', message: expect.stringContaining('is on its way') as string },
  ]);
  const busy = { code: 'installation', message: expect.stringContaining('is busy') as string };
  await expect(producer.signalJob(job.id, 'go', null)).rejects.toMatchObject(busy);
  await expect(operator.jobs.signal(job.id, 'go')).rejects.toMatchObject(busy);
  await operator.keys.move(key, { to: 'two' });
  expect(await producer.signalJob(job.id, 'go', null)).toBe('signalled');
  await schedule(2);
  await work(() => {});
  await result;
  expect(await router.operator.jobs.get(job.id)).toMatchObject({ status: 'done' });
});

test('an enqueue that is repeated under its id after the move finds the job that has ended in the old home', async () => {
  const [id, other] = [randomUUID(), randomUUID()];
  await router.producer.enqueue(task, { n: 1 }, { ...acme, id });
  await router.operator.jobs.cancel([id]);
  await router.operator.keys.move(key, { to: 'two' });
  const repeated = { id, outcome: 'repeated' };
  expect(await router.producer.enqueue(task, { n: 1 }, { ...acme, id })).toEqual(repeated);
  const made = await router.producer.enqueueMany([
    task.job({ n: 2 }, { ...acme, id: other }),
    task.job({ n: 1 }, { ...acme, id }),
  ]);
  expect(made).toEqual([{ id: other, outcome: 'enqueued' }, repeated]);
  expect(await waitingIn(several)).toEqual([0, 1, 0]);
  // a router that has not heard of the move asks the old home, which refuses, and tells of the job
  const late = createRouter({ installations: several.installations });
  try {
    expect(await late.producer.enqueue(task, { n: 1 }, { ...acme, id })).toEqual(repeated);
  } finally {
    await late.close();
  }
});

test('a hundred thousand, over queues and priorities, some delayed, and some large', async () => {
  const old = nth(several.databases, 0);
  await old.query(
    `insert into pgqueue.queue (task, key, queue, priority, run_after, payload)
     select 'hello', $1, 'q' || n % 3, n % 5, case when n % 10 = 0 then now() + interval '1 day' + n * interval '1 s' end, jsonb_build_object('n', n)
     from generate_series(0, 99999) n`,
    [key],
  );
  // 12 MiB of texts, which compress well: in more than one slice
  await old.query(
    `insert into pgqueue.queue (task, key, queue, payload)
     select 'hello', $1, 'large', jsonb_build_object('n', 100000 + n, 'x', repeat('x', 300000)) from generate_series(1, 40) n`,
    [key],
  );
  const digest = (number: number): Promise<readonly unknown[]> =>
    nth(several.databases, number - 1).query(
      `select queue, priority, count(*)::integer as jobs, count(run_after)::integer as delayed,
              md5(string_agg(id || payload::text || coalesce(run_after::text, ''), ',' order by seq)) as digest
       from pgqueue.queue where key = $1 group by queue, priority order by queue, priority`,
      [key],
    );
  const before = await digest(1);
  expect(await router.operator.keys.plan(key, { to: 'two' })).toMatchObject({ jobs: 100_040 });
  const told: number[] = [];
  const moved = await router.operator.keys.move(key, {
    to: 'two',
    onProgress: ({ jobs }) => void told.push(jobs),
  });
  expect(moved).toMatchObject({ jobs: 100_040, known: 0, freed: 0 });
  expect(told.length).toBeGreaterThan(50);
  expect(await digest(2)).toEqual(before);
  expect(await waitingIn(several)).toEqual([0, 100_040, 0]);
  expect(await leftovers()).toEqual([]);
});

test('a unique key that is taken in the new home is given up by the job that comes', async () => {
  await router.producer.enqueue(task, { n: 1 }, { ...acme, uniqueKey: 'u' });
  const stop = new AbortController();
  stop.abort();
  await expect(router.operator.keys.move(key, { to: 'two', signal: stop.signal })).rejects.toThrow(/aborted/);
  await router.producer.enqueue(task, { n: 2 }, { ...acme, uniqueKey: 'u' });
  expect(await router.operator.keys.move(key, { to: 'two' })).toMatchObject({ jobs: 1, freed: 1 });
  expect(await rowsIn(2, "payload ->> 'n' as n, unique_key")).toEqual([
    { n: '1', unique_key: null },
    { n: '2', unique_key: 'u' },
  ]);
});

test('a limit of waiting jobs does not refuse those that come', async () => {
  await nth(several.operators, 1).queues.set('default', { keyPending: 2 });
  await router.producer.enqueueMany(Array.from({ length: 9 }, (_, n) => task.job({ n }, acme)));
  expect(await router.operator.keys.move(key, { to: 'two' })).toMatchObject({ jobs: 9 });
  await expect(router.producer.enqueue(task, { n: 0 }, acme)).rejects.toMatchObject({
    code: 'too_many_pending',
  });
});

test('a rate of the key is kept through the move: the new home begins with an empty bucket', async () => {
  const [perSecond, burst, jobs] = [5, 20, 40];
  await router.operator.queues.set('default', { keyRate: { perSecond, burst } });
  const at: number[] = [];
  await router.producer.enqueueMany(Array.from({ length: jobs }, (_, n) => task.job({ n }, acme)));
  const beganAt = Date.now();
  await schedule(1, 2);
  await work(() => void at.push(Date.now()), jobs);
  await until('the burst is used up', () => at.length >= burst);
  await router.operator.keys.move(key, { to: 'two' });
  await until('all have run', () => at.length === jobs);
  // a busy machine starts jobs later, and never sooner: those of a full bucket would come four seconds too soon
  for (const [index, startedAt] of at.toSorted((a, b) => a - b).entries())
    expect(startedAt - beganAt).toBeGreaterThan(((index + 1 - burst) / perSecond) * 1_000 - 100);
});

test('bad input is refused, and nothing is changed', async () => {
  const { keys } = router.operator;
  await router.producer.enqueue(task, { n: 1 }, acme);
  const none = 'postgres://postgres@127.0.0.1:1/none';
  const wrong = { code: 'configuration' };
  for (const bad of ['', 'x'.repeat(201), 7, null, 'a\0'])
    await expect(keys.move(bad as string, { to: 'two' })).rejects.toMatchObject(wrong);
  for (const to of ['nowhere', 99, '', null, {}])
    await expect(keys.move(key, { to: to as string })).rejects.toMatchObject(wrong);
  await expect(keys.move(key, { to: 'two', onprogress: () => {} } as never)).rejects.toThrow(/onProgress/);
  await expect(keys.move(key, { to: 'one' })).rejects.toThrow(/home of key .* already/);
  const with2 = (change: object) =>
    createRouter({
      installations: several.installations.map((one) => (one.number === 2 ? { ...one, ...change } : one)),
    });
  const broken = [with2({ connectionString: none }), with2({ state: 'draining' })];
  for (const other of broken) {
    await expect(other.operator.keys.move(key, { to: 'two' })).rejects.toThrow(/two/);
    await other.close();
  }
  await nth(several.databases, 1)
    .query('insert into pgqueue.migration select max(version) + 1, $1, now() from pgqueue.migration', ['x'])
    .catch(async () => {
      await nth(several.databases, 1).query('update pgqueue.migration set version = version + 1', []);
    });
  await expect(keys.move(key, { to: 'two' })).rejects.toMatchObject({ code: 'schema_version' });
  expect(await waitingIn(several)).toEqual([1, 0, 0]);
  expect(await leftovers()).toEqual([]);
  expect(router.homeOf(key).name).toBe('one');
});

test('a move to another home is refused while one is under way, and the same one goes on', async () => {
  await router.producer.enqueueMany(Array.from({ length: 10 }, (_, n) => task.job({ n }, acme)));
  const stop = new AbortController();
  stop.abort();
  await expect(router.operator.keys.move(key, { to: 'two', signal: stop.signal })).rejects.toThrow(/aborted/);
  await expect(router.operator.keys.move(key, { to: 'three' })).rejects.toThrow(/on its way from one to two/);
  expect(await router.operator.keys.plan(key, { to: 'two' })).toMatchObject({ jobs: 10 });
  const [one, other] = await Promise.all([
    router.operator.keys.move(key, { to: 'two' }),
    router.operator.keys.move(key, { to: 'two' }).catch((error: unknown) => error),
  ]);
  expect(one.to).toBe('two');
  expect(other).toBeDefined();
  expect(await waitingIn(several)).toEqual([0, 10, 0]);
  expect(await leftovers()).toEqual([]);
  await router.operator.keys.move(key, { to: 'three' });
  expect(await waitingIn(several)).toEqual([0, 0, 10]);
});
