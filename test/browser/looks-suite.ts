import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { go, loaded } from './pages-suite.ts';
import type { OnStage } from './suites.ts';
import { pages } from './suites.ts';
import type { World } from './world.ts';

export const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

interface AxeResult {
  readonly violations: readonly {
    readonly id: string;
    readonly impact: string | null;
    readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[];
  }[];
}

/** Light and dark differ in colours alone: all else is examined once. */
const examined = {
  light: { resultTypes: ['violations'] },
  dark: { resultTypes: ['violations'], runOnly: ['color-contrast'] },
} as const;

/** Faults that axe calls serious or critical, one line each. */
export async function seriousFaults(page: Page, colours: keyof typeof examined): Promise<readonly string[]> {
  const { violations } = await page.evaluate<AxeResult>(`axe.run(${JSON.stringify(examined[colours])})`);
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) =>
      nodes.map(
        ({ html, failureSummary }) => `${id}: ${html.slice(0, 200)} (${failureSummary?.slice(0, 300)})`,
      ),
    );
}

export async function sidewaysBy(page: Page): Promise<number> {
  return page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
}

export function looksSuite(on: OnStage, world: () => World): void {
  test.each(['light', 'dark'] as const)('axe finds no serious fault on any page, %s', async (colorScheme) => {
    const { page, faults, close } = await on().visit('/', 'operator', { colorScheme });
    await page.getByRole('heading', { level: 1 }).waitFor();
    await page.evaluate(axe);
    const found: string[] = [];
    for (const { name } of pages) {
      await go(page, name);
      await loaded(page);
      for (const fault of await seriousFaults(page, colorScheme)) found.push(`${name}: ${fault}`);
    }
    await go(page, 'Jobs');
    await page.getByRole('link', { name: world().dead[0]?.slice(-12) ?? '' }).click();
    await page.getByText('Attempt 1 failed').waitFor();
    for (const fault of await seriousFaults(page, colorScheme)) found.push(`job: ${fault}`);
    await go(page, 'Flows');
    await page.getByRole('link', { name: 'count-site' }).click();
    await page.getByRole('option', { name: /^ok open not signalled/ }).click();
    for (const fault of await seriousFaults(page, colorScheme)) found.push(`flow: ${fault}`);
    await page.getByText('Table', { exact: true }).click();
    await page.getByRole('table', { name: 'Steps' }).waitFor();
    for (const fault of await seriousFaults(page, colorScheme)) found.push(`flow's table: ${fault}`);
    await page.getByRole('button', { name: 'Signal…' }).click();
    await page.getByRole('dialog').waitFor();
    for (const fault of await seriousFaults(page, colorScheme)) found.push(`signal: ${fault}`);
    await page.getByRole('button', { name: 'Don’t' }).click();
    await go(page, 'Queues');
    await page.getByRole('button', { name: 'Edit queue mail' }).click();
    for (const fault of await seriousFaults(page, colorScheme)) found.push(`queue settings: ${fault}`);
    await go(page, 'Nodes');
    await page.getByRole('button', { name: 'Reset node silent-1' }).click();
    await page.getByRole('dialog').waitFor();
    for (const fault of await seriousFaults(page, colorScheme)) found.push(`dialog: ${fault}`);
    await page.getByRole('button', { name: 'Don’t' }).click();
    await go(page, 'Jobs');
    await page.getByRole('button', { name: 'All that fit' }).click();
    await page.getByRole('menuitem', { name: 'Cancel all that fit…' }).click();
    await page.getByRole('dialog').getByText('jobs fit now').waitFor();
    for (const fault of await seriousFaults(page, colorScheme)) found.push(`bulk: ${fault}`);
    expect(found).toEqual([]);
    expect(faults).toEqual([]);
    await close();
  });

  test('colours follow the system, and the viewer’s choice, which stays', async () => {
    const { page, close } = await on().visit('/', 'operator', { colorScheme: 'dark' });
    const scheme = (): Promise<string | null> =>
      page.locator('html').getAttribute('data-mantine-color-scheme');
    await page.getByRole('heading', { level: 1 }).waitFor();
    await expect.poll(scheme).toBe('dark');
    await page.getByRole('button', { name: /^Colours: as the system/ }).click();
    await expect.poll(scheme).toBe('light');
    await page.reload();
    await page.getByRole('heading', { level: 1 }).waitFor();
    await expect.poll(scheme).toBe('light');
    await close();
  });

  test('on a phone nothing moves sideways, and the menu opens', async () => {
    const { page, faults, close } = await on().visit('/', 'operator', {
      viewport: { width: 360, height: 740 },
      hasTouch: true,
    });
    const found: string[] = [];
    for (const { name } of pages) {
      await page.getByRole('button', { name: 'Open menu' }).click();
      await go(page, name);
      await loaded(page);
      const by = await sidewaysBy(page);
      if (by > 0) found.push(`${name}: ${by} px`);
    }
    await page.goto(new URL(`jobs/${world().dead[0]}`, on().server.url).href);
    await page.getByText('Attempt 1 failed').waitFor();
    if ((await sidewaysBy(page)) > 0) found.push('job');
    for (const view of ['', '&view=tiles', '&view=table']) {
      await page.goto(new URL(`flows/${world().flow}?step=publish${view}`, on().server.url).href);
      await page.getByRole('heading', { name: 'Step publish' }).waitFor();
      if ((await sidewaysBy(page)) > 0) found.push(`flow${view}`);
    }
    expect(found).toEqual([]);
    expect(faults).toEqual([]);
    await close();
  });
}
