// One puller over several installations: a job goes back to the one it is of, and each has its turn.
import { cancel, resetNode } from '@pgqueue/postgres/internal';
import type { RouterPulledJob } from '@pgqueue/router';
import { createRouter } from '@pgqueue/router';
import { describe, expect, test } from 'vitest';
import { dispatchAll } from '../../support/dispatch-all.ts';
import { codecOf } from '../../support/encryption/keys.ts';
import { until } from '../../support/until.ts';
import { keys, names, nowhere, take, task, usePulling, where } from './pulling.ts';
import { nth, useRunning } from './support.ts';

const { several, router, closing, open, ready, status, totals } = usePulling();
const { schedule } = useRunning(several);

describe('claim', () => {
  test('takes jobs where they wait, and each says of which installation it is', async () => {
    await ready(1, 2);
    await ready(3, 1);
    const puller = open();
    const jobs = await take(puller, 3);
    expect(where(jobs).toSorted()).toEqual(['one', 'one', 'three']);
    expect(jobs.map(({ payload }) => payload)).toEqual(expect.arrayContaining([{ n: 0 }, { n: 1 }]));
    expect(puller.held).toBe(3);
    expect(await puller.claim()).toEqual([]);
    expect(Object.keys(puller.nodes)).toEqual(names);
  });

  test('goes round: the backlog of one starves no other', async () => {
    for (const number of [1, 2, 3]) await ready(number, 300);
    const puller = open({ slots: 1_000 });
    const met = new Set<string>();
    while (met.size < 3) for (const name of where(await puller.claim({ max: 2 }))) met.add(name);
    const turns: string[] = [];
    for (let n = 0; n < 9; n += 1) turns.push(...where(await puller.claim({ max: 2 })));
    for (const name of names) expect(turns.filter((turn) => turn === name)).toHaveLength(6);
  });

  test.each([true, false])('waits for the first job of any; LISTEN: %s', async (listen) => {
    const puller = open({ listen });
    expect(await puller.claim({ waitMs: 20 })).toEqual([]);
    const waiting = puller.claim({ max: 5, waitMs: 60_000 });
    const [id] = await ready(2, 1);
    expect((await waiting).map((job) => job.id)).toEqual([id]);
  });

  test('without LISTEN, one with a constant backlog keeps no job of another back', async () => {
    const puller = open({ listen: false, slots: 1_000 });
    for (let n = 0; n < 3; n += 1) expect(await puller.claim()).toEqual([]);
    await ready(1, 400);
    await ready(2, 1);
    await until('the other is asked', async () => where(await puller.claim()).includes('two'));
    expect((await totals(1)).ready).toBeGreaterThan(0);
  });

  test('holds as many of each installation as it has slots', async () => {
    for (const number of [1, 2]) await ready(number, 3);
    const puller = open({ slots: 2 });
    const first = await take(puller, 4);
    expect(where(first).toSorted()).toEqual(['one', 'one', 'two', 'two']);
    expect(await puller.claim({ max: 9 })).toEqual([]);
    const waiting = puller.claim({ max: 9, waitMs: 60_000 });
    await puller.ack(first.filter(({ installation }) => installation === 'two'));
    expect(where(await waiting)).toEqual(['two']);
  });

  test('one whose slots were full has its turn as soon as one is free', async () => {
    await ready(1, 600);
    await ready(2, 3);
    const puller = open({ slots: 2 });
    const held: RouterPulledJob[] = [];
    // long enough that it is asked seldom; the other one has work all the time
    const endsAt = performance.now() + 1_000;
    while (held.length < 2 || performance.now() < endsAt) {
      const jobs = await puller.claim();
      held.push(...jobs.filter(({ installation }) => installation === 'two'));
      await puller.ack(jobs.filter(({ installation }) => installation === 'one'));
    }
    await puller.ack(held);
    expect(where([...(await puller.claim()), ...(await puller.claim())])).toContain('two');
  });

  test('claims that overlap take no job twice', async () => {
    const ids = [...(await ready(1, 10)), ...(await ready(2, 10))];
    const puller = open();
    const claims = await Promise.all([1, 2, 3, 4].map(() => puller.claim({ max: 5 })));
    const jobs = claims.flat();
    jobs.push(...(await take(puller, 20 - jobs.length)));
    expect(jobs.map(({ id }) => id).toSorted()).toEqual(ids.toSorted());
  });
});

