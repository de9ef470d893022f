import type { Browser, BrowserContext, Page } from 'playwright-core';
import { chromium } from 'playwright-core';
import { expect } from 'vitest';

/** Debian's Chromium, unless the environment names another one. */
const executablePath = process.env['PGQUEUE_CHROMIUM'] ?? '/usr/bin/chromium';

/** Starts Chromium without its sandbox, which does not work for root; CI runs as root. */
export function launch(): Promise<Browser> {
  const args = ['--disable-gpu', '--disable-dev-shm-usage', '--force-color-profile=srgb'];
  return chromium.launch({ executablePath, args, chromiumSandbox: process.getuid?.() !== 0 });
}

/** A page, and the faults recorded on it. */
export interface Watched {
  readonly page: Page;
  /** Dialogs, violations of the content security policy, errors, requests to other hosts. */
  readonly faults: string[];
}

/**
 * Waits until the page has shown a notice with the message. A notice that has disappeared counts too: it
 * stays for a few seconds only, and the machine may be busy.
 */
export async function told(page: Page, message: string | RegExp): Promise<void> {
  const said = async (): Promise<boolean> => {
    const notices = await page.evaluate(() => (globalThis as unknown as { notices: string[] }).notices);
    return notices.some((notice) =>
      typeof message === 'string' ? notice.includes(message) : message.test(notice),
    );
  };
  await expect.poll(said, { message: `the notice ${String(message)}`, timeout: 120_000 }).toBe(true);
}

/** Opens a page and records everything that it must never do. */
export async function watch(context: BrowserContext, origin: string): Promise<Watched> {
  const faults: string[] = [];
  const page = await context.newPage();
  page.on('dialog', (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    dialog.dismiss().catch(() => {}); // the page may be gone
  });
  page.on('pageerror', (error) => faults.push(`page error: ${error.message}`));
  page.on('popup', (popup) => faults.push(`popup: ${popup.url()}`));
  page.on('download', (download) => faults.push(`download: ${download.url()}`));
  page.on('console', (message) => {
    if (message.type() === 'error') faults.push(`console: ${message.text()}`);
  });
  page.on('request', (request) => {
    if (new URL(request.url()).origin !== origin) faults.push(`request: ${request.url()}`);
  });
  await page.addInitScript(() => {
    const notices: string[] = [];
    Object.assign(globalThis, { notices });
    new MutationObserver((changes) => {
      for (const node of changes.flatMap(({ addedNodes }) => [...addedNodes])) {
        if (!(node instanceof HTMLElement)) continue;
        const found = node.matches('[role=alert]') ? [node] : node.querySelectorAll('[role=alert]');
        notices.push(...[...found].map((notice) => notice.textContent));
      }
    }).observe(document, { childList: true, subtree: true });
    addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI, sample }) => {
      console.error(`policy: ${violatedDirective} ${blockedURI} ${sample}`);
    });
  });
  return { page, faults };
}
