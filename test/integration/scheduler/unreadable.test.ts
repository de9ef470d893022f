import { createOperator } from '@pgqueue/postgres';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import type { TestScheduler } from './support.ts';
import { openBench, until } from './support.ts';

// rows as an administrator, a restore or a defect of ours could leave them: the checks of the tables are taken away
const bench = opened(openBench);
const operator = opened(() => createOperator({ pool: bench.database.pool }));
beforeAll(async () => {
  for (const table of ['queue', 'node', 'queue_config']) {
    const rows = await bench.database.query<{ name: string }>(
      `select quote_ident(conname) as name from pg_constraint where conrelid = 'pgqueue.${table}'::regclass and contype = 'c'`,
      [],
    );
    for (const { name } of rows) {
      await bench.database.query(`alter table pgqueue.${table} drop constraint ${name}`, []);
    }
  }
});
beforeEach(() => bench.clear());

/** Resolves when so many jobs of the other lanes, and those behind the odd ones, have work items. */
async function goOn(jobs: number): Promise<void> {
  await bench.enqueue({ count: 5, queue: 'other', key: 'good' });
  await bench.hint();
  await until('good jobs', async () => (await bench.items()).length === jobs);
}

/** Resolves to what the doctor found of it, once the event and the status have told of it. */
async function told(scheduler: TestScheduler, kind: string, id: string): Promise<readonly string[]> {
  const said = (): boolean =>
    scheduler.events.some(
      (event) => event.type === 'tick.unreadable' && event.kind === kind && event.id === id,
    );
  await until('the event', said);
  await until('status', async () => {
    const { warnings } = await operator.status();
    return warnings.some(({ kind: of, message }) => of === 'unreadable' && message.includes(id));
  });
  const { findings } = await operator.doctor();
  expect(scheduler.events.filter(({ type }) => type === 'database.error')).toEqual([]);
  return findings.find(({ check }) => check === 'unreadable_rows')?.samples ?? [];
}

describe('jobs whose attributes', () => {
  test.each([
    ['are nested by thousands', `('{"a":' || repeat('[', 4900) || repeat(']', 4900) || '}')::jsonb`],
    [
      'are 13 MB of text in 2 kB',
      `(select jsonb_object_agg('n' || n, '1e131071'::numeric) from generate_series(1, 100) n)`,
    ],
    ['have a number that no double holds', `'{"large": 1e400}'`],
    ['are a list', `'[1, 2]'`],
    ['are no object', `'null'`],
    ['are long', `jsonb_build_object('a', repeat('x', 70000))`],
  ])('%s are left out alone', async (_, attributes) => {
    await bench.node({ slots: 100 });
    await bench.database.query(
      `insert into pgqueue.queue (task, queue, key, attributes) select 't', 'default', 'evil', ${attributes} from generate_series(1, 2)`,
      [],
    );
    await bench.enqueue({ count: 3, key: 'evil' });
    const [odd] = await bench.database.query<{ id: string }>(
      'select id from pgqueue.queue order by seq limit 1',
      [],
    );
    const scheduler = await bench.scheduler({ leaseMs: 10_000 });
    // 5 of other lanes, and 3 behind them in their own
    await goOn(8);
    expect(await told(scheduler, 'job', odd?.id ?? '')).toContain(`job ${odd?.id}`);
    const { reasons, start } = await operator.explain(odd?.id ?? '');
    expect(reasons).toContainEqual(expect.objectContaining({ kind: 'held', gate: 'unreadable' }));
    expect(start?.blocked).toBe(true);
  });
});

test('a job of a time that is none is left out alone', async () => {
  await bench.node({ slots: 100 });
  const [odd] = await bench.database.query<{ id: string }>(
    `insert into pgqueue.queue (task, key, created) values ('t', 'evil', 'infinity') returning id`,
    [],
  );
  const scheduler = await bench.scheduler();
  await goOn(5);
  expect(await told(scheduler, 'job', odd?.id ?? '')).toContain(`job ${odd?.id}`);
});

test.each([`'{"t": null}'`, `'{"t": {"min": "x"}}'`, `'[]'`, `'null'`])(
  'a node that registered with tasks %s runs nothing, and the others go on',
  async (tasks) => {
    await bench.node({ id: 'good', slots: 100 });
    await bench.node({ id: 'odd', slots: 100, pool: 'elsewhere' });
    await bench.database.query(`update pgqueue.node set tasks = ${tasks} where id = 'odd'`, []);
    const scheduler = await bench.scheduler();
    await goOn(5);
    expect(await told(scheduler, 'node', 'odd')).toContain(`node odd`);
  },
);

test.each([`'{"t": "x"}'`, `'{"t": null}'`, `'{"t": 1e400}'`, `'[]'`])(
  'a node with run times %s goes on without batches',
  async (runs) => {
    await bench.node({ id: 'odd', slots: 100 });
    await bench.database.query(`update pgqueue.node set runs = ${runs} where id = 'odd'`, []);
    const scheduler = await bench.scheduler();
    await goOn(5);
    expect(await told(scheduler, 'node', 'odd')).toContain(`node odd`);
  },
);

test('a queue with settings that are no numbers is held alone', async () => {
  await bench.node({ slots: 100 });
  await bench.database.query(
    `insert into pgqueue.queue_config (queue, rate, rate_burst) values ('default', 'Infinity', 1)`,
    [],
  );
  await bench.enqueue({ count: 3 });
  const scheduler = await bench.scheduler();
  await goOn(5);
  expect(await told(scheduler, 'queue', 'default')).toContain(`queue default`);
});

test.each([
  `'null'`,
  `'[[[]]]'`,
  `'{"pools": {"default": {"names": [1], "ahead": ["x"]}}, "levels": 2, "unit": "jobs"}'`,
  `'7'`,
])('a leader begins anew where the state of its policy is %s', async (state) => {
  await bench.node({ slots: 100 });
  for (const part of ['fair_share', 'queue_rate', 'key_rate']) {
    await bench.database.query(
      `insert into pgqueue.policy_state (part, state, saved) values ($1, ${state}, clock_timestamp())`,
      [part],
    );
  }
  const scheduler = await bench.scheduler();
  await goOn(5);
  expect(scheduler.events.filter(({ type }) => type === 'database.error')).toEqual([]);
});
