import type { Count, JobsPage } from '@pgqueue/dashboard';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Scene } from './scene.ts';
import { setScene } from './scene.ts';
import type { Browser, DashboardBench } from './support.ts';
import { browse, openDashboardBench } from './support.ts';

let bench: DashboardBench;
let browsers: Readonly<Record<'viewer' | 'operator', Browser>>;
let ids: Scene = {};

beforeAll(async () => {
  bench = await openDashboardBench('dashboard_find_test');
  ids = await setScene(bench);
  const dashboard = bench.dashboard();
  browsers = { viewer: browse(dashboard, 'vera:viewer'), operator: browse(dashboard, 'otto:operator') };
});
afterAll(() => bench.close());

async function read<Body>(path: string, role: 'viewer' | 'operator' = 'viewer'): Promise<Body> {
  const { status, body } = await browsers[role].get<Body>(`/api/${path}`);
  expect({ path, status, body: status === 200 ? null : body }).toEqual({ path, status: 200, body: null });
  return body;
}

describe('jobs are found', () => {
  const found = async (query: string, role: 'viewer' | 'operator' = 'viewer'): Promise<readonly string[]> =>
    (await read<JobsPage>(`jobs?${query}`, role)).items.map(
      ({ id }) => Object.entries(ids).find(([, own]) => own === id)?.[0] ?? id,
    );

  test.each([
    ['', ['pending', 'delayed', 'cancelled', 'running', 'dead', 'done']],
    ['status=running', ['running']],
    ['status=pending', ['pending']],
    ['status=pending&key=acme', ['pending']],
    ['status=pending&key=nobody', []],
    ['status=delayed', ['delayed']],
    ['status=done', ['done']],
    ['status=cancelled&key=globex', ['cancelled']],
    ['key=acme', ['pending', 'dead', 'done']],
    ['queue=mail', ['pending', 'delayed']],
    ['task=nothing', []],
    ['error=NOT%20FOUND', ['dead']],
    ['until=2020-01-01T00:00:00.000Z', []],
  ])('by "%s"', async (query, wanted) => {
    expect(await found(query)).toEqual(wanted);
    const count = await read<Count>(`jobs/count?${query}`);
    expect(count).toEqual({ count: wanted.length, kind: 'exact' });
  });

  test('by a field of the payload, which only operators may', async () => {
    expect(await found('field=customer.id&value=42', 'operator')).toEqual(['pending', 'done']);
    expect(await found('field=flags.0&value=true', 'operator')).toEqual(['pending', 'done']);
    expect(await found('field=customer.id&value=43', 'operator')).toEqual([]);
    expect(await browsers.viewer.get('/api/jobs?field=customer.id&value=42')).toMatchObject({
      status: 403,
      body: { error: { code: 'forbidden' } },
    });
  });

  test('page by page, none twice and none missed', async () => {
    const seen: string[] = [];
    let after = '';
    for (let page = 0; page < 10; page += 1) {
      const { items, next } = await read<JobsPage>(`jobs?limit=2${after}`);
      seen.push(...items.map(({ id }) => id));
      if (next === null) break;
      after = `&after=${next}`;
    }
    expect(seen).toHaveLength(6);
    expect(new Set(seen).size).toBe(6);
  });
});
