import { spawnSync } from 'node:child_process';
import { closeSync, existsSync, openSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test, vi } from 'vitest';
import { buildProgram } from '../../../packages/cli/src/program.ts';
import { cli, cliMain, everythingSaid, parseCli } from '../../support/cli.ts';
import { useDatabase } from '../../support/database.ts';

const canary = 'c4nary-s3cret';
const nowhere = 'postgres://postgres@127.0.0.1:1/x';
const own = useDatabase();

type Program = ReturnType<typeof buildProgram>;

/** Every command by its words, as the program has them. */
function commandsOf(program: Program, before: readonly string[] = []): readonly (readonly string[])[] {
  return program.commands
    .filter((command) => command.name() !== 'help')
    .flatMap((command) => {
      const words = [...before, command.name()];
      return command.commands.length === 0 ? [words] : commandsOf(command, words);
    });
}
const commands = commandsOf(buildProgram((text) => text));

describe('help', () => {
  test('every command explains itself, with examples and the global options', async () => {
    for (const command of commands) {
      const name = command.join(' ');
      const { code, stdout, stderr } = await parseCli([...command, '--help']);
      expect({ name, code, stderr }).toEqual({ name, code: 0, stderr: '' });
      expect(stdout).toContain(`Usage: pgqueue ${name}`);
      expect(stdout).toMatch(/Examples:\n {2}\$ pgqueue /);
      for (const option of ['--json', '--database-url', '--schema']) expect(stdout).toContain(option);
    }
  });

  test('the command alone, and --version', async () => {
    const [bare, help, version] = await Promise.all([cli([]), cli(['--help']), cli(['--version'])]);
    expect(bare).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('Usage: pgqueue') });
    expect(help?.code).toBe(0);
    for (const [name = ''] of commands) expect(help?.stdout).toMatch(new RegExp(`^ {2}${name}\\b`, 'm'));
    expect(version).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) });
  });
});

