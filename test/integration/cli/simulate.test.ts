import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { RecordedJob } from '@pgqueue/postgres';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { cli, cliOf, parseCli } from '../../support/cli.ts';
import { useDatabase } from '../../support/database.ts';

const folder = mkdtempSync(join(tmpdir(), 'pgqueue-simulate-'));
const own = useDatabase();
const { operator, node, reset, sql } = own;
const { pgqueue } = cliOf(() => own.url);

afterAll(() => rmSync(folder, { recursive: true, force: true }));
beforeEach(reset);

/** Jobs that ran one after the other from `at` on, each for 100 ms. */
async function record(
  count: number,
  { at, key = 'acme' }: { readonly at: string; readonly key?: string },
): Promise<void> {
  await sql(
    `insert into pgqueue.history (id, queue, task, key, priority, outcome, tries, crashes, created, started, finished,
                                  payload_version, attributes, payload)
     select gen_random_uuid(), 'mail', 'hello', $3, 0, 'done', 0, 0, $2::timestamptz, t, t + interval '100 ms', 1,
            '{"plan": "pro"}', '{"secret": 1}'
     from generate_series(1, $1) n, lateral (select $2::timestamptz + n * interval '100 ms' as t) x`,
    [count, at, key],
  );
}

function file(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

const jobs = Array.from({ length: 40 }, (_, at) => ({
  atMs: 0,
  durationMs: 50,
  key: at < 30 ? 'big' : 'small',
}));

test('from a clone, paths are those of the folder in which the package manager was called', async () => {
  file('here.json', JSON.stringify(jobs));
  const root = fileURLToPath(new URL('../../..', import.meta.url));
  const script = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).scripts['pgqueue:run'];
  const { stdout } = await promisify(execFile)(
    'sh',
    ['-c', `exec ${script} "$@"`, 'sh', 'simulate', '--workload', 'here.json'],
    { cwd: root, env: { ...process.env, INIT_CWD: folder } },
  );
  expect(stdout).toMatch(/^40 jobs of here\.json\n/);
});

describe('the recorded past', () => {
  test('comes page by page, in the order in which jobs finished, each once', async () => {
    await record(5, { at: '2026-01-01T00:00:00Z' });
    await record(4, { at: '2026-01-02T00:00:00Z', key: 'globex' });
    // all in one microsecond: only the id tells them apart
    await sql(`update pgqueue.history set finished = '2026-01-02T00:00:09.123456Z' where key = 'globex'`);
    await sql(`insert into pgqueue.history (id, queue, task, key, priority, outcome, tries, crashes, created, finished,
                 payload_version, attributes, payload)
               values (gen_random_uuid(), 'mail', 'hello', '', 0, 'expired', 0, 0, now(), '2026-01-01T12:00:00Z', 1, '{}', '{}')`);
    const seen: RecordedJob[] = [];
    let after: string | null = null;
    do {
      const page = await operator.recorded({ limit: 2, ...(after === null ? {} : { after }) });
      seen.push(...page.items);
      after = page.next;
    } while (after !== null);
    expect(seen.map(({ key }) => key)).toEqual([...Array(5).fill('acme'), ...Array(4).fill('globex')]);
    expect(new Set(seen.map(({ id }) => id)).size).toBe(9);
    expect(seen[0]).toMatchObject({
      queue: 'mail',
      task: 'hello',
      version: 1,
      attributes: { plan: 'pro' },
      tries: 0,
    });
    expect(seen[0]).not.toHaveProperty('payload');
    const range = { from: new Date('2026-01-01T00:00:00.300Z'), to: new Date('2026-01-01T00:00:00.500Z') };
    expect((await operator.recorded(range)).items.map(({ finished }) => finished.toISOString())).toEqual([
      '2026-01-01T00:00:00.300Z',
      '2026-01-01T00:00:00.400Z',
    ]);
    await expect(operator.recorded({ after: 'x' })).rejects.toThrow('is no cursor');
  });

  test('is simulated with the limits of its queues and the live nodes', async () => {
    await record(20, { at: '2026-01-01T00:00:00Z' });
    await operator.queues.set('mail', { concurrency: 1 });
    await node('n-1', { slots: 4 });
    const { code, stdout, stderr } = await pgqueue('simulate', '--history', '--json', '--tick', '0ms');
    expect(stderr).toBe('');
    expect(code).toBe(0);
    const result = JSON.parse(stdout);
    expect(result).toMatchObject({ policy: 'default', slots: 4, jobs: { arrived: 20, done: 20 } });
    expect(result.limits).toEqual([
      expect.objectContaining({ queue: 'mail', kind: 'concurrency', limit: 1, max: 1 }),
    ]);
    // one at a time, each for 100 ms, all there from the start
    expect(result.endMs - result.startMs).toBe(2_000);
    const none = await pgqueue('simulate', '--history', '--to', '2025-01-01T00:00:00Z', '--json');
    expect(JSON.parse(none.stdout)).toMatchObject({ jobs: { arrived: 0 } });
  });
});

