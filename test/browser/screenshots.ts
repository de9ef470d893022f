// npm run docs:screenshots: the pictures of docs/see-it-run.md and of the README, of real processes: one shop floods, the shares stay
// fair, a node falls silent, and is reset by its id. Debian's fonts-inter makes them look as they do.
import { mkdirSync, statSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { migrate } from '@pgqueue/postgres';
import { startServer } from '@pgqueue/postgres/testing';
import type { Page } from 'playwright-core';
import { until } from '../support/until.ts';
import { launch } from './chrome.ts';
import type { Scenery } from './scenery.ts';
import { openScenery } from './scenery.ts';

const folder = new URL('../../docs/images/', import.meta.url);
const bytesMax = 150_000;
const patienceMs = 120_000;
/** The shares of keys are then those of the flood alone. */
const windowMs = 310_000;

async function shoot(page: Page, name: string): Promise<void> {
  const file = fileURLToPath(new URL(`${name}.png`, folder));
  await page.screenshot({ path: file, animations: 'disabled' });
  const { size } = statSync(file);
  console.log(`${name}.png: ${Math.round(size / 1_000)} kB`);
  if (size > bytesMax) throw new Error(`${name}.png has ${size} bytes; ${bytesMax} at most`);
}

async function open(page: Page, scenery: Scenery, path: string): Promise<void> {
  await page.goto(new URL(path, scenery.server.url).href);
  await page.getByRole('heading', { level: 1 }).waitFor();
  await page.getByRole('status', { name: 'loading' }).waitFor({ state: 'detached' });
  if (path === '/') await page.locator('.recharts-surface').nth(2).waitFor();
  await page.locator('[data-live="live"]').last().waitFor();
}

async function flood(page: Page, scenery: Scenery): Promise<void> {
  await delay(20_000);
  await open(page, scenery, '/keys');
  await shoot(page, 'keys-before');
  const last = await scenery.flood('acme', 20_000);
  await delay(windowMs);
  await page.emulateMedia({ colorScheme: 'dark' });
  await open(page, scenery, '/');
  await shoot(page, 'overview-dark');
  await page.emulateMedia({ colorScheme: 'light' });
  await open(page, scenery, '/');
  await shoot(page, 'overview');
  await open(page, scenery, '/keys?window=minutes');
  await shoot(page, 'keys-flood');
  await open(page, scenery, `/jobs/${last}`);
  await page
    .getByText(/come first/)
    .first()
    .waitFor();
  await shoot(page, 'job-waits');
}

/** A stopped node keeps its sessions, so it is silent for two minutes before it counts as lost. */
async function silent(page: Page, scenery: Scenery): Promise<void> {
  const [, victim] = scenery.workers;
  victim?.signal('SIGSTOP');
  const silence = async (): Promise<boolean> => {
    const node = (await scenery.operator.nodes.list()).find(({ id }) => id === victim?.name);
    return node !== undefined && node.heartbeatAgeMs > 20_000 && node.leases > 0;
  };
  await until('the stopped node to be silent', silence, patienceMs);
  await open(page, scenery, '/nodes?node=worker-2');
  await page.getByRole('table', { name: 'Jobs' }).waitFor();
  await shoot(page, 'node-silent');
  await page.getByRole('button', { name: 'Reset node worker-2' }).click();
  await page.getByRole('dialog').waitFor();
  await shoot(page, 'node-reset');
  await page.getByRole('button', { name: 'Reset the node' }).click();
  await page.getByRole('alert').waitFor();
  await page
    .getByRole('row', { name: /worker-2/ })
    .getByText('lost')
    .waitFor();
  await shoot(page, 'node-after');
  victim?.signal('SIGKILL');
}

mkdirSync(folder, { recursive: true });
const server = await startServer();
const url = new URL(server.adminUrl);
await migrate({ connectionString: url.href });
const scenery = await openScenery(url.href);
const browser = await launch();
try {
  const page = await browser.newPage({
    viewport: { width: 1280, height: 800 },
    locale: 'en-GB',
    reducedMotion: 'reduce',
  });
  await flood(page, scenery);
  await silent(page, scenery);
} finally {
  await browser.close();
  await scenery.close();
  await server.stop();
}
