// Hostile texts in every argument and option of the command line, which are listed from the command's own
// definition, and hostile files. Each command must end with an exit code and a message, without a stack trace
// or characters that control the reader's terminal.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { breaches } from '@pgqueue/postgres/internal';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { buildProgram } from '../../../packages/cli/src/program.ts';
import { everythingSaid, parseCli } from '../../support/cli.ts';
import type { CliResult } from '../../support/cli.ts';
import { useDatabase } from '../../support/database.ts';
import { hostileTexts, marker, named } from '../../support/hostile.ts';

type Command = ReturnType<typeof buildProgram>;
const job = '00000000-0000-7000-8000-000000000001';
/** One text of each kind; the packages' own tests try the others. */
const kinds = [/^$/, /drop table/, /\ud800/, /\u202e/, /title/, /\r\n/, /hunter2/, /^x{9}/];
const texts = kinds
  .map((kind) => hostileTexts.find((text) => kind.test(text)) ?? '')
  .map((text) => text.slice(0, 5_000));

/** Valid values of arguments and required options, used while another one is hostile. */
const good: Readonly<Record<string, string>> = {
  job,
  '--cron': '* * * * *',
  '--task': 'hello',
  '--tasks': 'nowhere.ts',
};
/** Options that are not tried, because their command writes the file or makes the folder. */
const writes = ['simulate --html', 'dev --data'];
/** Commands that run until they are told to stop; with a schema that does not exist they don't start. */
const lasting = new Set(['scheduler', 'worker', 'dev', 'dashboard']);

interface Input {
  readonly path: readonly string[];
  readonly name: string;
  /** Returns the command line with the text in that place. */
  readonly line: (text: string) => readonly string[];
}

/** Returns every place of a command line that takes a text. */
function inputs(command: Command, path: readonly string[] = []): readonly Input[] {
  const below = command.commands.flatMap((one) => inputs(one, [...path, one.name()]));
  if (command.commands.length > 0) return below;
  const usual = command.registeredArguments.map((argument) => good[argument.name()] ?? 'a');
  const required = command.options
    .filter(({ mandatory }) => mandatory)
    .flatMap(({ long }) => [long ?? '', good[long ?? ''] ?? 'a']);
  const elsewhere = lasting.has(path[0] ?? '') ? ['--schema', 'nowhere'] : [];
  const rest = [...required, ...elsewhere];
  return [
    ...below,
    ...command.registeredArguments.map((argument, index) => ({
      path,
      name: `<${argument.name()}>`,
      line: (text: string) => [...path, ...rest, '--', ...usual.with(index, text)],
    })),
    ...command.options
      .filter((option) => option.required || option.optional)
      .map(({ long = '' }) => ({
        path,
        name: long,
        line: (text: string) => [...path, ...usual, ...rest, `${long}=${text}`],
      })),
  ];
}

const all = inputs(buildProgram((text) => text)).filter(
  ({ path, name }) => !writes.includes([...path, name].join(' ')),
);

const own = useDatabase();
const { database } = own;
const folder = mkdtempSync(join(tmpdir(), 'pgqueue-hostile-'));

afterAll(() => rmSync(folder, { recursive: true }));

// oxlint-disable-next-line no-control-regex -- control characters are what this is about
const steering = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/;
const broken = /\n\s+at |TypeError|RangeError|ReferenceError|\[object Object\]|syntax error at|hunter2/;

/** Returns a problem of a command's answer; undefined if there is none. */
async function oddly(line: readonly string[]): Promise<string | undefined> {
  return judge(await parseCli(line));
}

function judge({ code, stdout, stderr }: CliResult): string | undefined {
  const output = stdout + stderr;
  const found = steering.exec(output) ?? broken.exec(output);
  if (found !== null) return `${JSON.stringify(found[0])} in ${JSON.stringify(output.slice(0, 300))}`;
  if (![0, 1, 2, 78].includes(code ?? -1)) return `code ${code}`;
  return code !== 0 && output === '' ? `code ${code} without a word` : undefined;
}

test.each([
  ['a control character', { stdout: 'queue \u001b[2J is paused' }],
  ['a turned direction', { stderr: 'a\u202eb' }],
  ['a stack', { stderr: 'Error: no\n    at main.ts:1:1' }],
  ['a slip of ours', { stderr: 'TypeError: x is not a function' }],
  ['SQL that was put together', { stderr: 'syntax error at or near "drop"' }],
  ['a password', { stdout: 'queue postgres://user:hunter2-hunter2@host/db is paused' }],
  ['a crash', { code: 134 }],
  ['silence', { code: 1, stderr: '' }],
])('%s is found', (_what, result) => {
  expect(judge({ code: 0, stdout: 'queue a is paused', stderr: '' })).toBeUndefined();
  expect(judge({ code: 1, stdout: '', stderr: 'pgqueue: no', ...result })).toBeDefined();
});

