import { spawnSync } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineTask, implement } from '@pgqueue/core';
import { createProducer } from '@pgqueue/producer';
import { createScheduler } from '@pgqueue/scheduler';
import { createWorker } from '@pgqueue/worker';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { useDatabase } from '../../support/database.ts';
import { readExposition } from '../../support/metrics.ts';
import type { Prometheus } from '../../support/prometheus.ts';
import { startPrometheus } from '../../support/prometheus.ts';
import { lacks } from '../../support/tools.ts';
import { until } from '../../support/until.ts';

/** Panels without data here: the one job is done, no gate held a job, and no session blocks vacuum. */
const quiet: ReadonlySet<string> = new Set([
  'Running by key',
  'Waiting by key',
  'Held by',
  'Oldest snapshot',
]);
const folder = fileURLToPath(new URL('../../../docker/monitoring/', import.meta.url));
const read = (name: string): string => readFileSync(`${folder}${name}`, 'utf8');
const task = defineTask({ name: 'hello', payload: z.object({}) });

const own = useDatabase();
/** Metrics pages of a scheduler and a worker after they have run a job. */
let pages: readonly string[] = [];
let ports = { scheduler: 0, worker: 0 };
let stop = async (): Promise<void> => {};

async function page(port: number | undefined): Promise<string> {
  return (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
}

beforeAll(async () => {
  const at = { connectionString: own.url, health: { port: 0, host: '127.0.0.1' } };
  const scheduler = createScheduler(at);
  const worker = createWorker({ ...at, tasks: [implement(task, () => {})] });
  const producer = createProducer({ connectionString: own.url });
  await Promise.all([scheduler.start(), worker.start()]);
  await producer.enqueue(task, {}, { key: 'acme' });
  const ran = await until('the job to have run', async () => {
    const text = await page(worker.healthPort);
    return text.includes('pgqueue_jobs_done_total{') && text;
  });
  pages = [await page(scheduler.healthPort), ran];
  ports = { scheduler: scheduler.healthPort ?? 0, worker: worker.healthPort ?? 0 };
  stop = async () => {
    await producer.close();
    await worker.stop();
    await scheduler.stop();
  };
});
afterAll(() => stop());

/** Returns the names of families, and of the series of histograms. */
function told(): ReadonlySet<string> {
  const families = pages.flatMap((text) => [...readExposition(text).types]);
  return new Set(
    families.flatMap(([name, type]) =>
      type === 'histogram' ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name],
    ),
  );
}

interface Panel {
  readonly id: number;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
}

interface Dashboard {
  readonly panels: readonly (Panel & {
    readonly title: string;
    readonly targets: readonly { readonly expr: string }[];
  })[];
}

const dashboard = JSON.parse(read('grafana/dashboards/pgqueue.json')) as Dashboard;

const expressions: readonly (readonly [string, string])[] = [
  ['alerts', read('alerts.yaml')],
  ['tests of alerts', read('alerts.test.yaml')],
  ...dashboard.panels.map(
    ({ title, targets }) => [`panel ${title}`, targets.map(({ expr }) => expr).join('\n')] as const,
  ),
];

test.each(expressions)('%s: every metric that is named is told', (_what, text) => {
  const named = text.match(/\bpgqueue_\w+/g) ?? [];
  expect(named.length).toBeGreaterThan(0);
  const known = told();
  expect(named.filter((name) => !known.has(name))).toEqual([]);
});

describe('what Grafana and Prometheus are given fits together', () => {
  const compose = read('../compose.yaml');
  const serviceOf = (name: string): string =>
    new RegExp(`^  ${name}:\\n(?:(?:    .*)?\\n)+`, 'm').exec(compose)?.[0] ?? '';

  test('every panel asks the data source that is provisioned', () => {
    const source = read('grafana/provisioning/datasources/prometheus.yaml');
    const [, uid] = /uid: (\S+)/.exec(source) ?? [];
    const asked = read('grafana/dashboards/pgqueue.json').matchAll(/"type": "prometheus",\s*"uid": "(\w+)"/g);
    expect([...new Set([...asked].map(([, one]) => one))]).toEqual([uid]);
    const [, host = ''] = /url: http:\/\/([\w-]+):9090/.exec(source) ?? [];
    expect(serviceOf(host)).toContain('9090');
  });

  test('dashboards are where Grafana looks for them, and the first one is the home page', () => {
    const [, path] = /path: (\S+)/.exec(read('grafana/provisioning/dashboards/pgqueue.yaml')) ?? [];
    const grafana = serviceOf('grafana');
    expect(grafana).toContain(`./monitoring/grafana/dashboards:${path}:ro`);
    expect(grafana).toContain('./monitoring/grafana/provisioning:/etc/grafana/provisioning:ro');
    expect(grafana).toContain(`HOME_DASHBOARD_PATH: ${path}/pgqueue.json`);
  });

  test('what Prometheus scrapes are services, at the port where they answer', () => {
    const targets = [...read('prometheus.yaml').matchAll(/'([\w-]+):(\d+)'/g)];
    const known = /^  (?:scheduler|worker)-\w+:$/gm;
    expect(targets.map(([, name]) => `  ${name}:`)).toEqual(compose.match(known));
    for (const [, name = '', port] of targets)
      expect(serviceOf(name).replace(/,\s+/g, ', ')).toContain(`--health-port, '${port}'`);
  });

  test('no panel lies on another, or outside', () => {
    const cells = dashboard.panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, n) => `${x + (n % w)}:${y + Math.floor(n / w)}`),
    );
    expect(new Set(cells).size).toBe(cells.length);
    expect(dashboard.panels.every(({ gridPos: { x, w } }) => x + w <= 24)).toBe(true);
    expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length);
  });
});