describe('wrong usage is 2', () => {
  const id = '00000000-0000-7000-8000-000000000000';
  test.each([
    [['nonsense'], /unknown command 'nonsense'/],
    [['stauts'], /Did you mean status/],
    [['status', '--nonsense'], /unknown option '--nonsense'/],
    [['jobs'], /Usage: pgqueue jobs/],
    [['jobs', 'show'], /missing required argument 'job'/],
    [['jobs', 'show', 'x'], /A job id is a UUID/],
    [['jobs', 'list', '--status', 'asleep'], /Allowed choices are delayed/],
    [['jobs', 'list', '--limit', '0'], /whole number from 1 to 1000/],
    [['jobs', 'cancel'], /ids, or a filter/],
    [['jobs', 'cancel', '--yes'], /ids, or a filter/],
    [['jobs', 'cancel', id, '--queue', 'mail'], /ids, or a filter/],
    [['jobs', 'cancel', '--status', 'done'], /Allowed choices are delayed/],
    [['jobs', 'amend', id], /--priority, --run-after, or both/],
    [['jobs', 'amend', id, '--run-after', 'tomorrow'], /a time with its zone/],
    [['dead', 'redrive'], /say which/],
    [['dead', 'purge', id, '--all'], /not two of them/],
    [['queues', 'set', 'mail'], /--pool, --retention/],
    [
      ['queues', 'set', 'mail', '--key-rate', '5/m', '--no-key-rate', '--no-weight', '--weight', '2'],
      /--key-rate and --no-key-rate contradict each other; --weight and --no-weight contradict/,
    ],
    [['queues', 'set', 'mail', '--key-pending', '0'], /--key-pending must be a whole number from 1/],
    [
      'queues set mail --concurrency x --rate 5 --key-rate 1/s --key-burst 0 --burst 2 --weight 0'.split(' '),
      /--concurrency must be a whole number.*--rate must be jobs in a time.*--key-burst must be.*--weight must be/,
    ],
    [
      ['queues', 'set', 'mail', '--burst', '2', '--no-key-rate', '--key-burst', '2'],
      /--burst needs --rate; --key-burst needs/,
    ],
    [['enqueue', 'hello', '--payload', '{'], /It must be JSON/],
    [
      ['enqueue', 'hello', '--payload', '{"v":1e400}'],
      /^error: [^1]*Its number "v" is one that a double can't hold/,
    ],
    [
      ['enqueue', 'hello', '--attributes', '{"id":9007199254740993}'],
      /^error: [^9]*Its number "id" is one that/,
    ],
    [['enqueue', 'hello', '--on-conflict', 'keep'], /--unique-key/],
    [['enqueue', 'hello', '--unique-key', 'u', '--max-wait', '5m'], /--on-conflict debounce/],
    [
      ['enqueue', 'hello', '--unique-key', 'u', '--on-conflict', 'supersede', '--max-wait', '5m'],
      /--on-conflict debounce/,
    ],
    [['enqueue', 'hello', '--unique-key', 'u', '--on-conflict', 'debounce', '--max-wait', '0'], /longer/],
    [['enqueue', 'hello', '--attributes', '{"a":{}}', '--database-url', nowhere], /flat/],
    [['worker'], /give --tasks <file>, or --exec <task=program>, or both/],
    [['worker', '--exec', './resize'], /--exec \.\/resize: give task=program, such as resize=/],
    [['worker', '--exec', 'a=./b', '--exec-env', 'A=1'], /--exec-env A=1: give the name of a variable/],
    [['worker', '--tasks', 'x.ts', '--exec-env', 'A'], /--exec-env goes with --exec/],
    [['schedules', 'set', 'x', '--task', 'y'], /--cron/],
    [['schedules', 'set', 'x', '--task', 'y', '--cron', 'at noon'], /cron/],
    [['schedules', 'set', 'x', '--task', 'y', '--cron', '0 0 31 2 *'], /"0 0 31 2 \*".* it would never come/],
    [['schedules', 'set', 'x', '--task', 'y', '--cron', '0 0 0 1 1 * 2020'], /no such time from now on/],
    [
      ['schedules', 'set', 'x', '--task', 'y', '--cron', '* * * * *', '--timezone', 'Moon/Sea'],
      /an IANA name/,
    ],
    [['scheduler', '--lease', '1ms'], /It must be from 100ms to 10m/],
    [
      ['dashboard', '--installations', 'all.json', '--schema', 'jobs'],
      /leave out --database-url and --schema/,
    ],
    [['simulate', '--workload', 'a.json', '--installations', '0'], /whole number from 1 to 64/],
    [['simulate', '--workload', 'a.json', '--shared-slots'], /--shared-slots goes with --installations/],
    [['queues', 'pause', ''], /1 to 100 characters/],
    [['queues', 'set', 'q'.repeat(101), '--weight', '2'], /1 to 100 characters/],
    [['enqueue', 'hello', '--run-after', '2030-02-31T00:00:00Z'], /a time with its zone/],
  ])('%j', async (args, message) => {
    expect(await parseCli(args)).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringMatching(message),
    });
  });
});

describe('with --json, wrong usage is one JSON object', () => {
  test.each([
    ['status --nope --json', "unknown option '--nope'"],
    ['--json status --nope', "unknown option '--nope'"],
    ['stauts --json', "unknown command 'stauts'\n(Did you mean status?)"],
    [
      'jobs list --limit 0 --json',
      expect.stringMatching(/^option '--limit <n>' .* whole number from 1 to 1000/),
    ],
    ['jobs show x --json', expect.stringContaining('A job id is a UUID')],
    ['jobs --json', 'a command is missing (Usage: pgqueue jobs [options] [command])'],
    ['jobs cancel --json', expect.stringContaining('ids, or a filter')],
    ['enqueue --json', "missing required argument 'task'"],
    ['enqueue hello --max-wait 5m --json', '--max-wait goes with --on-conflict debounce only'],
    [
      `enqueue hello --payload {"${canary}" --json`,
      expect.stringMatching(/^option '[^']*--payload <json>' is invalid\. It must be JSON/),
    ],
    [
      `status --nope=postgres://me:${canary}@h/x --json --database-url postgres://me:${canary}@h/x`,
      "unknown option '--nope'",
    ],
  ])('%s', async (line, message) => {
    const { code, stdout, stderr } = await parseCli(line.split(' '));
    expect([code, stdout]).toEqual([2, '']);
    expect(JSON.parse(stderr)).toEqual({ error: { code: 'usage', message } });
    expect(stderr).toMatch(/^.*\n$/);
    expect(stderr).not.toContain(canary);
  });
  test('but not behind --, where it is an argument', async () => {
    const { stderr } = await parseCli(['jobs', 'show', '--', '--json']);
    expect(stderr).toMatch(/^error: /);
  });
});