test('there is much to try', () => {
  expect(all.length).toBeGreaterThan(80);
  expect(new Set(texts).size).toBe(kinds.length);
});

const commands = [...new Set(all.map(({ path }) => path.join(' ')))];
test.each(commands)('%s', async (command) => {
  const odd: string[] = [];
  for (const { path, name, line } of all) {
    if (path.join(' ') !== command) continue;
    for (const text of texts) {
      const answer = await oddly(command.startsWith('simulate') ? line(text) : addDatabase(line(text)));
      if (answer !== undefined) odd.push(`${name} ${named(text)}: ${answer}`);
    }
  }
  expect(odd).toEqual([]);
});

/** Adds the option of the database, before `--` if there is one. */
function addDatabase(line: readonly string[]): readonly string[] {
  const at = line.indexOf('--');
  const option = `--database-url=${own.url}`;
  return at < 0 ? [...line, option] : [...line.slice(0, at), option, ...line.slice(at)];
}

describe('files', () => {
  const modules: Readonly<Record<string, string>> = {
    'throws.mjs': `throw Object.assign(new Error('\\u001b[2J\\u202e'), { toString() { throw 1 } });`,
    'null.mjs': 'throw null;',
    'syntax.mjs': `export const \u202e = ${marker}`,
    'proxy.mjs': `export const tasks = new Proxy([], { get() { throw new Error('no') } }); export const policy = tasks;`,
    'revoked.mjs':
      'const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); export const policy = proxy; export const task = proxy;',
    'names.mjs': `const a = 1; export { a as '\\u001b[2J', a as '__proto__', a as 'x\\r\\ny' };`,
    'numbers.mjs':
      'export const tasks = [1, null, undefined, Symbol(), { kind: "pgqueue.handler" }]; export const policy = 1;',
    'binary.mjs': '\u0000\u0001\ufffd',
    'empty.mjs': '',
    'none.txt': '',
    '..': '',
  };
  const workloads: Readonly<Record<string, string>> = {
    'empty.json': '',
    'text.json': '"a"',
    'null.json': 'null',
    'proto.json': '{"jobs": [{"__proto__": {"at": 1}, "constructor": 1}], "__proto__": {"a": 1}}',
    'nested.json': `{"jobs": ${'['.repeat(20_000)}${']'.repeat(20_000)}}`,
    'jobs.json':
      '{"jobs": [null, 1, "a", [], {"at": "\\u001b[2J"}, {"at": 1e400}, {"at": -1, "runMs": null}]}',
    'numbers.json': '{"jobs": [{"at": 0, "runMs": 1e308, "key": "\\u202e"}], "fleet": [{"slots": 1e9}]}',
    'binary.swf': '\u0000\ufffd\u001b',
    'words.swf': `; MaxJobs: ${'9'.repeat(400)}\n1 2 3\na b c d e f g h i j k l m n o p q r`,
    'numbers.swf': `${'1e308 '.repeat(18)}\n${'-1 '.repeat(18)}\n${'NaN '.repeat(18)}`,
  };

  test.each([
    ['worker', '--tasks', modules],
    ['simulate --workload=jobs.json', '--policy', modules],
    ['simulate', '--workload', workloads],
  ])('%s %s', async (command, option, contents) => {
    const here = join(folder, option);
    mkdirSync(here);
    const odd: string[] = [];
    for (const [name, content] of Object.entries(contents)) {
      if (name !== '..') writeFileSync(join(here, name), content);
      const line = [...command.split(' '), `${option}=${join(here, name)}`, '--schema=nowhere'];
      const answer = await oddly(line.map((word) => word.replace('jobs.json', join(folder, 'jobs.json'))));
      if (answer !== undefined) odd.push(`${name}: ${answer}`);
    }
    expect(odd).toEqual([]);
  });

  beforeAll(() => {
    writeFileSync(join(folder, 'jobs.json'), JSON.stringify({ jobs: [{ at: 0, runMs: 1 }] }));
  });
});

test('nothing is broken after all of that', async () => {
  expect((await breaches(database)).filter(({ count }) => count > 0)).toEqual([]);
  expect((await database.query('select from pgqueue.queue', [])).length).toBeGreaterThan(5);
  expect(everythingSaid.join('').length).toBeGreaterThan(10_000);
  expect(({} as Record<string, unknown>)['a']).toBeUndefined();
});