describe('workloads from files', () => {
  test('need no database; two policies side by side, as tables and as a page', async () => {
    const workload = file('jobs.json', JSON.stringify({ arrivals: jobs, fleet: [{ slots: 2 }] }));
    const policy = join(import.meta.dirname, '../../support/modules', 'fifo-policy.ts');
    const html = join(folder, 'report.html');
    const { code, stdout, stderr } = await cli([
      'simulate',
      '--workload',
      workload,
      '--against',
      policy,
      '--html',
      html,
    ]);
    expect(stderr).toBe(`report: ${html}\n`);
    expect(code).toBe(0);
    expect(stdout).toContain(`40 jobs of ${workload}`);
    expect(stdout).toMatch(/^MEASURE +FIFO +DEFAULT +CHANGE$/m);
    expect(stdout).toMatch(/^time to the end +1 s +1 s +same$/m);
    expect(stdout).toMatch(/^small +850 ms +200 ms +950 ms +450 ms +0 % +100 %$/m);
    const page = readFileSync(html, 'utf8');
    expect(page).toContain('<h1>default against fifo</h1>');
    expect(page.match(/<svg/g)?.length).toBeGreaterThanOrEqual(5);
  });

  test('a page that can not be written is told, and exits with 78; the tables are there all the same', async () => {
    const workload = file('unwritten.json', JSON.stringify({ arrivals: jobs }));
    const html = join(folder, 'nowhere', 'report.html');
    const { code, stdout, stderr } = await parseCli(['simulate', '--workload', workload, '--html', html]);
    expect({ code, stderr }).toEqual({
      code: 78,
      stderr: `pgqueue: --html ${html}: there is no such folder\n`,
    });
    expect(stdout).toMatch(/^jobs +40, 40 done$/m);
  });

  test('have flows: how long they take is told, and their jobs are counted', async () => {
    const steps = [
      { name: 'pages', count: 4, durationMs: 100 },
      { name: 'sum', after: ['pages'], durationMs: 50 },
    ];
    const arrivals = [
      { atMs: 0, flow: 'count-site', steps },
      { atMs: 10_000, durationMs: 1 },
    ];
    const workload = file('flows.json', JSON.stringify({ arrivals, fleet: [{ slots: 2 }] }));
    const { code, stdout } = await parseCli(['simulate', '--workload', workload, '--tick', '0ms']);
    expect(code).toBe(0);
    expect(stdout).toContain(`6 jobs and 1 flow of ${workload}`);
    expect(stdout).toMatch(/^flows +1, 1 done; makespan p50 250 ms, p99 250 ms$/m);
    expect(stdout).toMatch(/^count-site +1 +1 +0 +250 ms/m);
    const json = await parseCli(['simulate', '--workload', workload, '--tick', '0ms', '--json']);
    expect(JSON.parse(json.stdout)).toMatchObject({
      flows: [{ flow: 'count-site', flows: { done: 1 }, makespans: { p50Ms: 250, p99Ms: 250 } }],
      workload: { jobs: 6 },
    });
  });

  test('are routed to several installations by their keys, and compared with one', async () => {
    const workload = file('routed.json', JSON.stringify({ arrivals: jobs, fleet: [{ slots: 4 }] }));
    const html = join(folder, 'routed.html');
    const args = ['simulate', '--workload', workload, '--installations', '2,4', '--tick', '0ms'];
    const { code, stdout, stderr } = await parseCli([...args, '--html', html]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: `report: ${html}\n` });
    expect(stdout).toMatch(/^MEASURE +1 +2 +4$/m);
    // both keys have the same home: 40 jobs of 50 ms in half of the slots, and in a quarter of them
    expect(stdout).toMatch(/^time to the end +500 ms +1 s +2 s$/m);
    expect(stdout).toMatch(/^hottest key +big \(75 %\) +big \(75 %\) +big \(75 %\)$/m);
    expect(stdout).toContain('# Load of 4\nINSTALLATION  SLOTS  KEYS  JOBS');
    expect(readFileSync(html, 'utf8')).toContain('<h1>default in 1, 2, 4 installations</h1>');
    const shared = await parseCli([...args, '--shared-slots', '--json']);
    expect(JSON.parse(shared.stdout)).toMatchObject({
      slots: 'shared',
      results: [
        { installations: 1 },
        { installations: 2, spanMs: 500, homes: [{ slots: 4 }, { slots: 4 }] },
        {},
      ],
      workload: { jobs: 40 },
    });
  });

  test('are refused with all that is wrong with their flows', async () => {
    const arrivals = [
      { atMs: 0, flow: 'one', steps: [{ name: 'a', after: ['a'], durationMs: 1 }] },
      { atMs: 0, flow: 'two', steps: [{ name: 'a', after: ['b'], durationMs: -1 }] },
    ];
    const workload = file('cycle.json', JSON.stringify(arrivals));
    const { code, stdout, stderr } = await parseCli(['simulate', '--workload', workload]);
    expect(code).toBe(78);
    expect(stdout).toBe('');
    expect(stderr).toContain('arrival 0 of the workload: its steps need each other in a cycle: "a" → "a"');
    expect(stderr).toContain('arrival 1: steps[0].durationMs must be');
    expect(stderr).toContain('arrival 1: step "a": needs "b", which is no step');
  });

  test('in the Standard Workload Format', async () => {
    const line = (job: number, submit: number, run: number, user: number): string =>
      `${job} ${submit} -1 ${run} 4 -1 -1 4 ${run} -1 1 ${user} 1 -1 1 -1 -1 -1`;
    const workload = file(
      'log.swf',
      `; Version: 2.2\n${line(1, 0, 60, 7)}\n${line(2, 10, 60, 7)}\n${line(3, 20, -1, 8)}\n`,
    );
    const { stdout, code } = await parseCli(['simulate', '--workload', workload, '--slots', '1', '--json']);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      jobs: { done: 2 },
      lanes: [{ queue: 'queue-1', key: 'user-7' }],
      endMs: 120_000,
      workload: { jobs: 2, skipped: { unknownTimes: 1, cancelled: 0, parts: 0 } },
    });
    const byGroup = await parseCli(['simulate', '--workload', workload, '--key', 'group', '--json']);
    expect(JSON.parse(byGroup.stdout)).toMatchObject({ lanes: [{ key: 'group-1' }] });
    const broken = file('broken.swf', `${line(1, 0, 60, 7)}\n1 2 3\n`);
    const refused = await parseCli(['simulate', '--workload', broken]);
    expect(refused.code).toBe(78);
    expect(refused.stderr).toContain('line 2: 3 fields, where 18 are expected');
  });
});

