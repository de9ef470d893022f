import { randomUUID } from 'node:crypto';
import type { Lease } from '@pgqueue/postgres/internal';
import {
  extend,
  heartbeatNode,
  leaveNode,
  registerNode,
  release,
  reportProgressOfAll,
  resetNode,
  settle,
} from '@pgqueue/postgres/internal';
import { beforeEach, describe, expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import type { Member } from './support.ts';
import { openGround, settlement } from './support.ts';

const ground = opened(openGround);
let node: Member;
beforeEach(async () => {
  await ground.reset();
  node = await ground.node();
});

const snapshot = (): Promise<unknown> =>
  ground.one(`select jsonb_build_array((select jsonb_agg(to_jsonb(q) order by q.id) from pgqueue.queue q),
    (select jsonb_agg(to_jsonb(w) order by w.id) from pgqueue.work_queue w), (select count(*) from pgqueue.history),
    (select count(*) from pgqueue.dead_letter))`);

describe('a stale holder changes nothing, and is told so', () => {
  const attempts: Readonly<Record<string, (lease: Lease) => Promise<unknown>>> = {
    'settle done': (lease) => ground.settle([lease], 'done').then(({ size }) => size),
    'settle retry': (lease) => ground.settle([lease], 'retry', { delayMs: 1 }).then(({ size }) => size),
    'settle dead': (lease) => ground.settle([lease], 'dead').then(({ size }) => size),
    'settle snooze, repeated': (lease) =>
      ground.settle([lease], 'snooze', { repeat: true }).then(({ size }) => size),
    extend: (lease) => extend(ground.database, [{ ...lease, ms: 1_000 }]).then(({ size }) => size),
    release: (lease) => release(ground.database, [lease]).then(({ size }) => size),
    progress: async (lease) =>
      (await reportProgressOfAll(ground.database, [{ ...lease, progress: '{"half": true}' }])).size,
    ack: ({ id, token }) => ground.one('select pgqueue.ack($1, $2)::integer', [id, token]),
    nack: ({ id, token }) =>
      ground.one(`select coalesce(length(pgqueue.nack($1, $2, 'no')), 0)`, [id, token]),
    give_up: ({ id, token }) => ground.one(`select pgqueue.give_up($1, $2, 'no')::integer`, [id, token]),
    snooze: ({ id, token }) =>
      ground.one(`select pgqueue.snooze($1, $2, interval '1 s')::integer`, [id, token]),
    'extend one': ({ id, token }) =>
      ground.one(`select pgqueue.extend($1, $2, interval '1 s')::integer`, [id, token]),
    'release one': ({ id, token }) =>
      ground.one('select pgqueue.release($1::uuid, $2::uuid)::integer', [id, token]),
  };

  test.each(Object.entries(attempts))('%s', async (_name, attempt) => {
    const held = await ground.running(node);
    const before = await snapshot();
    expect(await attempt({ id: held.id, token: randomUUID() })).toBe(0);
    expect(await attempt({ id: randomUUID(), token: held.token })).toBe(0);
    expect(await snapshot()).toEqual(before);
    expect(await attempt(held)).not.toBe(0);
    expect(await snapshot()).not.toEqual(before);
  });

  test('the token of a lease that expired and was taken over', async () => {
    const stale = await ground.running(node);
    await ground.sql(`update pgqueue.work_queue set lock_timeout = clock_timestamp() - interval '1 s'`);
    const [again] = await ground.claim(node);
    expect(again).toMatchObject({ id: stale.id, crashes: 1 });
    expect(await ground.settle([stale], 'done')).toEqual(new Map());
    expect(await ground.settle([{ id: stale.id, token: again?.token ?? '' }], 'done')).toEqual(
      new Map([[stale.id, 'done']]),
    );
  });

  test.each([`'infinity'`, '3e14', `'NaN'`])(
    'a lease is extended by ten years at most: %s ms',
    async (ms) => {
      const { id, token } = await ground.running(node);
      const text = `select lease_ms from pgqueue.extend(array[$1::uuid], array[$2::uuid], array[${ms}::float8])`;
      expect(await ground.one(text, [id, token])).toBe(3.2e11);
      const soon = `select lock_timeout < clock_timestamp() + interval '11 years' from pgqueue.work_queue where id = $1`;
      expect(await ground.one(soon, [id])).toBe(true);
    },
  );

  test('a lease that ran out but that nobody took can be extended, and settled', async () => {
    const late = await ground.running(node);
    await ground.sql(`update pgqueue.work_queue set lock_timeout = clock_timestamp() - interval '1 s'`);
    expect((await extend(ground.database, [{ ...late, ms: 60_000 }])).get(late.id)).toEqual({
      cancelled: false,
    });
    expect(await ground.sql('select * from pgqueue.reap()')).toEqual([]);
    expect((await ground.settle([late], 'done')).get(late.id)).toBe('done');
  });
});

describe('a settlement whose reply was lost', () => {
  test.each(['done', 'retry', 'dead', 'snooze', 'cancelled'] as const)(
    '%s is known as repeated',
    async (outcome) => {
      const lease = await ground.running(node);
      const first = await ground.settle([lease], outcome, { delayMs: 60_000, repeat: true });
      expect([...first]).toEqual([[lease.id, outcome]]);
      expect(await ground.settle([lease], outcome, { delayMs: 60_000 })).toEqual(new Map());
      expect([...(await ground.settle([lease], outcome, { delayMs: 60_000, repeat: true }))]).toEqual([
        [lease.id, 'repeated'],
      ]);
    },
  );

  const lost = { dead: { max_crashes: 1 }, cancelled: {} };
  test.each(Object.entries(lost))(
    'one of a job that its last crash has ended: %s',
    async (status, columns) => {
      const lease = await ground.running(node, columns);
      await ground.sql(`update pgqueue.work_queue set cancelled = started where $1`, [
        status === 'cancelled',
      ]);
      await resetNode(ground.database, node.id);
      expect(await ground.job(lease.id)).toMatchObject({ status });
      expect(await ground.settle([lease], 'done', { repeat: true })).toEqual(new Map());
    },
  );

  test('a job that was given back, as it was to be cancelled, is not done', async () => {
    const lease = await ground.running(node);
    await ground.sql('select * from pgqueue.cancel(array[$1::uuid])', [lease.id]);
    await leaveNode(ground.database, node.id, node.incarnation);
    expect(await ground.job(lease.id)).toMatchObject({ status: 'cancelled' });
    expect(await ground.settle([lease], 'done', { repeat: true })).toEqual(new Map());
  });

  test('one call tells what it did from what an earlier one did', async () => {
    const [before, now, stale] = [await ground.running(node), await ground.running(node), randomUUID()];
    await ground.settle([before], 'done');
    const verdicts = await settle(
      ground.database,
      [before, now, { id: stale, token: stale }].map((lease) => settlement(lease, 'done')),
      { repeat: true },
    );
    expect(verdicts).toEqual(
      new Map([
        [before.id, 'repeated'],
        [now.id, 'done'],
      ]),
    );
    const rows = await ground.sql(
      `select * from pgqueue.settle(array[$1::uuid], array[$2::uuid], array['done'], array[null::float8], array[null], true)`,
      [before.id, before.token],
    );
    expect(rows).toHaveLength(1);
  });
});

describe('incarnations', () => {
  test('a reset node claims nothing more; its jobs count a crash, and run elsewhere at once', async () => {
    const lease = await ground.running(node, { timeout: '1 hour' });
    expect(await resetNode(ground.database, node.id)).toEqual({ ready: 1, dead: 0, cancelled: 0 });
    await expect(ground.claim(node)).rejects.toMatchObject({ code: 'PQ001' });
    expect(
      await heartbeatNode(ground.database, {
        node: node.id,
        incarnation: node.incarnation,
        draining: false,
        leases: [lease],
      }),
    ).toEqual({ alive: false, cancelled: [], lost: [lease] });
    const [elsewhere] = await ground.claim(await ground.node('other'));
    expect(elsewhere).toMatchObject({ id: lease.id, crashes: 1, tries: 0 });
    await ground.sound();
  });

  test('leases lost with their node are dead at the limit of crashes, with a trace of each', async () => {
    const id = await ground.insert({ max_crashes: 2 });
    await ground.dispatch([id]);
    for (const verdict of ['ready', 'dead']) {
      await ground.claim(await ground.node(`n-${verdict}`));
      expect(await ground.sql('select * from pgqueue.reset_node($1)', [`n-${verdict}`])).toEqual([
        { job_id: id, verdict },
      ]);
    }
    const job = await ground.job(id);
    expect(job).toMatchObject({ status: 'dead', reason: 'crash_limit', crashes: 2, tries: 0 });
    expect(job['errors']).toMatchObject([
      { kind: 'crash', node: 'n-ready' },
      { kind: 'crash', node: 'n-dead' },
    ]);
    await ground.sound();
  });

  test('a live id is refused to another; after a restart, what the last incarnation held is taken back', async () => {
    const lease = await ground.running(node);
    const registration = {
      node: node.id,
      incarnation: randomUUID(),
      tasks: {},
      slots: 1,
      pool: 'default',
      heartbeatMs: 5_000,
      lostAfterMs: 30_000,
      software: '',
      seen: null,
    };
    const refused = await registerNode(ground.database, registration);
    expect(refused).toMatchObject({ accepted: false });
    // whoever knew it could read the tokens of its leases, settle them, and end it
    expect(
      await ground.sql(`select accepted, incarnation from pgqueue.register_node($1, '{}')`, [node.id]),
    ).toEqual([{ accepted: false, incarnation: null }]);
    await ground.sql(`update pgqueue.node set heartbeat = clock_timestamp() - interval '10 minutes'`);
    expect(await registerNode(ground.database, registration)).toEqual({ accepted: true });
    expect(await ground.job(lease.id)).toMatchObject({ status: 'ready', crashes: 1 });
    expect(await ground.settle([lease], 'done')).toEqual(new Map());
  });

  test('an orderly leave counts nothing; a cancelled job that is given back ends instead of running again', async () => {
    const [kept, cancelled] = [await ground.running(node), await ground.running(node)];
    await ground.sql('select * from pgqueue.cancel(array[$1::uuid])', [cancelled.id]);
    expect(await leaveNode(ground.database, node.id, node.incarnation)).toBe(true);
    expect(await ground.job(kept.id)).toMatchObject({
      status: 'ready',
      crashes: 0,
      tries: 0,
      cancelled: null,
    });
    expect(await ground.job(cancelled.id)).toMatchObject({ status: 'cancelled', crashes: 0 });
    expect(await leaveNode(ground.database, node.id, node.incarnation)).toBe(false);
    await ground.sound();
  });

  test('a beat tells which leases are lost and which jobs are to be cancelled', async () => {
    const [held, cancelled] = [await ground.running(node), await ground.running(node)];
    await ground.sql('select * from pgqueue.cancel(array[$1::uuid])', [cancelled.id]);
    const lost = { id: held.id, token: randomUUID() };
    const beat = { node: node.id, incarnation: node.incarnation, draining: true };
    expect(await heartbeatNode(ground.database, { ...beat, leases: [cancelled, lost, held] })).toEqual({
      alive: true,
      cancelled: [cancelled.id],
      lost: [lost], // the older lease of a job, not the one that is held
    });
    expect(await ground.one('select state from pgqueue.node')).toBe('draining');
    const progress = await reportProgressOfAll(ground.database, [
      { ...held, progress: JSON.stringify('x'.repeat(13_000)) },
    ]).catch(String);
    expect(progress).toContain('at most 8 KiB');
  });
});