test('every command refuses an option that it does not know', async () => {
  for (const command of commands) {
    const name = command.join(' ');
    const needed = ['start', 'tasks', 'worker'].includes(name) ? ['--tasks', 'x.ts'] : [];
    const needs: Readonly<Record<string, readonly string[]>> = {
      'schedules set': ['--cron', '* * * * *', '--task', 'x'],
      'installations init': ['--number', '1', '--name', 'x'],
      'keys move': ['--to', 'x'],
      'installations forfeit': ['api', 'one'],
      'installations remove-limit': ['api'],
    };
    const { code, stdout, stderr } = await parseCli([...command, ...(needs[name] ?? needed), '--nonsense']);
    expect({ name, code, stdout, stderr }).toEqual({
      name,
      code: 2,
      stdout: '',
      stderr: expect.stringMatching(/^error: unknown option '--nonsense'\n/),
    });
  }
});

test.runIf(existsSync('/dev/full'))(
  'output that can not be written is told in one line, and exits with 1',
  () => {
    const full = openSync('/dev/full', 'w');
    try {
      const run = (...args: readonly string[]) =>
        spawnSync(process.execPath, ['--conditions=@pgqueue/source', cliMain, ...args], {
          stdio: ['ignore', full, 'pipe'],
          encoding: 'utf8',
        });
      const says = /^pgqueue: can't write the output: ENOSPC.*\n$/;
      expect(run('--version')).toMatchObject({ status: 1, stderr: expect.stringMatching(says) });
      const { status, stderr } = run('--version', '--json');
      expect(status).toBe(1);
      expect(JSON.parse(stderr)).toMatchObject({ error: { code: 'output' } });
    } finally {
      closeSync(full);
    }
  },
);

