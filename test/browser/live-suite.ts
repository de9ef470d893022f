import type { Overview } from '@pgqueue/dashboard';
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { startCutProxy } from '../support/cut-proxy.ts';
import { go } from './pages-suite.ts';
import { turn } from './press.ts';
import type { OnStage } from './suites.ts';

const patienceMs = 120_000;

function figure(page: Page, name: string): Promise<string> {
  return page
    .locator('main dl > div')
    .filter({ hasText: name })
    .first()
    .locator('dd > span')
    .first()
    .innerText();
}

async function state(page: Page): Promise<string | null> {
  return page.locator('[data-live]').last().getAttribute('data-live');
}

export function liveSuite(on: OnStage): void {
  test('what happens is seen without loading the page again; paused, it is not; then it is', async () => {
    const { producer, tasks, operator } = on();
    await operator.queues.pause('seen');
    const { page, faults, close } = await on().visit('/');
    await expect.poll(() => state(page), { timeout: patienceMs }).toBe('live');
    const begun = await page.evaluate(() => performance.timeOrigin);
    const before = Number(await figure(page, 'Waiting'));
    for (const tenant of ['a', 'b', 'c']) await producer.enqueue(tasks.hello, { tenant }, { queue: 'seen' });
    await expect
      .poll(async () => Number(await figure(page, 'Waiting')), { timeout: patienceMs })
      .toBe(before + 3);
    await page.locator('main').getByRole('link', { name: 'seen' }).waitFor();

    await page.getByRole('button', { name: 'Live. Pause updating' }).last().click();
    await expect.poll(() => state(page), { timeout: patienceMs }).toBe('paused');
    await producer.enqueue(tasks.hello, { tenant: 'd' }, { queue: 'seen' });
    await operator.status();
    expect(Number(await figure(page, 'Waiting'))).toBe(before + 3);
    await page.getByRole('button', { name: 'Paused. Go on updating' }).last().click();
    await expect
      .poll(async () => Number(await figure(page, 'Waiting')), { timeout: patienceMs })
      .toBe(before + 4);
    expect(await page.evaluate(() => performance.timeOrigin)).toBe(begun);
    expect(faults).toEqual([]);
    await close();
  });

  test('the overview says that ended jobs are counted late, also beside newer snapshots', async () => {
    const { page, faults, close } = await on().visit('/keys');
    const message = 'what ended is counted up to 900 s ago';
    await page.route(
      (url) => url.pathname.endsWith('/api/overview'),
      async (route) => {
        const answer = await route.fetch();
        const { now, warnings, ...overview } = (await answer.json()) as Overview;
        const json = {
          ...overview,
          now: { ...now, pending: { count: 999, kind: 'exact' } },
          warnings: [...warnings, { kind: 'behind', message }],
        };
        await route.fulfill({ response: answer, json });
      },
    );
    await go(page, 'Overview');
    // the numbers of a snapshot
    await expect
      .poll(async () => Number(await figure(page, 'Waiting')), { timeout: patienceMs })
      .toBeLessThan(999);
    await page.getByRole('list', { name: 'Warnings' }).getByText(message).waitFor();
    expect(faults).toEqual([]);
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    await close();
  });

  test('use of the workers: slots in use, and why there may be more leases', async () => {
    const { sql } = on();
    await sql(
      `insert into pgqueue.work_queue (id, version, pool, task, lock_key, lock_token, lock_timeout, started)
       select gen_random_uuid(), 1, 'apart', 'hello', 'silent-1', gen_random_uuid(), now() + interval '1 hour', now()
       from generate_series(1, 7)`,
    );
    const { page, faults, close } = await on().visit('/');
    const use = page.locator('main dl > div').filter({ hasText: 'Worker use' });
    // one of the 8 slots of a worker, all 4 of another
    await use.getByText('41.7 %').waitFor();
    await use.getByText('8 leases, with those claimed ahead').waitFor();
    await sql(`delete from pgqueue.work_queue where lock_key = 'silent-1'`);
    expect(faults).toEqual([]);
    await close();
  });

  test('one connection for all of a page; when it breaks, the page says so and comes back', async () => {
    const network = await startCutProxy(on().server.url);
    const { page, close } = await on().visit(network.url);
    await expect.poll(() => state(page), { timeout: patienceMs }).toBe('live');
    network.hold('to-client');
    network.reset();
    await expect.poll(() => state(page), { timeout: patienceMs }).toBe('reconnecting');
    network.hold(undefined);
    await expect.poll(() => state(page), { timeout: patienceMs }).toBe('live');
    await close();
    await network.close();
  });

  test('another one’s action is seen at once', async () => {
    const watching = await on().visit('/queues', 'viewer');
    await watching.page.getByText('seen').waitFor();
    const acting = await on().visit('/queues');
    await expect.poll(() => state(watching.page), { timeout: patienceMs }).toBe('live');
    await turn(acting.page.getByRole('switch', { name: 'Queue seen is paused' }));
    const row = watching.page.getByRole('row').filter({ hasText: 'seen' });
    await row.getByText('open', { exact: true }).waitFor();
    expect([...watching.faults, ...acting.faults]).toEqual([]);
    await watching.close();
    await acting.close();
  });
}
