import { fileURLToPath } from 'node:url';
import { beforeEach, expect, test } from 'vitest';
import { parseCli } from '../../support/cli.ts';
import type { CliResult } from '../../support/cli.ts';
import { useDatabase } from '../../support/database.ts';

const own = useDatabase();
const { reset, run, sql } = own;
beforeEach(reset);

const module = (name: string): string =>
  fileURLToPath(new URL(`../../support/modules/${name}`, import.meta.url));
const older = module('codec-a.ts');
const newer = module('codec-b.ts');
const pgqueue = (...args: readonly string[]): Promise<CliResult> =>
  parseCli([...args, '--database-url', own.url]);

test('a payload is encrypted, shown to whoever has its key, and rewrapped', async () => {
  const payload = JSON.stringify({ to: 'canary' });
  const { code, stdout } = await pgqueue('enqueue', 'hello', '--payload', payload, '--codec', older);
  expect(code).toBe(0);
  const id = stdout.split(' ')[0] ?? '';
  const [row] = await sql('select payload::text from pgqueue.queue');
  expect(String(row?.['payload'])).not.toContain('canary');
  expect((await pgqueue('jobs', 'show', id)).stdout).not.toContain('canary');
  for (const file of [older, newer])
    expect((await pgqueue('jobs', 'show', id, '--codec', file)).stdout).toContain('canary');

  const token = await run('killer', [id]);
  await sql(
    `select from pgqueue.settle(array[$1::uuid], array[$2::uuid], array['dead'], array[0::float8], array['{"message": "no"}'])`,
    [id, token],
  );
  const rewrapped = await pgqueue('dead', 'rewrap', '--all', '--codec', newer);
  expect(rewrapped).toMatchObject({ code: 0, stdout: '1 job rewrapped\n' });
  expect(await sql(`select split_part(payload ->> '$enc', ':', 2) as key from pgqueue.dead_letter`)).toEqual([
    { key: 'b' },
  ]);
  expect(await pgqueue('dead', 'rewrap', id, '--codec', newer, '--json')).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('"current": 1') as string,
  });
  const lacking = await pgqueue('dead', 'rewrap', '--all', '--codec', older);
  expect(lacking.code).toBe(1);
  expect(lacking.stdout).toMatch(
    /^0 jobs rewrapped, 1 can't be decrypted:\nthe payload of job .* is encrypted under the key "b"/,
  );
});

test.each([
  [['--codec', module('nothing.ts')], 78, 'there is no such file'],
  [['--codec', module('cli-tasks.ts')], 78, 'exports no codec'],
  [['--codec', 'keys.json'], 78, 'is no module'],
  [[], 78, 'this operator has no codec'],
])('dead rewrap %j exits with %i', async (args, code, message) => {
  const result = await pgqueue('dead', 'rewrap', '--all', ...args);
  expect(result).toMatchObject({ code, stderr: expect.stringContaining(message) as string });
});
