import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { useDatabase } from '../support/database.ts';
import type { Manifest, Tools } from './tools.ts';
import { chart, installTools } from './tools.ts';

const own = useDatabase();
let tools: Tools;
beforeAll(async () => {
  tools = await installTools();
}, 300_000);
afterAll(() => tools.remove());

const whole = ['--values', `${chart}/examples/autoscaled.yaml`];
const named = (objects: readonly Manifest[], kind: string): readonly string[] =>
  objects.flatMap((object) => (object.kind === kind ? [object.metadata.name] : []));
const pods = (objects: readonly Manifest[]) =>
  objects.flatMap(({ kind, metadata, spec }) =>
    spec?.template === undefined ? [] : [{ kind, name: metadata.name, pod: spec.template.spec }],
  );
const optionOf = (command: readonly string[], option: string): string | undefined =>
  command[command.indexOf(option) + 1];

describe.each([
  ['the values as they are', [] as readonly string[]],
  ['the example with everything', whole],
])('%s', (_, values) => {
  test('Helm finds nothing wrong', async () => {
    expect(await tools.helm('lint', '--strict', chart, ...values)).toContain('0 chart(s) failed');
  });

  test('each object is valid by the schema of its kind', async () => {
    const objects = await tools.render(...values);
    for (const object of objects) {
      expect(await tools.problems(object), `${object.kind} ${object.metadata.name}`).toEqual([]);
    }
    const deployment = objects.find(({ kind }) => kind === 'Deployment');
    const broken = { ...deployment, spec: { replicas: 'two' } } as unknown as Manifest;
    expect(await tools.problems(broken)).not.toEqual([]);
  });

  test('no object has a field that Kubernetes does not know', async () => {
    const objects = await tools.render(...values);
    expect(await tools.unknownFields(objects)).toBe('');
    const [first, ...rest] = objects;
    const misspelt = { ...first, speck: {} } as unknown as Manifest;
    expect(await tools.unknownFields([misspelt, ...rest])).toMatch(/speck\S* does not exist/);
  });

  test('pods have no privileges, nothing to write to, and bounds', async () => {
    const all = pods(await tools.render(...values));
    expect(all.length).toBeGreaterThan(2);
    for (const { pod } of all) {
      expect(pod).toMatchObject({
        automountServiceAccountToken: false,
        securityContext: { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: 'RuntimeDefault' } },
      });
      for (const { securityContext, resources, lifecycle } of pod.containers) {
        expect(securityContext).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        });
        expect(resources).toMatchObject({ requests: { cpu: expect.any(String) }, limits: {} });
        expect(lifecycle).toBeUndefined();
      }
    }
  });

  test('workers have longer than their drain', async () => {
    const workers = pods(await tools.render(...values)).filter(({ name }) => name.includes('-worker-'));
    expect(workers.length).toBeGreaterThan(0);
    for (const { pod } of workers) {
      const [worker] = pod.containers;
      const drain = Number.parseInt(optionOf(worker?.command ?? [], '--drain') ?? '', 10);
      expect(pod.terminationGracePeriodSeconds).toBe(drain + 15);
    }
  });

  test('the command line takes every command', async () => {
    const main = fileURLToPath(new URL('../../packages/cli/src/main.ts', import.meta.url));
    const { PGQUEUE_DATABASE_URL: _url, DATABASE_URL: _other, ...env } = process.env;
    for (const { name, pod } of pods(await tools.render(...values))) {
      const [program, ...args] = pod.containers[0]?.command ?? [];
      expect(program).toBe('pgqueue');
      const ran = spawnSync(process.execPath, ['--conditions=@pgqueue/source', main, ...args], {
        env,
        encoding: 'utf8',
      });
      // its arguments are right (2 would be a wrong usage), and it asks for what the pod gets from secrets
      expect([name, ran.status, ran.stderr]).toEqual([name, 78, expect.stringContaining('DATABASE_URL')]);
    }
  });
});

test('two schedulers, of which one is always left; migrations before each upgrade', async () => {
  const objects = await tools.render();
  expect(named(objects, 'PodDisruptionBudget')).toEqual(['queue-pgqueue-scheduler']);
  const job = objects.find(({ kind }) => kind === 'Job');
  expect(job?.metadata.annotations).toMatchObject({ 'helm.sh/hook': 'pre-install,pre-upgrade' });
  const scheduler = objects.find(
    ({ kind, metadata }) => kind === 'Deployment' && metadata.name === 'queue-pgqueue-scheduler',
  );
  expect(scheduler?.spec).toMatchObject({
    replicas: 2,
    template: { spec: { affinity: { podAntiAffinity: {} } } },
  });
});

test('KEDA asks the database a question that it answers', async () => {
  const objects = await tools.render(...whole);
  const scaled = objects.filter(({ kind }) => kind === 'ScaledObject');
  expect(scaled.map(({ metadata }) => metadata.name)).toEqual([
    'queue-pgqueue-worker-default',
    'queue-pgqueue-worker-slow',
  ]);
  expect(named(objects, 'TriggerAuthentication')).toEqual(scaled.map(({ metadata }) => metadata.name));
  await own.sql(
    `select pgqueue.report('l', epoch, '{"wanted": {"default": 12, "slow": 3}}') from pgqueue.lead('l', 60000)`,
  );
  const answers = [];
  for (const { spec } of scaled) {
    const { query = '', targetQueryValue } = spec.triggers?.[0]?.metadata ?? {};
    answers.push([...(await own.sql(query)).map((row) => Object.values(row)[0]), targetQueryValue]);
  }
  expect(answers).toEqual([
    [12, '10'],
    [3, '2'],
  ]);
  // replicas belong to the autoscaler then: an upgrade must not set them back
  const workers = objects.filter(
    ({ kind, metadata }) => kind === 'Deployment' && metadata.name.includes('-worker-'),
  );
  expect(workers.map(({ spec }) => spec.replicas)).toEqual([undefined, undefined]);
});

test.each([
  ['a value that is misspelt', ['--set', 'worker.concurency=3'], /concurency/],
  ['one of a group', ['--set', 'workers.default.conurrency=3'], /conurrency/],
  ['a dashboard that anybody may use', ['--set', 'dashboard.enabled=true'], /tokenSecret/],
  ['a schema that would be more than a name', ['--set', 'database.schema=a;b'], /schema/],
  ['a pool that would end its text', ['--set', "worker.pool=it's"], /pool/],
])('%s is refused', async (_, values, expected) => {
  await expect(tools.render(...values)).rejects.toThrow(expected);
});
