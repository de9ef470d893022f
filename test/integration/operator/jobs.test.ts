import { createOperator } from '@pgqueue/postgres';
import type { Operator } from '@pgqueue/postgres';
import { beforeEach, describe, expect, test } from 'vitest';
import { useDatabase } from '../../support/database.ts';

const { database, operator, die, insert, item, reset, run, sql } = useDatabase();

beforeEach(reset);

describe('jobs', () => {
  test('a job is read whole wherever it stands', async () => {
    const id = await insert({ payload: '{"a": [1]}', timeout: '90 seconds', key: 'k', priority: 3 });
    expect(await operator.jobs.get(id)).toMatchObject({
      id,
      status: 'pending',
      task: 'hello',
      key: 'k',
      priority: 3,
      payload: { a: [1] },
      result: null,
      errors: [],
      timeoutMs: 90_000,
      maxTries: 20,
      position: null,
    });
    const token = await run('n', [id]);
    expect(await operator.jobs.get(id)).toMatchObject({
      status: 'running',
      node: 'n',
      payload: { a: [1] },
      position: expect.any(Number),
    });
    await sql(`select pgqueue.ack($1, $2, '{"b": 2}')`, [id, token]);
    expect(await operator.jobs.get(id)).toMatchObject({
      status: 'done',
      payload: { a: [1] },
      result: { b: 2 },
      maxTries: null,
    });
    const dead = await die({ payload: '{"c": 3}' });
    expect(await operator.jobs.get(dead)).toMatchObject({
      status: 'dead',
      reason: 'gave_up',
      payload: { c: 3 },
      errors: [{ message: 'no', node: 'killer', try: 1 }],
      lastError: { message: 'no' },
    });
    expect(await operator.jobs.get('00000000-0000-7000-8000-000000000000')).toBeUndefined();
    expect(await operator.jobs.get('nonsense')).toBeUndefined();
  });

  test('a job is waited for until it has ended, or for as long as was said', async () => {
    const id = await insert({ payload: '{"a": 1}' });
    expect(await operator.jobs.wait(id, { timeout: 0 })).toMatchObject({ status: 'pending', finished: null });
    const token = await run('n', [id]);
    const waited = operator.jobs.wait(id, { timeout: '1h' });
    expect(await operator.jobs.wait(id, { timeout: 50 })).toMatchObject({ status: 'running' });
    await sql(`select pgqueue.ack($1, $2, '{"b": 2}')`, [id, token]);
    expect(await waited).toEqual({ ...(await operator.jobs.get(id)), ageMs: expect.any(Number) });
    expect(await waited).toMatchObject({ status: 'done', result: { b: 2 }, finished: expect.any(Date) });
    const dead = await die({});
    expect(await operator.jobs.wait(dead)).toMatchObject({ status: 'dead', reason: 'gave_up' });
    expect(await operator.jobs.wait('00000000-0000-7000-8000-000000000000')).toBeUndefined();
    await expect(operator.jobs.wait(id, { timeout: 'soon' as never })).rejects.toThrow(
      /jobs\.wait: timeout must be a duration/,
    );
    await expect(operator.jobs.wait(id, { timeOut: 5 } as never)).rejects.toThrow('did you mean timeout?');
  });

  test('pages go from new to old through every table, without gap or repeat', async () => {
    const ids: string[] = [];
    for (let n = 0; n < 4; n += 1) {
      ids.push(await insert(), await die());
      const done = await insert();
      const token = await run('n', [done]);
      await sql('select pgqueue.ack($1, $2)', [done, token]);
      ids.push(done);
    }
    const seen: string[] = [];
    let after: string | null = null;
    let pages = 0;
    do {
      const page: Awaited<ReturnType<Operator['jobs']['list']>> = await operator.jobs.list({
        limit: 5,
        ...(after === null ? {} : { after }),
      });
      seen.push(...page.items.map(({ id }) => id));
      after = page.next;
      pages += 1;
    } while (after !== null);
    expect(seen).toEqual([...ids].sort().reverse());
    expect(pages).toBe(3);
  });

  test('filters find each status, queue, task and key', async () => {
    const delayed = await insert({ run_after: '2999-01-01T00:00:00Z', queue: 'mail' });
    const pending = await insert({ key: 'tenant' });
    const dead = await die();
    const cancelled = await insert();
    await operator.jobs.cancel([cancelled]);
    const running = await insert();
    await run('n', [running]);
    const ready = await insert({ task: 'other' });
    await item(ready, { task: 'other' });
    const expected = { delayed, pending, ready, running, dead, cancelled };
    for (const [status, id] of Object.entries(expected)) {
      const { items } = await operator.jobs.list({ status: status as keyof typeof expected });
      expect(items.map((job) => job.id)).toEqual([id]);
    }
    for (const status of ['done', 'expired'] as const) {
      expect((await operator.jobs.list({ status })).items).toEqual([]);
    }
    expect((await operator.jobs.list({ queue: 'mail' })).items[0]?.id).toBe(delayed);
    expect((await operator.jobs.list({ key: 'tenant' })).items[0]?.id).toBe(pending);
    expect((await operator.jobs.list({ task: 'other' })).items[0]?.id).toBe(ready);
    await expect(operator.jobs.list({ limit: 0 })).rejects.toMatchObject({ code: 'configuration' });
    await expect(operator.jobs.list({ after: 'x' })).rejects.toMatchObject({ code: 'configuration' });
  });

  test('a page is read along the indexes, however many jobs wait', async () => {
    await sql(`insert into pgqueue.queue (task) select 'hello' from generate_series(1, 20000)`);
    await sql('analyze pgqueue.queue');
    const log: string[] = [];
    const client = await database.pool.connect();
    client.on('notice', ({ message = '' }) => log.push(message));
    const alone = createOperator({
      pool: { query: client.query.bind(client), connect: () => client } as unknown as typeof database.pool,
    });
    const release = client.release.bind(client);
    client.release = (): void => {};
    try {
      await alone.check();
      await client.query(`load 'auto_explain'`);
      await client.query(`set auto_explain.log_min_duration = 0`);
      await client.query(`set client_min_messages = 'log'`);
      for (const status of [undefined, 'pending', 'running', 'done', 'dead'] as const) {
        log.length = 0;
        const page = await alone.jobs.list({ limit: 10, ...(status === undefined ? {} : { status }) });
        expect(page.items).toHaveLength(status === undefined || status === 'pending' ? 10 : 0);
        const plan = log.find((text) => text.includes('Query Text')) ?? '';
        expect(plan).toContain('Index');
        expect(plan).not.toMatch(/Seq Scan on queue/);
      }
      await client.query('reset client_min_messages');
    } finally {
      release(true);
    }
  });

  test('cancel ends waiting jobs, signals running ones, and names those that are missing', async () => {
    const running = await insert();
    await run('n', [running]);
    const waiting = await insert();
    const missing = '00000000-0000-7000-8000-000000000000';
    expect(await operator.jobs.cancel([missing, running, waiting])).toEqual([
      { id: missing, verdict: 'missing', status: null },
      { id: running, verdict: 'signalled' },
      { id: waiting, verdict: 'cancelled' },
    ]);
    expect((await operator.jobs.get(waiting))?.status).toBe('cancelled');
    expect((await operator.jobs.get(running))?.cancelAsked).toBeInstanceOf(Date);
    await expect(operator.jobs.cancel(['x'])).rejects.toMatchObject({ code: 'configuration' });
    for (const ids of [waiting, undefined, { 0: waiting, length: 1 }] as unknown as string[][]) {
      for (const act of ['cancel', 'runNow', 'retry', 'erase'] as const) {
        await expect(operator.jobs[act](ids)).rejects.toThrow(
          "give a list of job ids, such as ['0198a3c2-…']",
        );
      }
    }
  });

  test('cancelAll ends all that fit, chunk by chunk, and none that has ended or does not fit', async () => {
    await sql(
      `insert into pgqueue.queue (task, queue, key) select 'hello', 'mail', 'a' from generate_series(1, 1200)`,
    );
    const [delayed, dead] = [
      await insert({ queue: 'mail', key: 'a', run_after: '2999-01-01' }),
      await die({ queue: 'mail', key: 'a' }),
    ];
    const running = await insert({ queue: 'mail', key: 'a' });
    await run('n', [running]);
    const others = [await insert({ queue: 'mail', key: 'b' }), await insert({ key: 'a' })];
    const filter = { queue: 'mail', key: 'a' };
    expect(await operator.jobs.count(filter)).toEqual({ count: 1202, more: false });
    expect(await operator.jobs.count({ ...filter, status: 'running' })).toEqual({ count: 1, more: false });
    expect(await operator.jobs.cancelAll({ ...filter, status: 'delayed' })).toMatchObject({ cancelled: 1 });
    expect((await operator.jobs.get(delayed))?.status).toBe('cancelled');
    const steps: number[] = [];
    const result = await operator.jobs.cancelAll(filter, {
      onProgress: ({ cancelled, signalled }) => steps.push(cancelled + signalled),
    });
    expect(result).toEqual({ cancelled: 1200, signalled: 1, busy: 0, missing: 0 });
    expect(steps).toEqual([500, 1000, 1201]);
    expect((await operator.jobs.get(running))?.cancelAsked).toBeInstanceOf(Date);
    expect((await operator.jobs.get(dead))?.status).toBe('dead');
    expect((await operator.jobs.list({ status: 'pending' })).items.map(({ id }) => id).toSorted()).toEqual(
      others.toSorted(),
    );
    for (const wrong of [{}, { quue: 'mail' }, { status: 'dead' }]) {
      const refused = { code: 'configuration' };
      await expect(operator.jobs.cancelAll(wrong as typeof filter)).rejects.toMatchObject(refused);
      await expect(operator.jobs.count(wrong as typeof filter)).rejects.toMatchObject(refused);
    }
  });

  test('cancel gives up on a job that stays busy, and gets it when it is free again', async () => {
    const id = await insert();
    await run('n', [id]);
    const holder = await database.pool.connect();
    try {
      await holder.query('begin');
      await holder.query('select from pgqueue.work_queue where id = $1 for update', [id]);
      expect(await operator.jobs.cancel([id])).toEqual([{ id, verdict: 'busy', status: 'running' }]);
      const asked = operator.jobs.cancel([id]);
      await holder.query('rollback');
      expect(await asked).toEqual([{ id, verdict: 'signalled' }]);
    } finally {
      holder.release();
    }
  });

  test('run now, amend, retry and erase change what waits, and leave what runs', async () => {
    const running = await insert();
    await run('n', [running]);
    const delayed = await insert({ run_after: '2999-01-01T00:00:00Z' });
    expect(await operator.jobs.runNow([delayed, running])).toEqual([
      { id: delayed, verdict: 'changed' },
      { id: running, verdict: 'unchanged', status: 'running' },
    ]);
    expect(await operator.jobs.get(delayed)).toMatchObject({ status: 'pending', runAfter: null });

    const runAfter = new Date('2999-02-03T04:05:06Z');
    await operator.jobs.amend([delayed, running], { priority: -7, runAfter });
    expect(await operator.jobs.get(delayed)).toMatchObject({ priority: -7, runAfter, status: 'delayed' });
    expect((await operator.jobs.get(running))?.priority).toBe(0);

    const dead = await die();
    expect(await operator.jobs.retry([dead, delayed, running])).toEqual([
      { id: dead, verdict: 'redriven' },
      { id: delayed, verdict: 'changed' },
      { id: running, verdict: 'unchanged', status: 'running' },
    ]);
    expect(await operator.jobs.get(dead)).toMatchObject({ status: 'pending', tries: 0 });

    expect(await operator.jobs.erase([dead, running])).toEqual([
      { id: dead, verdict: 'erased' },
      { id: running, verdict: 'unchanged', status: 'running' },
    ]);
    expect(await operator.jobs.get(dead)).toBeUndefined();
    const { jobs } = operator;
    for (const act of [
      jobs.runNow,
      jobs.retry,
      jobs.erase,
      (ids: string[]) => jobs.amend(ids, { priority: 1 }),
    ])
      expect(await act([dead])).toEqual([{ id: dead, verdict: 'missing', status: null }]);
  });

  test('ids in upper case name the same jobs, and verdicts say them in lower case', async () => {
    const [one, two] = [await insert(), await insert()];
    const dead = await die();
    const upper = (...ids: readonly string[]): readonly string[] => ids.map((id) => id.toUpperCase());
    expect(await operator.jobs.amend(upper(one), { priority: 5 })).toEqual([{ id: one, verdict: 'changed' }]);
    expect(await operator.jobs.retry(upper(dead, two))).toEqual([
      { id: dead, verdict: 'redriven' },
      { id: two, verdict: 'changed' },
    ]);
    expect(await operator.jobs.cancel(upper(one))).toEqual([{ id: one, verdict: 'cancelled' }]);
    expect(await operator.jobs.cancel(upper(one))).toEqual([
      { id: one, verdict: 'missing', status: 'cancelled' },
    ]);
    expect(await operator.jobs.erase(upper(two))).toEqual([{ id: two, verdict: 'erased' }]);
  });

  test('signal keeps the first value for the handler, and is noted without it', async () => {
    const audited = createOperator({ pool: database.pool, actor: { name: 'ada', via: 'cli' } });
    const id = await insert();
    expect(await audited.jobs.signal(id, 'ok', { secret: 'c4nary' })).toBe('signalled');
    expect(await operator.jobs.signal(id.toUpperCase(), 'ok')).toBe('repeated');
    expect(await operator.jobs.signal(id, 'other')).toBe('signalled');
    expect(await sql('select name, state from pgqueue.flow order by name')).toEqual([
      { name: 'hello: ok', state: 'open' },
      { name: 'hello: other', state: 'open' },
    ]);
    expect(
      await sql('select action, target, details, result from pgqueue.audit where target = $1', [id]),
    ).toEqual([
      { action: 'jobs.signal', target: id, details: { name: 'ok' }, result: { verdict: 'signalled' } },
    ]);
    const ended = await die();
    for (const missing of [ended, '00000000-0000-7000-8000-000000000000'])
      await expect(operator.jobs.signal(missing, 'ok')).rejects.toMatchObject({ code: 'not_found' });
  });

  test.each([
    ['an id that is none', 'x', 'ok', 1, 'configuration', 'id must be the UUID of a job'],
    ['no name', '00000000-0000-7000-8000-000000000000', '', 1, 'configuration', 'name must be a text'],
    [
      'a value that is no JSON',
      '00000000-0000-7000-8000-000000000000',
      'ok',
      () => 1,
      'invalid_flow',
      'a job can',
    ],
  ])('signal refuses %s before any I/O', async (_, id, name, value, code, message) => {
    const offline = createOperator({ connectionString: 'postgres://127.0.0.1:1/none' });
    await expect(offline.jobs.signal(id, name, value)).rejects.toMatchObject({
      code,
      message: expect.stringContaining(message),
    });
    await offline.close();
  });
});
