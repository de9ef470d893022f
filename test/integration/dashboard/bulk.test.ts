import type { AuditPage, BulkPreview, BulkRun, BulkRuns, JobsPage, UndoResult } from '@pgqueue/dashboard';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Browser, DashboardBench } from './support.ts';
import { browse, openDashboardBench, until } from './support.ts';

let bench: DashboardBench;
let viewer: Browser;
let operator: Browser;

beforeAll(async () => {
  bench = await openDashboardBench('dashboard_bulk_test');
  const dashboard = bench.dashboard();
  viewer = browse(dashboard, 'vera:viewer');
  operator = browse(dashboard, 'otto:operator');
});
beforeEach(async () => {
  for (const table of [
    'work_queue',
    'queue',
    'history',
    'dead_letter',
    'node',
    'queue_config',
    'schedule',
    'audit',
  ]) {
    await bench.sql(`delete from $schema.${table}`);
  }
});
afterAll(() => bench.close());

async function post<Body>(path: string, body: unknown): Promise<Body> {
  const answer = await operator.post<Body>(path, body);
  expect({ path, status: answer.status, body: answer.status === 200 ? null : answer.body }).toEqual({
    path,
    status: 200,
    body: null,
  });
  return answer.body;
}

async function audit(): Promise<AuditPage['items']> {
  return (await operator.get<AuditPage>('/api/audit')).body.items;
}

const statusOf = async (id: string | undefined): Promise<unknown> =>
  (await bench.sql<{ status: string }>('select status from $schema.job where id = $1', [id]))[0]?.status;

/** A dead job, with this error. */
async function die(error: string, job: object = {}): Promise<string> {
  const [id = ''] = await bench.insert({ ...job, maxTries: 1 });
  const [claimed] = await bench.claim('node-1', 1);
  await bench.sql('select $schema.nack($1::uuid, $2::uuid, $3)', [claimed?.id, claimed?.token, error]);
  return id;
}

