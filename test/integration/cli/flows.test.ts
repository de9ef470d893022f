import { beforeEach, describe, expect, test } from 'vitest';
import { cliOf, parseCli } from '../../support/cli.ts';
import type { CliResult } from '../../support/cli.ts';
import { useDatabase } from '../../support/database.ts';
import { flowsOf } from '../../support/flows.ts';

const own = useDatabase();
const { reset, sql } = own;
const { start, startSite, advance, jobsOf, end } = flowsOf(own);
const { ask } = cliOf(() => own.url);
/** In this process: a child takes most of its time to start. */
const pgqueue = (...args: readonly string[]): Promise<CliResult> =>
  parseCli([...args, '--database-url', own.url]);
const missing = '00000000-0000-7000-8000-000000000000';

beforeEach(reset);

/** Runs a command that only reads, for its text; no line is wider than a terminal. */
async function narrow(...args: readonly string[]): Promise<string> {
  const { stdout } = process;
  const before = [stdout.isTTY, stdout.columns] as const;
  [stdout.isTTY, stdout.columns] = [true, 80];
  try {
    const { code, stdout: text } = await pgqueue(...args);
    expect(code).toBe(0);
    expect(text.split('\n').filter((line) => line.length > 80)).toEqual([]);
    return text;
  } finally {
    [stdout.isTTY, stdout.columns] = before;
  }
}

