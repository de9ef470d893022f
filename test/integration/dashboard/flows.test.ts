import type {
  AuditPage,
  Count,
  FlowActionResult,
  FlowPage,
  FlowResults,
  FlowsPage,
  JobPage,
  JobsPage,
  Overview,
} from '@pgqueue/dashboard';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { flowTables, jobTables } from '../../support/empty.ts';
import type { Browser, DashboardBench } from './support.ts';
import { browse, openDashboardBench } from './support.ts';

let bench: DashboardBench;
let browsers: Readonly<Record<'viewer' | 'operator' | 'redacted', Browser>>;

beforeAll(async () => {
  bench = await openDashboardBench('dashboard_flows_test');
  const dashboard = bench.dashboard();
  const redacting = bench.dashboard({
    redact: (document, { kind, task }) =>
      (kind === 'result' && task === 'hello') || kind === 'signal' ? { hidden: kind } : document,
  });
  browsers = {
    viewer: browse(dashboard, 'vera:viewer'),
    operator: browse(dashboard, 'otto:operator'),
    redacted: browse(redacting, 'otto:operator'),
  };
});
beforeEach(async () => {
  for (const table of [...jobTables, 'audit', ...flowTables]) await bench.sql(`delete from $schema.${table}`);
});
afterAll(() => bench.close());

async function read<Body>(path: string, as: keyof typeof browsers = 'viewer'): Promise<Body> {
  const { status, body } = await browsers[as].get<Body>(`/api/${path}`);
  expect({ path, status, body: status === 200 ? null : body }).toEqual({ path, status: 200, body: null });
  return body;
}

async function act(id: string, action: object): Promise<FlowActionResult> {
  const { status, body } = await browsers.operator.post<FlowActionResult>('/api/actions/flow', {
    id,
    action,
  });
  expect({ status, body: status === 200 ? null : body }).toEqual({ status: 200, body: null });
  return body;
}

async function start(name: string, steps: readonly object[], more: object = {}): Promise<string> {
  const [row] = await bench.sql<{ flow_id: string }>('select * from $schema.start_flow($1::jsonb)', [
    JSON.stringify({ name, steps, ...more }),
  ]);
  return row?.flow_id ?? '';
}

const jobs = (count: number): readonly object[] => Array.from({ length: count }, () => ({ task: 'hello' }));

/** Does what a leading scheduler does with flows, until nothing is left to do. */
async function advance(): Promise<void> {
  const [lease] = await bench.sql<{ epoch: string }>(
    `select epoch from $schema.lead('test-dispatcher', 60000)`,
  );
  for (let more = true; more;) {
    const [row] = await bench.sql<{ moved: { more: boolean } }>(
      `select $schema.advance_flows('test-dispatcher', $1, '{"from": 0, "max": 500, "walk": null}') as moved`,
      [lease?.epoch],
    );
    const [left] = await bench.sql<{ stopped: number }>(
      `select $schema.stop_jobs('test-dispatcher', $1, 500) as stopped`,
      [lease?.epoch],
    );
    more = row?.moved.more === true || (left?.stopped ?? 0) > 0;
  }
}

/** Ends up to `count` waiting jobs, and moves flows on. */
async function end(
  count: number,
  outcome: 'done' | 'dead' = 'done',
  result: unknown = { n: 1 },
): Promise<void> {
  const claimed = await bench.claim('node-1', count);
  for (const { id, token } of claimed) {
    if (outcome === 'done') {
      await bench.sql('select $schema.ack($1::uuid, $2::uuid, $3)', [id, token, JSON.stringify(result)]);
    } else {
      await bench.sql(
        `select * from $schema.settle(array[$1::uuid], array[$2::uuid], array['dead'], array[0::float8], array['{"message": "no"}'])`,
        [id, token],
      );
    }
  }
  await advance();
}

const siteSteps = [
  { name: 'pages', jobs: jobs(3) },
  { name: 'sum', needs: [[0, 'done']], jobs: jobs(1) },
  { name: 'ok', kind: 'signal', needs: [[0, 'ended']] },
  {
    name: 'publish',
    needs: [
      [1, 'done'],
      [2, 'done'],
    ],
    jobs: jobs(1),
  },
];

