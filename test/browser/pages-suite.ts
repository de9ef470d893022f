import type { Overview } from '@pgqueue/dashboard';
import type { Locator, Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { untilSeen } from './press.ts';
import type { OnStage } from './suites.ts';
import { pages } from './suites.ts';
import type { World } from './world.ts';

/** Opens a page by the side bar, as a user does, without loading a new document. */
export async function go(page: Page, name: string): Promise<void> {
  const link = page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name });
  await untilSeen(() => link.press('Enter'), { sign: page.getByRole('heading', { level: 1, name }) });
}

/** Waits until the page has received everything that it asked for. */
export async function loaded(page: Page): Promise<void> {
  const open = page.locator('main').getByRole('status', { name: 'loading' });
  await expect.poll(() => open.count(), { timeout: 120_000 }).toBe(0);
}

/** Texts that each page must show besides its heading. */
const shows: Readonly<Record<string, readonly (string | RegExp)[]>> = {
  Overview: [
    'Oldest waiting',
    'Retry rate',
    'Wait before start',
    'later',
    'paused',
    /first jobs of each key/,
  ],
  Keys: ['Share of worker time', 'acme', 'globex', 'Who waits', /counted up to 500 a key/],
  Queues: ['20 at once · 5 a key · 500/s', 'hooks', 'open'],
  Jobs: ['delayed', 'running', 'dead', 'done', 'hello', /^due/, /^began/],
  Flows: ['count-site', 'open', '0 of 2', '0 of 1'],
  Nodes: ['worker-1', 'alive', 'gone-1', 'lost', /of 8$/],
  'Dead letters': [/endpoint … refused/, 'RangeError', 'max tries'],
  Schedules: ['nightly', '0 2 * * *', 'Europe/Berlin'],
  Policy: ['Gates', 'Fair order', 'Lead, by weight', 'queue concurrency', /first jobs of each key/],
  Health: ['Leader', 'work_queue', 'Schema version', 'Not examined yet'],
  Audit: ['Who'],
};