describe('wrong configuration is 78', () => {
  test('every command that works on a database says, in one line, that none is named', async () => {
    vi.stubEnv('PGQUEUE_DATABASE_URL', '').stubEnv('DATABASE_URL', '');
    const id = '00000000-0000-7000-8000-000000000000';
    const tasks = fileURLToPath(new URL('../../support/modules/cli-tasks.ts', import.meta.url));
    const given: Readonly<Record<string, readonly string[]>> = {
      enqueue: ['hello'],
      explain: [id],
      start: ['--tasks', tasks],
      worker: ['--tasks', tasks],
      'dead redrive': ['--all'],
      'dead purge': ['--all', '--yes'],
      'dead rewrap': ['--all'],
      'installations init': ['--number', '1', '--name', 'x'],
      'jobs amend': [id, '--priority', '1'],
      'jobs signal': [id, 'approved'],
      'nodes reset': ['worker-1'],
      'queues pause': ['mail'],
      'queues resume': ['mail'],
      'queues forget': ['mail'],
      'queues set': ['mail', '--weight', '2'],
      'schedules set': ['x', '--cron', '* * * * *', '--task', 'y'],
      ...Object.fromEntries(['show', 'retry', 'cancel', 'delete'].map((verb) => [`jobs ${verb}`, [id]])),
      ...Object.fromEntries(['show', 'retry', 'cancel'].map((verb) => [`flows ${verb}`, [id]])),
      ...Object.fromEntries(['results', 'signal'].map((verb) => [`flows ${verb}`, [id, 'a step']])),
      ...Object.fromEntries(['pause', 'resume', 'remove'].map((verb) => [`schedules ${verb}`, ['x']])),
    };
    // databases of a list of installations are named in its file
    const across = ['list', 'check', 'drain', 'rebalance', 'limits', 'forfeit', 'remove-limit'].map(
      (verb) => `installations ${verb}`,
    );
    const without = ['dev', 'simulate', 'tasks', 'keys move', ...across];
    const withDatabase = commands.filter((command) => !without.includes(command.join(' ')));
    try {
      for (const command of withDatabase) {
        const name = command.join(' ');
        const { code, stdout, stderr } = await parseCli([...command, ...(given[name] ?? [])]);
        expect({ name, code, stdout, stderr }).toEqual({
          name,
          code: 78,
          stdout: '',
          stderr: expect.stringMatching(/^pgqueue: [^\n]*no database is named: give --database-url[^\n]*\n$/),
        });
      }
    } finally {
      vi.unstubAllEnvs();
    }
  });

  test('no database, a bad schema and a missing file are told at once', async () => {
    const result = await cli(['worker', '--tasks', '/nowhere/tasks.ts', '--schema', 'No!']);
    expect(result).toMatchObject({ code: 78, stdout: '' });
    expect(result.stderr).toMatch(
      /no database is named.*PGQUEUE_DATABASE_URL or DATABASE_URL \("pgqueue dev"/,
    );
    expect(result.stderr).toMatch(/schema "No!" is no usable name/);
    expect(result.stderr).toMatch(/\/nowhere\/tasks\.ts: there is no such file/);
    expect(result.stderr.trim().split('\n')).toHaveLength(1);
  });

  test('a schema that is not there says what to run', async () => {
    const elsewhere = ['status', '--database-url', own.url, '--schema', 'elsewhere'];
    const [text, json] = await Promise.all([cli(elsewhere), cli([...elsewhere, '--json'])]);
    expect(text).toMatchObject({
      code: 78,
      stderr: expect.stringContaining('run "pgqueue migrate --schema elsewhere" first'),
    });
    expect(json?.code).toBe(78);
    expect(JSON.parse(json?.stderr ?? '')).toEqual({
      error: { code: 'schema_version', message: expect.stringContaining('elsewhere') },
    });
  });

  test('something that is no connection string is not repeated', async () => {
    const result = await parseCli(['status', '--database-url', `host=x password=${canary}`]);
    expect(result).toMatchObject({
      code: 78,
      stderr: expect.stringContaining('--database-url is not a connection string'),
    });
  });
});

describe('a database that is not there is 1', () => {
  test('nobody listens, no such database, wrong role', async () => {
    const url = new URL(own.url);
    url.password = canary;
    const missing = new URL(own.url); // with the right password: a server that asks for one refuses a wrong one first
    missing.pathname = '/no_such_database';
    const silent = new URL(url);
    silent.port = '1';
    const stranger = new URL(url);
    stranger.username = 'nobody_known';
    const results = await Promise.all(
      [missing, silent, stranger].map(({ href }) => cli(['status', '--database-url', href])),
    );
    expect(results.map(({ code }) => code)).toEqual([1, 1, 1]);
    expect(results[0]?.stderr).toMatch(/"no_such_database" does not exist: create it/);
    expect(results[1]?.stderr).toMatch(
      /can't reach PostgreSQL: .*ECONNREFUSED.*is it running, and is --database-url, PGQUEUE_DATABASE_URL or DATABASE_URL right/,
    );
    expect(results[2]?.stderr).toMatch(/nobody_known.*check user and password/);
  });

  test('PGQUEUE_DATABASE_URL goes before DATABASE_URL, and the option before both', async () => {
    const wrong = `postgres://postgres:${canary}@127.0.0.1:1/x`;
    const results = await Promise.all([
      cli(['status', '--json'], { env: { DATABASE_URL: own.url } }),
      cli(['status', '--json'], { env: { DATABASE_URL: wrong, PGQUEUE_DATABASE_URL: own.url } }),
      cli(['status', '--json', '--database-url', own.url], { env: { PGQUEUE_DATABASE_URL: wrong } }),
    ]);
    expect(results.map(({ code }) => code)).toEqual([0, 0, 0]);
  });
});

test('no password was in any output, also where the usage was wrong', async () => {
  const url = `postgres://postgres:${canary}@127.0.0.1:1/x`;
  const lines = [
    ['nonsense', url],
    ['status', url, '--database-url', url],
    ['status', `--database-url=${url}`, `--${canary}`],
    ['enqueue', 'hello', '--payload', url, '--database-url', url],
    ['migrate', '--database-url', url],
    ['scheduler', '--database-url', `${url}?application_name=x`, '--schema', url],
  ];
  for (const line of lines) expect((await parseCli(line)).code).not.toBe(0);
  expect(everythingSaid.join('')).toContain('***');
  expect(everythingSaid.join('')).not.toContain(canary);
});

test('a Node that is too old says so in a line, before anything is loaded that it lacks', async () => {
  const older = `data:text/javascript,${encodeURIComponent(
    `import nodeModule, { syncBuiltinESMExports } from 'node:module';
     Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.20.2' } });
     delete nodeModule.enableCompileCache; syncBuiltinESMExports();`,
  )}`;
  const env = { NODE_OPTIONS: `--import ${older}` };
  expect(await cli(['status', '--json'], { env })).toEqual({
    code: 78,
    stdout: '',
    stderr: expect.stringMatching(
      /^pgqueue: this is Node 20\.20\.2, and pgqueue needs Node 22\.12 or newer: .*\n$/,
    ),
  });
});
