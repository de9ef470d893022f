import type { PgQueueEvent } from '@pgqueue/core';
import { beforeEach, describe, expect, test } from 'vitest';
import type { TickFacts } from '../../../packages/scheduler/src/reporting/report.ts';
import { createReporter } from '../../../packages/scheduler/src/reporting/report.ts';
import { opened } from '../../support/database.ts';
import { openGround } from '../sql/support.ts';
import { until } from '../scheduler/support.ts';

const job = '00000000-0000-7000-8000-000000000001';
const other = '00000000-0000-7000-8000-000000000002';
const ground = opened(openGround);
beforeEach(async () => {
  await ground.reset();
  await ground.sql('truncate pgqueue.explain_request restart identity');
  await ground.sql('truncate pgqueue.scheduler_report');
});

const ask = (id = job): Promise<unknown> => ground.one('select pgqueue.ask_explain($1)::integer', [id]);
const open = (after = 0): Promise<unknown> => ground.one('select pgqueue.open_explains($1)', [after]);
const take = (n: unknown, id = job): Promise<unknown> =>
  ground.one('select pgqueue.take_explain($1, $2)', [n, id]);
const answer = (n: unknown, epoch = ground.leader().epoch): Promise<unknown> =>
  ground.one('select pgqueue.answer_explain($1, $2, $3, $4)', ['leader', epoch, n, '{"waits": false}']);
const count = (): Promise<unknown> => ground.one('select count(*)::integer from pgqueue.explain_request');

describe('a question', () => {
  test('is open until it is answered; the answer is taken once, by whoever names the job', async () => {
    const n = await ask();
    expect(await open()).toEqual([{ n, job }]);
    expect(await take(n)).toBeNull();
    expect(await answer(n)).toBe(true);
    expect(await open()).toBeNull();
    expect(await answer(n)).toBe(false);
    expect(await take(n, other)).toBeNull();
    expect(await take(n)).toEqual({ waits: false });
    expect(await take(n)).toBeNull();
    expect(await count()).toBe(0);
  });

  test("leaves the caller's transaction as durable as it was", async () => {
    const kept = await ground.database.transaction(async (client) => {
      await client.query('set local synchronous_commit = on');
      await client.query('select pgqueue.take_explain(pgqueue.ask_explain($1), $1)', [job]);
      return (await client.query('show synchronous_commit')).rows;
    });
    expect(kept).toEqual([{ synchronous_commit: 'on' }]);
  });

  test('wakes the leader', async () => {
    const client = await ground.database.pool.connect();
    try {
      const heard = new Promise((resolve) => {
        client.once('notification', resolve);
      });
      await client.query('listen "pgqueue:queue"');
      await ask();
      expect(await heard).toMatchObject({ channel: 'pgqueue:queue' });
      await client.query('unlisten *');
    } finally {
      client.release();
    }
  });

  test('is answered by the leader alone', async () => {
    const n = await ask();
    const { epoch } = ground.leader();
    await expect(answer(n, epoch - 1)).rejects.toMatchObject({ code: 'PQ002' });
    await ground.sql('update pgqueue.scheduler_lease set expires = clock_timestamp()');
    await expect(answer(n)).rejects.toMatchObject({ code: 'PQ002' });
    expect(await open()).toEqual([{ n, job }]);
  });

  test('is refused where nobody leads, and where a thousand are open', async () => {
    await ground.sql('insert into pgqueue.explain_request (job) select $1 from generate_series(1, 1000)', [
      job,
    ]);
    expect(await ask()).toBeNull();
    await ground.sql(`update pgqueue.explain_request set asked = now() - interval '2 minutes'`);
    expect([await ask(), await count()]).toEqual([null, 0]);
    expect(await ask()).toEqual(expect.any(Number));
    await ground.sql('update pgqueue.scheduler_lease set expires = clock_timestamp()');
    expect(await ask()).toBeNull();
  });

  test('is forgotten: by the leader after ten seconds, from the table after a minute', async () => {
    const old = await ask();
    const older = await ask(other);
    const n = await ask();
    await ground.sql(
      `update pgqueue.explain_request set asked = now() - interval '11 seconds' where n = $1`,
      [old],
    );
    await ground.sql(
      `update pgqueue.explain_request set asked = now() - interval '61 seconds' where n = $1`,
      [older],
    );
    expect(await open()).toEqual([{ n, job }]);
    await answer(n);
    expect(await ground.sql('select n::integer from pgqueue.explain_request order by n')).toEqual([
      { n: old },
      { n },
    ]);
  });

  test('comes in pages: the oldest twenty behind a number', async () => {
    for (let asked = 0; asked < 25; asked += 1) await ask();
    const numbers = async (after: number): Promise<readonly number[]> =>
      ((await open(after)) as readonly { readonly n: number }[]).map(({ n }) => n);
    expect(await numbers(0)).toEqual(Array.from({ length: 20 }, (_, n) => n + 1));
    expect(await numbers(20)).toEqual([21, 22, 23, 24, 25]);
  });
});

