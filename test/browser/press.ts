import type { Locator, Page } from 'playwright-core';
import { errors } from 'playwright-core';
import { expect } from 'vitest';

const roundMs = 10_000;
const rounds = 6;

/** A sign that is awaited, and in which state. */
export interface Sign {
  readonly sign: Locator;
  readonly state?: 'visible' | 'detached';
}

/**
 * Does something that may be done twice, and again where its sign does not come: a key may be pressed while the page is drawn anew, or before it
 * listens.
 */
export async function untilSeen(
  act: () => Promise<unknown>,
  { sign, state = 'visible' }: Sign,
): Promise<void> {
  for (let round = 1; round < rounds; round += 1) {
    await act();
    try {
      await sign.waitFor({ state, timeout: roundMs });
      return;
    } catch (error) {
      if (!(error instanceof errors.TimeoutError)) throw error;
    }
  }
  await act();
  await sign.waitFor({ state });
}

/** `g` and a letter, until the page is there. */
export async function goByKeys(page: Page, letter: string, name: string): Promise<void> {
  const keys = async (): Promise<void> => {
    await page.keyboard.press('g');
    await page.keyboard.press(letter);
  };
  await untilSeen(keys, { sign: page.getByRole('heading', { level: 1, name }) });
}

/** Escape, until what it closes is gone. */
export async function escape(page: Page, sign: Locator): Promise<void> {
  await untilSeen(() => page.keyboard.press('Escape'), { sign, state: 'detached' });
}

/** Turns a switch. Those of an action are disabled until its answer is there and the page has read itself anew. */
export async function turn(found: Locator): Promise<void> {
  await expect.poll(() => found.isEnabled(), { timeout: 120_000 }).toBe(true);
  await found.press('Space');
}
