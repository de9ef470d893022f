import type { JobPage, Queues } from '@pgqueue/dashboard';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { renewalHeader } from '../../../packages/dashboard/src/contract/renewal.ts';
import type { Browser, DashboardBench } from './support.ts';
import { browse, openDashboardBench } from './support.ts';

let bench: DashboardBench;

beforeAll(async () => {
  bench = await openDashboardBench('dashboard_renewals_test');
});
afterAll(() => bench.close());

async function renew<Body>(browser: Browser, path: string): Promise<Body> {
  const response = await browser.fetch(path, { headers: { [renewalHeader]: '1' } });
  expect(response.status).toBe(200);
  return (await response.json()) as Body;
}

/** A pool, and how many transactions it has begun: each statement of a page is one. */
function counted(): { readonly pool: pg.Pool; readonly begun: () => number } {
  const pool = new pg.Pool({ connectionString: bench.url, max: 4 });
  let begun = 0;
  pool.on('acquire', () => (begun += 1));
  return { pool, begun: () => begun };
}

test('five tabs that renew a page cost what one does', async () => {
  const { pool, begun } = counted();
  const dashboard = bench.dashboard({ pool });
  const tabs = Array.from({ length: 5 }, () => browse(dashboard, 'vera:viewer'));
  const [first] = tabs;
  if (first === undefined) throw new Error('no tab');
  await first.get('/api/keys');
  await first.get('/api/keys');
  const before = begun();
  await first.get('/api/keys');
  const one = begun() - before;
  expect(one).toBeGreaterThan(0);
  const answers = await Promise.all(tabs.map((tab) => renew(tab, '/api/keys')));
  for (const answer of answers) expect(answer).toEqual(answers[0]);
  // at most one reading, where the one before was a second ago; who asks by hand gets one of their own
  expect(begun() - before).toBeLessThanOrEqual(2 * one);
  const asked = begun();
  await Promise.all(tabs.map((tab) => tab.get('/api/keys')));
  expect(begun() - asked).toBe(5 * one);
  await dashboard.close();
  await pool.end();
});

test('a renewal after an action tells what it has changed; one for a viewer is never an operator’s', async () => {
  const [id] = await bench.insert({ queue: 'mail', payload: { secret: 'sesame' } });
  const dashboard = bench.dashboard();
  const [vera, otto] = [browse(dashboard, 'vera:viewer'), browse(dashboard, 'otto:operator')];
  const paused = async (): Promise<boolean | undefined> => {
    const { queues } = await renew<Queues>(vera, '/api/queues');
    return queues.find(({ queue }) => queue === 'mail')?.settings.paused;
  };
  for (const wanted of [true, false, true]) {
    await otto.post('/api/actions/queue', { queue: 'mail', settings: { paused: wanted } });
    expect(await paused()).toBe(wanted);
  }
  const seen = await renew<JobPage>(otto, `/api/jobs/${id}`);
  expect(JSON.stringify(seen)).toContain('sesame');
  expect(JSON.stringify(await renew<JobPage>(vera, `/api/jobs/${id}`))).not.toContain('sesame');
  expect(JSON.stringify(await renew<JobPage>(otto, `/api/jobs/${id}`))).toContain('sesame');
});

test('what is refused is refused again', async () => {
  const vera = browse(bench.dashboard(), 'vera:viewer');
  for (let n = 0; n < 2; n += 1) {
    const response = await vera.fetch('/api/jobs?nonsense=1', { headers: { [renewalHeader]: '1' } });
    expect(response.status).toBe(400);
  }
});
