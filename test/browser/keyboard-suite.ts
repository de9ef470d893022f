import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { told } from './chrome.ts';
import { escape, goByKeys, turn, untilSeen } from './press.ts';
import type { OnStage } from './suites.ts';

/** Returns the name of the focused element, as a screen reader announces it. */
function focused(page: Page): Promise<string> {
  return page.evaluate(() => {
    const { activeElement } = document;
    return activeElement?.getAttribute('aria-label') ?? activeElement?.textContent?.trim() ?? '';
  });
}

/** Presses Tab until the named element has the focus. Returns the number of presses. */
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
    await expect.poll(() => page.evaluate(() => document.activeElement?.id)).toBe('main');

    await goByKeys(page, 'q', 'Queues');
    await expect.poll(() => focused(page)).toBe('Queues');
    await page.getByRole('switch', { name: 'Queue mail is open' }).waitFor();
    await tabTo(page, 'Queue mail is open');
    await page.keyboard.press('Space');
    await told(page, 'Queue mail: paused');
    await turn(page.getByRole('switch', { name: 'Queue mail is paused' }));
    await told(page, 'Queue mail: resumed');
    await tabTo(page, 'Edit queue mail');
    await page.keyboard.press('Enter');
    await page.getByRole('form', { name: 'Settings of queue mail' }).waitFor();
    await escape(page, page.getByRole('form'));

    await goByKeys(page, 'j', 'Jobs');
    await tabTo(page, 'All that fit');
    await page.keyboard.press('Enter');
    await page.getByRole('menuitem', { name: 'Retry all that fit…' }).waitFor();
    await page.keyboard.press('ArrowDown');
    await escape(page, page.getByRole('menu'));
    await expect.poll(() => focused(page)).toBe('All that fit'); // the menu returns the focus
    await page.keyboard.press('/');
    await expect
      .poll(() =>
        page.evaluate(() => document.activeElement?.matches('main [data-filter] input, main input')),
      )
      .toBe(true);
    await page.keyboard.press('Escape');
    const keys = page.getByRole('dialog', { name: 'Keys' });
    await untilSeen(() => page.getByRole('heading', { level: 1, name: 'Jobs' }).press('?'), { sign: keys });
    await escape(page, keys);
    expect(faults).toEqual([]);
    await close();
  });

  test('what has the focus is seen to have it', async () => {
    const { page, close } = await on().visit('/nodes');
    await page.getByRole('button', { name: 'Reset node silent-1' }).waitFor();
    const outlines: string[] = [];
    for (const name of ['Overview', 'worker-1', 'Reset node silent-1']) {
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
