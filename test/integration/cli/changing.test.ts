import { beforeEach, describe, expect, test } from 'vitest';
import { cliOf, parseCli } from '../../support/cli.ts';
import type { CliResult } from '../../support/cli.ts';
import { useDatabase } from '../../support/database.ts';

const own = useDatabase();
const { die, insert, reset, run, sql } = own;
const { ask } = cliOf(() => own.url);
/** In this process: what changes is in question here, and a child takes most of its time to start. */
const pgqueue = (...args: readonly string[]): Promise<CliResult> =>
  parseCli([...args, '--database-url', own.url]);

beforeEach(reset);

const anId = '00000000-0000-7000-8000-000000000000';

describe('changing', () => {
  test('enqueue takes every option of a job', async () => {
    const id = '01990000-0000-7000-8000-00000000000b';
    const options = {
      '--payload': '{"to": "ada"}',
      '--payload-version': '2',
      '--queue': 'mail',
      '--key': 'tenant',
      '--priority': '-5',
      '--attributes': '{"plan":"pro"}',
      '--run-after': '2999-01-01T00:00:00Z',
      '--expires-at': '2999-02-01T00:00:00+01:00',
      '--timeout': '90s',
      '--max-tries': '7',
      '--max-crashes': '2',
      '--backoff': 'linear',
      '--backoff-base': '5s',
      '--unique-key': 'u',
      '--id': id,
      '--traceparent': `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`,
    };
    const first = await pgqueue('enqueue', 'send-email', ...Object.entries(options).flat());
    expect(first).toMatchObject({ code: 0, stdout: `${id}  enqueued\n` });
    const [row] = await sql(
      'select *, extract(epoch from timeout)::int as seconds from pgqueue.queue where id = $1',
      [id],
    );
    expect(row).toMatchObject({
      task: 'send-email',
      payload: { to: 'ada' },
      payload_version: 2,
      queue: 'mail',
      key: 'tenant',
      priority: -5,
      attributes: { plan: 'pro' },
      run_after: new Date('2999-01-01T00:00:00Z'),
      expires_at: new Date('2999-01-31T23:00:00Z'),
      seconds: 90,
      max_tries: 7,
      max_crashes: 2,
      retry: expect.objectContaining({ kind: 'linear', baseMs: 5_000 }),
      unique_key: 'u',
      trace: { traceparent: expect.stringContaining('-bbbb') },
    });
    const kept = await pgqueue('enqueue', 'send-email', '--unique-key', 'u', '--json');
    expect(JSON.parse(kept.stdout)).toEqual({ id, outcome: 'kept' });
    const unique = ['--unique-key', 'u', '--on-conflict'];
    const newer = await pgqueue('enqueue', 'send-email', ...unique, 'supersede', '--json');
    expect(JSON.parse(newer.stdout)).toEqual({
      id: expect.not.stringMatching(id),
      outcome: 'superseded',
    });
    const debounce = [...unique, 'debounce', '--run-after', '3h', '--max-wait', '2h'];
    const pushed = await pgqueue('enqueue', 'send-email', ...debounce, '--json');
    expect(JSON.parse(pushed.stdout)).toEqual({ ...JSON.parse(newer.stdout), outcome: 'debounced' });
    expect(
      await sql(
        `select extract(epoch from run_after - created)::float8 as after from pgqueue.queue where unique_key = 'u'`,
      ),
    ).toEqual([{ after: 7_200 }]);
    const plain = await pgqueue('enqueue', 'hello', '--run-after', '1h', '--json');
    const [later] = await sql(
      `select run_after > now() + interval '59 minutes' as later, payload from pgqueue.queue where id = $1`,
      [JSON.parse(plain.stdout).id],
    );
    expect(later).toEqual({ later: true, payload: {} });
  });

  test('jobs cancel by a filter counts first, and cancels with --yes', async () => {
    const filter = ['jobs', 'cancel', '--queue', 'mail', '--key', ''];
    expect(await pgqueue(...filter)).toMatchObject({ code: 0, stdout: 'no jobs fit\n' });
    for (let n = 0; n < 3; n += 1) await insert({ queue: 'mail' });
    await insert({ queue: 'mail', key: 'other' });
    const running = await insert({ queue: 'mail' });
    await run('n', [running]);
    expect(await pgqueue(...filter)).toMatchObject({
      code: 1,
      stdout: '4 jobs fit: give --yes to cancel them\n',
    });
    expect(JSON.parse((await pgqueue(...filter, '--json')).stdout)).toEqual({
      fit: { count: 4, more: false },
    });
    expect(await sql('select from pgqueue.queue')).toHaveLength(5);
    expect(await pgqueue(...filter, '--yes')).toMatchObject({
      code: 0,
      stdout: '3 jobs cancelled, 1 running: asked to stop\n',
    });
    expect(await sql('select from pgqueue.queue')).toHaveLength(2);
    const [line] = await sql(`select action, details, result from pgqueue.audit order by n desc limit 1`);
    expect(line).toEqual({
      action: 'jobs.cancel',
      details: { filter: { queue: 'mail', key: '' } },
      result: { cancelled: 3, signalled: 1, busy: 0, missing: 0 },
    });
  });

  test('jobs signal', async () => {
    const id = await insert();
    expect(await pgqueue('jobs', 'signal', id, 'ok', '--value', '{"by": "ada"}')).toMatchObject({
      code: 0,
      stdout: `${id}  signalled\n`,
    });
    expect(await pgqueue('jobs', 'signal', id, 'ok')).toMatchObject({
      code: 1,
      stdout: `${id}  repeated: it has a value already, and that one counts\n`,
    });
    expect(JSON.parse((await pgqueue('jobs', 'signal', id, 'ok', '--json')).stdout)).toEqual({
      job: id,
      name: 'ok',
      verdict: 'repeated',
    });
    expect(await pgqueue('jobs', 'signal', anId, 'ok')).toMatchObject({
      code: 1,
      stderr: `pgqueue: there is no job ${anId} that has not ended\n`,
    });
    const [line] = await sql(
      'select action, target, details from pgqueue.audit where target = $1 order by n limit 1',
      [id],
    );
    expect(line).toEqual({ action: 'jobs.signal', target: id, details: { name: 'ok' } });
  });

  test('jobs amend, retry, cancel and delete', async () => {
    const [a, b] = [await insert(), await insert({ run_after: '2999-01-01T00:00:00Z' })];
    const amended = await pgqueue(
      'jobs',
      'amend',
      a,
      b,
      '--priority',
      '-3',
      '--run-after',
      '2999-03-01T00:00:00Z',
      '--json',
    );
    expect(JSON.parse(amended.stdout).jobs).toEqual([a, b].map((id) => ({ id, verdict: 'changed' })));
    expect(await sql('select distinct priority, run_after from pgqueue.queue')).toEqual([
      { priority: -3, run_after: new Date('2999-03-01T00:00:00Z') },
    ]);
    expect(await pgqueue('jobs', 'retry', b)).toMatchObject({ code: 0, stdout: `${b}  changed\n` });
    expect(await sql('select run_after from pgqueue.queue where id = $1', [b])).toEqual([
      { run_after: null },
    ]);
    expect(await pgqueue('jobs', 'cancel', a)).toMatchObject({ code: 0, stdout: `${a}  cancelled\n` });
    const deleted = await pgqueue('jobs', 'delete', a, b);
    expect(deleted).toMatchObject({ code: 0, stdout: `${a}  erased\n${b}  erased\n` });
    expect(await sql('select from pgqueue.job')).toEqual([]);
    const running = await insert();
    await run('n', [running]);
    expect(await pgqueue('jobs', 'delete', running)).toMatchObject({
      code: 1,
      stdout: `${running}  unchanged: it runs: cancel it first\n`,
    });
    const [dead, done, missing] = [await die({ unique_key: 'u' }), await insert(), anId];
    await sql('select pgqueue.cancel($1)', [[done]]);
    await insert({ unique_key: 'u' });
    const none =
      'there is no such job: it never was, was deleted, its history has been dropped, or it belongs to a step of a flow that has not opened ("pgqueue flows show")';
    for (const [verb, verdict, ...why] of [
      [
        'retry',
        'unchanged',
        'it runs',
        'it is dead, and its unique key is taken by a newer job',
        'it has ended: cancelled',
      ],
      [
        'amend',
        'unchanged',
        'it runs',
        'it is dead: "pgqueue jobs retry" puts it back',
        'it has ended: cancelled',
      ],
    ] as const) {
      const options = verb === 'amend' ? ['--priority', '1'] : [];
      const ids = [running, dead, done, missing];
      const { code, stdout } = await pgqueue('jobs', verb, ...ids, ...options);
      const lines = [...why, none].map(
        (text, index) => `${ids[index]}  ${text === none ? 'missing' : verdict}: ${text}`,
      );
      expect({ verb, code, stdout }).toEqual({ verb, code: 1, stdout: `${lines.join('\n')}\n` });
    }
    const cancelled = await pgqueue('jobs', 'cancel', done, missing);
    expect(cancelled.stdout).toBe(
      `${done}  unchanged: it has ended: cancelled\n${missing}  missing: ${none}\n`,
    );
  });

  test('dead list, redrive and purge', async () => {
    const ids = [await die({ queue: 'a' }), await die({ queue: 'a' }), await die({ queue: 'b' })];
    const { text, json } = await ask('dead', 'list', '--queue', 'a', '--limit', '1');
    expect(text).toMatch(
      new RegExp(
        `^ID +QUEUE .*\\n${ids[1]} +a +hello +gave_up +1 +0 .* no\\nmore: --after \\d+_${ids[1]}\\n$`,
      ),
    );
    const next = await pgqueue('dead', 'list', '--queue', 'a', '--after', json.next, '--json');
    expect(JSON.parse(next.stdout)).toMatchObject({ jobs: [{ id: ids[0] }], next: null });
    await sql(`update pgqueue.dead_letter set died = died - interval '1 day' where queue = 'b'`);
    const lately = await pgqueue('dead', 'list', '--newer-than', '1h', '--json');
    expect(JSON.parse(lately.stdout)).toMatchObject({ jobs: [{ queue: 'a' }, { queue: 'a' }] });
    expect(await pgqueue('dead', 'redrive', '--newer-than', '1h')).toMatchObject({
      code: 0,
      stdout: '2 jobs redriven\n',
      stderr: '',
    });
    const again = await die({ queue: 'a' });
    expect((await pgqueue('dead', 'retry', again)).stdout).toBe('1 job redriven\n');
    expect(await pgqueue('dead', 'purge', '--all')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('give --yes'),
    });
    const purged = await pgqueue('dead', 'purge', '--all', '--yes', '--json');
    expect(JSON.parse(purged.stdout)).toEqual({ purged: 1, skipped: 0, total: 1 });
    expect((await pgqueue('dead', 'list')).stdout).toBe('no dead letters\n');
  });

  test('queues pause, set, list and resume', async () => {
    expect(await pgqueue('queues', 'pause', 'mail')).toMatchObject({
      code: 0,
      stdout:
        'queue mail is paused (it is new: it had no settings, and no job waits in it; is that its name?)\n',
    });
    const queues = async (...args: readonly string[]): Promise<string> =>
      (await pgqueue('queues', ...args)).stdout;
    expect(await queues('pause', 'mail')).toBe('queue mail is paused\n');
    await insert({ queue: 'video' });
    expect(await queues('set', 'video', '--retention', '0')).toBe('queue video is set\n');
    expect(
      await sql(`delete from pgqueue.queue_config where queue = 'video' returning retention = '0' as none`),
    ).toEqual([{ none: true }]);
    await sql('delete from pgqueue.queue');
    const set = await pgqueue('queues', 'set', 'mail', '--pool', 'slow', '--retention', '2d', '--json');
    expect(JSON.parse(set.stdout)).toEqual({
      queue: 'mail',
      pool: 'slow',
      retentionMs: 172_800_000,
      isNew: false,
    });
    const { text, json } = await ask('queues', 'list');
    expect(text).toMatch(/^QUEUE +PAUSED .*\nmail +yes +slow +2d +0 /);
    expect(json.queues).toMatchObject([{ queue: 'mail', paused: true, pool: 'slow' }]);
    expect((await pgqueue('queues', 'resume', 'mail', '--json')).stdout).toContain('"paused": false');
    expect(await queues('forget', 'mail')).toBe('queue mail has no settings any more\n');
    await sql('delete from pgqueue.history');
    const changed = JSON.parse(
      await queues('set', 'mail', '--rate', '5/s', '--retention', '3d', '--json'),
    ) as object;
    const {
      queues: [listed],
    } = JSON.parse(await queues('list', '--json')) as { readonly queues: readonly object[] };
    expect(changed).toEqual({
      queue: 'mail',
      retentionMs: 259_200_000,
      rate: { perSecond: 5, burst: 5 },
      isNew: true,
    });
    const { isNew: _isNew, ...given } = changed as { readonly isNew: boolean };
    expect(listed).toMatchObject(given);
    const { settings, queue } = JSON.parse(await queues('forget', 'mail', '--json')) as {
      readonly queue: string;
      readonly settings: object;
    };
    expect(listed).toMatchObject({ queue, ...settings });
    expect(settings).toMatchObject({
      retentionMs: 259_200_000,
      rate: { perSecond: 5, burst: 5 },
      paused: false,
    });
    expect(await queues('list')).toBe('no queues yet\n');
    expect(await pgqueue('queues', 'forget', 'mail')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('queue "mail" has no settings'),
    });
  });

  test('queues set gives limits, shows them, and takes them away', async () => {
    const limits =
      '--concurrency 5 --key-concurrency 1 --rate 100/s --burst 10 --key-rate 5/m --key-pending 40 --weight 2';
    const set = await pgqueue('queues', 'set', 'mail', ...limits.split(' '), '--json');
    expect(JSON.parse(set.stdout)).toEqual({
      queue: 'mail',
      concurrency: 5,
      keyConcurrency: 1,
      rate: { perSecond: 100, burst: 10 },
      keyRate: { perSecond: 5 / 60, burst: 1 },
      keyPending: 40,
      weight: 2,
      isNew: true,
    });
    const { text, json } = await ask('queues', 'list');
    expect(text).toMatch(
      / concurrency 5, key concurrency 1, rate 100\/s burst 10, key rate 5\/m burst 1, key pending 40, weight 2\n$/,
    );
    expect(json.queues).toMatchObject([{ concurrency: 5, keyRate: { burst: 1 }, weight: 2 }]);
    const gone = [
      '--no-concurrency',
      '--no-key-concurrency',
      '--no-rate',
      '--no-key-rate',
      '--no-key-pending',
      '--no-weight',
    ];
    expect(await pgqueue('queues', 'set', 'mail', ...gone)).toMatchObject({ code: 0, stderr: '' });
    const after = await pgqueue('queues', 'list', '--json');
    expect(JSON.parse(after.stdout).queues).toMatchObject([
      { concurrency: null, keyConcurrency: null, rate: null, keyRate: null, weight: 1 },
    ]);
  });

  test('schedules set, list, pause, resume and remove', async () => {
    const set = [
      'schedules',
      'set',
      'nightly',
      '--cron',
      '0 3 * * *',
      '--timezone',
      'Europe/Berlin',
      '--task',
      'report',
    ];
    expect((await pgqueue(...set, '--payload', '{"a":1}', '--max-tries', '3')).stdout).toBe(
      'schedule nightly is created\n',
    );
    expect(JSON.parse((await pgqueue(...set, '--json')).stdout)).toEqual({
      schedule: 'nightly',
      outcome: 'changed',
    });
    const { text, json } = await ask('schedules', 'list');
    expect(text).toMatch(/\nnightly +0 3 \* \* \* +Europe\/Berlin +report +\{\} +not planned yet +never\n$/);
    expect(json.schedules).toMatchObject([{ name: 'nightly', cron: '0 3 * * *' }]);
    await sql(
      "insert into pgqueue.schedule (name, cron, timezone, task) values ('odd', '61 * * * *', 'UTC', 'hello')",
    );
    expect((await pgqueue('schedules', 'list')).stdout).toMatch(/odd +61 .* can't be read +never/);
    expect((await pgqueue('schedules', 'remove', 'odd')).code).toBe(0);
    expect((await pgqueue('schedules', 'pause', 'nightly')).stdout).toBe('schedule nightly is paused\n');
    expect((await pgqueue('schedules', 'resume', 'nightly')).stdout).toBe('schedule nightly goes on\n');
    expect((await pgqueue('schedules', 'remove', 'nightly', '--json')).stdout).toContain('"removed"');
  });

  test('migrate makes a schema, says so, and its roles on request', async () => {
    const there = (...more: readonly string[]): Promise<CliResult> =>
      pgqueue('migrate', '--schema', 'second', ...more);
    const before = await there('--status');
    expect(before).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/^1 +0001_initial\.sql +no +not yet$/m),
    });
    expect(before.stdout).toContain('run "pgqueue migrate"');
    const made = await there();
    expect(made).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^applied 0001_initial\.sql\n[^]*1 migration applied\n$/),
    });
    const again = await there('--json');
    expect(JSON.parse(again.stdout)).toEqual({ schema: 'second', applied: [], roles: false });
    const after = await there('--status', '--json');
    expect(after.code).toBe(0);
    expect(JSON.parse(after.stdout).missing).toBe(0);
    expect((await pgqueue('status', '--schema', 'second')).code).toBe(0);
    await sql(`insert into second.migration values (2, '0002_x.sql', 'x', true)`);
    const newer = 'the schema is newer than this package';
    expect((await there()).stdout).toBe(`${newer}: both fit together\n`);
    await sql('update second.migration set compatible = false where version = 2');
    expect((await there('--status')).stdout).toContain(`${newer}: upgrade the @pgqueue packages`);
    expect(await there()).toMatchObject({
      code: 78,
      stderr: expect.stringContaining('upgrade the @pgqueue'),
    });
    await sql('drop schema second cascade');
  });
});