describe('verbs', () => {
  test('go to the installation that has handed the job out, for jobs of several at once', async () => {
    const ids = [...(await ready(1, 2)), ...(await ready(2, 2))];
    const puller = open();
    const jobs = await take(puller, 4);
    const one = jobs.filter(({ installation }) => installation === 'one');
    const two = jobs.filter(({ installation }) => installation === 'two');
    expect((await puller.extend(jobs, '2h')).accepted.toSorted()).toEqual(ids.toSorted());
    const mixed = [nth(one, 0), nth(two, 0)];
    expect(await puller.ack(mixed, { ok: true })).toEqual({ accepted: mixed.map(({ id }) => id), stale: [] });
    expect((await puller.ack(mixed)).stale).toHaveLength(2);
    expect(await puller.nack(nth(one, 1), new Error('no'), '1h')).toBe('retry');
    expect(await puller.release(nth(two, 1))).toEqual({ accepted: [nth(two, 1).id], stale: [] });
    expect(await Promise.all(mixed.map(({ id }) => status(id)))).toEqual(['done', 'done']);
    expect(await router.producer.result(nth(mixed, 1).id)).toEqual({ ok: true });
    expect(await status(nth(one, 1).id)).toBe('delayed');
    expect(await status(nth(two, 1).id)).toBe('ready');
    expect(puller.held).toBe(0);
    expect(await puller.ack([])).toEqual({ accepted: [], stale: [] });
  });

  test('leases of one installation that are lost leave those of others', async () => {
    await ready(1, 1);
    await ready(2, 1);
    const puller = open();
    const jobs = await take(puller, 2);
    const [one, two] = ['one', 'two'].map((name) => jobs.find(({ installation }) => installation === name));
    await resetNode(nth(several.databases, 0), puller.nodes['one'] ?? '');
    await until('its signal', () => one?.signal.aborted === true);
    expect(two?.signal.aborted).toBe(false);
    expect(await puller.ack(jobs)).toEqual({ accepted: [two?.id], stale: [one?.id] });
    expect(where(await puller.claim({ waitMs: 60_000 }))).toEqual(['one']); // under its new incarnation
  });

  test('a cancellation is heard from each', async () => {
    const [id = ''] = await ready(2, 1);
    const puller = open();
    const [job] = await take(puller, 1);
    await cancel(nth(several.databases, 1), [id]);
    await until('the signal', () => job?.signal.aborted === true);
    expect(await puller.nack(job as RouterPulledJob, 'stopped')).toBe('cancelled');
  });

  test('what is wrong is refused', async () => {
    await ready(1, 1);
    const puller = open();
    const [job] = await take(puller, 1);
    const refused = { code: 'configuration' };
    const claimed = job as RouterPulledJob;
    await expect(puller.ack(claimed, new Error('one'))).rejects.toMatchObject(refused);
    await expect(puller.nack({ ...claimed, installation: 'four' }, 'no')).rejects.toMatchObject(refused);
    await expect(puller.ack({ ...claimed, installation: 'four' })).rejects.toThrow(
      /no puller of this router/,
    );
    expect(await puller.ack(claimed)).toMatchObject({ stale: [] });
  });
});

test('a key that moves: jobs that are held end in the old home, the next ones come from the new one', async () => {
  await schedule(1, 2);
  const key = nth(keys, 0);
  await router.producer.enqueueMany(Array.from({ length: 20 }, (_, n) => task.job({ n }, { key })));
  const puller = open();
  const held = await puller.claim({ max: 1, waitMs: 60_000 });
  expect(where(held)).toEqual(['one']);
  const moving = router.operator.keys.move(key, { to: 'two' });
  const seen: unknown[] = held.map(({ payload }) => payload);
  await until('the key has its new home', () => router.homeOf(key).name === 'two');
  expect(await puller.ack(held)).toMatchObject({ stale: [] });
  const places: string[] = [];
  while (seen.length < 20) {
    const jobs = await puller.claim({ max: 3, waitMs: 60_000 });
    seen.push(...jobs.map(({ payload }) => payload));
    places.push(...where(jobs));
    expect((await puller.ack(jobs)).stale).toEqual([]);
  }
  await moving;
  expect(seen).toEqual(Array.from({ length: 20 }, (_, n) => ({ n })));
  expect(places.at(-1)).toBe('two');
  expect(places.toSorted()).toEqual(places); // first those that the old one kept
});

