import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defineTask } from '@pgqueue/core';
import { leaseLimit, setRoute } from '@pgqueue/postgres/internal';
import { createRouter, homeOf } from '@pgqueue/router';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { cli, parseCli, startCli } from '../../support/cli.ts';
import { useDatabase } from '../../support/database.ts';
import { nth, useSeveral, waitingIn } from '../installations/support.ts';

const folder = mkdtempSync(join(tmpdir(), 'pgqueue-installations-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Writes a list of installations; resolves to its file. */
function listOf(installations: unknown, name = 'all.json'): string {
  const file = join(folder, name);
  writeFileSync(file, JSON.stringify({ installations }));
  return file;
}

const task = defineTask({ name: 'hello', payload: z.object({}) });

describe('installations init', () => {
  const own = useDatabase();

  test('gives a number and a name, and refuses wrong ones before any I/O', async () => {
    const init = (...args: readonly string[]): ReturnType<typeof cli> =>
      cli(['installations', 'init', ...args], { env: { PGQUEUE_DATABASE_URL: own.url } });
    expect(await init('--number', '3', '--name', 'eu-3')).toMatchObject({
      code: 0,
      stdout: 'installation eu-3 (number 3): created\n',
    });
    expect(JSON.parse((await init('--number', '3', '--name', 'eu-3', '--json')).stdout)).toEqual({
      number: 3,
      name: 'eu-3',
      outcome: 'unchanged',
    });
    expect((await parseCli(['installations', 'init', '--number', '1024', '--name', 'a'])).code).toBe(2);
    expect((await parseCli(['installations', 'init', '--number', '1'])).code).toBe(2);
    expect(await init('--number', '1', '--name', 'EU')).toMatchObject({ code: 78 });
  });
});

describe('over several', () => {
  const { several } = useSeveral(3);
  let file = '';
  let ids: readonly string[] = [];
  const pgqueue = (...args: readonly string[]): ReturnType<typeof cli> =>
    cli([...args, '--installations', file]);

  beforeEach(async () => {
    file = listOf(several.installations);
    const router = createRouter({ installations: several.installations });
    const jobs = Array.from({ length: 12 }, (_, n) => task.job({}, { key: `k${n}` }));
    ids = (await router.producer.enqueueMany(jobs)).map(({ id }) => id);
    await router.close();
  });

  test('status has a line for each and their sum, within 80 columns', async () => {
    const { code, stdout } = await pgqueue('status');
    expect(code).toBe(0);
    const lines = stdout.trim().split('\n');
    const table = lines.slice(0, 5);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80);
    expect(table.map((line) => line.split(/\s+/)[0])).toEqual(['INSTALLATION', 'one', 'two', 'three', 'all']);
    expect(table[4]).toMatch(/^all +12 /);
    expect(lines.slice(5).join('\n')).toContain('WARN  one: no scheduler leads');
    const json = JSON.parse((await pgqueue('status', '--json')).stdout);
    expect(Object.keys(json)).toEqual(['installations', 'totals', 'nodes', 'limits']);
    expect(json.installations[0]).toMatchObject({
      installation: 'one',
      number: 1,
      state: 'active',
      status: { leader: { leader: null } },
      error: null,
    });
  });

  test('a key moves, and all keys of an installation; before that, a plan', async () => {
    const key =
      Array.from({ length: 12 }, (_, n) => `k${n}`).find((one) => homeOf(one, [1, 2, 3]) === 1) ?? '';
    const plan = await pgqueue('keys', 'move', key, '--to', 'two', '--dry-run', '--json');
    expect(JSON.parse(plan.stdout)).toMatchObject({
      moves: [{ key, from: 'one', to: 'two', jobs: 1 }],
      jobs: 1,
    });
    const moved = await pgqueue('keys', 'move', key, '--to', 'two');
    expect(moved).toMatchObject({ code: 0, stdout: `key ${key}: moved from one to two, 1 job came along\n` });
    expect(await pgqueue('keys', 'move', key, '--to', 'two')).toMatchObject({
      code: 78,
      stderr: expect.stringContaining('already'),
    });
    expect((await pgqueue('keys', 'move', key, '--to', 'nowhere')).stderr).toContain(
      'there are one, two, three',
    );
    const [audited] = await nth(several.databases, 1).query(
      'select action, target, result from pgqueue.audit',
      [],
    );
    expect(audited).toEqual({ action: 'key.move', target: key, result: { from: 'one', jobs: 1 } });

    const told = await pgqueue('installations', 'drain', 'two', '--dry-run');
    expect(told.stdout).toMatch(/^KEY +FROM +TO +JOBS\n/);
    expect(told.stdout).toMatch(
      /\d+ keys, \d+ jobs: about [\d.]+ minutes?, and until those that run have ended\n$/,
    );
    const drained = await pgqueue('installations', 'drain', 'two');
    expect(drained).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^\d+ keys moved, with \d+ jobs\n$/),
    });
    expect((await waitingIn(several))[1]).toBe(0);
    expect((await waitingIn(several)).reduce((sum, one) => sum + one, 0)).toBe(12);
    expect((await pgqueue('installations', 'drain', 'two', '--dry-run')).stdout).toBe(
      'every key is where it belongs\n',
    );
    expect(await pgqueue('installations', 'rebalance', '--dry-run')).toMatchObject({ code: 0 });
    expect(await pgqueue('installations', 'check')).toMatchObject({ code: 0 });
  });

  test('a move that nobody goes on with is told', async () => {
    await nth(several.databases, 0).query(`select pgqueue.claim_move('k', 2, 9)`, []);
    expect(await pgqueue('installations', 'check')).toMatchObject({ code: 0 });
    await nth(several.databases, 0).query(
      `update pgqueue.key_move set advanced = now() - interval '5 minutes'`,
      [],
    );
    expect(await pgqueue('installations', 'check')).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/one: the move of key "k" has stood still for 5 min.*--to two/),
    });
    const doctor = await cli(['doctor', '--database-url', several.installations[0]?.connectionString ?? '']);
    expect(doctor.stdout).toContain('moves_that_stand');
  });

  test('jobs are listed, shown, cancelled and retried by id, and queues set', async () => {
    const listed = JSON.parse((await pgqueue('jobs', 'list', '--limit', '5', '--json')).stdout);
    const sorted = ids.toSorted().toReversed();
    expect(listed.jobs.map(({ id }: { readonly id: string }) => id)).toEqual(sorted.slice(0, 5));
    expect(listed).toMatchObject({ next: sorted[4], unreachable: [] });
    const [first = '', second = ''] = ids;
    expect(await pgqueue('jobs', 'show', first)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(first),
    });
    expect(await pgqueue('jobs', 'cancel', first, second)).toMatchObject({
      code: 0,
      stdout: `${first}  cancelled\n${second}  cancelled\n`,
    });
    expect((await pgqueue('jobs', 'retry', first)).code).toBe(1);
    expect(await pgqueue('explain', ids[2] ?? '')).toMatchObject({ code: 0 });
    expect(await pgqueue('queues', 'set', 'default', '--concurrency', '4')).toMatchObject({ code: 0 });
    for (const operator of several.operators)
      expect(await operator.queues.list()).toMatchObject([{ concurrency: 4 }]);
  });

  test('one that is down is told, with exit code 1, and the others are shown', async () => {
    const secret = 'postgres://somebody:hunter2-secret@127.0.0.1:1/nowhere';
    file = listOf([several.installations[0], { ...several.installations[1], connectionString: secret }]);
    const status = await pgqueue('status');
    expect(status).toMatchObject({ code: 1 });
    expect(status.stdout).toMatch(/^two +2 +down /m);
    expect(status.stdout).toMatch(/^DOWN {2}installation two \(number 2\): /m);
    expect(Math.max(...status.stdout.split('\n').map((line) => line.length))).toBeLessThanOrEqual(80);
    expect(await pgqueue('installations', 'limits')).toMatchObject({
      code: 1,
      stdout: 'no shared limits in those that answer\n',
      stderr: expect.stringContaining('DOWN  installation two (number 2)') as string,
    });
    const listed = await pgqueue('jobs', 'list');
    expect(listed).toMatchObject({ code: 1, stdout: expect.stringContaining('DOWN  installation two') });
    const checked = await pgqueue('installations', 'check');
    expect(checked).toMatchObject({
      code: 1,
      stdout: expect.stringContaining("FAIL    two: can't be asked: "),
    });
    expect([status, listed, checked].map(({ stdout, stderr }) => stdout + stderr).join()).not.toContain(
      'hunter2',
    );
  });

  test('the dashboard shows all, also with one that is down, and no password is told', async () => {
    const secret = 'postgres://somebody:hunter2-secret@127.0.0.1:1/nowhere';
    file = listOf([several.installations[0], { ...several.installations[1], connectionString: secret }]);
    const server = startCli([
      'dashboard',
      '--installations',
      file,
      '--port',
      '0',
      '--json',
      '--log-level',
      'debug',
    ]);
    await server.says('"event":"ready"');
    const { url } = JSON.parse(server.output().stdout) as { readonly url: string };
    const read = async (path: string): Promise<unknown> => (await fetch(`${url}${path}`)).json();
    expect(await read('api/installations')).toMatchObject({
      actor: { name: 'local', role: 'operator' },
      installations: [
        { installation: 'one', error: null },
        { installation: 'two', now: null },
      ],
    });
    expect(await read('i/one/api/session')).toMatchObject({ schema: 'pgqueue' });
    expect(await read('i/two/api/session')).toMatchObject({ error: { code: 'database' } });
    server.process.kill('SIGTERM');
    const { code, stdout, stderr } = await server.ended;
    expect(code).toBe(0);
    expect(stdout + stderr).not.toContain('hunter2');
  });

  test('check finds what does not fit together, tells what to do, and writes missing copies', async () => {
    expect(await pgqueue('installations', 'check')).toMatchObject({
      code: 0,
      stdout: '3 installations: all fit together\n',
    });
    await setRoute(nth(several.databases, 1), { key: 'acme', installation: 2, version: 3, movingFrom: null });
    await setRoute(nth(several.databases, 0), { key: 'acme', installation: 1, version: 2, movingFrom: null });
    await nth(several.databases, 2).query(
      'insert into pgqueue.migration select 99, name, checksum, compatible, applied from pgqueue.migration where version = 1',
      [],
    );
    const [first, second, third] = several.installations;
    const found = await pgqueue('installations', 'check');
    expect(found.code).toBe(1);
    expect(found.stdout).toContain(
      'FAIL    one: its schema is at version 1, others are at 99: run "pgqueue migrate" there',
    );
    expect(found.stdout).toContain(
      'FAIL    one: route of key "acme": its copy is missing or old; give --mend to write it',
    );
    expect(found.stdout).toContain('FAIL    three: route of key "acme": its copy is missing or old');
    await nth(several.databases, 2).query('delete from pgqueue.migration where version = 99', []);
    const mended = await pgqueue('installations', 'check', '--mend');
    expect(mended).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('MENDED  three: route of key "acme"'),
    });
    expect(await pgqueue('installations', 'check')).toMatchObject({ code: 0 });
    file = listOf([{ ...first, number: 2, name: 'two' }, { ...second, number: 1, name: 'uno' }, third]);
    const swapped = await pgqueue('installations', 'check');
    expect(swapped.code).toBe(1);
    expect(swapped.stdout).toContain('its database says number 1 (one)');
    expect(swapped.stdout).toContain('its database says number 2 (two)');
    const listed = await pgqueue('installations', 'list');
    expect(listed.stdout).toMatch(/^1 +uno +another one/m);
    expect(listed.stdout).toMatch(/^3 +three +active +1 +[+-]?\d+ ms +1$/m);
  });

  test('shared limits are shown with the part of each, and a part can be forfeited', async () => {
    expect(await pgqueue('installations', 'limits')).toMatchObject({ code: 0, stdout: 'no shared limits\n' });
    const home = nth(several.databases, 1);
    const lease = (limit: string, installation: number, perSecond: number | null): Promise<unknown> =>
      leaseLimit(home, {
        limit,
        installation,
        epoch: 1,
        size: 50,
        perSecond,
        seen: 0,
        inFlight: perSecond === null ? 7 : 0,
        wants: 12,
        leaseMs: 60_000,
      });
    await lease('api', 1, null);
    await lease('api', 3, null);
    await lease('texts', 3, 100);
    const status = await pgqueue('status');
    expect(status.stdout).toMatch(/^SHARED LIMIT +HOME +SIZE +IN FLIGHT$/m);
    expect(status.stdout).toMatch(/^api +two +50 +14\n {2}parts: one 12, three 12$/m);
    expect(status.stdout).toMatch(/^texts +two +100\/s, burst 50 +-\n {2}parts: three 12$/m);
    const limits = await pgqueue('installations', 'limits');
    expect(limits.stdout).toMatch(/^api +two +50 +one +12 +12 +7 +leased$/m);
    expect(limits.stdout).toMatch(/^texts +two +100\/s, burst 50 +three +12, 24\/s +12 +- +leased$/m);

    expect(await pgqueue('installations', 'forfeit', 'api', 'one')).toMatchObject({
      code: 78,
      stderr: expect.stringContaining('leased its part of shared limit api less than a minute ago') as string,
    });
    await home.query(
      `update pgqueue.shared_limit_part set expires = clock_timestamp() - interval '2 minutes' where installation = 1`,
      [],
    );
    expect((await pgqueue('status')).stdout).toMatch(/one 12 \(silent, keeps 12\), three 12$/m);
    const checked = await pgqueue('installations', 'check');
    expect(checked).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('run "pgqueue installations forfeit api one"') as string,
    });
    expect(await pgqueue('installations', 'forfeit', 'api', 'one')).toMatchObject({
      code: 0,
      stdout: 'one gave back its part of api: 12\n',
    });
    expect(await pgqueue('installations', 'check')).toMatchObject({ code: 0 });
    expect(await pgqueue('installations', 'forfeit', 'nothing', 'one')).toMatchObject({ code: 1 });
    expect(await pgqueue('installations', 'remove-limit', 'texts')).toMatchObject({ code: 78 });
    await home.query(`update pgqueue.shared_limit_part set expires = '-infinity'`, []);
    expect(await pgqueue('installations', 'remove-limit', 'texts')).toMatchObject({
      code: 0,
      stdout: 'removed shared limit texts\n',
    });
    const lines = await home.query('select from pgqueue.audit where action like $1', ['limit.%']);
    expect(lines.length).toBeGreaterThan(0);
  });
});

test.each([
  [['status', '--installations', 'nowhere.json'], 78, 'there is no such file'],
  [['status', '--installations', 'all.txt'], 78, 'give a .json file'],
  [['status', '--installations', listOf(undefined, 'empty.json')], 78, 'has no "installations"'],
  [['status', '--installations', listOf([], 'none.json')], 78, '1 to 1024 installations'],
  [['installations', 'check'], 2, 'give the list: --installations FILE'],
  [
    ['status', '--installations', listOf([], 'x.json'), '--database-url', 'postgres://localhost/a'],
    2,
    'leave out --database-url',
  ],
  [
    ['dashboard', '--installations', listOf([], 'x.json'), '--schema', 'jobs'],
    2,
    'leave out --database-url and --schema',
  ],
])('%j is refused', async (args, code, told) => {
  expect(await parseCli(args)).toMatchObject({ code, stderr: expect.stringContaining(told) });
});