describe('looking', () => {
  test('flows list', async () => {
    const first = await startSite({ key: 'acme' });
    const [one = ''] = await jobsOf(first, 0);
    await end([one], 'dead');
    const second = await start({ name: '\u001b[2J\nevil', steps: [{ name: 'a', kind: 'signal' }] });
    const { text, json } = await ask('flows', 'list');
    expect(text).toMatch(
      new RegExp(
        `^ID +STATE +STEPS +JOBS +DEAD +AGE +NAME \\(KEY\\)\\n${second} +open +0/1 +0/0 +0 .* \\\\x1b\\[2J\\\\nevil\\n${first} +open +0/5 +1/6 +1 .* count-site \\(acme\\)\\n$`,
      ),
    );
    expect(json).toMatchObject({ flows: [{ id: second }, { id: first, key: 'acme' }], next: null });
    expect((await pgqueue('flows', 'list', '--key', 'acme', '--limit', '1')).stdout).toContain(first);
    expect((await pgqueue('flows', 'list', '--limit', '1')).stdout).toMatch(`more: --after ${second}\n`);
    expect((await pgqueue('flows', 'list', '--after', second)).stdout).not.toContain(second);
    expect((await pgqueue('flows', 'list', '--state', 'done')).stdout).toBe('no flows\n');
    expect(await narrow('flows', 'list')).toContain(first);
  });

  test('flows show tells the steps in layers', async () => {
    const id = await startSite({ key: 'acme' });
    const [one = '', two = ''] = await jobsOf(id, 0);
    await end([one], 'dead');
    await end([two]);
    const { text, json } = await ask('flows', 'show', id);
    expect(text.replace(/\d+m?s old/, 'AGE old')).toBe(
      [
        `flow ${id}`,
        'count-site is open, AGE old',
        'key "acme"',
        '0 of 5 steps ended',
        '2 of 6 jobs ended (33%), 1 dead, 0 cancelled or expired',
        '',
        'layer 1',
        '  pages    open       2 of 4 left, 1 dead',
        'layer 2',
        '  sum      blocked    waits for pages: 2 of 4 left, 1 dead',
        'layer 3',
        '  ok       blocked    signal; waits for sum: blocked',
        '  late     blocked    timer; waits for sum: blocked',
        'layer 4',
        '  publish  blocked    waits for any of ok: not signalled; late: 1h from its opening on',
        '',
      ].join('\n'),
    );
    expect(json).toMatchObject({ id, steps: [{ name: 'pages', dead: 1 }, {}, {}, {}, {}] });
    expect(await narrow('flows', 'show', id)).toContain(
      '  publish  blocked    waits for any of ok: not signalled; late: 1h from its\n                      opening on\n',
    );
    await end(await jobsOf(id, 0));
    await end(await jobsOf(id, 1));
    await own.sql('update pgqueue.flow set reason = $1', ['a\u001b[2J\nb']);
    const later = (await pgqueue('flows', 'show', id)).stdout;
    expect(later).toMatch(/^ {2}pages {4}failed {5}4 jobs, 1 dead, in \d+m?s$/m);
    expect(later).toMatch(/^ {2}sum {6}done {7}1 job, in \d+m?s$/m);
    expect(later).toMatch(/^ {2}late {5}open {7}timer; until 2.*Z$/m);
    expect(later).toContain('reason: a\\x1b[2J\\nb');
  });

  test('of a large flow it shows those first that are not done', async () => {
    const steps = Array.from({ length: 300 }, (_, n) => ({ name: `s${n}`, kind: 'signal' as const }));
    const id = await start({ steps: [...steps, { name: 'last', kind: 'signal', needs: [[0]] }] });
    for (let n = 1; n < 250; n += 1) await sql('select pgqueue.signal_flow($1, $2)', [id, `s${n}`]);
    await advance();
    const few = (await pgqueue('flows', 'show', id)).stdout;
    expect(few.match(/^ {2}\S/gm)).toHaveLength(100);
    expect(few).toContain('\n201 more steps: --all shows them\n');
    for (const name of ['s0', 's250', 's299', 'last']) expect(few).toMatch(new RegExp(`^ {2}${name} `, 'm'));
    expect((await pgqueue('flows', 'show', id, '--all')).stdout.match(/^ {2}\S/gm)).toHaveLength(301);
  });

  test('flows results', async () => {
    const id = await startSite();
    const [one = '', two = '', ...others] = await jobsOf(id, 0);
    await end([one], 'dead');
    await end([two], 'done', { text: `\u001b[2J${'x'.repeat(200)}` });
    const text = await narrow('flows', 'results', id, 'pages');
    expect(text).toMatch(
      new RegExp(
        `^JOB +OUTCOME +RESULT\\n${one} +dead +null\\n${two} +done +\\{"text":"\\\\u001b\\[2J.*…\\n$`,
      ),
    );
    const { json } = await ask('flows', 'results', id, 'pages', '--limit', '1');
    expect(json).toEqual({ results: [{ job: one, outcome: 'dead', result: null }], next: one });
    expect((await pgqueue('flows', 'results', id, 'pages', '--after', one)).stdout).toContain(
      'x'.repeat(200),
    );
    expect((await pgqueue('flows', 'results', id, 'sum')).stdout).toBe('no results\n');
    await pgqueue('flows', 'signal', id, 'ok', '--value', '{"by": "ada"}');
    expect((await pgqueue('flows', 'results', id, 'ok')).stdout).toMatch(/\nsignal +done +\{"by":"ada"\}\n$/);
    expect(others).toHaveLength(2);
  });

  test('status, jobs list, jobs show and explain tell of flows', async () => {
    expect((await pgqueue('status')).stdout).not.toMatch(/^flows/m);
    const id = await startSite();
    const [job = ''] = await jobsOf(id, 0);
    const { text, json } = await ask('status');
    expect(text).toMatch(/^flows +1 open, the oldest \d+m?s old$/m);
    expect(json.flows).toMatchObject({ open: 1, more: false });
    expect((await pgqueue('top', '--once')).stdout).toMatch(/^flows 1 open, the oldest \d+m?s old$/m);
    const listed = await ask('jobs', 'list', '--flow', id, '--step', 'pages');
    expect(listed.json.jobs).toHaveLength(4);
    expect(listed.json.jobs[0]).toMatchObject({ flow: id, step: 'pages' });
    expect(await pgqueue('jobs', 'list', '--step', 'pages')).toMatchObject({ code: 2 });
    const shown = (await pgqueue('jobs', 'show', job)).stdout;
    expect(shown).toMatch(new RegExp(`^flow +${id}$`, 'm'));
    expect(shown).toMatch(/^step +pages$/m);
    expect((await pgqueue('explain', job)).stdout).toContain(`(of flow ${id}, step pages)`);
  });
});

