import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createDashboard, toNodeHandler } from '@pgqueue/dashboard';
import express from 'express';
import { expect, test } from 'vitest';
import { go, loaded } from './pages-suite.ts';
import { turn } from './press.ts';
import type { OnStage } from './suites.ts';

const basePath = '/admin/queue';

export function mountSuite(on: OnStage): void {
  test('under a path of an application: pages, filters, actions, and what is loaded anew', async () => {
    const dashboard = createDashboard({
      pool: on().database.pool,
      basePath,
      databaseRoles: false,
      auth: () => ({ name: 'ada', role: 'operator' }),
    });
    const app = express();
    app.use(basePath, toNodeHandler(dashboard));
    app.get('/', (_, response) => void response.send('the application'));
    const server = app.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

    const { page, faults, close } = await on().visit(url + basePath);
    const path = (): string => new URL(page.url()).pathname;
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    await go(page, 'Jobs');
    await page.getByRole('textbox', { name: 'Key' }).fill('acme');
    await expect.poll(() => page.url()).toBe(`${url}${basePath}/jobs?key=acme`);
    await page.reload();
    await page.getByRole('table', { name: 'Jobs' }).getByText('acme').first().waitFor();
    await go(page, 'Queues');
    expect(path()).toBe(`${basePath}/queues`);
    await loaded(page);
    for (const [is, becomes] of [
      ['open', 'paused'],
      ['paused', 'open'],
    ] as const) {
      await turn(page.getByRole('switch', { name: `Queue mail is ${is}` }));
      await page.getByRole('switch', { name: `Queue mail is ${becomes}` }).waitFor();
    }
    await expect.poll(() => page.locator('[data-live]').last().getAttribute('data-live')).toBe('live');
    await page.goBack();
    await expect.poll(path).toBe(`${basePath}/jobs`);
    expect(faults).toEqual([]);
    await close();
    await dashboard.close();
    server.close();
    server.closeAllConnections();
  });
}