test('--progress tells on stderr how far it is, and leaves the answer as it is', async () => {
  const many = Array.from({ length: 1_500 }, (_, atMs) => ({ atMs, durationMs: 1 }));
  const workload = file('many.json', JSON.stringify(many));
  const { code, stdout, stderr } = await cli(['simulate', '--workload', workload, '--json', '--progress']);
  expect(code).toBe(0);
  expect(stderr).toMatch(/^\d+ of 1500 jobs \(\d+ %\), \d+ wait, .* of virtual time$/m);
  expect(JSON.parse(stdout)).toMatchObject({ jobs: { done: 1_500 }, workload: { jobs: 1_500 } });
  expect((await cli(['simulate', '--workload', workload, '--json'])).stderr).toBe('');
});

describe('a policy with data from outside', () => {
  const fetching = join(import.meta.dirname, '../../support/modules', 'fetching-policy.ts');
  const simulated = (...args: string[]): ReturnType<typeof cli> => {
    const workload = file('fetching.json', JSON.stringify(jobs));
    return cli(['simulate', '--workload', workload, '--policy', fetching, ...args]);
  };

  test('gets none, which is said', async () => {
    const { code, stdout, stderr } = await simulated();
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr:
        'nothing is fetched in a simulation, so there is no data for credit: give it by --prepared FILE\n',
    });
    expect(stdout).toMatch(/^jobs +40, 0 done, 40 unfinished$/m);
  });

  test('gets what --prepared says', async () => {
    const prepared = file('prepared.json', JSON.stringify({ credit: { overdrawn: ['small'] } }));
    const { code, stdout, stderr } = await simulated('--prepared', prepared);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^jobs +40, 30 done, 10 unfinished$/m);
  });

  test.each([
    ['{ "credti": 1 }', 'no policy here prepares credti; it must be an object by the names .*: credit'],
    ['[]', 'it must be an object by the names of what is prepared: credit'],
    ['{', 'is no JSON: '],
    [undefined, 'there is no such file'],
  ])('%s is refused', async (text, says) => {
    const prepared = text === undefined ? join(folder, 'none.json') : file('wrong.json', text);
    const { code, stderr } = await simulated('--prepared', prepared);
    expect(code).toBe(78);
    expect(stderr).toMatch(new RegExp(`^pgqueue: --prepared .*\\.json: ${says}`));
  });
});