describe('in bulk', () => {
  const ended = async (id: string): Promise<BulkRun> =>
    until('the bulk action to end', async () => {
      const { body } = await operator.get<BulkRun>(`/api/bulk/${id}`);
      return body.state === 'running' ? undefined : body;
    });

  test('preview, run, audit, undo', async () => {
    await bench.insert({ queue: 'mail', priority: 3 }, 1_200);
    await bench.insert({ queue: 'other', priority: 3 }, 2);
    const request = {
      over: 'jobs',
      filter: { queue: 'mail' },
      action: { kind: 'reprioritise', priority: 9 },
    };
    const preview = await post<BulkPreview>('/api/bulk/preview', request);
    expect(preview).toMatchObject({ jobs: { count: 1_200, kind: 'exact' }, undoable: true });
    expect(preview.sample).toHaveLength(10);
    const begun = await post<BulkRun>('/api/bulk', request);
    expect(begun).toMatchObject({ state: 'running', actor: 'otto', total: { count: 1_200 } });
    const run = await ended(begun.id);
    expect(run).toMatchObject({ state: 'done', seen: 1_200, done: 1_200, error: null });
    const at = async (priority: number): Promise<number> =>
      (await bench.sql('select from $schema.queue where priority = $1', [priority])).length;
    expect([await at(9), await at(3)]).toEqual([1_200, 2]);
    await expect.poll(audit).toMatchObject([
      {
        action: 'bulk.reprioritise',
        details: { over: 'jobs', filter: { queue: 'mail' } },
        result: { state: 'done', done: 1_200 },
      },
    ]);
    expect(await post<UndoResult>('/api/actions/undo', { id: run.undo?.id })).toEqual({
      undone: 1_200,
      missed: 0,
    });
    expect(await at(3)).toBe(1_202);
    expect((await audit())[0]).toMatchObject({
      action: 'undo',
      details: { action: 'bulk.reprioritise', filter: { queue: 'mail' }, jobs: 1_200 },
    });
    const { runs } = (await viewer.get<BulkRuns>('/api/bulk')).body;
    expect(runs.map(({ id }) => id)).toContain(begun.id);
  });

  test('a group of dead jobs is redriven, the others stay', async () => {
    const [a, b] = [await die('user 1 was not found'), await die('user 22 was not found')];
    const other = await die('the disk is full');
    const { body } = await operator.get<{ groups: { group: string; message: string; jobs: number }[] }>(
      '/api/dead/groups',
    );
    const group = body.groups.find(({ message }) => message.startsWith('user'));
    expect(group?.jobs).toBe(2);
    const request = { over: 'dead', filter: { group: group?.group }, action: { kind: 'redrive' } };
    expect(await post<BulkPreview>('/api/bulk/preview', request)).toMatchObject({
      jobs: { count: 2 },
      undoable: false,
    });
    const run = await ended((await post<BulkRun>('/api/bulk', request)).id);
    expect(run).toMatchObject({ state: 'done', done: 2, undo: null });
    expect([await statusOf(a), await statusOf(b), await statusOf(other)]).toEqual([
      'pending',
      'pending',
      'dead',
    ]);
    const [{ at }] = (await bench.sql<{ at: number }>(
      `select floor(extract(epoch from died) * 1000)::float8 as at from $schema.dead_letter`,
    )) as readonly [{ at: number }];
    const found = async (times: Readonly<Record<string, number>>): Promise<unknown> => {
      const filter = Object.fromEntries(
        Object.entries(times).map(([name, ms]) => [name, new Date(at + ms).toISOString()]),
      );
      const { jobs } = await post<BulkPreview>('/api/bulk/preview', { ...purge, filter });
      return jobs.count;
    };
    const purge = { over: 'dead', filter: {}, action: { kind: 'delete' } };
    expect([
      await found({ since: 0 }),
      await found({ since: 1 }),
      await found({ until: 1 }),
      await found({ until: 0 }),
      await found({ since: -1, until: 1 }),
    ]).toEqual([1, 0, 1, 0, 1]);
    expect(await ended((await post<BulkRun>('/api/bulk', purge)).id)).toMatchObject({ done: 1 });
    expect(await statusOf(other)).toBeUndefined();
  });

  test('waiting jobs are cancelled by filter, those that run are told', async () => {
    await bench.insert({ key: 'acme' }, 3);
    await bench.claim('node-1', 1);
    await bench.insert({ key: 'globex' });
    const run = await ended(
      (
        await post<BulkRun>('/api/bulk', {
          over: 'jobs',
          filter: { key: 'acme' },
          action: { kind: 'cancel' },
        })
      ).id,
    );
    expect(run).toMatchObject({ seen: 3, done: 3 });
    expect((await bench.sql(`select from $schema.history where outcome = 'cancelled'`)).length).toBe(2);
    expect((await bench.sql('select from $schema.queue')).length).toBe(2);
  });

  test('more delayed jobs than one page reads are all listed, and all that match are cancelled', async () => {
    await bench.sql(
      `insert into $schema.queue (task, queue, run_after)
       select 'hello', case i % 2 when 0 then 'mail' else 'other' end, now() + interval '1 day' + i * 7919 % 12000 * interval '1 minute'
       from generate_series(1, 12000) i`,
    );
    const ids = new Set<string>();
    let after = '';
    do {
      const { items, next } = (await operator.get<JobsPage>(`/api/jobs?status=delayed&limit=200${after}`))
        .body;
      for (const { id } of items) ids.add(id);
      after = next === null ? '' : `&after=${next}`;
    } while (after !== '');
    expect(ids.size).toBe(12_000);
    const run = await ended(
      (
        await post<BulkRun>('/api/bulk', {
          over: 'jobs',
          filter: { queue: 'mail', status: 'delayed' },
          action: { kind: 'cancel' },
        })
      ).id,
    );
    expect(run).toMatchObject({ state: 'done', seen: 6_000, done: 6_000 });
    const left = await bench.sql('select queue, count(*)::integer as jobs from $schema.queue group by 1');
    expect(left).toEqual([{ queue: 'other', jobs: 6_000 }]);
  });

  test.each([
    ['no such filter', { over: 'jobs', filter: { quue: 'mail' }, action: { kind: 'cancel' } }],
    ['a filter that is no text', { over: 'jobs', filter: { queue: 1 }, action: { kind: 'cancel' } }],
    ['no such action', { over: 'dead', filter: {}, action: { kind: 'cancel' } }],
    ['over nothing', { over: 'all', filter: {}, action: { kind: 'cancel' } }],
  ])('%s is refused', async (_, body) => {
    expect((await operator.post('/api/bulk', body)).status).toBe(400);
    expect((await operator.post('/api/bulk/preview', body)).status).toBe(400);
    expect(await audit()).toEqual([]);
  });

  test('one that is stopped says how far it came', async () => {
    await bench.insert({}, 5_000);
    const begun = await post<BulkRun>('/api/bulk', {
      over: 'jobs',
      filter: {},
      action: { kind: 'reprioritise', priority: 1 },
    });
    await post('/api/bulk/' + begun.id + '/stop', {});
    const run = await ended(begun.id);
    expect(run.seen).toBeLessThan(5_000);
    expect(run.state).toBe('stopped');
    expect((await operator.get('/api/bulk/00000000-0000-7000-8000-000000000000')).status).toBe(404);
  });
});

describe('a viewer', () => {
  test.each([
    'actions/jobs',
    'actions/queue',
    'actions/node',
    'actions/schedule',
    'actions/undo',
    'bulk',
    'bulk/preview',
    'bulk/x/stop',
  ])('can not POST %s', async (path) => {
    expect(await viewer.post(`/api/${path}`, {})).toMatchObject({
      status: 403,
      body: { error: { code: 'forbidden' } },
    });
  });

  test('sees who did what, not what was looked for', async () => {
    await post('/api/bulk/preview', {
      over: 'jobs',
      filter: { field: 'a', value: 'secret' },
      action: { kind: 'cancel' },
    });
    const { id } = await post<BulkRun>('/api/bulk', {
      over: 'jobs',
      filter: { field: 'a', value: 'secret' },
      action: { kind: 'cancel' },
    });
    for (const path of ['/api/bulk', `/api/bulk/${id}`]) {
      const { body } = await viewer.get(path);
      expect(JSON.stringify(body)).toContain(id);
      expect(JSON.stringify(body)).not.toContain('secret');
    }
    await post('/api/actions/queue', { queue: 'mail', settings: { paused: true } });
    const { items } = (await viewer.get<AuditPage>('/api/audit?action=queue.set&actor=otto')).body;
    expect(items).toMatchObject([{ action: 'queue.set', target: 'mail', details: null, result: null }]);
  });
});
