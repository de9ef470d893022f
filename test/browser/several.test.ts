import type { DashboardServer } from '@pgqueue/dashboard';
import { createDashboard, serveDashboard } from '@pgqueue/dashboard';
import { createScheduler } from '@pgqueue/scheduler';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ensureWeb } from '../../scripts/build-web.mjs';
import type { Several } from '../integration/installations/support.ts';
import { createSeveral, insertJob, nth } from '../integration/installations/support.ts';
import { lacks } from '../support/tools.ts';
import type { Watched } from './chrome.ts';
import { launch, told, watch } from './chrome.ts';
import { axe, seriousFaults, sidewaysBy } from './looks-suite.ts';
import { go, loaded } from './pages-suite.ts';
import { goByKeys, turn } from './press.ts';
import { pages } from './suites.ts';

const patienceMs = 120_000;
const basePath = '/admin/queue';

describe.skipIf(lacks('chromium'))('three installations in Chromium, one of them down', () => {
  let several: Several;
  let server: DashboardServer;
  let browser: Browser;
  let scheduler: ReturnType<typeof createScheduler>;
  let jobs: readonly string[];

  beforeAll(async () => {
    await ensureWeb();
    several = await createSeveral(3);
    jobs = await Promise.all(
      [0, 0, 1].map((index) => insertJob(nth(several.databases, index), { key: 'acme' })),
    );
    scheduler = createScheduler({
      connectionString: nth(several.installations, 1).connectionString,
      name: 'lead-2',
    });
    await scheduler.start();
    const dashboard = createDashboard({
      installations: several.installations.map((each) =>
        each.name === 'three' ? { ...each, connectionString: 'postgres://x@127.0.0.1:1/x' } : each,
      ),
      basePath,
      databaseRoles: false,
      statementTimeoutMs: 60_000,
      concurrency: 32,
      auth: ({ headers }) => ({
        name: 'ada',
        role: headers.get('x-test-role') === 'viewer' ? 'viewer' : 'operator',
      }),
    });
    server = await serveDashboard(dashboard, { port: 0 });
    browser = await launch();
  });
  afterAll(async () => {
    await browser?.close();
    await server?.close();
    await scheduler?.stop();
    await several?.close();
  });

  async function visit(
    path = '',
    options: BrowserContextOptions = {},
  ): Promise<Watched & { readonly close: () => Promise<void> }> {
    const context = await browser.newContext({
      viewport: { width: 1280, height: 800 },
      reducedMotion: 'reduce',
      ...options,
    });
    context.setDefaultTimeout(patienceMs);
    const address = new URL(path, server.url);
    const watched = await watch(context, address.origin);
    await watched.page.goto(address.href, { waitUntil: 'domcontentloaded' });
    return { ...watched, close: () => context.close() };
  }

  const pathOf = (page: Page): string => new URL(page.url()).pathname;
  const cellsOf = async (page: Page, name: string): Promise<readonly string[]> => {
    const row = page.getByRole('row').filter({ has: page.getByRole('rowheader', { name, exact: true }) });
    return row.getByRole('cell').allInnerTexts();
  };

  test('a row each, sums, and what is wrong; the way in, all pages there, and the way back', async () => {
    const { page, faults, close } = await visit();
    await page.getByRole('table', { name: 'Installations' }).waitFor();
    expect(await page.title()).toBe('Installations · pgqueue');
    const figures = page.locator('main dl > div');
    expect(await figures.filter({ hasText: 'Answer' }).innerText()).toContain('2 of 3');
    expect(await figures.filter({ hasText: 'Waiting' }).first().innerText()).toContain('3');
    expect((await cellsOf(page, 'one')).slice(0, 4)).toEqual(['1', 'active', 'none', '2']);
    expect((await cellsOf(page, 'two')).slice(0, 4)).toEqual([
      '2',
      'active',
      expect.stringMatching(/^lead-2/),
      '1',
    ]);
    expect((await cellsOf(page, 'three')).slice(0, 3)).toEqual(['3', 'down', '–\nunknown']);
    await page.getByText('the database does not answer: try again').waitFor();
    await page.getByText(/no scheduler leads/).waitFor();
    // the row of one is as it is now, without loading the page again
    await insertJob(nth(several.databases, 0), { key: 'globex' });
    await expect.poll(async () => (await cellsOf(page, 'one'))[3], { timeout: patienceMs }).toBe('3');

    await page.getByRole('link', { name: 'one', exact: true }).click();
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    expect(pathOf(page)).toBe(`${basePath}/i/one/`);
    expect(await page.title()).toBe('Overview · one · pgqueue');
    for (const { name, path } of pages) {
      await go(page, name);
      await loaded(page);
      expect(pathOf(page)).toBe(`${basePath}/i/one${path}`);
      expect(await page.getByText('This could not be read').count()).toBe(0);
    }
    await expect.poll(() => page.locator('[data-live]').last().getAttribute('data-live')).toBe('live');
    await page.getByRole('link', { name: 'All installations' }).click();
    await page.getByRole('table', { name: 'Installations' }).waitFor();
    expect(pathOf(page)).toBe(`${basePath}/`);
    expect(faults).toEqual([]);
    await close();
  });

  test('an action changes its own installation alone; one that is down says so on its pages', async () => {
    await nth(several.operators, 1).queues.set('mail', { concurrency: 5 });
    const { page, faults, close } = await visit(`${basePath}/i/two/queues`);
    await turn(page.getByRole('switch', { name: 'Queue mail is open' }));
    await told(page, 'Queue mail: paused');
    const pausedIn = await Promise.all(
      several.operators
        .slice(0, 2)
        .map(async ({ queues }) =>
          (await queues.list()).filter(({ paused }) => paused).map(({ queue }) => queue),
        ),
    );
    expect(pausedIn).toEqual([[], ['mail']]);
    expect(faults).toEqual([]);
    await page.goto(new URL(`${basePath}/i/three/jobs`, server.url).href);
    await page.getByText('the database does not answer: try again').first().waitFor();
    await close();
  });

  test('jobs are found by id, wherever they are; and those that can not be, with the reason', async () => {
    const { page, faults, close } = await visit();
    const field = page.getByRole('textbox', { name: 'Id of a job or a flow' });
    await field.fill(` ${jobs[2]} `);
    await field.press('Enter');
    await page.getByRole('heading', { level: 1 }).filter({ hasText: 'hello' }).waitFor();
    expect(pathOf(page)).toBe(`${basePath}/i/two/jobs/${jobs[2]}`);
    await page.goBack();
    await page.getByRole('table', { name: 'Installations' }).waitFor();
    await field.fill('0198a3c2-0000-7000-8000-000000000002');
    await page.getByRole('button', { name: 'Find' }).click();
    await page.getByText('It may be in three: no answer from there.').waitFor();
    expect(faults).toEqual([]);
    // a link that is out of date, as the job has moved
    await page.goto(new URL(`${basePath}/i/one/jobs/${jobs[2]}`, server.url).href);
    await page.getByRole('link', { name: 'look in all of them' }).click();
    await page.getByRole('heading', { level: 1 }).filter({ hasText: 'hello' }).waitFor();
    expect(pathOf(page)).toBe(`${basePath}/i/two/jobs/${jobs[2]}`);
    faults.splice(0, 1); // the browser tells of the 404
    expect(faults).toEqual([]);
    await close();
  });

  test('without a mouse: keys, the field, the way in and back', async () => {
    const { page, faults, close } = await visit();
    await page.getByRole('table', { name: 'Installations' }).waitFor();
    await page.keyboard.press('/');
    const focused = (): Promise<string> =>
      page.evaluate(() => {
        const { activeElement } = document;
        return activeElement?.getAttribute('aria-label') ?? activeElement?.textContent?.trim() ?? '';
      });
    await expect.poll(focused).toBe('Id of a job or a flow');
    for (const name of ['Find', 'one', 'two', 'three']) {
      await page.keyboard.press('Tab');
      expect(await focused()).toBe(name);
    }
    await page.keyboard.press('Shift+Tab');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    expect(pathOf(page)).toBe(`${basePath}/i/two/`);
    await goByKeys(page, 'j', 'Jobs');
    await goByKeys(page, 'i', 'Installations');
    expect(pathOf(page)).toBe(`${basePath}/`);
    expect(faults).toEqual([]);
    await close();
  });

  test.each(['light', 'dark'] as const)('axe finds no serious fault, %s', async (colorScheme) => {
    const { page, faults, close } = await visit('', { colorScheme });
    await page.getByRole('table', { name: 'Installations' }).waitFor();
    await page.evaluate(axe);
    const found = [...(await seriousFaults(page, colorScheme))];
    await page.goto(new URL(`${basePath}/jobs/0198a3c2-0000-7000-8000-000000000002`, server.url).href);
    await page.getByText('No installation that answers knows it').waitFor();
    await page.evaluate(axe);
    found.push(...(await seriousFaults(page, colorScheme)));
    await page.goto(new URL(`${basePath}/i/one/`, server.url).href);
    await page.getByRole('link', { name: 'All installations' }).waitFor();
    await loaded(page);
    await page.evaluate(axe);
    found.push(...(await seriousFaults(page, colorScheme)));
    expect(found).toEqual([]);
    expect(faults).toEqual([]);
    await close();
  });

  test('on a phone nothing moves sideways; a viewer sees it, too; updates can be paused', async () => {
    const { page, faults, close } = await visit('', {
      viewport: { width: 360, height: 740 },
      hasTouch: true,
      extraHTTPHeaders: { 'x-test-role': 'viewer' },
    });
    await page.getByRole('table', { name: 'Installations' }).waitFor();
    expect(await sidewaysBy(page)).toBe(0);
    await page.getByRole('button', { name: 'Live. Pause updating' }).first().click();
    await page.getByRole('button', { name: 'Paused. Go on updating' }).first().waitFor();
    await page.goto(new URL(`${basePath}/i/one/`, server.url).href);
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    expect(await sidewaysBy(page)).toBe(0);
    expect(faults).toEqual([]);
    await close();
  });
});
