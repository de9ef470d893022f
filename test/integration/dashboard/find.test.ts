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

  test('by their time of creation, and not those whose ids do not tell it', async () => {
    await bench.sql(
      `insert into $schema.queue (id, task, key)
       select id::uuid, 'hello', 'dated' from unnest(array[
         'e2a83907-6991-857d-9065-b0493ecd8d90', -- of an idempotency key
         '00283907-6991-857d-9065-b0493ecd8d91', -- of another one
         '6ba7b810-9dad-41d1-80b4-00c04fd430c8']) as id`,
    );
    const [own] = await bench.insert({ key: 'dated' });
    const hourAgo = new Date(Date.now() - 3_600_000).toISOString();
    expect(await found('key=dated')).toHaveLength(4);
    for (const filter of ['', '&status=pending', `&until=2100-01-01T00:00:00.000Z`])
      expect(await found(`key=dated&since=${hourAgo}${filter}`)).toEqual([own]);
    expect(await found(`key=dated&until=${hourAgo}`)).toEqual([]);
    await bench.sql(`delete from $schema.queue where key = 'dated'`);
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
