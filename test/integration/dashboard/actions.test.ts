import type {
  AuditPage,
  JobsActionResult,
  NodeActionResult,
  QueueActionResult,
  ScheduleActionResult,
  UndoResult,
} from '@pgqueue/dashboard';
import { createOperator } from '@pgqueue/postgres';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Browser, DashboardBench } from './support.ts';
import { browse, openDashboardBench } from './support.ts';

let bench: DashboardBench;
let operator: Browser;

beforeAll(async () => {
  bench = await openDashboardBench('dashboard_actions_test');
  const dashboard = bench.dashboard();
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

describe('jobs', () => {
  test('are cancelled, and the audit says by whom', async () => {
    const [id = ''] = await bench.insert();
    const [running] = await bench.claim('node-1', 1);
    const [waiting = ''] = await bench.insert();
    const result = await post<JobsActionResult>('/api/actions/jobs', {
      ids: [waiting, id],
      action: { kind: 'cancel' },
    });
    expect(result).toMatchObject({
      done: 2,
      undo: null,
      verdicts: [
        { id: waiting, verdict: 'cancelled' },
        { id: running?.id, verdict: 'signalled' },
      ],
    });
    expect(await statusOf(waiting)).toBe('cancelled');
    expect(await audit()).toMatchObject([
      {
        actor: 'otto',
        via: 'dashboard',
        action: 'jobs.cancel',
        target: null,
        databaseUser: 'postgres',
        details: { kind: 'cancel', jobs: 2, ids: [waiting, id] },
        result: { done: 2, of: 2 },
      },
    ]);
  });

  test('are run now, and delayed again when that is undone', async () => {
    const [delayed = ''] = await bench.insert({ delayMs: 3_600_000 });
    const before = await bench.sql('select run_after from $schema.queue');
    const { undo, done } = await post<JobsActionResult>('/api/actions/jobs', {
      ids: [delayed],
      action: { kind: 'run_now' },
    });
    expect(done).toBe(1);
    expect(await statusOf(delayed)).toBe('pending');
    expect(await post<UndoResult>('/api/actions/undo', { id: undo?.id })).toEqual({ undone: 1, missed: 0 });
    expect(await bench.sql('select run_after from $schema.queue')).toEqual(before);
    expect((await operator.post('/api/actions/undo', { id: undo?.id })).status).toBe(404);
    expect(await audit()).toMatchObject([
      {
        action: 'undo',
        target: delayed,
        details: { action: 'jobs.run_now', jobs: 1, ids: [delayed] },
        result: { undone: 1, missed: 0 },
      },
      { action: 'jobs.run_now' },
    ]);
  });

  test('are reprioritised, and get their old priorities back', async () => {
    const [a = ''] = await bench.insert({ priority: 1 });
    const [b = ''] = await bench.insert({ priority: 2 });
    const { undo } = await post<JobsActionResult>('/api/actions/jobs', {
      ids: [a, b],
      action: { kind: 'reprioritise', priority: -5 },
    });
    const priorities = async (): Promise<unknown> =>
      (await bench.sql<{ priority: number }>('select priority from $schema.queue order by seq')).map(
        ({ priority }) => priority,
      );
    expect(await priorities()).toEqual([-5, -5]);
    await bench.sql('delete from $schema.queue where id = $1', [b]);
    expect(await post<UndoResult>('/api/actions/undo', { id: undo?.id })).toEqual({ undone: 1, missed: 1 });
    expect(await priorities()).toEqual([1]);
  });

  test('keep what another action has given them since', async () => {
    const ids = await bench.insert({ priority: 1 }, 2);
    const { undo } = await post<JobsActionResult>('/api/actions/jobs', {
      ids,
      action: { kind: 'reprioritise', priority: 5 },
    });
    const later = { ids: ids.slice(0, 1), action: { kind: 'reprioritise', priority: 9 } };
    await post('/api/actions/jobs', later);
    const again = await post<JobsActionResult>('/api/actions/jobs', later);
    expect(again).toMatchObject({ done: 1, undo: null });
    expect(await post<UndoResult>('/api/actions/undo', { id: undo?.id })).toEqual({ undone: 1, missed: 1 });
    const left = await bench.sql('select id, priority from $schema.queue order by seq');
    expect(left).toEqual([
      { id: ids[0], priority: 9 },
      { id: ids[1], priority: 1 },
    ]);
  });

  test('are retried where they are dead, and deleted wherever they stand', async () => {
    const dead = await die('no');
    const { verdicts } = await post<JobsActionResult>('/api/actions/jobs', {
      ids: [dead],
      action: { kind: 'retry' },
    });
    expect(verdicts).toMatchObject([{ verdict: 'redriven', status: null }]);
    expect(await statusOf(dead)).toBe('pending');
    const erased = await post<JobsActionResult>('/api/actions/jobs', {
      ids: [dead],
      action: { kind: 'delete' },
    });
    expect(erased).toMatchObject({ done: 1, verdicts: [{ verdict: 'erased' }] });
    const again = await post<JobsActionResult>('/api/actions/jobs', {
      ids: [dead],
      action: { kind: 'delete' },
    });
    expect(again).toMatchObject({ done: 0, verdicts: [{ verdict: 'missing', status: null }] });
  });

  test.each([
    ['no ids', { ids: [], action: { kind: 'cancel' } }],
    ['an id that is none', { ids: ['1'], action: { kind: 'cancel' } }],
    [
      'an action that there is not',
      { ids: ['00000000-0000-7000-8000-000000000000'], action: { kind: 'explode' } },
    ],
    [
      'a priority that is none',
      { ids: ['00000000-0000-7000-8000-000000000000'], action: { kind: 'reprioritise', priority: 0.5 } },
    ],
    [
      'something more',
      { ids: ['00000000-0000-7000-8000-000000000000'], action: { kind: 'cancel' }, force: true },
    ],
    ['nothing', null],
  ])('%s is refused before anything is done', async (_, body) => {
    expect(await operator.post('/api/actions/jobs', body)).toMatchObject({
      status: 400,
      body: { error: { code: 'bad_request' } },
    });
    expect(await audit()).toEqual([]);
  });
});

describe('queues, nodes, schedules', () => {
  test('a queue is paused and limited in place, and set back', async () => {
    await post('/api/actions/queue', { queue: 'mail', settings: { concurrency: 3, rate: { perSecond: 5 } } });
    const { undo, isNew } = await post<QueueActionResult>('/api/actions/queue', {
      queue: 'mail',
      settings: {
        paused: true,
        concurrency: null,
        rate: { perSecond: 1, burst: 9 },
        retentionMs: 86_400_000,
        keyPending: 10,
      },
    });
    expect(isNew).toBe(false);
    const row = async (): Promise<unknown> =>
      (
        await bench.sql(
          `select paused, concurrency, rate, rate_burst, key_pending, retention::text as retention from $schema.queue_config`,
        )
      )[0];
    expect(await row()).toEqual({
      paused: true,
      concurrency: null,
      rate: 1,
      rate_burst: 9,
      key_pending: 10,
      retention: '24:00:00',
    });
    await post('/api/actions/undo', { id: undo?.id });
    expect(await row()).toMatchObject({
      paused: false,
      concurrency: 3,
      rate: 5,
      rate_burst: 5,
      key_pending: null,
      retention: '168:00:00',
    });
    expect((await audit())[0]).toMatchObject({
      action: 'undo',
      target: 'mail',
      details: { action: 'queue.set', to: { paused: false, concurrency: 3, retention: 7 * 86_400_000 } },
      result: { undone: 5, missed: 0 },
    });
    expect((await audit()).at(-1)).toMatchObject({
      action: 'queue.set',
      target: 'mail',
      details: { concurrency: 3 },
      result: { isNew: true },
    });
    expect(
      await operator.post('/api/actions/queue', { queue: 'mail', settings: { weight: 0 } }),
    ).toMatchObject({
      status: 400,
      body: { error: { problems: [expect.stringContaining('weight')] } },
    });
  });

  test('a setting that somebody has changed since stays, and what changes nothing can not be undone', async () => {
    const set = (settings: object): Promise<QueueActionResult> =>
      post('/api/actions/queue', { queue: 'mail', settings });
    const { undo } = await set({ paused: true, weight: 3 });
    await set({ weight: 8 });
    expect(await set({ paused: true, weight: 8 })).toEqual({ isNew: false, undo: null });
    expect(await post('/api/actions/undo', { id: undo?.id })).toEqual({ undone: 1, missed: 1 });
    expect(await bench.sql('select paused, weight from $schema.queue_config')).toEqual([
      { paused: false, weight: 8 },
    ]);
  });

  test('a node is reset by its id', async () => {
    const [id] = await bench.insert();
    await bench.claim('node-1', 1);
    expect(await post<NodeActionResult>('/api/actions/node', { node: 'node-1', action: 'reset' })).toEqual({
      ready: 1,
      dead: 0,
      cancelled: 0,
    });
    expect(await statusOf(id)).toBe('ready');
    expect(await operator.post('/api/actions/node', { node: 'nobody', action: 'reset' })).toMatchObject({
      status: 404,
      body: { error: { code: 'not_found' } },
    });
    // who tried is noted, too
    expect(await audit()).toMatchObject([
      { target: 'nobody', result: null },
      { target: 'node-1', result: { ready: 1 } },
    ]);
  });

  test('a schedule is run now, paused, resumed', async () => {
    const admin = createOperator({ connectionString: bench.url, schema: bench.schema });
    await admin.schedules.set({
      name: 'nightly',
      cron: '0 3 * * *',
      task: 'hello',
      payload: { n: 1 },
      options: { queue: 'mail', key: 'acme', priority: 4 },
    });
    await admin.close();
    const { job } = await post<ScheduleActionResult>('/api/actions/schedule', {
      name: 'nightly',
      action: 'run_now',
    });
    expect(await bench.sql('select id, queue, key, priority, payload, max_tries from $schema.queue')).toEqual(
      [{ id: job, queue: 'mail', key: 'acme', priority: 4, payload: { n: 1 }, max_tries: 20 }],
    );
    const { undo } = await post<ScheduleActionResult>('/api/actions/schedule', {
      name: 'nightly',
      action: 'pause',
    });
    const paused = async (): Promise<unknown> =>
      (await bench.sql('select paused from $schema.schedule'))[0]?.['paused'];
    expect(await paused()).toBe(true);
    expect(await post('/api/actions/schedule', { name: 'nightly', action: 'pause' })).toEqual({
      job: null,
      undo: null,
    });
    expect(await post('/api/actions/undo', { id: undo?.id })).toEqual({ undone: 1, missed: 0 });
    expect((await audit())[0]).toMatchObject({
      action: 'undo',
      target: 'nightly',
      details: { action: 'schedule.pause' },
    });
    expect(await paused()).toBe(false);
    const second = await post<ScheduleActionResult>('/api/actions/schedule', {
      name: 'nightly',
      action: 'pause',
    });
    await bench.sql('update $schema.schedule set paused = false');
    expect(await post('/api/actions/undo', { id: second.undo?.id })).toEqual({ undone: 0, missed: 1 });
    await post('/api/actions/schedule', { name: 'nightly', action: 'pause' });
    await post('/api/actions/schedule', { name: 'nightly', action: 'resume' });
    expect(await paused()).toBe(false);
    expect((await operator.post('/api/actions/schedule', { name: 'none', action: 'run_now' })).status).toBe(
      404,
    );
  });
});