describe('the facts of a waiting job', () => {
  const facts = async (id: string): Promise<Record<string, unknown> | null> =>
    (await ground.one('select pgqueue.waiting_job($1)', [id])) as Record<string, unknown> | null;

  test('whose key is first, and when the next retry is due', async () => {
    const member = await ground.node();
    const failed = await ground.running(member, { key: 'acme' });
    await ground.settle([failed], 'retry', { delayMs: 3_600_000, data: { message: 'no' } });
    const late = await ground.insert({ key: 'acme', priority: 5, attributes: '{"region": "eu"}' });
    const first = await ground.insert({ key: 'acme' });
    await ground.insert({ key: 'globex', priority: -5 });
    expect(await facts(late)).toMatchObject({
      id: late,
      key: 'acme',
      priority: 5,
      attributes: { region: 'eu' },
      tries: 0,
      firstId: first,
      expiresMs: null,
    });
    const dueMs = Number((await facts(first))?.['retryDueMs']);
    expect(dueMs).toBeGreaterThan(Date.now() + 3_000_000);
    expect(await facts(failed.id)).toBeNull();
    await ground.dispatch([first]);
    expect(await facts(first)).toBeNull();
    expect(await facts(late)).toMatchObject({ firstId: late });
    expect(await facts(other)).toBeNull();
  });
});

describe('the report', () => {
  const facts = (rest: Partial<TickFacts> = {}): TickFacts => ({
    leader: ground.leader(),
    held: {},
    forecast: null,
    durationMs: 2,
    dispatched: 0,
    lanes: 0,
    inFlight: 0,
    wanted: () => Promise.resolve({}),
    faults: [],
    shadow: null,
    ...rest,
  });
  const stored = async (): Promise<Record<string, unknown> | undefined> =>
    (await ground.sql('select report from pgqueue.scheduler_report'))[0]?.['report'] as
      | Record<string, unknown>
      | undefined;
  const events: PgQueueEvent[] = [];
  const reporter = (everyMs: number, unchangedEveryMs = 60_000): ReturnType<typeof createReporter> =>
    createReporter({
      database: ground.database,
      policy: 'fair',
      observe: (event) => events.push(event),
      everyMs,
      unchangedEveryMs,
    });

  test('is written by the leader alone', async () => {
    const { epoch } = ground.leader();
    const write = (of: number): Promise<unknown> =>
      ground.one(`select pgqueue.report('leader', $1, '{}')`, [of]);
    await write(epoch);
    await expect(write(epoch - 1)).rejects.toMatchObject({ code: 'PQ002' });
    await ground.sql('update pgqueue.scheduler_lease set expires = clock_timestamp()');
    await expect(write(epoch)).rejects.toMatchObject({ code: 'PQ002' });
  });

  test('comes at once, then at most once in its time, with what was last', async () => {
    const { tick, stop } = reporter(200);
    const writes: string[] = [];
    const { database } = ground;
    const counting = { ...database, query: database.query };
    counting.query = async (text, values) => {
      if (text.includes('.report(')) writes.push(text);
      return database.query(text, values);
    };
    const own = createReporter({ database: counting, policy: 'fair', observe: () => {}, everyMs: 1_000 });
    const beganAt = performance.now();
    own.tick(facts({ lanes: 1 }));
    await until('the first', async () => (await stored())?.['lanes'] === 1);
    for (let lanes = 2; lanes <= 50; lanes += 1) own.tick(facts({ lanes, dispatched: lanes === 7 ? 3 : 0 }));
    await until('the last', async () => (await stored())?.['lanes'] === 50);
    // two, or one more for each second that the machine took
    expect(writes.length).toBeLessThanOrEqual(2 + Math.floor((performance.now() - beganAt) / 1_000));
    const changes = writes.length;
    expect(await stored()).toMatchObject({
      policy: 'fair',
      ticks: { count: 50, p50Ms: 2, p99Ms: 2, lastBatch: 3, dispatched: 3 },
    });
    const lastAt = performance.now();
    await until('there was time for another', () => {
      own.tick(facts({ lanes: 50 }));
      return performance.now() - lastAt > 1_300;
    });
    expect(writes).toHaveLength(changes);
    await own.stop();
    tick(facts({ lanes: 51 }));
    await stop();
    expect(await stored()).toMatchObject({ lanes: 51 });
  });

  test('of ticks that find nothing comes now and then, so that the leader is known to tick', async () => {
    const { tick, stop } = reporter(1, 20);
    tick(facts());
    await until('the first', async () => (await stored()) !== undefined);
    await until('another', async () => {
      tick(facts());
      const report = await stored();
      return Number((report?.['ticks'] as { readonly count: number } | undefined)?.count) > 1;
    });
    await stop();
    expect(await stored()).toMatchObject({ lanes: 0, inFlight: 0 });
  });

  test('of one that no longer leads is dropped; one that fails is said, and tried again', async () => {
    const { epoch } = ground.leader();
    const { tick, stop } = reporter(1);
    tick(facts({ leader: { leader: 'leader', epoch: epoch - 1 }, lanes: 9 }));
    await ground.sql(
      "alter table pgqueue.scheduler_report add constraint no check (report ->> 'lanes' <> '8')",
    );
    try {
      await until('the failure', () => {
        tick(facts({ lanes: 8 }));
        return events.some((event) => event.type === 'database.error' && event.during === 'report');
      });
    } finally {
      await ground.sql('alter table pgqueue.scheduler_report drop constraint no');
    }
    await until('it comes after all', async () => {
      tick(facts({ lanes: 8 }));
      return (await stored())?.['lanes'] === 8;
    });
    await stop();
    expect(events.filter(({ type }) => type !== 'database.error')).toEqual([]);
  });
});
