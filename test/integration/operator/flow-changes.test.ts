import { createOperator } from '@pgqueue/postgres';
import type { FlowsOperator } from '@pgqueue/postgres';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { useDatabase } from '../../support/database.ts';
import { assertSound, flowsOf } from '../../support/flows.ts';
import { hostileTexts } from '../../support/hostile.ts';

const own = useDatabase();
const { operator, reset, sql } = own;
const { start, startSite, advance, jobsOf, end } = flowsOf(own);
let flows: FlowsOperator;
const missing = '00000000-0000-7000-8000-000000000000';

beforeEach(async () => {
  ({ flows } = operator);
  await reset();
});
afterEach(async () => {
  await assertSound(operator);
});

describe('signal', () => {
  test('the first value counts, also before the step is open', async () => {
    const id = await startSite();
    expect(await flows.signal(id, 'ok', { by: 'ada' })).toBe('signalled');
    expect(await flows.signal(id, 'ok', { by: 'bob' })).toBe('repeated');
    expect((await flows.show(id)).steps[2]).toMatchObject({ state: 'blocked', signalled: true });
    await end(await jobsOf(id, 0));
    await end(await jobsOf(id, 1));
    expect(await jobsOf(id, 4)).toHaveLength(1);
    expect((await flows.results(id, 'ok')).items).toMatchObject([{ result: { by: 'ada' } }]);
    const other = await startSite();
    await flows.cancel(other);
    expect(await flows.signal(other, 'ok')).toBe('ended');
    await advance();
  });

  test.each([
    ['no JSON', () => 1],
    ['too large', 'x'.repeat(300_000)],
    ['NUL', { a: 'b\u0000' }],
    ['a prototype', JSON.parse('{"__proto__": 1}')],
    ['too deep', JSON.parse('['.repeat(600) + ']'.repeat(600))],
  ])('a value that is %s is refused before any I/O', async (_, value) => {
    await expect(flows.signal(missing, 'ok', value)).rejects.toMatchObject({
      code: 'invalid_flow',
      message: expect.stringContaining('the value '),
    });
  });
});

describe('cancel', () => {
  test('waiting jobs end, steps that wait are skipped, and the reason is kept', async () => {
    const id = await startSite();
    expect(await flows.cancel(id, { reason: 'wrong\u001b[2Jsite' })).toBe('cancelling');
    expect(await flows.show(id)).toMatchObject({ state: 'open', stopping: expect.any(Date) });
    expect(await flows.cancel(id)).toBe('ended');
    await advance();
    expect(await flows.show(id)).toMatchObject({
      state: 'cancelled',
      reason: 'wrong\u001b[2Jsite',
      ended: expect.any(Date),
      progress: { stepsEnded: 5, other: 4 },
    });
    expect((await operator.jobs.list({ flow: id, status: 'cancelled' })).items).toHaveLength(4);
    for (const reason of ['', 'x'.repeat(2_001), 'a\u0000', 7])
      await expect(flows.cancel(id, { reason } as never)).rejects.toMatchObject({ code: 'configuration' });
    await expect(flows.cancel(id, { raeson: 'x' } as never)).rejects.toThrow('did you mean reason?');
  });
});

describe('retry', () => {
  test('what failed runs again, and what was skipped waits again', async () => {
    const id = await start({
      steps: [
        { name: 'a', jobs: 2 },
        { name: 'b', jobs: 1, needs: [[0]] },
      ],
    });
    const [one = '', two = ''] = await jobsOf(id, 0);
    expect(await flows.retry(id)).toEqual({ verdict: 'nothing', jobs: 0, gone: 0, holder: null });
    await end([one], 'dead');
    await end([two]);
    expect(await flows.show(id)).toMatchObject({
      state: 'failed',
      steps: [{ outcome: 'failed' }, { outcome: 'skipped' }],
    });
    expect(await flows.retry(id, { step: 'b' })).toMatchObject({ verdict: 'nothing' });
    expect(await flows.retry(id, { step: 'a' })).toEqual({
      verdict: 'retried',
      jobs: 1,
      gone: 0,
      holder: null,
    });
    expect(await flows.show(id)).toMatchObject({
      state: 'open',
      steps: [{ state: 'open' }, { state: 'blocked' }],
    });
    await end([one]);
    await end(await jobsOf(id, 1));
    expect(await flows.show(id)).toMatchObject({ state: 'done', reason: null });
  });

  test('what history has lost is told', async () => {
    const id = await start({ steps: [{ name: 'a', jobs: 2 }] });
    await end(await jobsOf(id, 0), 'dead');
    await sql(
      'delete from pgqueue.dead_letter where id = (select min(id::text)::uuid from pgqueue.dead_letter)',
    );
    expect(await flows.retry(id)).toMatchObject({ verdict: 'retried', jobs: 1, gone: 1 });
    await flows.cancel(id);
    expect(await flows.retry(id)).toMatchObject({ verdict: 'stopping' });
    await advance();
    expect((await flows.show(id)).state).toBe('cancelled');
  });

  test('another open flow may have taken its unique key', async () => {
    const first = await startSite({ unique_key: 'site-7' });
    await end(await jobsOf(first, 0), 'dead');
    await end(await jobsOf(first, 1), 'dead');
    expect((await flows.show(first)).state).toBe('failed');
    const before = await sql('select * from pgqueue.flow_step where flow = $1 order by step', [first]);
    const second = await startSite({ unique_key: 'site-7' });
    const taken = { verdict: 'key_taken', jobs: 0, gone: 0, holder: second };
    expect(await flows.retry(first)).toEqual(taken);
    expect(await flows.show(first)).toMatchObject({ state: 'failed', reason: 'a step failed' });
    expect(await sql('select * from pgqueue.flow_step where flow = $1 order by step', [first])).toEqual(
      before,
    );
    expect((await operator.dead.list()).items).toHaveLength(5);
    await flows.cancel(second);
    await advance();
    expect(await flows.retry(first)).toMatchObject({ verdict: 'retried', jobs: 5 });
    // the key is this one's again
    expect(await startSite({ unique_key: 'site-7' })).toBe(first);
  });

  test('a flow that takes the key while the retry waits for it wins', async () => {
    const first = await startSite({ unique_key: 'u' });
    await end(await jobsOf(first, 0), 'dead');
    await end(await jobsOf(first, 1), 'dead');
    const client = await own.database.pool.connect();
    try {
      await client.query('begin');
      await client.query(
        `select pgqueue.start_flow('{"name": "count-site", "unique_key": "u", "steps": [{"name": "a", "jobs": [{"task": "hello"}]}]}')`,
      );
      const retried = flows.retry(first);
      await expect
        .poll(async () => (await sql(`select from pg_locks where not granted`)).length)
        .toBeGreaterThan(0);
      await client.query('commit');
      expect(await retried).toMatchObject({ verdict: 'key_taken' });
    } finally {
      client.release();
    }
    await advance();
  });
});

