import { expect, test } from 'vitest';
import { age, brief, oneLine, percent, plainJson, plural, printable, printableWithColors } from './format.ts';
import { createOutput } from './output.ts';
import { redactedJson, redactor } from './redact.ts';
import { facts, table } from './table.ts';

test.each([
  [null, '-'],
  [0, '0ms'],
  [412.4, '412ms'],
  [59_999, '59s'],
  [192_000, '3m 12s'],
  [180_000, '3m'],
  [7_260_000, '2h 1m'],
  [86_400_000 + 4 * 3_600_000, '1d 4h'],
  [604_800_000, '7d'],
  [-2_000, '-2s'],
])('an age of %s ms is %s', (ms, text) => {
  expect(age(ms)).toBe(text);
});

test('what came from a job can not steer the terminal', () => {
  expect(printable('a\u001b[31mb\u0007\u009b\tc\n')).toBe('a\\x1b[31mb\\x07\\x9b\tc\n');
  expect(oneLine('a\r\nb\tc\u001b\u2028')).toBe('a\\r\\nb\\tc\\x1b\\u2028');
  expect(brief('one\n  two', 10)).toBe('one two');
  expect(brief('x'.repeat(20), 5)).toBe('xxxx…');
  expect([percent(null), percent(0.126), plural(1, 'job'), plural(2, 'job')]).toEqual([
    '-',
    '13%',
    '1 job',
    '2 jobs',
  ]);
});

test('passwords go out of connection strings, whatever is in them', () => {
  const redact = redactor('postgres://app:p%40ss%2Fw0rd@db.example:5432/app');
  expect(redact('at postgres://app:p%40ss%2Fw0rd@db.example:5432/app failed')).toBe(
    'at postgres://app:***@db.example:5432/app failed',
  );
  expect(redact('postgresql://u:a:b@c@host/x')).toBe('postgresql://u:***@host/x');
  expect(redact('?password=hunter2&x=1')).toBe('?password=***&x=1');
  expect(redact('it was p@ss/w0rd, or p%40ss%2Fw0rd')).toBe('it was ***, or ***');
  expect(redactor('postgres://postgres:postgres@h/postgres')('the postgres user')).toBe('the postgres user');
  expect(redactor('postgres://app:hunter22@/app?host=/dir')('as hunter22')).toBe('as ***');
  expect(redactor('no url')('https://example.org:80/@x')).toBe('https://example.org:80/@x');
});

test('JSON without its passwords is still JSON, and the rest of its texts stays', () => {
  const redact = redactor('postgres://app:nightly-secret@db.example/app');
  const clean = (value: unknown): unknown =>
    JSON.parse(redactedJson(JSON.stringify(value), { redact })) as unknown;
  expect(
    clean({
      message: 'GET "https://api.example/?user=a&password=b" answered 500',
      list: ['password=', 'password=a\\', 'password=x\nnext', 'C:\\nightly-secret', 1.5, null],
      'postgres://u:pw@h/d': true,
    }),
  ).toEqual({
    message: 'GET "https://api.example/?user=a&password=***" answered 500',
    list: ['password=', 'password=***', 'password=***\nnext', 'C:\\***', 1.5, null],
    'postgres://u:***@h/d': true,
  });
  const untouched = '{"a": [1, 1.0], "b": "\u2028"}';
  expect(redactedJson(untouched, { redact })).toBe(untouched);
});

test('tables are plain for pipes, and drawn for terminals', () => {
  const rows = [
    ['a', 1],
    ['long', null],
  ];
  expect(table(['name', 'n'], rows, { lines: false })).toBe('NAME  N\na     1\nlong  -');
  expect(table(['name'], [['two\nlines'], ['b']], { lines: false })).toBe('NAME\ntwo\\nlines\nb');
  expect(facts([['name', 'two\nlines']])).toBe('name  two\\nlines');
  expect(table(['name', 'n'], rows, { lines: true })).toContain('│');
  expect(
    facts([
      ['a', 1],
      ['bcd', null],
    ]),
  ).toBe('a    1\nbcd  -');
});

test('progress is shown on a terminal, and wiped before anything else is said; elsewhere only where lines are asked for', () => {
  const said = (isTTY: boolean, options?: { readonly lines: boolean }): string => {
    let text = '';
    const stream = { isTTY, write: (chunk: string) => ((text += chunk), true) };
    const streams = { stdout: stream, stderr: stream } as unknown as Parameters<
      typeof createOutput
    >[0]['streams'];
    const output = createOutput({ json: false, lines: false, redact: (line) => line, streams });
    output.progress('1 of 2', options);
    output.answer({}, () => 'done');
    output.answer({}, () => 'again');
    return text;
  };
  expect(said(true)).toBe('\r\u001b[K1 of 2\r\u001b[Kdone\nagain\n');
  expect(said(true, { lines: true })).toBe(said(true));
  expect(said(false)).toBe('done\nagain\n');
  expect(said(false, { lines: true })).toBe('1 of 2\ndone\nagain\n');
});

test('what turns the direction of a text is shown, not done', () => {
  expect(printable('a\u202etxt.exe\u2066')).toBe('a\\u202etxt.exe\\u2066');
  expect(oneLine('a\u200fb')).toBe('a\\u200fb');
});

test('of a drawn table the colours stay, and nothing else that steers', () => {
  const bold = '\u001b[1mid\u001b[22m';
  expect(printableWithColors(`${bold} a\u001b[2Jb\u001b]0;x\u0007`)).toBe(`${bold} a\\x1b[2Jb\\x1b]0;x\\x07`);
});

test('JSON without control characters is the same JSON', () => {
  const value = { 'a\u009b': 'b\u202ec\u2028\u007f', d: ['\u001b', '\n'] };
  const text = plainJson(JSON.stringify(value));
  expect(text).not.toMatch(/[^\u0020-\u007e]/);
  expect(JSON.parse(text)).toEqual(value);
});
