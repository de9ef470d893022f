import { randomUUID } from 'node:crypto';
import { defaultBackoff, retryDelayMs } from '@pgqueue/core/internal';
import { promote, settle } from '@pgqueue/postgres/internal';
import fc from 'fast-check';
import { beforeEach, describe, expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import { openGround, settlement } from './support.ts';

const ground = opened(openGround);
beforeEach(() => ground.reset());

describe('a job goes from state to state', () => {
  test('delayed, pending, ready, running, done: one status at each step', async () => {
    const { insert, job, leader, database, sound } = ground;
    const id = await insert({ run_after: new Date(Date.now() + 3_600_000), payload: { a: 1 } });
    expect(await job(id)).toMatchObject({ status: 'delayed' });
    expect(await ground.dispatch([id])).toEqual(new Set());
    await ground.sql(`update pgqueue.queue set run_after = clock_timestamp() where id = $1`, [id]);
    expect(await promote(database, leader(), 10)).toEqual({ promoted: 1, nextDueMs: null });
    expect(await job(id)).toMatchObject({ status: 'pending', run_after: null });
    expect(await ground.dispatch([id])).toEqual(new Set([id]));
    expect(await job(id)).toMatchObject({ status: 'ready', node: null });
    const node = await ground.node();
    const [claimed] = await ground.claim(node);
    expect(claimed).toMatchObject({ id, payload: { a: 1 }, tries: 0, maxTries: 20, leaseMs: 60_000 });
    expect(await job(id)).toMatchObject({ status: 'running', node: 'node' });
    const lease = { id, token: claimed?.token ?? '' };
    expect(await ground.settle([lease], 'done', { data: { sum: 3 } })).toEqual(new Map([[id, 'done']]));
    expect(await job(id)).toMatchObject({ status: 'done', tries: 0, node: 'node' });
    expect(await ground.one('select result from pgqueue.history where id = $1', [id])).toEqual({ sum: 3 });
    await sound();
  });

  test('claims come in the order of the plan, within the limit, and only what the node can run', async () => {
    const ids = await Promise.all([1, 2, 3, 4].map(() => ground.insert()));
    const other = await ground.insert({ task: 'other' });
    const newer = await ground.insert({ payload_version: 3 });
    const plan = [other, newer, ...ids].toReversed();
    await ground.dispatch(plan);
    const node = await ground.node();
    const first = await ground.claim(node, 3);
    expect(first.map(({ id }) => id)).toEqual(plan.slice(0, 3));
    expect((await ground.claim(node, 3)).map(({ id }) => id)).toEqual(plan.slice(3, 4));
    await expect(ground.claim(node, -1)).rejects.toThrow('claim takes a number of jobs');
  });

  test('the lease lasts as long as the job says, else the task, else five minutes', async () => {
    const node = await ground.node();
    const own = await ground.insert({ timeout: '10 minutes' });
    const byTask = await ground.insert();
    await ground.dispatch([own, byTask]);
    expect((await ground.claim(node)).map(({ leaseMs }) => leaseMs)).toEqual([600_000, 60_000]);
    await ground.sql(`update pgqueue.node set tasks = '{"hello": {"min": 1, "max": 1, "timeoutMs": null}}'`);
    await ground.dispatch([await ground.insert()]);
    expect((await ground.claim(node)).map(({ leaseMs }) => leaseMs)).toEqual([300_000]);
  });
});

describe('outcomes', () => {
  test('retry counts a try, waits, keeps each error; the last try is dead with all of them', async () => {
    const node = await ground.node();
    const id = await ground.insert({ max_tries: 3 });
    const verdicts: unknown[] = [];
    for (const message of ['one', 'two', 'three']) {
      await ground.sql('update pgqueue.queue set run_after = null');
      await ground.dispatch([id]);
      const [claimed] = await ground.claim(node);
      const lease = { id, token: claimed?.token ?? '' };
      verdicts.push((await ground.settle([lease], 'retry', { delayMs: 60_000, data: { message } })).get(id));
    }
    expect(verdicts).toEqual(['retry', 'retry', 'dead']);
    const dead = await ground.job(id);
    expect(dead).toMatchObject({ status: 'dead', reason: 'max_tries', tries: 3, crashes: 0 });
    expect(dead['errors']).toMatchObject([
      { message: 'one', try: 1, node: 'node' },
      { message: 'two', try: 2 },
      { message: 'three', try: 3 },
    ]);
    await ground.sound();
  });

  test('a retry is due after its delay by the clock of the database, a wild delay after ten years at most', async () => {
    const node = await ground.node();
    const due = `select extract(epoch from run_after - clock_timestamp())::float8 as s from pgqueue.queue where id = $1`;
    for (const [delayMs, least, most] of [
      [90_000, 85, 90],
      [-5, -5, 0],
      [1e300, 3e8, 3.2e8],
      [Number.NaN, -5, 0], // no number: none was meant
    ] as const) {
      const lease = await ground.running(node);
      await ground.settle([lease], 'retry', { delayMs });
      const seconds = Number(await ground.one(due, [lease.id]));
      expect(seconds).toBeGreaterThanOrEqual(least);
      expect(seconds).toBeLessThanOrEqual(most);
    }
  });

  test('snooze counts no try; dead gives up at once; cancelled ends in history', async () => {
    const node = await ground.node();
    const snoozed = await ground.running(node, { max_tries: 1 });
    expect((await ground.settle([snoozed], 'snooze', { delayMs: 1 })).get(snoozed.id)).toBe('snooze');
    expect(await ground.job(snoozed.id)).toMatchObject({ status: 'delayed', tries: 0, errors: null });
    const dead = await ground.running(node);
    expect((await ground.settle([dead], 'dead', { data: { message: 'no' } })).get(dead.id)).toBe('dead');
    expect(await ground.job(dead.id)).toMatchObject({ status: 'dead', reason: 'gave_up', tries: 1 });
    const cancelled = await ground.running(node);
    expect((await ground.settle([cancelled], 'cancelled')).get(cancelled.id)).toBe('cancelled');
    expect(await ground.job(cancelled.id)).toMatchObject({ status: 'cancelled', tries: 0 });
  });

  test.each(['retry', 'snooze'] as const)(
    'a job that was cancelled while it ran is not run again: %s',
    async (outcome) => {
      const lease = await ground.running(await ground.node());
      expect(await ground.sql('select * from pgqueue.cancel(array[$1::uuid])', [lease.id])).toEqual([
        { job_id: lease.id, verdict: 'signalled' },
      ]);
      expect((await ground.settle([lease], outcome, { data: { message: 'stopped' } })).get(lease.id)).toBe(
        'cancelled',
      );
      expect(await ground.job(lease.id)).toMatchObject({ status: 'cancelled' });
      await ground.sound();
    },
  );

  test('an id that is dead already can be enqueued anew, and die anew, by giving up or by its node', async () => {
    const node = await ground.node();
    const lease = await ground.running(node);
    await ground.settle([lease], 'dead', { data: { message: 'first' } });
    await ground
      .running(node, { id: lease.id })
      .then((again) => ground.settle([again], 'dead', { data: { message: 'second' } }));
    expect(await ground.job(lease.id)).toMatchObject({ last_error: { message: 'second' } });
    await ground.running(node, { id: lease.id, max_crashes: 1 });
    expect(await ground.sql(`select verdict from pgqueue.reset_node('node')`)).toEqual([{ verdict: 'dead' }]);
    expect(await ground.job(lease.id)).toMatchObject({ status: 'dead', reason: 'crash_limit' });
    await ground.sound();
  });

  test('lists of different lengths are refused, and remove nothing', async () => {
    const lease = await ground.running(await ground.node());
    for (const [outcomes, delays] of [
      [`'{}'`, `array[null::float8]`],
      ['null', `array[null::float8]`],
      [`array['retry']`, `'{}'`],
    ]) {
      const call = `select * from pgqueue.settle(array[$1::uuid], array[$2::uuid], ${outcomes}, ${delays}, array[null])`;
      await expect(ground.sql(call, [lease.id, lease.token])).rejects.toThrow('lists of one length');
    }
    await expect(
      settle(ground.database, [{ ...settlement(lease, 'done'), outcome: 'lost' as 'done' }]),
    ).rejects.toThrow('unknown outcome');
    expect(await ground.job(lease.id)).toMatchObject({ status: 'running' });
  });

  test('one id twice in one call ends once; an item whose job was removed goes, and is stale', async () => {
    const node = await ground.node();
    const lease = await ground.running(node);
    const twice = await settle(ground.database, [settlement(lease, 'done'), settlement(lease, 'retry')]);
    expect(twice.size).toBe(1);
    await ground.job(lease.id);
    const orphan = await ground.running(node);
    await ground.sql('delete from pgqueue.queue where id = $1', [orphan.id]);
    expect(await ground.settle([orphan], 'done')).toEqual(new Map());
    await ground.sound();
  });
});

describe('the arithmetic of retries', () => {
  test('backoff_ms and retryDelayMs agree: the same longest delay, and never less than jitter takes off', async () => {
    const backoff = fc.record({
      kind: fc.constantFrom('fixed' as const, 'linear' as const, 'exponential' as const),
      baseMs: fc.integer({ min: 0, max: 100_000 }),
      factor: fc.double({ min: 1, max: 1_000, noNaN: true }),
      maxMs: fc.integer({ min: 0, max: 100_000_000 }),
      jitter: fc.double({ min: 0, max: 1, noNaN: true }),
    });
    const property = fc.asyncProperty(
      fc.array(fc.tuple(backoff, fc.integer({ min: 1, max: 1_000 })), { minLength: 20, maxLength: 50 }),
      async (cases) => {
        const rows = await ground.sql(
          `select pgqueue.backoff_ms(r::jsonb, t) as ms from unnest($1::text[], $2::integer[]) with ordinality as x (r, t, n) order by n`,
          [cases.map(([retry]) => JSON.stringify(retry)), cases.map(([, tries]) => tries)],
        );
        for (const [index, [retry, tries]] of cases.entries()) {
          const longest = retryDelayMs(retry, tries, 0);
          const ms = Number(rows[index]?.['ms']);
          expect(ms).toBeLessThanOrEqual(longest * (1 + 1e-9));
          expect(ms).toBeGreaterThanOrEqual(retryDelayMs(retry, tries, 1) - longest * 1e-6); // jitter is rounded
        }
      },
    );
    await fc.assert(property, { numRuns: 20 });
    const tiny = `'{"baseMs": 1e-400, "factor": 1.${'0'.repeat(400)}1, "maxMs": 1e-400, "jitter": 1e-400}'`;
    expect(await ground.one(`select pgqueue.backoff_ms(${tiny}, 3)`)).toBe(0);
    const [row] = await ground.sql(
      'select min(pgqueue.backoff_ms(null, 3)) as least, max(pgqueue.backoff_ms(null, 3)) as most from generate_series(1, 200)',
    );
    expect(Number(row?.['least'])).toBeGreaterThanOrEqual(retryDelayMs(defaultBackoff, 3, 1));
    expect(Number(row?.['most'])).toBeLessThanOrEqual(retryDelayMs(defaultBackoff, 3, 0));
  });

  test('the newest 100 errors are kept', async () => {
    const errors = await ground.one(
      `select pgqueue.with_error((select jsonb_agg(jsonb_build_object('try', n) order by n) from generate_series(1, 100) n),
                                 '"text"', 'node', 101, clock_timestamp())`,
    );
    expect(errors).toHaveLength(100);
    expect(errors).toMatchObject({ 0: { try: 2 }, 99: { try: 101, message: 'text', node: 'node' } });
  });

  test('ids made by the database are version 7, in the order of time', async () => {
    const rows = await ground.sql('select pgqueue.uuid_v7()::text as id from generate_series(1, 50)');
    for (const { id } of rows)
      expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    const millis = Number.parseInt(String(rows[0]?.['id']).replace('-', '').slice(0, 12), 16);
    expect(Math.abs(millis - Date.now())).toBeLessThan(60_000);
    expect(new Set([...rows.map(({ id }) => id), randomUUID()]).size).toBe(51);
  });
});
