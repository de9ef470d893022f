import { afterEach, describe, expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import { hourMs, isIn, openExplained } from './explain-support.ts';

/** Each test holds a job by a rule, asks the leader why, ends the cause, and sees the job go: so what was said was the truth. */
const bench = opened(openExplained);
afterEach(() => bench.clear());

describe('the settings of a queue', () => {
  test('paused', async () => {
    await bench.hand();
    await bench.operator.queues.pause('mail');
    await bench.leads();
    const [id = ''] = await bench.add({ queue: 'mail', key: 'acme' });
    expect(await bench.holds(id)).toEqual([{ kind: 'paused_queue', queue: 'mail' }]);
    expect((await bench.explain(id)).start).toEqual({
      at: null,
      blocked: true,
      evidence: ['queue mail is paused'],
    });
    await bench.operator.queues.resume('mail');
    await bench.scheduled(id);
  });

  test('its concurrency', async () => {
    const hand = await bench.hand();
    await bench.operator.queues.set('mail', { concurrency: 2 });
    await bench.leads();
    const [a = '', b = '', c = ''] = await bench.add(
      ...['a', 'b', 'c'].map((key) => ({ queue: 'mail', key })),
    );
    await bench.scheduled(a, b);
    const held = { kind: 'held', gate: 'queue_concurrency', until: null };
    expect(await bench.holds(c)).toEqual([{ ...held, message: 'queue mail has 2 of 2 in flight' }]);
    expect(await hand.claims()).toBe(2);
    expect(await bench.holds(c)).toMatchObject([held]);
    await hand.ends(a, 'done');
    await bench.scheduled(b, c);
  });

  test('a limit of 0 lets nothing go, and nothing is estimated from how fast it went before', async () => {
    const hand = await bench.hand();
    await bench.leads();
    const [first = ''] = await bench.add({ queue: 'mail', key: '' });
    await bench.scheduled(first);
    await hand.claims();
    await hand.ends(first, 'done');
    for (const [gate, setting, whose] of [
      ['queue_concurrency', { concurrency: 0 }, 'queue mail'],
      ['key_concurrency', { concurrency: null, keyConcurrency: 0 }, 'the empty key of queue mail'],
    ] as const) {
      await bench.operator.queues.set('mail', setting);
      const [id = ''] = await bench.add({ queue: 'mail', key: '' });
      const message = `${whose} has 0 of 0 in flight; nothing goes until that limit is raised`;
      expect(await bench.holds(id)).toEqual([{ kind: 'held', gate, message, until: null }]);
      expect((await bench.explain(id)).start).toEqual({ at: null, blocked: true, evidence: [message] });
    }
    expect(await bench.items()).toEqual([]);
  });

  test('its concurrency by key', async () => {
    const hand = await bench.hand();
    await bench.operator.queues.set('mail', { keyConcurrency: 1 });
    await bench.leads();
    const [a = '', next = '', other = ''] = await bench.add(
      { queue: 'mail', key: 'acme' },
      { queue: 'mail', key: 'acme' },
      { queue: 'mail', key: 'globex' },
    );
    await bench.scheduled(a, other);
    expect(await bench.holds(next)).toEqual([
      {
        kind: 'held',
        gate: 'key_concurrency',
        message: 'key acme of queue mail has 1 of 1 in flight',
        until: null,
      },
    ]);
    await hand.claims();
    await hand.ends(a, 'done');
    await bench.scheduled(next, other);
  });

  test('its rate, and until when', async () => {
    await bench.hand();
    await bench.operator.queues.set('mail', { rate: { perSecond: 1 / 3_600, burst: 1 } });
    await bench.leads();
    const [first = '', id = ''] = await bench.add({ queue: 'mail', key: 'a' }, { queue: 'mail', key: 'b' });
    await bench.scheduled(first);
    const [held] = await bench.holds(id);
    expect(held).toMatchObject({ kind: 'held', gate: 'queue_rate' });
    isIn(held?.kind === 'held' ? held.until : null, hourMs);
    const { start } = await bench.explain(id);
    isIn(start?.at, hourMs);
    expect(start?.evidence).toEqual([expect.stringMatching(/^a rule holds it until /), 'it is next']);
    await bench.operator.queues.set('mail', { rate: { perSecond: 1_000 } });
    await bench.scheduled(first, id);
  });

  test('its rate by key', async () => {
    await bench.hand();
    await bench.operator.queues.set('mail', { keyRate: { perSecond: 1 / 3_600 } });
    await bench.leads();
    const job = { queue: 'mail', key: 'acme' };
    const [first = '', id = '', other = ''] = await bench.add(job, job, { queue: 'mail', key: 'globex' });
    await bench.scheduled(first, other);
    const [held] = await bench.holds(id);
    expect(held).toMatchObject({ kind: 'held', gate: 'key_rate' });
    isIn(held?.kind === 'held' ? held.until : null, hourMs);
    await bench.operator.queues.set('mail', { keyRate: null });
    await bench.scheduled(first, id, other);
  });
});

describe('the nodes', () => {
  test('none that can run it', async () => {
    await bench.hand({ tasks: ['other'] });
    await bench.leads();
    const [id = '', newer = ''] = await bench.add({}, { task: 'other', version: 2 });
    expect(await bench.holds(id)).toEqual([
      { kind: 'no_capable_node', pool: 'default', task: 't', payloadVersion: 1, nodes: 1 },
    ]);
    expect(await bench.holds(newer)).toMatchObject([{ kind: 'no_capable_node', payloadVersion: 2 }]);
    expect((await bench.explain(id)).start?.at).toBeNull();
    await bench.node({ id: 'able' });
    await bench.hint();
    await bench.scheduled(id);
  });

  test('no free slot', async () => {
    const hand = await bench.hand({ slots: 1 });
    await bench.leads();
    const [first = '', id = ''] = await bench.add({ key: 'a' }, { key: 'b' });
    await bench.scheduled(first);
    const held = { kind: 'no_free_slot', pool: 'default', slots: 1 };
    expect(await bench.holds(id)).toEqual([{ ...held, running: 0, ready: 1 }]);
    await hand.claims();
    expect(await bench.holds(id)).toEqual([{ ...held, running: 1, ready: 0 }]);
    await hand.ends(first, 'done');
    await bench.scheduled(id);
  });

  test('a slot is free: jobs on nodes that do not run the task do not count, and jobs of a batch count once', async () => {
    const hand = await bench.hand({ slots: 2, tasks: ['other'] });
    await bench.leads();
    const others = await bench.add({ task: 'other', key: 'a' }, { task: 'other', key: 'b' });
    await bench.scheduled(...others);
    await hand.claims();
    await bench.node({ id: 'able', slots: 2 });
    await bench.operator.queues.pause('mail');
    const [id = ''] = await bench.add({ queue: 'mail' });
    expect(await bench.holds(id)).toMatchObject([{ kind: 'paused_queue' }]);
    await bench.database.query(
      `insert into pgqueue.work_queue (jobs, version, pool, task, lock_key, lock_token, lock_timeout, started)
       values (array[gen_random_uuid(), gen_random_uuid(), gen_random_uuid()], 1, 'default', 't', 'able', gen_random_uuid(), clock_timestamp() + interval '1 hour', clock_timestamp())`,
      [],
    );
    expect(await bench.holds(id)).toMatchObject([{ kind: 'paused_queue' }]);
    await bench.database.query('delete from pgqueue.work_queue where jobs is not null', []);
  });
});
