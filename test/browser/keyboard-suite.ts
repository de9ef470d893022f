import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import type { OnStage } from './suites.ts';

/** What has the focus, as those hear it who don't see it. */
function focused(page: Page): Promise<string> {
  return page.evaluate(() => {
    const { activeElement } = document;
    return activeElement?.getAttribute('aria-label') ?? activeElement?.textContent?.trim() ?? '';
  });
}

/** Presses Tab until it has the focus; how often. */
async function tabTo(page: Page, name: string | RegExp, most: number = 60): Promise<number> {
  for (let count = 1; count <= most; count += 1) {
    await page.keyboard.press('Tab');
    const heard = await focused(page);
    if (typeof name === 'string' ? heard === name : name.test(heard)) return count;
  }
  throw new Error(`${most} times Tab, and no ${String(name)}`);
}

export function keyboardSuite(on: OnStage): void {
  test('everything is reached, seen and done without a mouse', async () => {
    const { page, faults, close } = await on().visit('/');
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    expect(await tabTo(page, 'Skip to the content')).toBe(1);
    await page.keyboard.press('Enter');
    expect(await page.evaluate(() => document.activeElement?.id)).toBe('main');

    await page.keyboard.press('g');
    await page.keyboard.press('q');
    await page.getByRole('heading', { level: 1, name: 'Queues' }).waitFor();
    await expect.poll(() => focused(page)).toBe('Queues');
    await page.getByRole('switch', { name: 'Queue mail is open' }).waitFor();
    await tabTo(page, 'Queue mail is open');
    await page.keyboard.press('Space');
    await page.getByRole('alert').filter({ hasText: 'Queue mail: paused' }).waitFor();
    await page.getByRole('switch', { name: 'Queue mail is paused' }).waitFor();
    await page.getByRole('switch', { name: 'Queue mail is paused' }).press('Space');
    await page.getByRole('alert').filter({ hasText: 'Queue mail: resumed' }).waitFor();
    await tabTo(page, 'Edit queue mail');
    await page.keyboard.press('Enter');
    await page.getByRole('form', { name: 'Settings of queue mail' }).waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('form').waitFor({ state: 'detached' });

    await page.keyboard.press('g');
    await page.keyboard.press('j');
    await page.getByRole('heading', { level: 1, name: 'Jobs' }).waitFor();
    await tabTo(page, 'All that fit');
    await page.keyboard.press('Enter');
    await page.getByRole('menuitem', { name: 'Retry all that fit…' }).waitFor();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Escape');
    await page.getByRole('menu').waitFor({ state: 'detached' });
    await page.keyboard.press('/');
    expect(
      await page.evaluate(() => document.activeElement?.matches('main [data-filter] input, main input')),
    ).toBe(true);
    await page.keyboard.press('Escape');
    await page.getByRole('heading', { level: 1, name: 'Jobs' }).press('?');
    await page.getByRole('dialog', { name: 'Keys' }).waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    expect(faults).toEqual([]);
    await close();
  });

  test('what has the focus is seen to have it', async () => {
    const { page, close } = await on().visit('/nodes');
    await page.getByRole('button', { name: 'Reset node gone-2' }).waitFor();
    const outlines: string[] = [];
    for (const name of ['Overview', 'worker-1', 'Reset node gone-2']) {
      await tabTo(page, name);
      const outline = await page.evaluate(() => {
        const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement ?? document.body);
        return `${outlineStyle} ${outlineWidth}`;
      });
      outlines.push(outline);
    }
    expect(outlines).toEqual(['solid 2px', 'solid 2px', 'solid 2px']);
    await close();
  });
}