describe('the list', () => {
  test('has flows newest first, by state, name and key, in pages, with their progress', async () => {
    const first = await start('site', siteSteps, { key: 'acme' });
    await bench.sql('select pg_sleep(0.002)');
    const second = await start('report', [{ name: 'only', jobs: jobs(1) }]);
    await end(3);
    const { items } = await read<FlowsPage>('flows');
    expect(items.map(({ id }) => id)).toEqual([second, first]);
    expect(items[1]).toMatchObject({
      name: 'site',
      key: 'acme',
      state: 'open',
      progress: { steps: 4, stepsEnded: 1, added: 5, done: 3, dead: 0, other: 0 },
    });
    const found = async (query: string): Promise<readonly string[]> =>
      (await read<FlowsPage>(`flows?${query}`)).items.map(({ name }) => name);
    expect(await found('name=site')).toEqual(['site']);
    expect(await found('name=sit')).toEqual([]);
    expect(await found('key=acme')).toEqual(['site']);
    expect(await found('key=')).toEqual(['report']);
    expect(await found('state=open&name=report')).toEqual(['report']);
    expect(await found('state=failed')).toEqual([]);
    await act(second, { kind: 'cancel' });
    await advance();
    expect(await found('state=cancelled')).toEqual(['report']);

    const page = await read<FlowsPage>('flows?limit=1');
    expect(page).toMatchObject({ items: [{ id: second }], next: second, lookedBackTo: null });
    const rest = await read<FlowsPage>(`flows?limit=1&after=${second}`);
    expect(rest).toMatchObject({ items: [{ id: first }], next: null });
  });

  test('walks past others up to a bound, and goes on from there', async () => {
    await bench.sql(
      `insert into $schema.flow (id, name, state, ended)
       select (lpad(to_hex(1700000000000 + n), 12, '0') || '70008000000000000000')::uuid, 'many', 'done', now()
       from generate_series(1, 5200) n`,
    );
    const first = await read<FlowsPage>('flows?state=cancelled');
    expect(first.items).toEqual([]);
    expect(first.next).not.toBeNull();
    expect(first.lookedBackTo).toBe(new Date(1_700_000_000_201).toISOString());
    expect(await read<FlowsPage>(`flows?state=cancelled&after=${first.next}`)).toEqual({
      items: [],
      next: null,
      lookedBackTo: null,
    });
  });

  test('the overview counts open and failed ones', async () => {
    await start('site', siteSteps);
    await start('bad', [{ name: 'only', jobs: [{ task: 'hello', queue: 'mail' }] }]);
    await bench.sql(`update $schema.queue set run_after = now() + interval '1 h' where queue = 'default'`);
    await end(1, 'dead');
    const fresh = browse(bench.dashboard(), 'vera:viewer');
    const { body } = await fresh.get<Overview>('/api/overview');
    expect(body.flows).toMatchObject({
      open: { count: 1, kind: 'exact' },
      failed: { count: 1, kind: 'exact' },
    });
    expect(body.flows.oldestMs).toBeGreaterThanOrEqual(0);
  });
});

