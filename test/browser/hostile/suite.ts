import { readFileSync } from 'node:fs';
import type { Locator, Page } from 'playwright-core';
import { expect, test } from 'vitest';
import type { Tally } from './answers.ts';
import { poisoned } from './answers.ts';
import type { HostileJobs } from './rows.ts';
import { fields, plant } from './rows.ts';
import { hostileTexts } from './texts.ts';
import { go, loaded } from '../pages-suite.ts';
import { turn, untilSeen } from '../press.ts';
import type { OnStage } from '../suites.ts';
import { pages } from '../suites.ts';

const patienceMs = 120_000;

/**
 * True in `npm run test:hostile`, which tries every turn of the poisoned answers and the page of every job.
 * CI tries a few.
 */
const isWhole = process.env['PGQUEUE_HOSTILE'] === 'all';
const turns = isWhole ? hostileTexts.length : 1;
const perKind = isWhole ? hostileTexts.length : 2;

/** Returns the traces of hostile texts that ran, or entered the page as more than text. */
async function intruders(page: Page): Promise<readonly string[]> {
  return page.evaluate(() => {
    const strange =
      'script:not([src^="./assets/"]),iframe,object,embed,svg script,link[href*="evil"],base:not(:first-of-type),meta[http-equiv]';
    const handlers = [...document.querySelectorAll('*')].filter((element) =>
      element.getAttributeNames().some((name) => name.startsWith('on')),
    );
    const links = [...document.querySelectorAll('[href],[src],[action]')].filter((element) =>
      /^\s*(?:javascript|data|vbscript):/i.test(
        element.getAttribute('href') ?? element.getAttribute('src') ?? element.getAttribute('action') ?? '',
      ),
    );
    const polluted = Object.keys({}).length > 0 || 'polluted' in {};
    return [
      ...[...document.querySelectorAll(strange), ...handlers, ...links].map((element) =>
        element.outerHTML.slice(0, 200),
      ),
      ...(polluted ? ['Object.prototype'] : []),
    ];
  });
}

export function hostileSuite(on: OnStage): void {
  let planted: HostileJobs;
  let shown = 0;

  test('thirty hostile texts in every field of the database, on every page: text and nothing more', async () => {
    planted = await plant(on());
    const { page, faults, close } = await on().visit('/');
    const found: string[] = [];
    for (const { name, path } of pages) {
      await go(page, name);
      await loaded(page);
      await expect
        .poll(() => page.locator('main').innerText(), { timeout: patienceMs })
        .toMatch(seen[path] ?? /./);
      found.push(...(await intruders(page)));
      shown += 1;
    }
    const { flows, ...byState } = planted;
    const jobs = Object.values(byState).flatMap((ids, kind) =>
      isWhole ? ids : ids.slice(kind * perKind, (kind + 1) * perKind),
    );
    for (const id of jobs) {
      await page.goto(new URL(`jobs/${id}`, on().server.url).href, { waitUntil: 'domcontentloaded' });
      await page.getByRole('heading', { name: 'Timeline' }).waitFor();
      for (const stack of await page.getByText('Stack', { exact: true }).all()) await stack.click();
      found.push(...(await intruders(page)));
      shown += 1;
    }
    for (const id of isWhole ? flows : flows.slice(0, perKind)) {
      for (const view of ['graph', 'tiles', 'table']) {
        await page.goto(new URL(`flows/${id}?view=${view}`, on().server.url).href, {
          waitUntil: 'domcontentloaded',
        });
        const step =
          view === 'table'
            ? page.getByRole('table', { name: 'Steps' }).getByRole('button')
            : page.getByRole('option');
        await step.last().click();
        await page.getByText('the signal’s value').waitFor();
        found.push(...(await intruders(page)));
        shown += 1;
      }
    }
    expect(found).toEqual([]);
    expect(faults).toEqual([]);
    await close();
  }, 600_000);

  test('hostile texts in what opens: forms, questions, details, notices', async () => {
    const { page, faults, close } = await on().visit('/queues');
    for (let nth = 0; nth < perKind; nth += 1) {
      for (const open of openings) {
        await open(page, nth);
        expect(await intruders(page)).toEqual([]);
        await closeDialogs(page);
        shown += 1;
      }
    }
    expect(faults.filter((fault) => !/status of 4\d\d/.test(fault))).toEqual([]);
    await close();
  }, 900_000);

  test('hostile texts in the address and in what is typed', async () => {
    const { page, faults, close } = await on().visit('/jobs');
    for (const text of hostileTexts.slice(0, perKind * 2)) {
      const address = new URL('jobs', on().server.url);
      for (const name of ['queue', 'task', 'key', 'error', 'status', 'since', 'after']) {
        if (name !== 'after' && name !== 'since') address.searchParams.set(name, text);
      }
      await page.goto(address.href, { waitUntil: 'domcontentloaded' });
      await page.getByRole('heading', { level: 1, name: 'Jobs' }).waitFor();
      expect(await intruders(page)).toEqual([]);
      shown += 1;
    }
    await page.getByRole('textbox', { name: 'Task' }).fill(hostileTexts[0] ?? '');
    await expect.poll(() => page.url(), { timeout: patienceMs }).toContain('%3Cscript%3E');
    expect(faults.filter((fault) => !/status of 400/.test(fault))).toEqual([]);
    await close();
  }, 600_000);

  test('hostile texts in place of every text that the server answers with', async () => {
    const tally: Tally = { texts: 0 };
    const { page, faults, close } = await on().visit('/');
    let turn = 0;
    await page.route(
      (url) => url.pathname.includes('/api/') && !url.pathname.endsWith('/live'),
      async (route) => {
        const answer = await route.fetch();
        await route.fulfill({ response: answer, json: poisoned(await answer.json(), turn, tally) });
      },
    );
    for (turn = 0; turn < turns; turn += 1) {
      await page.reload({ waitUntil: 'domcontentloaded' });
      for (const { name } of pages) {
        await go(page, name);
        await loaded(page);
        expect(await intruders(page)).toEqual([]);
        shown += 1;
      }
    }
    expect(tally.texts).toBeGreaterThan(turns * 500);
    expect(faults).toEqual([]);
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    await close();
  }, 900_000);

  test('docs/reliability.md has the counts', () => {
    const doc = readFileSync(new URL('../../../docs/reliability.md', import.meta.url), 'utf8').replaceAll(
      '\n',
      ' ',
    );
    console.log(`hostile texts: ${shown} pages shown`);
    expect(doc).toContain(
      `${hostileTexts.length} hostile texts in each of ${fields.length} fields of the database, on ${pages.length} pages`,
    );
    expect(doc).toMatch(
      new RegExp(`\\| ${isWhole ? '`npm run test:hostile`' : 'CI'}[^|]* \\| ${shown} \\| 0 \\|`),
    );
  });
}

