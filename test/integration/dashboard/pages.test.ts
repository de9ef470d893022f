import type {
  AuditPage,
  DeadGroups,
  DeadPage,
  Doctor,
  Explanation,
  Health,
  JobPage,
  JobsPage,
  Nodes,
  Overview,
  PolicyPage,
  Queues,
  Schedules,
  Session,
} from '@pgqueue/dashboard';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Scene } from './scene.ts';
import { setScene } from './scene.ts';
import type { Browser, DashboardBench } from './support.ts';
import { browse, openDashboardBench } from './support.ts';

let bench: DashboardBench;
let [viewer, operator]: Browser[] = [];
let ids: Scene = {};

beforeAll(async () => {
  bench = await openDashboardBench('dashboard_pages_test');
  ids = await setScene(bench);
  const dashboard = bench.dashboard({ traceUrl: 'https://traces.example/{traceId}' });
  viewer = browse(dashboard, 'vera:viewer');
  operator = browse(dashboard, 'otto:operator');
});
afterAll(() => bench.close());

const as = (role: 'viewer' | 'operator'): Browser => {
  const browser = role === 'viewer' ? viewer : operator;
  if (browser === undefined) throw new Error('not open');
  return browser;
};

async function read<Body>(path: string, role: 'viewer' | 'operator' = 'viewer'): Promise<Body> {
  const { status, body } = await as(role).get<Body>(`/api/${path}`);
  expect({ path, status, body: status === 200 ? null : body }).toEqual({ path, status: 200, body: null });
  return body;
}

describe.each(['viewer', 'operator'] as const)('as %s', (role) => {
  test('every page can be read', async () => {
    const paths = [
      'session',
      'overview',
      'overview?window=day&queue=mail',
      'keys',
      'keys?queue=mail&key=acme&limit=1',
      'queues',
      'jobs',
    ];
    paths.push(
      'jobs/count',
      'jobs?status=delayed',
      'jobs?status=done&since=2020-01-01T00:00:00.000Z',
      'jobs?error=NOT%20found',
    );
    paths.push(
      `jobs/${ids['done']}`,
      `jobs/${ids['dead']}`,
      `jobs/${ids['running']}/explain`,
      `jobs/${ids['pending']}`,
      'nodes',
    );
    paths.push('nodes/node-1/jobs', 'dead', 'dead/groups', 'schedules', 'policy', 'health', 'audit', 'bulk');
    for (const path of paths) expect(await read(path, role)).toBeTypeOf('object');
  });

  test('the session says who it is', async () => {
    const session = await read<Session>('session', role);
    expect(session).toMatchObject({
      actor: { role },
      schema: bench.schema,
      seesPayloads: role === 'operator',
    });
    expect(session.schemaVersion).toBeGreaterThanOrEqual(1);
  });

  test('documents are for operators', async () => {
    const { documents, job } = await read<JobPage>(`jobs/${ids['done']}`, role);
    expect(job).toMatchObject({
      status: 'done',
      key: 'acme',
      traceparent: expect.stringContaining('0af7651916cd43dd'),
    });
    const whole = {
      payload: { customer: { id: 42, card: '4000' }, flags: [true] },
      result: { ok: true },
      checkpoint: null,
    };
    expect(documents).toEqual(role === 'viewer' ? null : whole);
    const { schedules } = await read<Schedules>('schedules', role);
    expect(schedules).toMatchObject([
      { name: 'nightly', payload: role === 'viewer' ? null : { secret: 1 }, problem: null },
    ]);
    expect(schedules[0]?.upcoming).toHaveLength(5);
  });
});