describe('changing', () => {
  test('flows signal', async () => {
    const id = await startSite();
    expect(await pgqueue('flows', 'signal', id, 'ok', '--value', '{"by": "ada"}')).toMatchObject({
      code: 0,
      stdout: `${id}  signalled\n`,
    });
    expect(await pgqueue('flows', 'signal', id, 'ok')).toMatchObject({
      code: 1,
      stdout: `${id}  repeated: it has a value already, and that one counts\n`,
    });
    expect(JSON.parse((await pgqueue('flows', 'signal', id, 'ok', '--json')).stdout)).toEqual({
      flow: id,
      step: 'ok',
      verdict: 'repeated',
    });
    expect(await sql('select result from pgqueue.flow_result')).toEqual([{ result: { by: 'ada' } }]);
    expect(await pgqueue('flows', 'signal', id, 'pages')).toMatchObject({
      code: 1,
      stderr: `pgqueue: flow ${id} has no signal "pages": its signals are "ok"\n`,
    });
    const [line] = await sql(
      'select action, target, details from pgqueue.audit where target = $1 order by n limit 1',
      [id],
    );
    expect(line).toEqual({ action: 'flows.signal', target: id, details: { step: 'ok' } });
  });

  test('flows cancel tells first what would end', async () => {
    const id = await startSite();
    await end([...(await jobsOf(id, 0))].slice(0, 1));
    expect(await pgqueue('flows', 'cancel', id)).toMatchObject({
      code: 1,
      stdout: '5 steps and 5 jobs have not ended: give --yes to cancel them\n',
    });
    expect(JSON.parse((await pgqueue('flows', 'cancel', id, '--json')).stdout)).toEqual({
      flow: id,
      state: 'open',
      open: true,
      left: { steps: 5, jobs: 5 },
    });
    expect(await pgqueue('flows', 'cancel', id, '--yes', '--reason', 'wrong site')).toMatchObject({
      code: 0,
      stdout: `${id}  cancelling\n`,
    });
    expect(await pgqueue('flows', 'cancel', id, '--yes')).toMatchObject({
      code: 1,
      stdout: `${id}  ended: it has ended, or is being cancelled already\n`,
    });
    expect((await pgqueue('flows', 'show', id)).stdout).toContain('count-site is being cancelled, ');
    expect((await pgqueue('flows', 'cancel', id)).stdout).toBe(
      `${id}  ended: it is being cancelled already\n`,
    );
    await advance();
    expect(await pgqueue('flows', 'cancel', id)).toMatchObject({
      code: 1,
      stdout: `${id}  ended: it has ended: cancelled\n`,
    });
    const shown = (await pgqueue('flows', 'show', id)).stdout;
    expect(shown).toContain('reason: wrong site\n');
    expect(shown).toMatch(/^ {2}sum {6}skipped$/m);
  });

  test('flows retry', async () => {
    const id = await startSite({ unique_key: 'u' });
    expect(await pgqueue('flows', 'retry', id)).toMatchObject({
      code: 1,
      stdout: `${id}  nothing: no step has failed\n`,
    });
    await end(await jobsOf(id, 0), 'dead');
    await sql(
      'delete from pgqueue.dead_letter where id = (select min(id::text)::uuid from pgqueue.dead_letter)',
    );
    expect(await pgqueue('flows', 'retry', id, '--step', 'pages')).toMatchObject({
      code: 0,
      stdout: `${id}  retried: 3 jobs put back; 1 can't come back: history has them no longer\n`,
    });
    await pgqueue('flows', 'cancel', id, '--yes');
    expect((await pgqueue('flows', 'retry', id)).stdout).toBe(
      `${id}  stopping: it is being cancelled; retry it when it has ended\n`,
    );
    await advance();
    const other = await startSite({ unique_key: 'u' });
    expect(await pgqueue('flows', 'retry', id)).toMatchObject({
      code: 1,
      stdout: `${id}  key_taken: another open flow has its unique key: ${other}\n`,
    });
  });

  test.each(['show', 'results', 'signal', 'cancel', 'retry'])(
    'flows %s of a flow that is not there',
    async (verb) => {
      const step = verb === 'results' || verb === 'signal' ? ['a'] : [];
      expect(await pgqueue('flows', verb, missing, ...step)).toMatchObject({
        code: 1,
        stdout: '',
        stderr: `pgqueue: there is no flow ${missing}: it never was, or ended more than seven days ago\n`,
      });
      expect(await pgqueue('flows', verb, 'x', ...step)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('The id of a flow is a UUID.'),
      });
    },
  );

  test('wrong usage', async () => {
    for (const [args, text] of [
      [['list', '--state', 'asleep'], 'Allowed choices are open, done, failed, cancelled'],
      [['list', '--limit', '0'], 'whole number from 1 to 1000'],
      [['signal', missing, 'a', '--value', '{'], 'It must be JSON'],
      [['signal', missing], "missing required argument 'step'"],
    ] as const)
      expect(await pgqueue('flows', ...args)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining(text),
      });
    expect(await pgqueue('flows', 'cancel', missing, '--yes', '--reason', 'x'.repeat(2_001))).toMatchObject({
      code: 78,
      stderr: expect.stringContaining('reason must be a text of 1 to 2000 characters'),
    });
  });
});