test('close gives back what it holds, leaves all, and ends a wait', async () => {
  await ready(1, 1);
  await ready(2, 1);
  const puller = open();
  const jobs = await take(puller, 2);
  const third = async (): Promise<number> => (await nth(several.operators, 2).nodes.list()).length;
  await until('the third to be met', async () => (await third()) === 1);
  const waiting = puller.claim({ waitMs: 60_000 });
  await Promise.all([puller.close(), expect(waiting).rejects.toMatchObject({ code: 'node_ended' })]);
  await puller.close();
  expect(jobs.map(({ signal }) => signal.aborted)).toEqual([true, true]);
  for (const [number, count] of [
    [1, 1],
    [2, 1],
    [3, 0],
  ] as const) {
    expect(await totals(number)).toMatchObject({ ready: count, running: 0 });
    expect(await nth(several.operators, number - 1).nodes.list()).toMatchObject([{ state: 'left' }]);
  }
  await expect(puller.claim()).rejects.toMatchObject({ code: 'node_ended' });
  await expect(puller.length()).rejects.toMatchObject({ code: 'node_ended' });
});

test('peek, length and scan look over all without taking', async () => {
  for (const number of [3, 1, 2]) {
    await router.producer.enqueue(task, { n: number }, { key: nth(keys, number - 1), priority: number % 2 });
    await router.producer.enqueue(task, { n: number }, { key: nth(keys, number - 1), queue: 'other' });
  }
  const puller = open();
  const peeked = await puller.peek('default', 2);
  expect(peeked.map(({ key }) => key)).toEqual([keys[1], keys[2]]); // by priority, then by age
  expect(peeked[0]).not.toHaveProperty('payload');
  expect(await puller.length('other')).toBe(3);
  const seen: string[] = [];
  for (let after: string | null | undefined; after !== null;) {
    const page = await puller.scan({ limit: 2, ...(after === undefined ? {} : { after }) });
    expect(page.items.length).toBeLessThanOrEqual(2);
    seen.push(...page.items.map(({ id }) => id));
    after = page.next;
  }
  expect(seen).toEqual(seen.toSorted());
  expect(seen).toHaveLength(6);
  await expect(puller.scan({ after: 'x' })).rejects.toMatchObject({ code: 'configuration' });
});

test('the codec of the router decrypts what is pulled', async () => {
  const secret = createRouter({ installations: several.installations, codec: codecOf(['new']) });
  closing.push(() => secret.close());
  await secret.producer.enqueue(task, { n: 7 }, { key: nth(keys, 1) });
  await dispatchAll(nth(several.databases, 1));
  const puller = open({}, secret);
  const jobs = await take(puller, 1);
  expect(jobs).toMatchObject([{ payload: { n: 7 }, installation: 'two' }]);
  expect((await puller.ack(jobs, 'told')).stale).toEqual([]);
  expect(await secret.producer.result(nth(jobs, 0).id)).toBe('told');
});

test('wrong options are refused before any I/O, and so is a router that was closed', async () => {
  expect(() => router.puller({ tasks: [], slots: 0 })).toThrow(/slots.*tasks is empty/);
  expect(() => router.puller({ tasks: [task], slot: 5 } as never)).toThrow(/did you mean slots\?/);
  for (const none of [undefined, null, 'tasks', []])
    expect(() => router.puller(none as never)).toThrow(/must be an object/);
  await router.close();
  expect(() => router.puller({ tasks: [task] })).toThrow(/router was closed/);
});

describe('one installation', () => {
  test('is pulled from as by a plain puller, whatever its number', async () => {
    const [installation] = several.installations;
    await nth(several.databases, 0).query('delete from pgqueue.installation', []);
    const single = createRouter({ installations: installation === undefined ? [] : [installation] });
    closing.push(() => single.close());
    const puller = open({}, single);
    await single.producer.enqueue(task, { n: 1 });
    await dispatchAll(nth(several.databases, 0));
    const jobs = await puller.claim({ waitMs: 60_000 });
    expect(where(jobs)).toEqual(['one']);
    expect(await puller.ack(jobs)).toMatchObject({ stale: [] });
  });

  test('that is down is the error itself', async () => {
    const single = createRouter({
      installations: [{ ...nth(several.installations, 0), connectionString: nowhere }],
    });
    closing.push(() => single.close());
    await expect(open({}, single).claim()).rejects.toMatchObject({
      code: 'installation',
      data: { installation: 'one', number: 1 },
    });
  });
});
