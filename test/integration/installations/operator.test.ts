import { defineTask, installationOf } from '@pgqueue/core';
import type { Router, RouterOptions } from '@pgqueue/router';
import { createRouter, homeOf } from '@pgqueue/router';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { nth, useSeveral, waitingIn } from './support.ts';

const task = defineTask({ name: 'hello', payload: z.object({ n: z.number() }) });
const keys = Array.from({ length: 24 }, (_, n) => `k${n}`);
const { several, router } = useSeveral(3);
const nowhere = 'postgres://postgres@127.0.0.1:1/nowhere';

/** Enqueues one job for each key; resolves to their ids, in that order. */
async function enqueueAll(): Promise<readonly string[]> {
  const jobs = await router.producer.enqueueMany(keys.map((key, n) => task.job({ n }, { key })));
  expect(new Set(jobs.map(({ id }) => installationOf(id)))).toEqual(new Set([1, 2, 3]));
  return jobs.map(({ id }) => id);
}

/** Runs something with a router for which installation two is down. */
async function withoutTwo(
  work: (router: Router) => Promise<void>,
  options: Partial<RouterOptions> = {},
): Promise<void> {
  const installations = several.installations.map((one) =>
    one.number === 2 ? { ...one, connectionString: nowhere } : one,
  );
  const other = createRouter({ installations, ...options });
  try {
    await work(other);
  } finally {
    await other.close();
  }
}

test('jobs are found by id, also where the id says another installation, or none', async () => {
  const ids = await enqueueAll();
  for (const [n, id] of ids.entries()) {
    expect(await router.operator.jobs.get(id)).toMatchObject({ id, key: keys[n], payload: { n } });
  }
  const stray = '0198a3c2-0000-7000-8000-0000000000aa';
  await nth(several.databases, 2).query(`insert into pgqueue.queue (id, task) values ($1, 'hello')`, [stray]);
  expect(installationOf(stray)).toBe(0);
  expect(await router.operator.jobs.get(stray)).toMatchObject({ id: stray });
  expect(await router.operator.jobs.get('0198a3c2-0000-7000-8000-0000000000bb')).toBeUndefined();
  await expect(
    router.operator.explain('0198a3c2-0000-7000-8000-0000000000bb', { waitMs: 0 }),
  ).rejects.toMatchObject({
    code: 'not_found',
  });
  expect(await router.operator.explain(stray, { waitMs: 0 })).toMatchObject({ job: { id: stray } });
});

test('a list goes page by page through all, newest first, each job once', async () => {
  const ids = await enqueueAll();
  const seen: string[] = [];
  let after: string | undefined;
  for (let page = 0; page < 20; page += 1) {
    const found = await router.operator.jobs.list({ limit: 5, ...(after === undefined ? {} : { after }) });
    expect(found.unreachable).toEqual([]);
    seen.push(...found.items.map(({ id }) => id));
    if (found.next === null) break;
    after = found.next;
  }
  expect(seen).toEqual(ids.toSorted().toReversed());
  const [first = ''] = keys;
  const ofKey = await router.operator.jobs.list({ key: first });
  expect(ofKey).toMatchObject({ items: [{ key: first }], next: null });
  await expect(router.operator.jobs.list({ limit: 0 })).rejects.toMatchObject({ code: 'configuration' });
});

test('cancels and deletes by id in each, in the given order, and tells of one that nobody has', async () => {
  const ids = await enqueueAll();
  const nobody = '0198a3c2-0000-7000-8000-0000000000bb';
  const asked = [nth(ids, 3), nobody, nth(ids, 0), nth(ids, 9)];
  expect(await router.operator.jobs.cancel(asked)).toEqual([
    { id: ids[3], verdict: 'cancelled' },
    { id: nobody, verdict: 'missing', status: null },
    { id: ids[0], verdict: 'cancelled' },
    { id: ids[9], verdict: 'cancelled' },
  ]);
  expect(await router.operator.jobs.cancel([nth(ids, 3).toUpperCase()])).toEqual([
    { id: ids[3], verdict: 'missing', status: 'cancelled' },
  ]);
  expect(await router.operator.jobs.retry([nth(ids, 1), nth(ids, 3)])).toEqual([
    { id: ids[1], verdict: 'changed' },
    { id: ids[3], verdict: 'unchanged', status: 'cancelled' },
  ]);
  const stray = '0198a3c2-0000-7000-8000-0000000000aa';
  await nth(several.databases, 2).query(`insert into pgqueue.queue (id, task) values ($1, 'hello')`, [stray]);
  expect(await router.operator.jobs.erase([stray, nth(ids, 4)])).toEqual([
    { id: stray, verdict: 'erased' },
    { id: ids[4], verdict: 'erased' },
  ]);
  expect(await router.operator.jobs.count({ task: 'hello' })).toEqual({ count: 20, more: false });
  expect(await router.operator.jobs.cancelAll({ task: 'hello' })).toMatchObject({ cancelled: 20 });
  expect(await waitingIn(several)).toEqual([0, 0, 0]);
  await expect(router.operator.jobs.cancel(['x'])).rejects.toMatchObject({ code: 'configuration' });
});