export function pagesSuite(on: OnStage, world: () => World): void {
  test('every page shows what is in the database', async () => {
    const { page, faults, close } = await on().visit('/');
    for (const { name } of pages) {
      await go(page, name);
      for (const text of shows[name] ?? []) {
        await page.locator('main').getByText(text).first().waitFor({ state: 'attached' });
      }
      expect(await page.title()).toBe(`${name} · pgqueue`);
    }
    expect(faults).toEqual([]);
    await close();
  });

  test('a queue, a node and a schedule are found however many there are', async () => {
    const { sql } = on();
    const many = `select 'aa-' || lpad(i::text, 3, '0') from generate_series(1, 501) i`;
    await sql(`insert into pgqueue.queue_config (queue) ${many} union all select 'zz-last'`);
    const { page, faults, close } = await on().visit('/queues');
    const rows = page.locator('main').getByRole('row');
    await page.locator('main').getByText('the first 500, by name').waitFor();
    expect(await page.locator('main').getByText('zz-last').count()).toBe(0);
    await page.getByRole('textbox', { name: 'Part of the name' }).fill('Z-LAST');
    await expect
      .poll(() => rows.allInnerTexts(), { timeout: 120_000 })
      .toEqual([expect.anything(), expect.stringContaining('zz-last')]);
    for (const name of ['Nodes', 'Schedules']) {
      await go(page, name);
      await page.getByRole('textbox', { name: 'Part of the name' }).fill('no such name');
      await page
        .locator('main')
        .getByText(/^No (?:node|schedule) has that in its name$/)
        .waitFor();
    }
    await go(page, 'Jobs');
    await page.getByRole('combobox', { name: 'Queue' }).fill('zz-last');
    await page.getByRole('option', { name: 'zz-last' }).click();
    await expect.poll(() => page.url(), { timeout: 120_000 }).toContain('queue=zz-last');
    await sql(`delete from pgqueue.queue_config where queue ~ '^(aa-|zz-last)'`);
    expect(faults).toEqual([]);
    await close();
  });

  test('lines of charts go straight from value to value', async () => {
    const { page, faults, close } = await on().visit('/keys');
    await page.route(
      (url) => url.pathname.endsWith('/api/overview'),
      async (route) => {
        const answer = await route.fetch();
        const overview = (await answer.json()) as Overview;
        const buckets = overview.buckets.map((bucket, index) => {
          const value = [0, 0, 900, 0][index % 4] ?? 0;
          return { ...bucket, waitP50Ms: value, waitP95Ms: value, waitP99Ms: value, busyMs: value };
        });
        await route.fulfill({ response: answer, json: { ...overview, buckets, countedTo: overview.at } });
      },
    );
    await go(page, 'Overview');
    const curves = page.locator('main path.recharts-curve');
    // three waits; the area of worker time, and its edge
    await expect.poll(() => curves.count(), { timeout: 120_000 }).toBe(5);
    // M moves, L draws a line, C a curve
    const bent = await curves.evaluateAll((paths) =>
      paths.map((path) => path.getAttribute('d')?.includes('C') !== false),
    );
    expect(bent).toEqual(Array.from({ length: 5 }, () => false));
    expect(faults).toEqual([]);
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    await close();
  });

  test('a job’s page: what it did, on which node, why it waits, what it carries', async () => {
    const { page, faults, close } = await on().visit(`/jobs/${world().running}`);
    const main = page.locator('main');
    await main.getByRole('heading', { name: 'What it does' }).waitFor();
    await main
      .getByText(/runs on worker-1 for/)
      .first()
      .waitFor();
    await main.getByText('"step": 3').waitFor();
    await main.getByText('"tenant": "globex"').waitFor();
    await main.getByText('Attempt 1 runs').waitFor();

    await page.goto(new URL(`jobs/${world().dead[0]}`, on().server.url).href);
    await main.getByRole('heading', { name: 'Why it is dead' }).waitFor();
    await main.getByText('Attempt 1 failed').waitFor();
    await main.getByText('Stack', { exact: true }).click();
    await main
      .getByText(/at .*stage\.ts/)
      .first()
      .waitFor();

    await page.goto(new URL(`jobs/${world().held}`, on().server.url).href);
    await main.getByRole('heading', { name: 'Why it waits' }).waitFor();
    await main
      .getByText(/1 of 1|limit.* 1/)
      .first()
      .waitFor();

    await page.goto(new URL(`jobs/${world().waiting[0]}`, on().server.url).href);
    await main
      .getByText(/queue "?later"? is paused|paused/)
      .first()
      .waitFor();
    expect(faults).toEqual([]);
    await close();
  });

  test('of a job’s documents those are called redacted that the server’s hook changed', async () => {
    const { page, faults, close } = await on().visit('/jobs');
    await page.route(
      (url) => url.pathname.endsWith(`/api/jobs/${world().running}`),
      async (route) => {
        const answer = await route.fetch();
        await route.fulfill({ response: answer, json: { ...(await answer.json()), redacted: ['progress'] } });
      },
    );
    await page.goto(new URL(`jobs/${world().running}`, on().server.url).href);
    const panel = (title: string): Locator =>
      page.locator('main section').filter({ has: page.getByRole('heading', { name: title, exact: true }) });
    await panel('Progress').getByText('redacted', { exact: true }).waitFor();
    await panel('Payload').getByText('"tenant": "globex"').waitFor();
    expect(await panel('Payload').getByText('redacted').count()).toBe(0);
    expect(faults).toEqual([]);
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    await close();
  });

  test('a job that is not there, a page that is not there', async () => {
    const { page, close } = await on().visit('/jobs/00000000-0000-7000-8000-000000000000');
    await page.getByText('There is no such job').waitFor();
    await page.goto(new URL('nothing', on().server.url).href);
    await page.getByText('There is no such page').waitFor();
    await page.getByRole('link', { name: 'Go to the overview' }).click();
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    expect(new URL(page.url()).pathname).toBe('/');
    await close();
  });

  test('filters stand in the address, and come back with it', async () => {
    const { page, faults, close } = await on().visit('/jobs?status=dead&queue=hooks');
    const rows = page.getByRole('table', { name: 'Jobs' }).getByRole('row');
    await expect.poll(() => rows.count(), { timeout: 120_000 }).toBe(1 + world().dead.length);
    await page.getByRole('textbox', { name: 'In the error' }).fill('REFUSED');
    await expect.poll(() => page.url(), { timeout: 120_000 }).toContain('error=REFUSED');
    await page.getByRole('button', { name: 'Clear' }).click();
    await page.getByRole('textbox', { name: 'Payload field' }).fill('tenant');
    await page.getByRole('textbox', { name: 'is', exact: true }).fill('initech');
    await expect.poll(() => page.url(), { timeout: 120_000 }).toContain('value=initech');
    await expect.poll(() => rows.count(), { timeout: 120_000 }).toBe(1 + 21);
    await page.goBack();
    await page.getByRole('table', { name: 'Jobs' }).waitFor();
    expect(faults).toEqual([]);
    await close();
  });

  test('a filter may be any text, also one that looks like part of an address', async () => {
    const odd = '100%25 + 1 = %41&key=#?';
    const { page, faults, close } = await on().visit(`/jobs?key=${encodeURIComponent(odd)}`);
    const box = page.getByRole('textbox', { name: 'Key' });
    await expect.poll(() => box.inputValue(), { timeout: 120_000 }).toBe(odd);
    await page.getByText('No job fits').waitFor();
    const asked = page.waitForRequest(
      (request) => new URL(request.url()).searchParams.get('key') === '%2541',
    );
    await box.fill('%2541');
    await asked;
    expect(await box.inputValue()).toBe('%2541');
    expect(faults).toEqual([]);
    await close();
  });

  test('shares of keys are those of the last hour, or of the last minutes', async () => {
    const { page, faults, close } = await on().visit('/keys');
    const since = async (): Promise<number> =>
      Date.parse((await page.locator('main header time').first().getAttribute('datetime')) ?? '');
    await page.getByRole('table', { name: 'Keys that run or ran' }).waitFor();
    const hour = await since();
    await page.getByText('Last 5 minutes').click();
    await expect.poll(() => page.url(), { timeout: 120_000 }).toContain('window=minutes');
    await expect.poll(since, { timeout: 120_000 }).toBeGreaterThan(hour + 50 * 60_000);
    expect(faults).toEqual([]);
    await close();
  });

  test('what is cut off for want of room is whole on hovering, or is not cut off', async () => {
    const { page, faults, close } = await on().visit('/');
    const cut: string[] = [];
    for (const { name } of pages) {
      await go(page, name);
      await loaded(page);
      const names = await page.evaluate(() =>
        [...document.querySelectorAll('main [data-name]')]
          .filter((one) => one.scrollWidth > one.clientWidth && one.querySelector('[title]') === null)
          .map((one) => one.textContent),
      );
      cut.push(...names.map((one) => `${name}: ${one}`));
    }
    expect(cut).toEqual([]);
    await go(page, 'Health');
    const migration = page.getByText('0001_initial.sql', { exact: true });
    await migration.waitFor();
    expect(await migration.evaluate((one) => one.scrollWidth - one.clientWidth)).toBe(0);
    expect(faults).toEqual([]);
    await close();
  });

  test('lists go page by page', async () => {
    const { page, close } = await on().visit('/jobs?queue=later');
    const rows = page.getByRole('table', { name: 'Jobs' }).getByRole('row');
    await expect.poll(() => rows.count(), { timeout: 120_000 }).toBe(51);
    await page.getByRole('button', { name: 'Next page' }).click();
    await expect.poll(() => rows.count(), { timeout: 120_000 }).toBe(11);
    expect(page.url()).toContain('after=');
    await page.getByRole('button', { name: 'First page' }).click();
    await expect.poll(() => rows.count(), { timeout: 120_000 }).toBe(51);
    await close();
  });

  test('times are the viewer’s, with UTC beside', async () => {
    const { page, close } = await on().visit(`/jobs/${world().done}`, 'operator', {
      timezoneId: 'Asia/Kolkata',
      locale: 'en-GB',
    });
    const time = page.locator('main time').first();
    await time.waitFor();
    const [iso, shown, title] = await Promise.all([
      time.getAttribute('datetime'),
      time.textContent(),
      time.getAttribute('title'),
    ]);
    const there = new Date(Date.parse(iso ?? '') + 330 * 60_000).toISOString();
    expect(shown).toBe(there.slice(11, 19));
    expect(title).toContain(`${iso?.slice(0, 23).replace('T', ' ')} UTC`);
    await close();
  });

  test('a viewer sees everything but payloads, and is offered no action', async () => {
    const { page, faults, close } = await on().visit('/', 'viewer');
    await page.getByText('ada · viewer').waitFor();
    const actions =
      /^(Retry|Run|Cancel|Reprioritise|Delete|Edit|Reset|Redrive|Purge|Pause schedule|All that fit)/;
    const offered: string[] = [];
    for (const { name } of pages) {
      await go(page, name);
      const main = page.locator('main');
      for (const found of [
        main.getByRole('button', { name: actions }),
        main.getByRole('checkbox'),
        main.getByRole('switch'),
      ]) {
        if ((await found.count()) > 0) offered.push(name);
      }
    }
    expect(offered).toEqual([]);
    await page.goto(new URL(`jobs/${world().running}`, on().server.url).href);
    await page.getByText('Operators see payloads').waitFor();
    expect(await page.locator('main').getByRole('button', { name: actions }).count()).toBe(0);
    expect(await page.content()).not.toContain('"tenant"');
    expect(faults).toEqual([]);
    await close();
  });
}
