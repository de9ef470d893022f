import type { FlowPage, FlowResults, JobsPage } from '@pgqueue/dashboard';
import type { Locator, Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { told } from '../chrome.ts';
import { loaded } from '../pages-suite.ts';
import type { Stage } from '../stage.ts';
import type { OnStage } from '../suites.ts';
import { jobsOf, manySteps, siteSteps, startFlow } from './seed.ts';

const patienceMs = 120_000;

const option = (page: Page, name: string | RegExp): Locator => page.getByRole('option', { name });

/** A flow that has gone as far as it goes by itself: two of its pages are dead, and it waits for somebody. */
async function startSite(stage: Stage, name: string): Promise<string> {
  const pages = [...jobsOf(30), ...jobsOf(2, { task: 'fails', max_tries: 1 })];
  const id = await startFlow(stage, name, siteSteps(pages), { key: 'acme', unique_key: name });
  const isOpen = async (): Promise<unknown> =>
    (await stage.sql(`select state from pgqueue.flow_step where flow = $1 and name = 'ok'`, [id]))[0]?.[
      'state'
    ];
  await expect.poll(isOpen, { timeout: patienceMs }).toBe('open');
  return id;
}

export function flowsSuite(on: OnStage): void {
  test('flows are listed with their progress, filtered, and counted in the side bar and the overview', async () => {
    await startSite(on(), 'listed-site');
    const bad = await startFlow(on(), 'bad', [
      { name: 'only', jobs: jobsOf(1, { task: 'fails', max_tries: 1 }) },
    ]);
    const failed = async (): Promise<unknown> =>
      (await on().sql('select state from pgqueue.flow where id = $1', [bad]))[0]?.['state'];
    await expect.poll(failed, { timeout: patienceMs }).toBe('failed');
    const { page, faults, close } = await on().visit('/');
    await page.getByText('Failed flows').waitFor();
    await page.getByRole('link', { name: '1', exact: true }).click();
    await expect.poll(() => page.url(), { timeout: patienceMs }).toContain('/flows?state=failed');
    const rows = page.getByRole('table', { name: 'Flows' }).getByRole('row');
    await expect.poll(() => rows.count(), { timeout: patienceMs }).toBe(2);
    await rows.nth(1).getByText('a step failed').waitFor();
    await page.getByRole('button', { name: 'Clear' }).click();
    await page.getByRole('textbox', { name: 'Name' }).fill('listed-site');
    await expect.poll(() => rows.count(), { timeout: patienceMs }).toBe(2);
    await rows.nth(1).getByText('3 of 6').waitFor();
    await rows.nth(1).getByText('32 of 36').waitFor();
    await page
      .getByRole('navigation', { name: 'Pages' })
      .getByText(/^\d+ open$/)
      .waitFor();
    await page.getByRole('textbox', { name: 'Key' }).fill('nobody');
    await page.getByText('No flow fits').waitFor();
    expect(faults).toEqual([]);
    await close();
  });

  test('a flow is a graph with one box a step, conditions on its lines, and what it waits for', async () => {
    const id = await startSite(on(), 'shown-site');
    const { page, faults, close } = await on().visit(`/flows/${id}`);
    await option(page, 'pages failed 32 of 32, 2 dead').waitFor();
    expect(await page.getByRole('option').count()).toBe(6);
    const across = async (name: string): Promise<number> =>
      (await option(page, new RegExp(`^${name} `)).boundingBox())?.x ?? 0;
    expect(await across('pages')).toBeLessThan(await across('sum'));
    expect(await across('alarm')).toBe(await across('sum'));
    expect(await across('sum')).toBeLessThan(await across('ok'));
    expect(await page.locator('main svg text').allTextContents()).toEqual(['ended', 'failed']);
    await option(page, /^late open in 24 h timer/)
      .getByText('in 24 h')
      .waitFor();
    const waits = page.getByRole('list', { name: 'Steps that have not ended' });
    await waits.getByText('not signalled', { exact: true }).waitFor();
    await waits.getByText(/^waits for any of ok: not signalled; late: until/).waitFor();
    expect(faults).toEqual([]);
    await close();
  });

  test('the table has the same steps; a step leads to its jobs, and a job back to its step', async () => {
    const id = await startSite(on(), 'linked-site');
    const { page, faults, close } = await on().visit(`/flows/${id}?view=table`);
    const rows = page.getByRole('table', { name: 'Steps' }).getByRole('row');
    await expect.poll(() => rows.count(), { timeout: patienceMs }).toBe(7);
    await page.getByRole('textbox', { name: 'In the name' }).fill('PAGE');
    await expect.poll(() => rows.count(), { timeout: patienceMs }).toBe(2);
    await rows.nth(1).getByRole('button', { name: 'pages' }).click();
    await page.getByRole('heading', { name: 'Step pages' }).waitFor();
    await page.getByRole('link', { name: 'Its dead jobs' }).click();
    await page.getByRole('heading', { level: 1, name: 'Jobs' }).waitFor();
    const jobs = page.getByRole('table', { name: 'Jobs' }).getByRole('row');
    await expect.poll(() => jobs.count(), { timeout: patienceMs }).toBe(3);
    expect(await page.getByRole('textbox', { name: 'Step' }).inputValue()).toBe('pages');
    await jobs.nth(1).getByRole('link').press('Enter');
    await page.getByRole('heading', { name: 'Why it is dead' }).waitFor();
    await page.getByRole('link', { name: 'linked-site' }).waitFor();
    await page.getByRole('link', { name: 'pages', exact: true }).click();
    await page.getByRole('heading', { name: 'Step pages' }).waitFor();
    await expect.poll(() => option(page, /^pages /).getAttribute('aria-selected')).toBe('true');
    expect(faults).toEqual([]);
    await close();
  });

  test('results go page by page; a viewer sees how jobs ended, and no result', async () => {
    const id = await startSite(on(), 'read-site');
    const { page, faults, close } = await on().visit(`/flows/${id}?step=pages`);
    const rows = page.getByRole('table', { name: 'Results' }).getByRole('row');
    await expect.poll(() => rows.count(), { timeout: patienceMs }).toBe(21);
    // ids of one millisecond are in no order, so any of the jobs may be on the first page
    await page
      .getByText(/^\{"greeted":"tenant-\d+"\}$/)
      .first()
      .waitFor();
    await page.getByRole('button', { name: 'Next page' }).click();
    await expect.poll(() => rows.count(), { timeout: patienceMs }).toBe(13);
    expect(faults).toEqual([]);
    await close();

    const viewer = await on().visit(`/flows/${id}?step=pages`, 'viewer');
    await viewer.page.getByText('Operators see results').waitFor();
    expect(await viewer.page.content()).not.toContain('greeted');
    for (const name of [/^Retry/, /^Cancel/, /^Signal/]) {
      expect(await viewer.page.locator('main').getByRole('button', { name }).count()).toBe(0);
    }
    const answer = await viewer.page.request.get(
      new URL(`api/flows/${id}/results?step=pages`, on().server.url).href,
    );
    const { items } = (await answer.json()) as FlowResults;
    expect(items.filter(({ result }) => result !== null)).toEqual([]);
    expect(viewer.faults).toEqual([]);
    await viewer.close();
  });

  test('a signal is given a value that is checked, and the flow goes on before one’s eyes', async () => {
    const id = await startSite(on(), 'signalled-site');
    const { page, faults, close } = await on().visit(`/flows/${id}?step=ok`);
    await page.getByRole('button', { name: 'Signal…' }).click();
    const dialog = page.getByRole('dialog', { name: 'Signal ok' });
    await dialog.getByLabel('Value').fill('{"by": ada}');
    await dialog.getByRole('button', { name: 'Signal', exact: true }).click();
    await dialog.getByText('This is no JSON').waitFor();
    await dialog.getByLabel('Value').fill('{"by": "ada"}');
    await dialog.getByRole('button', { name: 'Signal', exact: true }).click();
    await told(page, 'Signalled');
    await dialog.waitFor({ state: 'detached' });
    await option(page, /^publish done 2 of 2/).waitFor();
    await page.locator('h1').getByText('failed').waitFor();
    await page.getByText('{"by":"ada"}').waitFor();
    const [line] = await on().sql(
      `select actor, details::text from pgqueue.audit where action = 'flows.signal' and target = $1`,
      [id],
    );
    expect(line).toEqual({ actor: 'ada', details: '{"step": "ok"}' });
    expect(faults).toEqual([]);
    await close();
  });

  test('a flow is cancelled after a question, with a reason; what failed is retried, all or from a step', async () => {
    const id = await startSite(on(), 'stopped-site');
    const { page, faults, close } = await on().visit(`/flows/${id}`);
    await page.getByRole('button', { name: 'Cancel…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Don’t' }).click();
    await page.getByRole('button', { name: 'Cancel…' }).click();
    const dialog = page.getByRole('dialog', { name: 'Cancel this flow?' });
    await dialog.getByText('3 steps and 2 jobs have not ended.').waitFor();
    await dialog.getByLabel('Reason').fill('wrong site');
    await dialog.getByRole('button', { name: 'Cancel the flow' }).click();
    await told(page, 'The flow is being cancelled');
    await page.locator('h1').getByText('cancelled', { exact: true }).waitFor();
    await page.getByText('wrong site').waitFor();

    await page.getByRole('button', { name: 'Retry what failed' }).click();
    await told(page, 'Retried: 2 jobs put back');
    await page.locator('h1').getByText('open', { exact: true }).waitFor();
    await option(page, 'pages failed 32 of 32, 2 dead').click();
    await page.getByRole('button', { name: 'Retry from here' }).click();
    await told(page, /Retried: 2 jobs/);
    expect(faults).toEqual([]);
    await close();
  });

  test('keys lead from step to step', async () => {
    const id = await startSite(on(), 'keyed-site');
    const { page, faults, close } = await on().visit(`/flows/${id}`);
    const list = page.getByRole('listbox', { name: 'Steps, by layers' });
    const active = async (): Promise<string> =>
      page.evaluate(() => {
        const { activeElement } = document;
        const own = activeElement?.getAttribute('aria-activedescendant') ?? '';
        return document.getElementById(own)?.querySelector('bdi')?.textContent ?? '';
      });
    await option(page, /^pages /).waitFor();
    await list.focus();
    const visited: string[] = [await active()];
    for (const key of [
      'ArrowRight',
      'ArrowDown',
      'ArrowUp',
      'ArrowRight',
      'ArrowDown',
      'ArrowRight',
      'ArrowLeft',
    ]) {
      const before = visited.at(-1);
      await page.keyboard.press(key);
      await expect.poll(active, { timeout: patienceMs }).not.toBe(before);
      visited.push(await active());
    }
    expect(visited).toEqual(['pages', 'sum', 'alarm', 'sum', 'ok', 'late', 'publish', 'ok']);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Step ok' }).waitFor();
    expect(faults).toEqual([]);
    await close();
  });

  test('two thousand steps: only those in sight are rendered, and each is found', async () => {
    const id = await startFlow(on(), 'many', manySteps());
    const { page, faults, close } = await on().visit(`/flows/${id}`);
    const options = page.getByRole('option');
    await option(page, /^begin /).waitFor();
    expect(await options.count()).toBeLessThan(120);
    await page.getByRole('combobox', { name: 'Go to step' }).fill('end');
    await page.getByRole('option', { name: 'end', exact: true }).click();
    await page.getByRole('heading', { name: 'Step end' }).waitFor();
    await expect.poll(() => option(page, /^end blocked/).getAttribute('aria-selected')).toBe('true');
    const ground = page.getByRole('listbox', { name: 'Steps, by layers' });
    expect(await ground.evaluate((one) => one.scrollLeft)).toBeGreaterThan(20_000);
    expect(await options.count()).toBeLessThan(120);
    await expect
      .poll(() =>
        option(page, /^end blocked/).evaluate((one) => {
          const [own, around] = [
            one.getBoundingClientRect(),
            one.closest('[role=listbox]')?.getBoundingClientRect(),
          ];
          return around !== undefined && own.left >= around.left && own.right <= around.right;
        }),
      )
      .toBe(true);

    await page.getByText('Tiles', { exact: true }).click();
    await expect.poll(() => options.count(), { timeout: patienceMs }).toBeGreaterThan(300);
    await page.getByText('Table', { exact: true }).click();
    const rows = page.getByRole('table', { name: 'Steps' }).getByRole('row');
    await expect.poll(() => rows.count(), { timeout: patienceMs }).toBe(101);
    await page.getByRole('button', { name: 'Next page' }).click();
    await expect.poll(() => page.url(), { timeout: patienceMs }).toContain('from=100');
    await page.getByRole('textbox', { name: 'In the name' }).fill('chain 7 part 98');
    await expect.poll(() => rows.count(), { timeout: patienceMs }).toBe(2);
    expect(faults).toEqual([]);
    await close();
  });

  test('a step of 100,000 jobs is one box, and its jobs and their number are found', async () => {
    const id = await startFlow(on(), 'wide', [
      { name: 'pages', jobs: jobsOf(100_000, { queue: 'later' }) },
      { name: 'ok', kind: 'signal', needs: [[0, 'done']] },
    ]);
    const { page, faults, close } = await on().visit(`/flows/${id}`);
    await option(page, 'pages open 0 of 100,000').click();
    expect(await page.getByRole('option').count()).toBe(2);
    await page.getByText('waits for pages: 100,000 of 100,000 left').first().waitFor();
    await page.getByRole('link', { name: 'Its jobs' }).click();
    const jobs = page.getByRole('table', { name: 'Jobs' }).getByRole('row');
    await expect.poll(() => jobs.count(), { timeout: patienceMs }).toBe(51);
    await loaded(page);
    const api = async <Body>(path: string): Promise<Body> =>
      (await (await page.request.get(new URL(`api/${path}`, on().server.url).href)).json()) as Body;
    const first = await api<JobsPage>(`jobs?flow=${id}&step=pages`);
    expect(first).toMatchObject({ lookedBackTo: null });
    expect(first.items).toHaveLength(50);
    expect(await api(`jobs/count?flow=${id}&step=pages`)).toEqual({ count: 10_000, kind: 'at_least' });
    expect((await api<FlowPage>(`flows/${id}`)).steps).toHaveLength(2);
    expect(faults).toEqual([]);
    await close();
  });
}
