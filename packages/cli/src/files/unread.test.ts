import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { whyNotImported, whyUnread } from './unread.ts';

test('a Node that runs no TypeScript is told from a module that fails', () => {
  const unknown = Object.assign(new TypeError('Unknown file extension ".ts" for /app/tasks.ts'), {
    code: 'ERR_UNKNOWN_FILE_EXTENSION',
  });
  expect(whyNotImported(unknown, '/app/tasks.ts')).toBe(
    `can't be imported: TypeError: Unknown file extension ".ts" for /app/tasks.ts: Node ${process.version} does not run TypeScript: give the compiled file, or use Node 22.18 or newer`,
  );
  expect(whyNotImported(new RangeError('no'), 'x')).toBe("can't be imported: RangeError: no");
  expect(whyNotImported('odd', 'x')).toBe("can't be imported: odd");
});

test('a file that is not there is told without a code', () => {
  expect(
    whyUnread(Object.assign(new Error("ENOENT: no such file or directory, open 'x'"), { code: 'ENOENT' })),
  ).toBe('there is no such file');
  expect(whyUnread(new Error('EISDIR: is a directory'))).toBe('EISDIR: is a directory');
});

test('a syntax error is told with its file and line, also where it is in a module that is imported; nothing is run for it', () => {
  const folder = mkdtempSync(join(tmpdir(), 'pgqueue unread ä-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const write = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  const broken = write('broken.mjs', 'export const a = 1;\nexport const b = { c: 1 2 };\n');
  const importing = write('importing.mjs', `import './broken.mjs';`);
  const running = write(
    'running.mjs',
    `import { writeFileSync } from 'node:fs'; writeFileSync(new URL('ran', import.meta.url), ''); await import('./broken.mjs');`,
  );
  const error = new SyntaxError('Unexpected number');
  const says = "can't be imported: SyntaxError: Unexpected number";
  expect(whyNotImported(error, broken)).toBe(`${says} (${broken}:2)`);
  expect(whyNotImported(error, importing)).toBe(`${says} (${broken}:2)`);
  expect(whyNotImported(error, running)).toBe(says);
  expect(existsSync(join(folder, 'ran'))).toBe(false);
  error.stack = `/app/tasks.ts:7\nenum X {}\n^^^^\n\n${error.stack}`;
  expect(whyNotImported(error, '/app/other.ts')).toBe(`${says} (/app/tasks.ts:7)`);
});