/**
 * Clicks that show a part of the hostile row number `nth` hidden until then. A dialog that closes takes the
 * focus.
 */
const openings: readonly ((page: Page, nth: number) => Promise<void>)[] = [
  async (page, nth) => {
    await go(page, 'Queues');
    await strange(page, 'button', 'Edit queue').nth(nth).click();
    await page.getByRole('form').waitFor();
  },
  async (page, nth) => {
    await turn(strange(page, 'switch', 'Queue').nth(nth));
    await notice(page);
  },
  async (page, nth) => {
    await go(page, 'Schedules');
    await strange(page, 'button', 'Run now: schedule').nth(nth).click();
    await notice(page);
  },
  async (page, nth) => {
    await go(page, 'Nodes');
    await strange(page, 'button', 'Reset node').nth(nth).click();
    await page.getByRole('dialog').getByText('All of them go back').waitFor();
  },
  async (page, nth) => {
    await page
      .getByRole('table', { name: 'Nodes' })
      .getByRole('button', { expanded: false })
      .nth(nth)
      .click();
    await page.getByText('Can run').waitFor();
  },
  async (page, nth) => {
    await go(page, 'Jobs');
    await page.getByRole('textbox', { name: 'Task' }).fill(hostileTexts[nth] ?? '');
    await expect.poll(() => page.url(), { timeout: patienceMs }).toContain('task=');
    await page.getByRole('button', { name: 'All that fit' }).click();
    await page.getByRole('menuitem', { name: 'Cancel all that fit…' }).click();
    await page
      .getByRole('dialog')
      .getByText(/jobs? fits? now/)
      .waitFor();
  },
];

/** Pattern of the names that the stage itself uses; all other names are hostile. */
const known = 'hooks|later|mail|slow|seen|nightly|worker-1|gone-|silent-';

/** Finds buttons and switches by the beginning of their label, in front of a hostile name. */
function strange(page: Page, role: 'button' | 'switch', beginning: string): Locator {
  return page.getByRole(role, { name: new RegExp(`^${beginning} (?!${known})`) });
}

/** Closes whatever can be closed. */
async function closeDialogs(page: Page): Promise<void> {
  const dialog = page.getByRole('dialog');
  while ((await dialog.count()) > 0) {
    await untilSeen(() => page.keyboard.press('Escape'), { sign: dialog.first(), state: 'detached' });
  }
}

/** Waits for a notice, whatever it says. */
async function notice(page: Page): Promise<void> {
  await page.getByRole('alert').first().waitFor();
}

/** A text that each page must show: without it, the page had nothing hostile to show. */
const seen: Readonly<Record<string, RegExp>> = {
  '/': /<script>/,
  '/keys': /<script>/,
  '/queues': /<script>/,
  '/jobs': /<(?:base|style|template|noscript)/,
  '/flows': /<(?:base|style|template|noscript)/,
  '/nodes': /<script>/,
  '/dead': /<script>/,
  '/schedules': /<script>/,
  '/audit': /<script>/,
};