describe('pages', () => {
  test('overview: what is now, and what ended', async () => {
    const overview = await read<Overview>('overview');
    expect(overview).toMatchObject({
      window: 'hour',
      stepMs: 60_000,
      now: {
        delayed: { count: 1, kind: 'exact' },
        pending: { count: 1 },
        running: { count: 1 },
        dead: { count: 1 },
      },
      ended: { done: 1, cancelled: 1, failures: 0 },
      workers: { nodes: 1, slots: 10, slotsInUse: 1, leases: 1, use: 0.1 },
    });
    expect(overview.ended.waits.p50Ms).toBeGreaterThan(1_750);
    expect(overview.ended.waits.p50Ms).toBeLessThan(2_300);
    expect(overview.ended.runs.p99Ms).toBeGreaterThan(880);
    expect(overview.ended.runs.p99Ms).toBeLessThan(1_130);
    expect(overview.buckets).toHaveLength(60);
    expect(overview.buckets.reduce((sum, { done }) => sum + done, 0)).toBe(1);
    expect(overview.queues.find(({ queue }) => queue === 'default')?.ended).toMatchObject({
      done: 1,
      cancelled: 1,
    });
    const ofMail = await read<Overview>('overview?queue=mail&window=day');
    expect(ofMail).toMatchObject({
      now: { pending: { count: 1 } },
      ended: { done: 0 },
      queues: [{ queue: 'mail', paused: true }],
    });
    expect(ofMail.buckets).toHaveLength(96);
  });

  test('queues: settings and numbers', async () => {
    const { queues } = await read<Queues>('queues');
    expect(queues.find(({ queue }) => queue === 'mail')).toMatchObject({
      configured: true,
      settings: {
        paused: true,
        rate: { perSecond: 2, burst: 2 },
        weight: 3,
        retentionMs: 604_800_000,
        concurrency: null,
      },
      now: { delayed: { count: 1 }, pending: { count: 1 } },
    });
    expect(queues.find(({ queue }) => queue === 'default')).toMatchObject({
      configured: false,
      updated: null,
    });
  });

  test('a job that failed: its attempts, its end', async () => {
    const { job, timeline, actions, traceUrl } = await read<JobPage>(`jobs/${ids['dead']}`, 'operator');
    expect(job).toMatchObject({ status: 'dead', reason: 'max_tries', lastError: 'user 17 was not found' });
    expect(timeline.map(({ kind }) => kind)).toEqual(['created', 'failed', 'dead']);
    expect(timeline[1]).toMatchObject({
      attempt: 1,
      node: 'node-1',
      error: { message: 'user 17 was not found' },
    });
    expect(actions).toEqual(['retry', 'delete']);
    expect(traceUrl).toBeNull();
  });

  test('a job that runs: where, how far', async () => {
    const { job, timeline, actions } = await read<JobPage>(`jobs/${ids['running']}`, 'operator');
    expect(job).toMatchObject({ status: 'running', node: 'node-1', progress: { page: 3 } });
    expect(timeline.map(({ kind }) => kind)).toEqual(['created', 'dispatched', 'running']);
    expect(actions).toEqual(['cancel']);
    expect((await read<JobPage>(`jobs/${ids['running']}`)).actions).toEqual([]);
    const { traceUrl } = await read<JobPage>(`jobs/${ids['done']}`);
    expect(traceUrl).toBe('https://traces.example/0af7651916cd43dd8448eb211c80319c');
  });

  test('why a job waits is what the command says', async () => {
    const explanation = await read<Explanation>(`jobs/${ids['delayed']}/explain`);
    expect(explanation).toMatchObject({ status: 'delayed' });
    expect(explanation.reasons[0]).toMatchObject({
      kind: 'delayed',
      text: expect.stringContaining('due in 9m'),
      until: expect.any(String),
    });
    expect(explanation.reasons.map(({ kind }) => kind)).toContain('paused_queue');
  });

  test('what can be done about it is what the pages offer', async () => {
    const text = async (id: string | undefined, role: 'viewer' | 'operator'): Promise<string> =>
      (await read<Explanation>(`jobs/${id}/explain`, role)).reasons.map((reason) => reason.text).join('\n');
    const dead = 'dead (max_tries): user 17 was not found';
    expect(await text(ids['dead'], 'operator')).toBe(`${dead}; “Redrive” puts it back`);
    expect(await text(ids['dead'], 'viewer')).toBe(`${dead}; an operator can redrive it`);
    expect(await text(ids['delayed'], 'operator')).toContain('is paused: resume it on the page of queues');
    expect(await text(ids['delayed'], 'viewer')).toContain('is paused: an operator can resume it');
  });

  test('nodes, and what they run', async () => {
    const { nodes } = await read<Nodes>('nodes');
    expect(nodes).toMatchObject([
      {
        id: 'node-1',
        state: 'alive',
        slots: 10,
        slotsInUse: 1,
        leases: 1,
        tasks: [{ task: 'hello', max: 1 }],
      },
    ]);
    const { items } = await read<JobsPage>('nodes/node-1/jobs');
    expect(items.map(({ id }) => id)).toEqual([ids['running']]);
  });

  test('dead jobs, one by one and by their errors', async () => {
    const { items } = await read<DeadPage>('dead');
    expect(items).toMatchObject([{ id: ids['dead'], lastError: { message: 'user 17 was not found' } }]);
    const { groups, looked, more } = await read<DeadGroups>('dead/groups');
    expect([looked, more]).toEqual([{ count: 1, kind: 'exact' }, false]);
    expect(groups).toMatchObject([
      { message: 'user … was not found', jobs: 1, keys: ['acme'], sample: { id: ids['dead'] } },
    ]);
    const own = await read<DeadPage>(`dead?group=${groups[0]?.group}&reason=max_tries`);
    expect(own.items).toHaveLength(1);
    expect((await read<DeadPage>('dead?group=0000000000000000')).items).toEqual([]);
    await bench.sql(
      `insert into $schema.dead_letter (id, queue, task, key, priority, reason, tries, max_tries, crashes, max_crashes, created, died,
                                        payload_version, attributes, payload, errors)
       select gen_random_uuid(), 'many', i::text, '', 0, 'gave_up', 1, 1, 0, 3, now(), now(), 1, '{}', '{}', '[]' from generate_series(1, 101) i`,
    );
    const many = await read<DeadGroups>('dead/groups?queue=many');
    expect([many.groups.length, many.more]).toEqual([100, true]);
    await bench.sql(`delete from $schema.dead_letter where queue = 'many'`);
  });

  test('the policy: what holds, what was kept', async () => {
    const policy = await read<PolicyPage>('policy');
    expect(policy).toMatchObject({
      leader: 'test-dispatcher',
      policy: 'fair',
      stale: false,
      held: [
        {
          gate: 'rate',
          jobs: 6,
          queues: [
            { queue: 'mail', jobs: 5 },
            { queue: 'default', jobs: 1 },
          ],
        },
        { gate: 'no_free_slot', jobs: 2 },
      ],
      faults: [{ part: 'rate', first: '1970-01-01T00:00:01.000Z' }],
      state: [{ policy: 'fair_share' }],
    });
    expect(policy.leads).toEqual([
      { pool: 'default', path: ['mail', 'globex'], lead: 0, unit: 'jobs' },
      { pool: 'default', path: ['default'], lead: 0, unit: 'jobs' },
      { pool: 'default', path: ['mail'], lead: 0.5, unit: 'jobs' },
      { pool: 'default', path: ['mail', 'acme'], lead: 5, unit: 'jobs' },
    ]);
  });

  test('queues, nodes and schedules are found by a part of their names', async () => {
    const { queues } = await read<Queues>('queues?name=AI');
    expect(queues.map(({ queue }) => queue)).toEqual(['mail']);
    expect((await read<Nodes>('nodes?name=E-1')).nodes.map(({ id }) => id)).toEqual(['node-1']);
    expect((await read<Schedules>('schedules?name=HTL')).schedules.map(({ name }) => name)).toEqual([
      'nightly',
    ]);
    const none = { more: false };
    expect(await read('queues?name=%25')).toMatchObject({ queues: [], ...none });
    expect(await read('nodes?name=%25')).toMatchObject({ nodes: [], ...none });
    expect(await read('schedules?name=%25')).toMatchObject({ schedules: [], ...none });
  });

  test('health and doctor', async () => {
    const health = await read<Health>('health');
    expect(health.tables.map(({ table }) => table)).toEqual(
      expect.arrayContaining(['queue', 'work_queue', 'history', 'dead_letter']),
    );
    expect(health.migrations.applied[0]?.applied).toEqual(expect.any(String));
    // of today; those of the next days are made ahead
    const { days, oldest } = health.history;
    const sinceMs = Date.parse(health.at.slice(0, 10)) - Date.parse(oldest ?? '');
    expect(days).toBe(1 + sinceMs / 86_400_000);
    const doctor = await read<Doctor>('health/doctor', 'operator');
    expect(doctor.checked).toContain('orphan_items');
    expect((await as('viewer').get('/api/health/doctor')).status).toBe(403);
  });

  test('the audit is empty before anything was done', async () => {
    expect(await read<AuditPage>('audit')).toEqual({ items: [], next: null });
  });
});
