import type { Keys } from '@pgqueue/dashboard';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { setScene } from './scene.ts';
import type { Browser, DashboardBench } from './support.ts';
import { browse, openDashboardBench } from './support.ts';

let bench: DashboardBench;
let viewer: Browser;

beforeAll(async () => {
  bench = await openDashboardBench('dashboard_keys_test');
  await setScene(bench);
  viewer = browse(bench.dashboard(), 'vera:viewer');
});
afterAll(() => bench.close());

async function read(query: string): Promise<Keys> {
  const { status, body } = await viewer.get<Keys>(`/api/keys${query}`);
  expect({ query, status }).toEqual({ query, status: 200 });
  return body;
}

test('who waits, who runs, who got how much', async () => {
  const keys = await read('');
  expect(keys.seen.jobs).toBe(2);
  expect(keys.waiting).toMatchObject([
    {
      queue: 'mail',
      key: 'acme',
      waiting: { count: 1, kind: 'exact' },
      running: 0,
      weight: 3,
    },
  ]);
  const globex = keys.active.find(({ key }) => key === 'globex');
  expect(globex).toMatchObject({ queue: 'default', running: 1, waiting: { count: 0 }, weight: 1 });
  // of the weights 3 and 1, the latter by two keys
  expect(globex?.fairShare).toBeCloseTo(1 / 4 / 2);
  expect(keys.active.reduce((sum, { share }) => sum + share, 0)).toBeCloseTo(1);
});

test('the jobs of a key are counted up to a limit, and the answer says which', async () => {
  await bench.insert({ queue: 'many', key: 'a' }, 501);
  const keys = await read('?queue=many');
  expect(keys).toMatchObject({ countedUpTo: 500, waiting: [{ waiting: { kind: 'at_least' } }] });
  await bench.sql(`delete from $schema.queue where queue = 'many'`);
});

test('a fair share is told only if all keys that wait were read', async () => {
  await bench.sql(
    `insert into $schema.queue (task, queue, key, payload) select 'hello', 'aa', i::text, '{}' from generate_series(1, 501) i`,
  );
  expect(await read('?queue=mail&key=acme')).toMatchObject({ waiting: [{ fairShare: null }] });
  await bench.sql(`delete from $schema.queue where queue = 'aa'`);
});

test('page by page', async () => {
  await bench.insert({ queue: 'paged', key: 'a' });
  await bench.insert({ queue: 'paged', key: 'b' }, 3);
  const first = await read('?queue=paged&limit=1');
  expect(first.waiting).toMatchObject([{ key: 'a' }]);
  const second = await read(`?queue=paged&limit=1&after=${first.next}`);
  expect(second).toMatchObject({ active: [], waiting: [{ key: 'b', waiting: { count: 3 } }] });
  const last = await read(`?queue=paged&limit=1&after=${second.next}`);
  expect(last).toMatchObject({ waiting: [], next: null });
  await bench.sql(`delete from $schema.queue where queue = 'paged'`);
});

test('shares of the last five minutes, or of the hour', async () => {
  await bench.sql(
    `insert into $schema.history (id, queue, task, key, priority, outcome, tries, crashes, created, started, finished,
                                  payload_version, attributes, payload)
     select gen_random_uuid(), 'shared', 't', key, 0, 'done', 1, 0, ended - ran, ended - ran, ended, 1, '{}', '{}'
     from (values ('before', interval '10 min', interval '60 s'), ('now', interval '10 s', interval '30 s'),
                  ('long', interval '0 s', interval '6 min')) v (key, ago, ran), lateral (select now() - ago as ended) e`,
  );
  const busyIn = async (window: string): Promise<unknown> => {
    const keys = await read(`?queue=shared&${window}`);
    const spanMs = Date.parse(keys.at) - Date.parse(keys.seen.from);
    const busy = keys.active.map(({ key, busyMs }) => [key, Math.round(busyMs / 1_000)]);
    return { window: keys.window, minutes: Math.round(spanMs / 60_000), busy };
  };
  const hour = {
    window: 'hour',
    minutes: 60,
    busy: [
      ['long', 360],
      ['before', 60],
      ['now', 30],
    ],
  };
  expect([await busyIn(''), await busyIn('window=hour')]).toEqual([hour, hour]);
  const { busy, ...minutes } = (await busyIn('window=minutes')) as { readonly busy: [string, number][] };
  expect(minutes).toEqual({ window: 'minutes', minutes: 5 });
  // of what ran longer than that, only what lies within
  expect(busy).toEqual([
    ['long', expect.closeTo(300, -1)],
    ['now', 30],
  ]);
  await bench.sql(`delete from $schema.history where queue = 'shared'`);
});

test('a job that was cancelled before it ran used no worker time', async () => {
  await bench.sql(
    `insert into $schema.history (id, queue, task, key, priority, outcome, tries, crashes, created, finished, payload_version,
                                  attributes, payload)
     select gen_random_uuid(), 'stopped', 't', 'k', 0, outcome, 0, 0, now(), now(), 1, '{}', '{}'
     from unnest(array['cancelled', 'expired']) as outcome`,
  );
  expect(await read('?queue=stopped')).toMatchObject({
    active: [{ key: 'k', done: 2, busyMs: 0, share: 0 }],
  });
  await bench.sql(`delete from $schema.history where queue = 'stopped'`);
});