describe('a policy that fails', () => {
  const failing = join(import.meta.dirname, '../../support/modules', 'failing-policy.ts');

  test('ends with 1, and is told: what failed, how often, and what was used instead', async () => {
    const workload = file('failing.json', JSON.stringify(jobs));
    const { code, stdout, stderr } = await cli(['simulate', '--workload', workload, '--policy', failing]);
    expect(code).toBe(1);
    expect(stderr).toBe('policy failing failed (odd, tenant): the numbers are of what was used instead\n');
    expect(stdout).toMatch(/^PART +PLANS +INSTEAD +MESSAGE$/m);
    expect(stdout.match(/^odd +\d+ +it was left out +no region of job .*$/gm)).toHaveLength(1);
    expect(stdout.match(/^tenant +\d+ +its jobs were held +by failed for job .*: no tenant$/gm)).toHaveLength(
      1,
    );
    expect(stdout).toMatch(/^jobs +40, 30 done, 10 unfinished$/m);
  });

  test('so does the one that it is compared with; JSON has its faults', async () => {
    const workload = file('failing.json', JSON.stringify(jobs));
    const { code, stdout } = await cli(['simulate', '--workload', workload, '--against', failing, '--json']);
    expect(code).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({
      base: {
        faults: [
          { part: 'odd', instead: 'ignored' },
          { part: 'tenant', instead: 'held' },
        ],
      },
      other: { faults: [] },
    });
  });
});

describe('wrong usage', () => {
  test.each([
    [['simulate'], 2, 'give --workload FILE, or --history'],
    [['simulate', '--workload', 'a.json', '--history'], 2, 'give --workload FILE, or --history'],
    [['simulate', '--workload', 'a.json', '--from', '1d'], 2, '--from and --to go with --history'],
    [['simulate', '--workload', 'a.json', '--key', 'group'], 2, '--key goes with a workload in the Standard'],
    [['simulate', '--workload', 'a.swf', '--key', 'queue'], 2, 'Allowed choices are user, group'],
    [['simulate', '--workload', 'a.json', '--shared-slots'], 2, '--shared-slots goes with --installations'],
    [
      ['simulate', '--workload', 'a.json', '--installations', '2,x'],
      2,
      'It must be a whole number from 1 to 64',
    ],
    [
      ['simulate', '--workload', 'a.json', '--installations', '2', '--against', 'b.ts'],
      2,
      'leave out --against',
    ],
    [['simulate', '--workload', 'nowhere.json'], 78, '--workload nowhere.json: there is no such file'],
    [['simulate', '--workload', 'jobs.csv'], 78, 'give a .swf or .json file'],
  ] as const)('%s', async (args, exit, says) => {
    const { code, stderr } = await parseCli(args);
    expect(stderr).toContain(says);
    expect(code).toBe(exit);
  });

  test('all that is wrong with policies is said at once', async () => {
    const workload = file('few.json', JSON.stringify(jobs));
    const policy = file('no-policy.mjs', 'export const other = 1;');
    const { code, stderr } = await parseCli([
      'simulate',
      '--workload',
      workload,
      '--policy',
      policy,
      '--against',
      'gone.ts',
    ]);
    expect(code).toBe(78);
    expect(stderr).toContain('exports no "policy", but "other"');
    expect(stderr).toContain('gone.ts: there is no such file');
  });
});