test('sums the status up, and sets queues in all', async () => {
  await enqueueAll();
  const { isNew } = await router.operator.queues.set('default', { concurrency: 7 });
  expect(isNew).toBe(false);
  for (const operator of several.operators)
    expect(await operator.queues.list()).toMatchObject([{ queue: 'default', concurrency: 7 }]);
  await router.operator.queues.pause('default');
  const status = await router.operator.status();
  expect(status.totals).toMatchObject({ pending: 24, running: 0, exact: true });
  expect(
    status.installations.map(({ installation, status: one }) => [installation, one?.totals.pending]),
  ).toEqual(
    several.installations.map(({ name, number }) => [
      name,
      keys.filter((key) => homeOf(key, [1, 2, 3]) === number).length,
    ]),
  );
  await nth(several.operators, 1).queues.forget('default');
  expect(await router.operator.queues.forget('default')).toMatchObject({ paused: true });
  await expect(router.operator.queues.forget('default')).rejects.toMatchObject({ code: 'not_found' });
  await expect(router.operator.queues.set('default', { concurrency: -1 })).rejects.toMatchObject({
    code: 'configuration',
  });
});

test('one that is down: the others answer, and what is missing is told by its name', async () => {
  const ids = await enqueueAll();
  const at = (number: number): string => ids.find((id) => installationOf(id) === number) ?? '';
  await withoutTwo(async ({ operator }) => {
    const page = await operator.jobs.list();
    expect(page.unreachable).toMatchObject([{ installation: 'two' }]);
    expect(page.items.map(({ id }) => id)).toEqual(
      ids
        .filter((id) => installationOf(id) !== 2)
        .toSorted()
        .toReversed(),
    );
    const status = await operator.status();
    expect(status.installations[1]).toMatchObject({ installation: 'two', status: null });
    expect(status.totals.pending).toBe(page.items.length);
    expect(await operator.jobs.get(at(1))).toMatchObject({ id: at(1) });
    expect(await operator.jobs.cancel([at(3)])).toEqual([{ id: at(3), verdict: 'cancelled' }]);
    const down = { code: 'installation', data: { installation: 'two' } };
    await expect(operator.jobs.get(at(2))).rejects.toMatchObject(down);
    await expect(operator.jobs.cancel([at(1), at(2)])).rejects.toMatchObject(down);
    // what nobody else knows may be there
    await expect(operator.jobs.get('0198a3c2-0000-7000-8000-0000000000bb')).rejects.toMatchObject(down);
    await expect(operator.queues.set('default', { concurrency: 3 })).rejects.toMatchObject({
      code: 'installation',
      message: expect.stringContaining(
        'setting queue default: done in one, three, but not: installation two',
      ) as string,
      data: { changed: ['one', 'three'], failed: [{ installation: 'two' }] },
    });
  });
  expect(await nth(several.operators, 0).queues.list()).toMatchObject([{ queue: 'default', concurrency: 3 }]);
});

test('who acts is noted in each installation that is changed', async () => {
  const ids = await enqueueAll();
  const other = createRouter({ installations: several.installations, actor: { name: 'ada', via: 'cli' } });
  try {
    await other.operator.jobs.cancel(ids.slice(0, 12));
  } finally {
    await other.close();
  }
  for (const database of several.databases) {
    const rows = await database.query(`select actor, action from pgqueue.audit`, []);
    expect(rows).toEqual([{ actor: 'ada', action: 'jobs.cancel' }]);
  }
});

test('a move that fails tells of the installation that failed, not of the one where it is noted', async () => {
  const key = keys.find((one) => homeOf(one, [1, 2, 3]) === 2) ?? '';
  await withoutTwo(
    async ({ operator }) => {
      const failed = {
        data: { installation: 'two' },
        message: expect.stringMatching(/^installation two /) as string,
      };
      await expect(operator.keys.move(key, { to: 'one' })).rejects.toMatchObject(failed);
    },
    { actor: { name: 'ada', via: 'cli' } },
  );
  const [line] = await nth(several.databases, 0).query(
    'select action, target, result from pgqueue.audit',
    [],
  );
  expect(line).toEqual({ action: 'key.move', target: key, result: null });
});

test('a check tells what to do where there is no pgqueue', async () => {
  const installations = several.installations.map((one) =>
    one.number === 1 ? { ...one, schema: 'nowhere' } : one,
  );
  const other = createRouter({ installations });
  try {
    expect((await other.operator.check()).misfits).toMatchObject([
      {
        kind: 'unreachable',
        installation: 'one',
        message: expect.stringContaining('with --schema nowhere there') as string,
      },
    ]);
  } finally {
    await other.close();
  }
});
