import { beforeEach, describe, expect, test } from 'vitest';
import { cliOf, parseCli } from '../../support/cli.ts';
import { useDatabase } from '../../support/database.ts';

const own = useDatabase();
const { die, insert, item, reset, run, sql } = own;
const { ask, pgqueue } = cliOf(() => own.url);

beforeEach(reset);

describe('looking', () => {
  test('status', async () => {
    await insert();
    await die({ queue: 'mail' });
    await sql(`update pgqueue.node set heartbeat = now(), state = 'alive'`);
    const { code, text, json } = await ask('status');
    expect(code).toBe(0);
    expect(text).toMatch(
      /^schema +pgqueue \(version \d+\)\nleader +s, epoch 1, lease ends in \d+s\nnodes +1 alive/,
    );
    expect(text).toMatch(/^QUEUE +DELAYED +PENDING .*\ndefault +0 +1 +0 +0 +0 /m);
    expect(text).toMatch(/^mail +0 +0 +0 +0 +1 /m);
    expect(text).not.toContain('\u001b');
    expect(json).toMatchObject({
      leader: { leader: 's' },
      totals: { pending: 1, dead: 1 },
      nodes: { alive: 1 },
    });
  });

  test('status says that the age of a snapshot is hidden, and which right shows it', async () => {
    const role = 'status_hidden_test';
    await sql(`create role ${role}`);
    await sql(`grant usage on schema pgqueue to ${role}`);
    for (const rights of ['select on all tables', 'execute on all functions'])
      await sql(`grant ${rights} in schema pgqueue to ${role}`);
    const holder = await own.database.pool.connect();
    try {
      await holder.query('begin isolation level repeatable read');
      await holder.query('select 1');
      const url = new URL(own.url);
      url.searchParams.set('options', `-c role=${role}`);
      const { stdout } = await pgqueue('status', '--database-url', url.href);
      expect(stdout).toMatch(
        /^oldest snapshot +age hidden from this user, who needs pg_read_all_stats: session \d+, /m,
      );
      expect((await pgqueue('status')).stdout).toMatch(/^oldest snapshot +(none|\ds: session \d+, .*)$/m);
    } finally {
      await holder.query('rollback');
      holder.release();
      await sql(`drop owned by ${role}`);
      await sql(`drop role ${role}`);
    }
  });

  test('status shows why jobs are held, and what fails in the policy', async () => {
    await insert({ queue: 'mail' });
    await sql(`select * from pgqueue.lead('s', 60000)`);
    await sql(`select pgqueue.report('s', 1, $1)`, [
      JSON.stringify({
        policy: 'fair',
        held: { mail: { no_free_slot: 3, key_concurrency: 120 } },
        ticks: { count: 9, p50Ms: 1.5, p99Ms: 9.25, lastBatch: 4, dispatched: 20 },
        lanes: 7,
        inFlight: 5,
        faults: [
          {
            policy: 'fair',
            part: 'tenants',
            message: 'no\u001b[2Jregion',
            count: 1,
            firstMs: Date.now() - 5_000,
            atMs: Date.now() - 5_000,
            suspendedUntilMs: null,
          },
        ],
        forecast: { deadline_missed: 2 },
        shadow: {
          policy: 'next',
          snapshots: 812,
          skipped: 1,
          failed: 2,
          both: 4_103,
          liveOnly: { later: 1, tenants: 9 },
          shadowOnly: { key_concurrency: 12 },
          rankDifference: 7.44,
          keys: [
            { queue: 'mail', key: 'two\nlines', live: 0.31, shadow: 0.88 },
            { queue: 'mail', key: 'same', live: 0.1, shadow: 0.1 },
          ],
          meanMs: 0.91,
        },
      }),
    ]);
    const { text, json } = await ask('status');
    expect(text).toMatch(/^policy +fair, report of \d+m?s ago$/m);
    expect(text).toMatch(/^ticks +9, p50 1\.5 ms, p99 9\.3 ms, last batch 4, 20 dispatched$/m);
    expect(text).toMatch(/^lanes +7 known, 5 jobs in flight$/m);
    expect(text).toMatch(/^forecast +deadline_missed 2$/m);
    expect(text).toMatch(/^mail .* key_concurrency 120, no_free_slot 3$/m);
    expect(text).toMatch(/^WARN +policy fair: tenants failed once, first \d+ s ago: no\\x1b\[2Jregion$/m);
    expect(text).toMatch(
      /^shadow +next: 812 snapshots compared, 1 skipped, 2 failed, 0\.9 ms each; 4103 jobs in both plans, 7\.4 places apart on average$/m,
    );
    expect(text).toMatch(
      /\n\nONLY BY +THE OTHER HELD IT BY +JOBS\nlive policy +tenants +9\nlive policy +later +1\nshadow +key_concurrency +12\n\n/,
    );
    expect(text).toMatch(/\nQUEUE +KEY +SHARE LIVE +SHARE IN SHADOW\nmail +two\\nlines +31% +88%\nWARN/);
    expect(json).toMatchObject({
      scheduler: { policy: 'fair', stale: false },
      queues: [{ held: { key_concurrency: 120 } }],
    });
    await sql(`insert into pgqueue.queue_config (queue, paused) values ('mail', true)`);
    const paused = await ask('status');
    expect(paused.text).toMatch(/^mail \(paused\) .* paused_queue 1$/m);
    expect(paused.json.queues).toMatchObject([{ queue: 'mail', held: { paused_queue: 1 } }]);
    await sql(`update pgqueue.scheduler_report set epoch = 7`);
    expect((await pgqueue('status')).stdout).toMatch(/^policy +fair, report of .* ago \(stale\)$/m);
  });

  test('jobs list and show', async () => {
    const id = await insert({
      key: 'tenant',
      payload: '{"to": "ada"}',
      attributes: '{"plan": "pro"}',
      queue: 'a\u001b[2Jb',
    });
    const dead = await die();
    const list = await ask('jobs', 'list', '--limit', '1');
    expect(list.text).toMatch(
      new RegExp(`^ID +STATUS .*\\n${dead} +dead +default +hello .* no\\nmore: --after ${dead}\\n$`),
    );
    expect(list.json).toMatchObject({ jobs: [{ id: dead, status: 'dead' }], next: dead });
    const [rest, show] = await Promise.all([
      pgqueue('jobs', 'list', '--after', dead, '--status', 'pending', '--key', 'tenant', '--task', 'hello'),
      ask('jobs', 'show', id),
    ]);
    expect(rest.stdout).toMatch(new RegExp(`\\n${id} +pending +a\\\\x1b\\[2Jb `));
    expect(show.text).toMatch(/^status +pending$/m);
    expect(show.text).toContain('payload\n{\n  "to": "ada"\n}');
    expect(show.text).toContain('{"plan":"pro"}');
    expect(show.json).toMatchObject({ id, payload: { to: 'ada' }, errors: [] });
    await sql(
      `update pgqueue.dead_letter set errors = errors || '[{"message": "fetch failed", "cause": {"message": "gone"}, "try": 2}]'`,
    );
    expect((await pgqueue('jobs', 'show', dead)).stdout).toMatch(/^ {2}try 2 .* fetch failed: gone$/m);
    expect((await pgqueue('dead', 'list')).stdout).toMatch(/ fetch failed: gone$/m);
  });

  test('what is not there is 1', async () => {
    const id = '00000000-0000-7000-8000-000000000000';
    const results = await Promise.all([
      pgqueue('jobs', 'show', id),
      pgqueue('explain', id),
      pgqueue('nodes', 'reset', 'nobody'),
      pgqueue('schedules', 'remove', 'never'),
      pgqueue('jobs', 'cancel', id),
      pgqueue('dead', 'redrive', id),
    ]);
    expect(results.map(({ code }) => code)).toEqual([1, 1, 1, 1, 1, 1]);
    for (const result of results.slice(0, 2))
      expect(result.stderr).toMatch(new RegExp(`^pgqueue: there is no job ${id}: `));
    const shown = await parseCli(['jobs', 'show', id, '--json', '--database-url', own.url]);
    expect(JSON.parse(shown.stderr)).toMatchObject({ error: { code: 'not_found' } });
    expect(results[2]?.stderr).toContain('there is no node "nobody"');
    expect(results[3]?.stderr).toContain('there is no schedule "never": "pgqueue schedules list"');
    expect(results[4]?.stdout).toMatch(`${id}  missing: there is no such job`);
    expect(results[5]?.stdout).toMatch(/^0 jobs redriven, 1 skipped/);
  });

  test('explain', async () => {
    const id = await insert({ key: 'tenant' });
    await sql(`insert into pgqueue.queue_config (queue, paused) values ('default', true)`);
    const { text, json } = await ask('explain', id);
    expect(text).toMatch(
      new RegExp(`^job ${id} is pending: task hello, queue default, key "tenant", priority 0, `),
    );
    expect(text).toContain('- queue default is paused: "pgqueue queues resume default"');
    expect(text).toContain('- no scheduler leads');
    expect(text).toContain('- no node lives in pool default: start a worker');
    expect(text).toContain('- is the first of key "tenant"\n');
    expect(text).not.toContain('estimate');
    expect(json.reasons.map(({ kind }: { kind: string }) => kind)).toEqual([
      'paused_queue',
      'no_leader',
      'no_capable_node',
      'in_line',
    ]);
  });

  test('nodes list, and reset by id', async () => {
    await run('worker-1', [await insert(), await insert()]);
    const { text, json } = await ask('nodes', 'list');
    expect(text).toMatch(/^NODE +STATE .*\nworker-1 +alive +default +2 +2 +\d+m?s ago .*hello/);
    expect(json.nodes).toMatchObject([{ id: 'worker-1', leases: 2 }]);
    const done = await pgqueue('nodes', 'reset', 'worker-1');
    expect(done).toMatchObject({
      code: 0,
      stdout: 'node worker-1 is reset: 2 jobs ready for others, 0 dead at their crash limit, 0 cancelled\n',
    });
    const again = await pgqueue('nodes', 'reset', 'worker-1', '--json');
    expect(JSON.parse(again.stdout)).toEqual({ node: 'worker-1', ready: 0, dead: 0, cancelled: 0 });
  });

  test('doctor finds, mends, and is content', async () => {
    const orphan = '00000000-0000-7000-8000-00000000000a';
    await item(orphan);
    const found = await ask('doctor');
    expect(found.code).toBe(1);
    expect(found.text).toMatch(
      /^ERROR orphan_items: 1 against "every job of a work item has its QUEUE row"\n +00000000/,
    );
    expect(found.text).toMatch(/\d+ checks, 1 finding: not sound\n$/);
    expect(found.json).toMatchObject({
      healthy: false,
      findings: [{ check: 'orphan_items', samples: [orphan] }],
    });
    const mended = await pgqueue('doctor', '--mend');
    expect(mended).toMatchObject({ code: 0, stdout: expect.stringMatching(/^ +mended\n.*: sound\n$/m) });
    const clean = await pgqueue('doctor', '--json');
    expect(clean.code).toBe(0);
    expect(JSON.parse(clean.stdout)).toMatchObject({ healthy: true, findings: [] });
  });
});
