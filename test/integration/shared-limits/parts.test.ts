import { setTimeout as delay } from 'node:timers/promises';
import type { PgQueueEvent } from '@pgqueue/core';
import { fifo, policy } from '@pgqueue/core';
import type { LimitStatus, Router } from '@pgqueue/router';
import { createRouter } from '@pgqueue/router';
import { expect, test } from 'vitest';
import { load } from '../../proofs/fleet.ts';
import { opened } from '../../support/database.ts';
import { until } from '../../support/until.ts';
import { nth } from '../installations/support.ts';
import { createSites, mostInFlight, ofQueue } from './sites.ts';

const rate = { perSecond: 50, burst: 10 };
const sites = opened(() => createSites(2, { concurrency: 10, rate }), { each: true });
const router: Router = opened(() => createRouter({ installations: sites.installations }), { each: true });

const calls = async (site: number, count: number, ms = 1): Promise<void> =>
  void (await load(nth(sites.databases, site), { count, queue: 'calls', key: 'c', ms }));

async function limitOf(name: string): Promise<LimitStatus | undefined> {
  return (await router.operator.limits.list()).find((limit) => limit.name === name);
}

async function running(site: number): Promise<number> {
  return (await nth(sites.databases, site).query('select from proof.item where ended is null', [])).length;
}

/** Explanations of a job that waits in a site. */
async function whyWaits(site: number): Promise<string> {
  const [job] = await nth(sites.databases, site).query<{ id: string }>(
    `select id from pgqueue.job where status = 'pending' order by id desc limit 1`,
    [],
  );
  const { reasons } = await nth(sites.operators, site).explain(job?.id ?? '');
  return reasons.map((reason) => (reason.kind === 'held' ? reason.message : reason.kind)).join('; ');
}

/** Puts the end of a lease into the past. */
async function silentFor(installation: number, time: string): Promise<void> {
  await nth(sites.databases, 1).query(
    `update pgqueue.shared_limit_part set expires = clock_timestamp() - $2::interval where installation = $1`,
    [installation, time],
  );
}

/** Collects what fetches of a scheduler's gates say when they fail. */
function failures(): { readonly observe: (event: PgQueueEvent) => void; readonly told: string[] } {
  const told: string[] = [];
  return {
    told,
    observe: (event) => {
      if (event.type === 'policy.prepare_failed') told.push(String(event.error));
    },
  };
}

test('the part of an installation that fell silent stays reserved, until somebody says that it is gone', async () => {
  const first = await sites.schedule(0);
  await sites.work(0, 20);
  await sites.work(1, 20);
  await calls(0, 10, 1_500);
  await until('all of them run', async () => (await running(0)) === 10);
  await first.stop();
  await sites.schedule(1);
  await calls(1, 40, 3_000);
  await until('the first one runs nothing any more', async () => (await running(0)) === 0);
  await silentFor(1, '90 seconds');
  await delay(2_500);
  expect(await running(1)).toBe(0);
  expect(await whyWaits(1)).toContain('this installation has no part yet of the shared limit of 10');
  expect(await limitOf('calls')).toMatchObject({
    home: 'two',
    size: 10,
    parts: [
      { installation: 'one', number: 1, reserved: 10 },
      { installation: 'two', part: 0, silentMs: 0 },
    ],
  });
  const { misfits } = await router.operator.check();
  expect(
    misfits.map(({ kind, installation, message }) => `${kind} ${installation}: ${message}`),
  ).toContainEqual(
    expect.stringMatching(
      /^limits two: one has not renewed its part of shared limit calls .* keeps 10 of 10: start/,
    ),
  );

  await silentFor(1, '1 second');
  const gone = { limit: 'calls', installation: 'one' };
  await expect(router.operator.limits.forfeit(gone)).rejects.toMatchObject({
    code: 'configuration',
    message: expect.stringContaining('less than a minute ago') as string,
  });
  await silentFor(1, '90 seconds');
  expect(await router.operator.limits.forfeit(gone)).toEqual({ reserved: 10 });
  await until('the other one uses all', async () => (await running(1)) === 10);

  // the first one comes back, and gets its part as jobs of the other one end
  await calls(0, 40, 300);
  await sites.schedule(0);
  await until('both run jobs', async () => (await running(0)) >= 4 && (await running(1)) >= 4);
  expect(mostInFlight(ofQueue(await sites.items(), 'calls'))).toBe(10);
});