describe('what is not there, and what is hostile', () => {
  test('unknown flows and steps', async () => {
    const gone = { code: 'not_found', message: expect.stringContaining(`there is no flow ${missing}`) };
    for (const call of [
      () => flows.show(missing),
      () => flows.explain(missing),
      () => flows.results(missing, 'a'),
      () => flows.signal(missing, 'a'),
      () => flows.cancel(missing),
      () => flows.retry(missing),
      () => flows.retry(missing, { step: 'a' }),
    ])
      await expect(call()).rejects.toMatchObject(gone);
    const id = await startSite();
    await expect(flows.signal(id, 'pages')).rejects.toThrow('has no signal "pages": its signals are "ok"');
    await expect(flows.results(id, 'paegs')).rejects.toThrow(
      'has no step "paegs": its steps are "pages", "sum", "ok", "late", "publish"',
    );
    await expect(flows.retry(id, { step: 'nope' })).rejects.toMatchObject({ code: 'not_found' });
  });

  test('an id that is none is refused before any I/O', async () => {
    const offline = createOperator({ connectionString: 'postgres://nobody@127.0.0.1:1/nowhere' });
    for (const id of ['', 'x', `${missing}'`, [missing], 7, null, undefined, {}]) {
      for (const call of [
        () => offline.flows.show(id as never),
        () => offline.flows.explain(id as never),
        () => offline.flows.results(id as never, 'a'),
        () => offline.flows.signal(id as never, 'a'),
        () => offline.flows.cancel(id as never),
        () => offline.flows.retry(id as never),
      ])
        await expect(call()).rejects.toMatchObject({
          code: 'configuration',
          message: expect.stringContaining('the UUID of a flow'),
        });
    }
    await offline.close();
  });

  test('names with any characters are found again', async () => {
    const names = hostileTexts.filter(
      (text) => text.length > 0 && text.length <= 200 && text.isWellFormed() && !text.includes('\u0000'),
    );
    const id = await start({
      name: '\u001b[2J\nname',
      steps: names.map((name) => ({ name, kind: 'signal' as const })),
    });
    for (const name of names) expect(await flows.signal(id, name, name)).toBe('signalled');
    for (const name of names)
      expect((await flows.results(id, name)).items).toEqual([{ job: null, outcome: 'done', result: name }]);
    expect((await flows.list({ name: '\u001b[2J\nname' })).items).toHaveLength(1);
    await advance();
    expect((await flows.show(id)).state).toBe('done');
  });
});

test('changes are noted, without the value of a signal', async () => {
  const id = await startSite();
  const audited = createOperator({ pool: own.database.pool, actor: { name: 'ada', via: 'cli' } });
  await audited.flows.signal(id, 'ok', { secret: 'c4nary' });
  await audited.flows.retry(id, { step: 'pages' });
  await audited.flows.cancel(id, { reason: 'wrong' });
  await expect(audited.flows.cancel(missing)).rejects.toMatchObject({ code: 'not_found' });
  await advance();
  expect(await sql('select action, target, details, result from pgqueue.audit order by n')).toEqual([
    { action: 'flows.signal', target: id, details: { step: 'ok' }, result: { verdict: 'signalled' } },
    {
      action: 'flows.retry',
      target: id,
      details: { step: 'pages' },
      result: { verdict: 'nothing', jobs: 0, gone: 0, holder: null },
    },
    { action: 'flows.cancel', target: id, details: { reason: 'wrong' }, result: { verdict: 'cancelling' } },
    { action: 'flows.cancel', target: missing, details: {}, result: null },
  ]);
});
