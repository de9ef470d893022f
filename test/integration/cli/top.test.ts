import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, expect, test } from 'vitest';
import { cli } from '../../support/cli.ts';
import { useDatabase } from '../../support/database.ts';
import { lacks } from '../../support/tools.ts';

const own = useDatabase({ connectionsMax: 1 });
const { insert, run, sql } = own;

beforeAll(async () => {
  await run('n', [await insert({ queue: 'mail', key: 'acme' })]);
  await sql(`update pgqueue.work_queue set started = started - interval '90 seconds'`);
  await insert({ queue: 'mail', key: 'globex' });
  for (const name of ['a', 'b', 'c', 'd', 'old'])
    await sql('select pgqueue.start_flow($1::jsonb)', [
      JSON.stringify({ name, steps: [{ name: 'ok', kind: 'signal' }] }),
    ]);
  await sql(`update pgqueue.flow set created = created - interval '2 hours' where name = 'a'`);
  await sql(`update pgqueue.flow set state = 'done', ended = now() where name = 'c'`);
  await sql(`update pgqueue.flow set state = 'failed', ended = now() - interval '4 min' where name = 'd'`);
  await sql(`update pgqueue.flow set state = 'failed', ended = now() - interval '6 min' where name = 'old'`);
});

test('once: queues, keys, what runs and where, for people and for programs', async () => {
  const [people, program] = await Promise.all([
    cli(['top', '--once', '--database-url', own.url]),
    cli(['top', '--json', '--database-url', own.url]),
  ]);
  expect([people.code, program.code]).toEqual([0, 0]);
  expect(people.stdout).toMatch(/^s leads \(epoch 1\) +nodes 1 alive +slots 1\/2/);
  expect(people.stdout).toMatch(/^flows 2 open, the oldest 2h( \d+s)? old; in 5m: 1 done, 1 failed$/m);
  expect(people.stdout).toMatch(/^mail +1 +0 +1 /m);
  expect(people.stdout).toMatch(/^acme +mail +0 +0 +1 +100%/m);
  expect(people.stdout).toMatch(/^hello +acme .* n +\d+m( \d+s)?/m);
  expect(people.stdout).toMatch(/^n +alive +default +1\/2/m);
  expect(people.stdout).not.toContain('\u001b');
  expect(JSON.parse(program.stdout)).toMatchObject({
    totals: { pending: 1, running: 1, exact: true },
    flows: { open: 2, more: false, done5m: 1, failed5m: 1, cancelled5m: 0, more5m: false },
    keys: [
      { queue: 'mail', key: 'acme', running: 1, exact: true },
      { queue: 'mail', key: 'globex', pending: 1 },
    ],
    slowest: [{ task: 'hello', key: 'acme', node: 'n', tries: 0 }],
    everyNode: [{ id: 'n', state: 'alive' }],
  });
});

const main = fileURLToPath(new URL('../../../packages/cli/src/main.ts', import.meta.url));

test.skipIf(lacks('script'))(
  'live in a terminal: drawn anew until q, and the screen given back',
  async () => {
    // the key comes when it has drawn something
    const { stdout } = await promisify(execFile)(
      'sh',
      [
        '-c',
        `(while ! grep -q "leads" "$OUT" 2>/dev/null; do sleep 0.1; done; printf q) | timeout 60 script -qefc "stty cols 80 rows 24; $NODE --conditions=@pgqueue/source $MAIN top --interval 500ms" "$OUT"; echo "ended $?"; rm -f "$OUT"`,
      ],
      {
        env: {
          ...process.env,
          NODE: process.execPath,
          MAIN: main,
          OUT: `/tmp/${own.test.name}.typescript`,
          PGQUEUE_DATABASE_URL: own.url,
          TERM: 'xterm',
        },
      },
    );
    expect(stdout).toContain('\u001b[?1049h');
    expect(stdout).toContain('s leads (epoch 1)');
    expect(stdout.lastIndexOf('\u001b[?1049l')).toBeGreaterThan(stdout.indexOf('s leads'));
    expect(stdout).toContain('ended 0');
  },
);

test.skipIf(lacks('script'))('a terminal that tells no size shows flows and numbers whole', async () => {
  const { stdout } = await promisify(execFile)(
    'sh',
    [
      '-c',
      'script -qefc "stty cols 0 rows 0; $NODE --conditions=@pgqueue/source $MAIN flows list; $NODE --conditions=@pgqueue/source $MAIN top --once" /dev/null </dev/null',
    ],
    { env: { ...process.env, NODE: process.execPath, MAIN: main, PGQUEUE_DATABASE_URL: own.url } },
  );
  const lines = stdout.split(/\r?\n/);
  expect(lines).toContainEqual(expect.stringMatching(/^[\da-f-]{36} +failed .* d$/));
  expect(lines).toContainEqual(expect.stringMatching(/^s leads \(epoch 1\) +nodes 1 alive/));
});
