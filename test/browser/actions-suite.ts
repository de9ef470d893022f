import { expect, test } from 'vitest';
import { until } from '../support/until.ts';
import { told } from './chrome.ts';
import { turn } from './press.ts';
import type { Stage } from './stage.ts';
import { go } from './pages-suite.ts';
import type { OnStage } from './suites.ts';
import type { World } from './world.ts';
import { reach } from './world.ts';

const patienceMs = 120_000;

async function status({ operator }: Stage, id: string | undefined): Promise<string | undefined> {
  return (await operator.jobs.get(id ?? ''))?.status;
}

async function settings({ operator }: Stage, queue: string): Promise<Record<string, unknown>> {
  const found = (await operator.queues.list()).find((one) => one.queue === queue);
  return { ...found };
}

export function actionsSuite(on: OnStage, world: () => World): void {
  test('a queue is paused and resumed, its limits are edited in place, and put back', async () => {
    const { page, faults, close } = await on().visit('/queues');
    await turn(page.getByRole('switch', { name: 'Queue hooks is open' }));
    const notice = page.getByRole('alert').filter({ hasText: 'Queue hooks: paused' });
    await notice.hover(); // it stays
    expect(await settings(on(), 'hooks')).toMatchObject({ paused: true });
    await notice.getByRole('button', { name: 'Undo' }).click();
    await told(page, 'Undone');
    await until(
      'the queue to be open',
      async () => (await settings(on(), 'hooks'))['paused'] === false,
      patienceMs,
    );

    await page.getByRole('button', { name: 'Edit queue mail' }).click();
    const form = page.getByRole('form', { name: 'Settings of queue mail' });
    await form.getByLabel('At once', { exact: true }).fill('7');
    await form.getByLabel('At once, each key').fill('');
    await form.getByLabel('Weight').fill('2.5');
    await form.getByRole('button', { name: 'Save' }).click();
    await told(page, 'Queue mail: settings changed');
    await page.getByText('7 at once · 500/s').waitFor();
    expect(await settings(on(), 'mail')).toMatchObject({
      concurrency: 7,
      keyConcurrency: null,
      weight: 2.5,
    });
    expect(faults).toEqual([]);
    await close();
  });

  test('one job: reprioritise, run now, cancel, undo, delete', async () => {
    const [waiting] = world().waiting;
    const { page, faults, close } = await on().visit(`/jobs/${waiting}`);
    await page.getByRole('button', { name: 'Reprioritise' }).click();
    await page.getByRole('dialog').getByLabel('Priority').fill('-3');
    await page.getByRole('button', { name: 'Set priority' }).click();
    await told(page, '1 job reprioritised');
    expect((await on().operator.jobs.get(waiting ?? ''))?.priority).toBe(-3);

    await page.goto(new URL(`jobs/${world().delayed}`, on().server.url).href);
    await page.getByRole('button', { name: 'Run now' }).click();
    await told(page, '1 job due now');
    await reach(on().operator, { ids: [world().delayed], status: 'done' });
    await page.locator('h1').getByText('done').waitFor();

    await page.goto(new URL(`jobs/${waiting}`, on().server.url).href);
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel 1 job' }).click();
    await told(page, '1 job cancelled');
    expect(await status(on(), waiting)).toBe('cancelled');
    await page.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete 1 job' }).click();
    await told(page, '1 job deleted');
    await page.getByText('There is no such job').waitFor();
    expect(await status(on(), waiting)).toBeUndefined();
    expect(faults.filter((fault) => !fault.includes('404'))).toEqual([]);
    await close();
  });

  test('several jobs that are ticked', async () => {
    const { page, faults, close } = await on().visit('/jobs?queue=later');
    const rows = page.getByRole('table', { name: 'Jobs' }).getByRole('row');
    await expect.poll(() => rows.count(), { timeout: patienceMs }).toBe(51);
    await rows.nth(1).getByRole('checkbox').check();
    await rows.nth(2).getByRole('checkbox').check();
    await page.getByRole('heading', { name: '2 selected' }).waitFor();
    await page.getByRole('button', { name: 'Cancel', exact: true }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel 2 jobs' }).click();
    await told(page, '2 jobs cancelled');
    const cancelled = await on().operator.jobs.list({ queue: 'later', status: 'cancelled' });
    expect(cancelled.items).toHaveLength(2);
    expect(faults).toEqual([]);
    await close();
  });

  test('all that fit a filter: counted first, then done while one watches, then undone', async () => {
    const { page, faults, close } = await on().visit('/jobs?queue=later&status=pending&key=globex');
    const { items } = await on().operator.jobs.list({ queue: 'later', status: 'pending', key: 'globex' });
    const priorities = async (): Promise<readonly unknown[]> =>
      (
        await on().sql(
          `select priority from pgqueue.queue where queue = 'later' and key = 'globex' order by id desc`,
        )
      ).map(({ priority }) => priority);
    await page.getByRole('button', { name: 'All that fit' }).click();
    await page.getByRole('menuitem', { name: 'Reprioritise all that fit…' }).click();
    await page.getByRole('dialog').getByLabel('Priority').fill('9');
    await page.getByRole('button', { name: 'Set priority' }).click();
    const dialog = page.getByRole('dialog', { name: 'Reprioritise all jobs' });
    await dialog.getByText('jobs fit now. It can be undone for a while.').waitFor();
    await dialog.getByRole('button', { name: `Reprioritise ${items.length} jobs` }).click();
    await dialog.getByText(`Done. ${items.length} jobs changed`).waitFor();
    expect(await priorities()).toEqual(items.map(() => 9));
    // closed, and found again
    await dialog.getByRole('button', { name: 'Close' }).last().click();
    await go(page, 'Audit');
    await page.getByRole('button', { name: 'Show bulk action: reprioritise jobs' }).first().click();
    const found = page.getByRole('dialog', { name: 'Bulk action' });
    await found.getByText(`Done. ${items.length} jobs changed`).waitFor();
    await found.getByRole('button', { name: 'Undo' }).click();
    await told(page, `Undone: ${items.length}`);
    expect(await priorities()).toEqual(items.map(({ priority }) => priority));
    expect(faults).toEqual([]);
    await close();
  });

  test('a dead job is redriven from its page, as the page says', async () => {
    const dead = world().dead.at(-1) ?? '';
    const { page, faults, close } = await on().visit(`/jobs/${dead}`);
    await page.getByText('“Redrive” puts it back').waitFor();
    await page.getByRole('button', { name: 'Redrive', exact: true }).click();
    await told(page, '1 job due again');
    await reach(on().operator, { ids: [dead], status: 'dead' });
    await page.getByText('Attempt 2 failed').waitFor();
    expect(faults).toEqual([]);
    await close();
  });

  test('dead letters: one, its group, all', async () => {
    const { page, faults, close } = await on().visit('/dead');
    const [first] = world().dead;
    const tries = async (id: string | undefined): Promise<number> =>
      Number(
        (await on().sql('select count(*) as n from pgqueue.audit where target = $1', [id]))[0]?.['n'] ?? 0,
      );
    await page.getByRole('button', { name: `Redrive job ${first?.slice(-12)}` }).click();
    await told(page, '1 job due again');
    expect(await tries(first)).toBe(1);
    await reach(on().operator, { ids: world().dead, status: 'dead' });

    const group = page.getByRole('table', { name: 'Groups of dead jobs' }).getByRole('row').nth(1);
    await group.getByRole('button', { name: /RangeError/ }).click();
    await expect.poll(() => page.url(), { timeout: patienceMs }).toContain('group=');
    await group.getByRole('button', { name: 'Redrive…' }).click();
    await page.getByRole('dialog').getByText('the oldest first.').waitFor();
    await page
      .getByRole('dialog')
      .getByRole('button', { name: /^Redrive 6 jobs/ })
      .click();
    await page.getByRole('dialog').getByText('6 jobs changed').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).last().click();
    await reach(on().operator, { ids: world().dead, status: 'dead' });

    await page.getByRole('button', { name: 'Show all groups' }).click();
    await page.getByRole('button', { name: 'Died: any time' }).click();
    const lately = page.getByRole('button', { name: 'Last day' });
    await lately.click();
    await expect.poll(() => page.url(), { timeout: patienceMs }).toContain('since=');
    await page.keyboard.press('Escape');
    await lately.waitFor({ state: 'hidden' });
    await page.getByRole('button', { name: 'Purge…' }).first().click();
    await page
      .getByRole('dialog')
      .getByRole('button', { name: /^Purge 6 jobs/ })
      .click();
    await page.getByRole('dialog').getByText('6 jobs changed').waitFor();
    expect(await status(on(), first)).toBeUndefined();
    expect(faults).toEqual([]);
    await close();
  });

  test('a node is reset by its id, after a question; one that has ended and holds nothing is not', async () => {
    const { page, faults, close } = await on().visit('/nodes');
    await page.getByRole('button', { name: 'gone-1', exact: true }).click();
    await page.getByText('It holds no job').waitFor();
    const reset = page.getByRole('button', { name: 'Reset node silent-1' });
    await reset.click();
    await page.getByRole('dialog').getByRole('button', { name: 'Don’t' }).click();
    expect(await page.getByRole('button', { name: 'Reset node gone-1' }).count()).toBe(0);
    await reset.click();
    await page.getByRole('dialog').getByRole('button', { name: 'Reset the node' }).click();
    await told(page, 'Node silent-1 reset: 0 jobs ready');
    await reset.waitFor({ state: 'detached' });
    const rows = await on().sql(
      `select actor from pgqueue.audit where action = 'node.reset' and target = 'silent-1'`,
    );
    expect(rows).toEqual([{ actor: 'ada' }]);
    expect(faults).toEqual([]);
    await close();
  });

  test('a schedule: run now, pause, resume', async () => {
    const { page, faults, close } = await on().visit('/schedules');
    await page.getByRole('button', { name: 'Run now: schedule nightly' }).click();
    await told(page, 'Schedule nightly: enqueued now');
    await page.getByRole('button', { name: 'Pause schedule nightly' }).click();
    await told(page, 'Schedule nightly: paused');
    expect(await on().operator.schedules.list()).toMatchObject([{ name: 'nightly', paused: true }]);
    await page.getByRole('button', { name: 'Resume schedule nightly' }).click();
    await told(page, 'Schedule nightly: resumed');
    expect(await on().operator.schedules.list()).toMatchObject([{ name: 'nightly', paused: false }]);
    expect(faults).toEqual([]);
    await close();
  });

  test('the doctor examines when asked; the audit has who did what', async () => {
    const { page, faults, close } = await on().visit('/health');
    await page.getByRole('button', { name: 'Examine' }).click();
    await page.getByText(/checks in/).waitFor();
    await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Audit' }).click();
    for (const action of ['queue.set', 'node.reset', 'jobs.cancel']) {
      await page.getByRole('table', { name: 'Actions', exact: true }).getByText(action).first().waitFor();
    }
    await page.getByRole('textbox', { name: 'Action, such as queue.set' }).fill('node.reset');
    const rows = page.getByRole('table', { name: 'Actions', exact: true }).getByRole('row');
    await expect.poll(() => rows.count(), { timeout: patienceMs }).toBe(2);
    expect(faults).toEqual([]);
    await close();
  });

  test('what is refused is said, and nothing else is lost', async () => {
    const { page, close } = await on().visit('/queues');
    await page.getByRole('button', { name: 'Edit queue mail' }).click();
    const form = page.getByRole('form', { name: 'Settings of queue mail' });
    await form.getByLabel('Weight').fill('0');
    await form.getByRole('button', { name: 'Save' }).click();
    await told(page, /weight/);
    expect(await form.getByLabel('Weight').inputValue()).toBe('0');
    await close();
  });
}
