import { gate, policy, turns } from '@pgqueue/core';
import { createOperator } from '@pgqueue/postgres';
import type { JobExplanation } from '@pgqueue/postgres';
import { afterEach, expect, test } from 'vitest';
import { cliOf, parseCli } from '../../support/cli.ts';
import { opened } from '../../support/database.ts';
import type { Bench, TestScheduler } from '../scheduler/support.ts';
import { openBench, until } from '../scheduler/support.ts';

const inTurn = policy({ order: turns() });
const bench = opened(openBench);
const operator = opened(() => createOperator({ pool: bench.database.pool }));
afterEach(() => bench.clear());

async function ids(where = 'true'): Promise<readonly string[]> {
  const rows = await bench.database.query<{ id: string }>(
    `select id from pgqueue.queue where ${where} order by seq`,
    [],
  );
  return rows.map(({ id }) => id);
}

async function leads(options: Parameters<Bench['scheduler']>[0]): Promise<TestScheduler> {
  const scheduler = await bench.scheduler(options);
  await until('it leads', () => scheduler.leads);
  return scheduler;
}

/** With the leader's word, however long that takes on a busy machine. */
const explain = (id: string): Promise<JobExplanation> => operator.explain(id, { waitMs: 30_000 });

async function last(): Promise<string> {
  return (await ids()).at(-1) ?? '';
}

test('places a waiting job in its key and in the order, and says what it may start by', async () => {
  const node = await bench.node({ slots: 4 });
  await bench.enqueue({ count: 6, key: 'acme' });
  await bench.enqueue({ count: 3, key: 'globex' });
  const scheduler = await leads({ horizonMs: 0, policy: inTurn });
  await until('two of each key are scheduled', async () => (await bench.items()).length === 4);
  const explained = await explain(await last());
  expect(explained.job.key).toBe('globex');
  expect(explained.reasons).toMatchObject([
    { kind: 'no_free_slot', slots: 4, running: 0, ready: 4 },
    { kind: 'in_line', key: 'globex', ahead: 2, aheadInOrder: 1 },
  ]);
  expect(explained).toMatchObject({ ahead: 2, aheadInOrder: 1, policy: { name: 'turns' } });
  expect(explained.start?.at).toBeInstanceOf(Date);
  expect(explained.start?.evidence).toEqual([
    expect.stringMatching(/^key "globex" got \d+\.\d jobs\/s over the last \d+ s, 2 jobs come first$/),
  ]);

  const behind = (await ids(`key = 'acme'`)).at(-1) ?? '';
  expect(await explain(behind)).toMatchObject({ ahead: 5, aheadInOrder: 4 });
  expect((await scheduler.explain(behind)).reasons).toEqual((await explain(behind)).reasons);

  const [first] = await node.claim(1);
  expect((await explain(first?.id ?? '')).reasons[0]?.kind).toBe('running');
  expect((await bench.database.query('select from pgqueue.explain_request', [])).length).toBe(0);
});

test('without NOTIFY the answer comes with the next poll', async () => {
  await leads({ listen: false, policy: inTurn });
  await bench.enqueue({ count: 1 });
  const { policy: asked, reasons } = await explain(await last());
  expect(asked?.name).toBe('turns');
  expect(reasons.map(({ kind }) => kind)).toEqual(['no_capable_node', 'in_line']);
});

test('a leader that does not answer any more is followed by one that does', async () => {
  await bench.enqueue({ count: 1 });
  await bench.database.query(`select pgqueue.lead('silent', 600)`, []);
  await bench.scheduler({ policy: inTurn });
  const { policy: asked } = await explain(await last());
  expect(asked?.name).toBe('turns');
  expect((await operator.status()).leader.leader).not.toBe('silent');
});

test('many ask at once, and each gets the answer for its own job', async () => {
  await leads({ policy: inTurn });
  await bench.enqueue({ count: 30, key: 'acme' });
  const jobs = await ids();
  const explained = await Promise.all(jobs.map((id) => explain(id)));
  expect(explained.map(({ job, ahead, policy: asked }) => [job.id, ahead, asked?.name])).toEqual(
    jobs.map((id, n) => [id, n, 'turns']),
  );
});

test('where the policy fails when it is asked, its limits are told, and the fault is in the status', async () => {
  await bench.node();
  const broken = policy({ name: 'broken', order: turns() });
  await leads({
    policy: {
      ...broken,
      explain: () => {
        throw new Error('no idea');
      },
    },
  });
  await operator.queues.set('default', { concurrency: 0 });
  await bench.enqueue({ count: 1 });
  const { reasons } = await explain(await last());
  expect(reasons).toMatchObject([
    {
      kind: 'held',
      gate: 'queue_concurrency',
      message: 'queue default has 0 of 0 in flight; nothing goes until that limit is raised',
    },
    { kind: 'in_line' },
  ]);
  await until('the fault is in the status', async () => {
    const { warnings } = await operator.status();
    return warnings.some(({ kind, message }) => kind === 'policy_fault' && message.includes('no idea'));
  });
});