describe('a flow', () => {
  test('has its steps in layers, their needs, and what they wait for', async () => {
    const id = await start('site', siteSteps);
    const page = await read<FlowPage>(`flows/${id}`);
    expect(page.steps.map(({ name, layer, needs }) => [name, layer, needs])).toEqual([
      ['pages', 0, []],
      ['sum', 1, [[0, 'done']]],
      ['ok', 1, [[0, 'ended']]],
      [
        'publish',
        2,
        [
          [1, 'done'],
          [2, 'done'],
        ],
      ],
    ]);
    expect(page.waits).toEqual([
      { step: 0, text: '3 of 3 left' },
      { step: 1, text: 'waits for pages: 3 of 3 left' },
      { step: 2, text: 'waits for pages: 3 of 3 left' },
      { step: 3, text: 'waits for sum: blocked; ok: not signalled' },
    ]);
    expect(page.actions).toEqual([]);
    expect((await read<FlowPage>(`flows/${id}`, 'operator')).actions).toEqual(['signal', 'cancel']);
  });

  test('is not found, or has an id that is none', async () => {
    expect(await browsers.viewer.get('/api/flows/00000000-0000-7000-8000-000000000000')).toMatchObject({
      status: 404,
      body: { error: { code: 'not_found' } },
    });
    expect(await browsers.viewer.get('/api/flows/nothing')).toMatchObject({ status: 400 });
    expect(await browsers.viewer.get('/api/flows/nothing/results?step=x')).toMatchObject({ status: 400 });
  });

  test('leads to the jobs of a step, in every table, and a job leads back', async () => {
    const id = await start('site', siteSteps);
    await bench.insert({}, 3);
    await bench.sql(`update $schema.queue set run_after = now() + interval '1 h' where flow is null`);
    await end(1, 'dead');
    await end(1);
    const of = `flow=${id}&step=pages`;
    for (const as of ['viewer', 'operator'] as const) {
      const { items } = await read<JobsPage>(`jobs?${of}`, as);
      expect(items.map(({ status }) => status).toSorted()).toEqual(['dead', 'done', 'ready']);
      expect(await read<Count>(`jobs/count?${of}`, as)).toEqual({ count: 3, kind: 'exact' });
    }
    const seen: string[] = [];
    for (let after = ''; seen.length < 10;) {
      const { items, next } = await read<JobsPage>(`jobs?${of}&limit=1${after}`);
      seen.push(...items.map((job) => job.id));
      if (next === null) break;
      after = `&after=${next}`;
    }
    expect(new Set(seen).size).toBe(3);
    const dead = await read<JobsPage>(`jobs?${of}&status=dead`);
    expect(dead.items).toHaveLength(1);
    expect((await read<JobsPage>(`jobs?${of}&status=ready`)).items).toHaveLength(1);
    expect((await read<JobsPage>(`jobs?${of}&status=running`)).items).toEqual([]);
    expect((await read<JobsPage>(`jobs?flow=${id}&step=nothing`)).items).toEqual([]);
    expect(await browsers.viewer.get('/api/jobs?step=pages')).toMatchObject({ status: 400 });
    for (const as of ['viewer', 'operator'] as const) {
      const { job } = await read<JobPage>(`jobs/${dead.items[0]?.id}`, as);
      expect(job.flow).toEqual({ id, name: 'site', step: 'pages' });
    }
    await bench.sql('delete from $schema.flow');
    await bench.sql('delete from $schema.flow_step');
    const { job } = await read<JobPage>(`jobs/${dead.items[0]?.id}`);
    expect(job.flow).toEqual({ id, name: null, step: null });
  });
});

describe('results', () => {
  const results = (id: string, step: string, as: keyof typeof browsers, more = ''): Promise<FlowResults> =>
    read<FlowResults>(`flows/${id}/results?step=${step}${more}`, as);

  test('come by page; viewers see ends alone', async () => {
    const id = await start('site', siteSteps);
    await end(2, 'done', { words: 3 });
    await end(1, 'dead');
    const all = await results(id, 'pages', 'operator');
    expect(all.items.map(({ outcome, result }) => [outcome, result])).toEqual(
      expect.arrayContaining([
        ['done', '{"words":3}'],
        ['dead', null],
      ]),
    );
    const first = await results(id, 'pages', 'operator', '&limit=2');
    expect(first.items).toEqual(all.items.slice(0, 2));
    const rest = await results(id, 'pages', 'operator', `&limit=2&after=${first.next}`);
    expect(rest).toEqual({ items: all.items.slice(2), next: null, seesResults: true });
    const ends = await results(id, 'pages', 'viewer', '&limit=2');
    expect(ends).toEqual({
      items: first.items.map((item) => ({ ...item, result: null })),
      next: first.next,
      seesResults: false,
    });
    for (const as of ['viewer', 'operator'] as const) {
      expect(await browsers[as].get(`/api/flows/${id}/results?step=nothing`)).toMatchObject({ status: 404 });
      expect(await browsers[as].get(`/api/flows/${id}/results`)).toMatchObject({ status: 400 });
    }
  });

  test('pass the redact hook, which is asked by the job; those of jobs that are gone are hidden', async () => {
    const id = await start('site', siteSteps);
    await end(3, 'done', { card: '4000' });
    await act(id, { kind: 'signal', step: 'ok', value: { by: 'ada' } });
    expect((await results(id, 'pages', 'redacted')).items[0]).toMatchObject({
      result: '{"hidden":"result"}',
      redacted: true,
    });
    expect((await results(id, 'ok', 'redacted')).items).toEqual([
      { job: null, outcome: 'done', result: '{"hidden":"signal"}', cut: false, redacted: true },
    ]);
    expect((await results(id, 'ok', 'operator')).items[0]?.result).toBe('{"by":"ada"}');
    await bench.sql('delete from $schema.history');
    const { items } = await results(id, 'pages', 'redacted');
    expect(items).toHaveLength(3);
    for (const { result } of items) expect(result).toContain('not shown');
  });

  test('are cut where they are long', async () => {
    const id = await start('site', siteSteps);
    await end(1, 'done', { text: 'x'.repeat(10_000) });
    const { items } = await results(id, 'pages', 'operator');
    expect(items[0]).toMatchObject({ cut: true });
    expect(items[0]?.result).toHaveLength(2_000);
  });
});