describe.skipIf(lacks('promtool'))('promtool', () => {
  const promtool = (
    args: readonly string[],
    input?: string,
  ): { readonly code: number | null; readonly said: string } => {
    const { status, stdout, stderr } = spawnSync('promtool', args, {
      cwd: folder,
      input,
      encoding: 'utf8',
      timeout: 150_000,
    });
    return { code: status, said: stdout + stderr };
  };

  test.each([
    ['the configuration', ['check', 'config', 'prometheus.yaml']],
    ['the rules', ['check', 'rules', '--lint-fatal', 'alerts.yaml']],
    ['what they say, and when', ['test', 'rules', 'alerts.test.yaml']],
  ])('finds no fault with %s', (_what, args) => {
    expect(promtool(args)).toMatchObject({ code: 0 });
  });

  test('finds no fault with what is told, names and help included', () => {
    for (const text of pages) expect(promtool(['check', 'metrics'], text)).toEqual({ code: 0, said: '' });
  });

  test('can read every expression of the dashboard', () => {
    const rules = dashboard.panels.flatMap(({ targets }) =>
      targets.map(({ expr }) => ({
        record: 'panel',
        expr: expr.replaceAll('$__rate_interval', '1m').replaceAll('$queue', '.*'),
      })),
    );
    const groups = rules.map((rule, index) => ({ name: `panel ${index}`, rules: [rule] }));
    const file = join(tmpdir(), `${own.test.name}.rules.json`);
    writeFileSync(file, JSON.stringify({ groups }));
    const checked = promtool(['check', 'rules', '--lint=none', file]);
    rmSync(file);
    expect(checked).toEqual({
      code: 0,
      said: expect.stringContaining(`${rules.length} rules found`) as unknown,
    });
  });
});

describe.skipIf(lacks('prometheus'))('Prometheus, with the configuration of docker/monitoring', () => {
  let prometheus: Prometheus;

  beforeAll(async () => {
    prometheus = await startPrometheus(ports);
  });
  afterAll(() => prometheus?.stop());

  test('finds schedulers and workers, and all of the rules', async () => {
    const up = await until('both to be scraped', async () => {
      const found = await prometheus.query('up');
      return found.length === 2 && found.every(({ value }) => value === 1) && found;
    });
    const roles = up.map(({ labels }) => `${labels['job']}, ${labels['role']}`);
    expect(roles.toSorted()).toEqual(['pgqueue, scheduler', 'pgqueue, worker']);
    const { groups } = await prometheus.ask<{
      readonly groups: readonly {
        readonly rules: readonly { readonly name: string; readonly health: string }[];
      }[];
    }>('rules', {});
    const names = groups.flatMap(({ rules }) => rules.map(({ name }) => name));
    expect(names).toEqual(read('alerts.yaml').match(/(?<=alert: )\w+/g));
  });

  test('has something to show in every panel of the dashboard', async () => {
    const empty = async ({ title, targets }: Dashboard['panels'][number]): Promise<readonly string[]> => {
      const found = await Promise.all(
        targets.map(({ expr }) =>
          prometheus.query(expr.replaceAll('$__rate_interval', '5m').replaceAll('$queue', '.*')),
        ),
      );
      return found.flat().length === 0 && !quiet.has(title) ? [title] : [];
    };
    const all = async (): Promise<readonly string[]> =>
      (await Promise.all(dashboard.panels.map(empty))).flat();
    await expect.poll(all).toEqual([]);
  });
});