test('a job says which part holds it, and that there is no lease while the home is not reached', async () => {
  await sites.schedule(0);
  await sites.schedule(1);
  await sites.work(0, 20);
  await calls(0, 15, 20_000);
  await until('a part is used', async () => (await running(0)) === 10);
  expect(await whyWaits(0)).toContain(
    "this installation's part of the shared limit is 10 of 10, all in flight",
  );
  sites.proxy.hold('to-client');
  await until('the lease ends', async () =>
    (await whyWaits(0)).includes(
      'this installation has no lease of the shared limit, because its home two has not answered',
    ),
  );
  sites.proxy.hold(undefined);
  sites.proxy.reset();
  await until('it is leased again', async () => (await whyWaits(0)).includes('is 10 of 10, all in flight'));
});

test('of several sizes the smallest counts, and a lower one takes effect as jobs end', async () => {
  const first = await sites.schedule(0);
  await sites.work(0, 20);
  await calls(0, 200, 400);
  await until('a part is used', async () => (await running(0)) === 10);
  await sites.schedule(1, { policy: sites.policy(1, { concurrency: 4 }) });
  await until('four are left', async () => (await running(0)) === 4);
  expect(await limitOf('calls')).toMatchObject({ size: 4 });
  const { misfits } = await router.operator.check();
  expect(misfits.map(({ message }) => message)).toEqual([
    'shared limit calls has several sizes, and the smallest counts: one tells 10; two tells 4. Give every policy the same',
  ]);
  await delay(1_500);
  expect(await running(0)).toBeLessThanOrEqual(4);
  await first.stop();
});

test('another kind, another home, and a name of another installation are refused, and lease nothing', async () => {
  await sites.schedule(1);
  await until('the home leases', async () => (await limitOf('calls'))?.parts.length === 1);
  const { observe, told } = failures();
  const attempt = async (gates: ReturnType<typeof sites.policy>, message: string): Promise<void> => {
    const scheduler = await sites.schedule(0, { policy: gates, observe });
    await until(message, () => told.some((text) => text.includes(message)));
    await scheduler.stop();
  };
  await attempt(
    sites.policy(0, { self: 'two' }),
    'does not lead installation two: is self the name of another one?',
  );
  await attempt(
    sites.policy(0, { home: 'one' }),
    'shared limit calls has its home in two, and here it is one',
  );
  await nth(sites.databases, 1).query(
    `update pgqueue.shared_limit set per_second = 5 where name = 'calls'`,
    [],
  );
  await attempt(
    sites.policy(0),
    'two refuses shared limit calls: shared limit calls is a rate here, not a concurrency',
  );
  expect((await limitOf('calls'))?.parts.map(({ number }) => number)).toEqual([2]);
});

test('a shadow leases nothing', async () => {
  await sites.schedule(0, { policy: policy({ order: fifo() }), shadow: sites.policy(0) });
  await sites.schedule(1);
  await calls(0, 20, 1);
  await sites.work(0, 20);
  await until('all are done', async () => (await running(0)) === 0);
  await delay(1_500);
  expect((await limitOf('calls'))?.parts.map(({ number }) => number)).toEqual([2]);
});

test('a limit that nobody uses any more can be removed', async () => {
  const scheduler = await sites.schedule(1);
  await until('it is leased', async () => (await limitOf('calls')) !== undefined);
  await expect(router.operator.limits.remove('calls')).rejects.toMatchObject({ code: 'configuration' });
  await scheduler.stop();
  await silentFor(2, '90 seconds');
  await router.operator.limits.remove('calls');
  expect(await limitOf('calls')).toBeUndefined();
  await expect(router.operator.limits.remove('calls')).rejects.toMatchObject({ code: 'not_found' });
  await expect(router.operator.limits.forfeit({ limit: 'texts', installation: 'one' })).rejects.toMatchObject(
    {
      code: 'not_found',
    },
  );
});