describe('actions', () => {
  test('signal, cancel and retry a flow, and are noted without the value', async () => {
    const id = await start('site', siteSteps);
    expect(await act(id, { kind: 'signal', step: 'ok', value: { by: 'ada' } })).toEqual({
      verdict: 'signalled',
      jobs: 0,
      gone: 0,
      holder: null,
    });
    expect(await act(id, { kind: 'signal', step: 'ok', value: 2 })).toMatchObject({ verdict: 'repeated' });
    expect(await act(id, { kind: 'retry' })).toMatchObject({ verdict: 'nothing' });
    await end(3, 'dead');
    expect(await read<FlowPage>(`flows/${id}`, 'operator')).toMatchObject({
      flow: { state: 'failed' },
      actions: ['retry'],
    });
    expect(await act(id, { kind: 'retry', step: 'pages' })).toMatchObject({
      verdict: 'retried',
      jobs: 3,
      gone: 0,
    });
    expect(await act(id, { kind: 'cancel', reason: 'wrong site' })).toMatchObject({ verdict: 'cancelling' });
    expect(await act(id, { kind: 'cancel' })).toMatchObject({ verdict: 'ended' });
    await advance();
    expect(await read<FlowPage>(`flows/${id}`, 'operator')).toMatchObject({
      flow: { state: 'cancelled', reason: 'wrong site' },
      actions: ['retry'],
    });
    const { items } = (await browsers.operator.get<AuditPage>('/api/audit')).body;
    expect(
      items.map(({ actor, action, target, details, result }) => [actor, action, target, details, result]),
    ).toEqual([
      ['otto', 'flows.cancel', id, {}, { verdict: 'ended' }],
      ['otto', 'flows.cancel', id, { reason: 'wrong site' }, { verdict: 'cancelling' }],
      ['otto', 'flows.retry', id, { step: 'pages' }, { verdict: 'retried', jobs: 3, gone: 0 }],
      ['otto', 'flows.retry', id, {}, { verdict: 'nothing', jobs: 0, gone: 0 }],
      ['otto', 'flows.signal', id, { step: 'ok' }, { verdict: 'repeated' }],
      ['otto', 'flows.signal', id, { step: 'ok' }, { verdict: 'signalled' }],
    ]);
  });

  test('are refused to viewers, and where the body is wrong', async () => {
    const id = await start('site', siteSteps);
    const refused = async (as: 'viewer' | 'operator', body: unknown): Promise<number> =>
      (await browsers[as].post('/api/actions/flow', body)).status;
    expect(await refused('viewer', { id, action: { kind: 'cancel' } })).toBe(403);
    expect(await refused('operator', { id: 'x', action: { kind: 'cancel' } })).toBe(400);
    expect(await refused('operator', { id, action: { kind: 'delete' } })).toBe(400);
    expect(await refused('operator', { id, action: { kind: 'constructor' } })).toBe(400);
    expect(await refused('operator', { id, action: { kind: 'cancel', step: 'pages' } })).toBe(400);
    expect(await refused('operator', { id, action: { kind: 'signal', value: 1 } })).toBe(400);
    expect(await refused('operator', { id, action: { kind: 'signal', step: 'pages', value: 1 } })).toBe(404);
    const deep = JSON.parse(`${'['.repeat(600)}${']'.repeat(600)}`) as unknown;
    expect(await refused('operator', { id, action: { kind: 'signal', step: 'ok', value: deep } })).toBe(400);
    expect((await read<FlowPage>(`flows/${id}`)).flow.state).toBe('open');
  });
});