test('limits that change while it runs count from the next tick on', async () => {
  await bench.node({ slots: 10 });
  await operator.queues.set('default', { concurrency: 0 });
  await leads({ policy: inTurn });
  await bench.enqueue({ count: 9, key: 'acme' });
  const id = await last();
  expect((await explain(id)).reasons).toMatchObject([
    { kind: 'held', gate: 'queue_concurrency', until: null },
    { kind: 'in_line', ahead: 8 },
  ]);
  for (const [limits, items] of [
    [{ concurrency: 2 }, 2],
    [{ concurrency: 5, keyConcurrency: 3 }, 3],
    [{ keyConcurrency: null }, 5],
    [{ concurrency: null }, 9],
  ] as const) {
    await operator.queues.set('default', limits);
    await until(`${items} items`, async () => (await bench.items()).length === items);
  }
});

test('the command says it in words', async () => {
  const { ask } = cliOf(() => bench.test.url);
  await bench.node();
  await operator.queues.set('mail', { keyConcurrency: 2 });
  await bench.enqueue({ count: 4, queue: 'mail', key: 'acme' });
  await leads({ policy: inTurn });
  await until('two are scheduled', async () => (await bench.items()).length === 2);
  const { text, json, code } = await ask('explain', await last());
  expect(code).toBe(0);
  expect(text).toMatch(
    new RegExp(
      [
        '^job [0-9a-f-]{36} is pending: task t, queue mail, key "acme", priority 0, .* old',
        ' {2}- held by key_concurrency: key acme of queue mail has 2 of 2 in flight',
        ' {2}- waits for its turn: 3 jobs of key "acme" come first; 1 of all keys, as far as the scheduler looks',
        ' {2}may start at about 2.*Z: key "acme" got .* jobs/s over the last \\d+ s, 3 jobs come first',
        ' {2}\\(policy turns, as of 2.*Z\\)\\n$',
      ].join('\\n'),
    ),
  );
  expect(json).toMatchObject({
    reasons: [{ kind: 'held', gate: 'key_concurrency', until: null }, { kind: 'in_line' }],
    aheadInOrder: 1,
    start: { at: expect.any(String) },
    policy: { name: 'turns' },
  });
  await operator.queues.set('mail', { keyConcurrency: 0 });
  const blocked = await parseCli(['explain', await last(), '--database-url', bench.test.url]);
  expect(blocked.stdout).toMatch(
    /\n {2}never starts until this changes: key acme of queue mail has 2 of 0 in flight; nothing goes until that limit is raised\n/,
  );
});

test('status has what the leader last said', async () => {
  await bench.node({ slots: 4 });
  await leads({ horizonMs: 0, policy: inTurn });
  await operator.queues.set('mail', { keyConcurrency: 1 });
  await bench.enqueue({ count: 5, queue: 'mail', key: 'acme' });
  await bench.hint();
  const status = await until('a report of the held jobs', async () => {
    const found = await operator.status();
    return found.queues[0]?.held?.['key_concurrency'] === undefined ? undefined : found;
  });
  expect(status.queues).toMatchObject([{ queue: 'mail', held: { key_concurrency: expect.any(Number) } }]);
  expect(status.scheduler).toMatchObject({
    policy: 'turns',
    stale: false,
    lanes: 1,
    inFlight: 1,
    faults: [],
    ticks: { dispatched: 1, lastBatch: 1, p50Ms: expect.any(Number) },
  });
  expect(status.warnings).toEqual([]);
});

test('answers again when a crash of the server has begun the numbers of questions anew', async () => {
  await bench.node({ slots: 0 });
  await bench.enqueue({ count: 1, key: 'acme' });
  const scheduler = await leads({ policy: inTurn });
  const id = await last();
  // a question whose number is not looked at is asked anew
  const answered = async (): Promise<boolean> => (await operator.explain(id)).policy !== null;
  // by more than it looks back
  await bench.database.query('alter table pgqueue.explain_request alter n restart with 5000', []);
  await until('an answer', answered);
  await bench.database.query('truncate pgqueue.explain_request restart identity', []);
  await bench.database.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
     where application_name = 'pgqueue scheduler' and datname = current_database()`,
    [],
  );
  await until('it notices', () => scheduler.events.some(({ type }) => type === 'database.error'));
  expect(await until('an answer', answered)).toBe(true);
});

test('names no time for a job that a gate holds until nobody knows when', async () => {
  const node = await bench.node({ slots: 10 });
  let outage = false;
  const region = gate({ name: 'region', admits: () => (outage ? 'region us has an outage' : true) });
  await bench.enqueue({ count: 5, key: 'acme' });
  await leads({ policy: policy({ gates: [region], order: turns() }) });
  await until('its key had jobs', async () => (await bench.items()).length === 5);
  await node.done(await node.claim(10));
  outage = true;
  await bench.enqueue({ count: 1, key: 'acme' });
  await bench.hint();
  const start = await until('the leader has seen it', async () => (await explain(await last())).start);
  expect(start).toEqual({
    at: null,
    blocked: false,
    evidence: ['nobody knows when this ends: region us has an outage'],
  });
});
