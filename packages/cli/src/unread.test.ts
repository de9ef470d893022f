import { expect, test } from 'vitest';
import { whyNotImported, whyUnread } from './unread.ts';

test('a Node that runs no TypeScript is told from a module that fails', () => {
  const unknown = Object.assign(new TypeError('Unknown file extension ".ts" for /app/tasks.ts'), {
    code: 'ERR_UNKNOWN_FILE_EXTENSION',
  });
  expect(whyNotImported(unknown)).toBe(
    `can't be imported: TypeError: Unknown file extension ".ts" for /app/tasks.ts: Node ${process.version} does not run TypeScript: give the compiled file, or use Node 22.18 or newer`,
  );
  expect(whyNotImported(new RangeError('no'))).toBe("can't be imported: RangeError: no");
  expect(whyNotImported('odd')).toBe("can't be imported: odd");
});

test('a file that is not there is told without a code', () => {
  expect(
    whyUnread(Object.assign(new Error("ENOENT: no such file or directory, open 'x'"), { code: 'ENOENT' })),
  ).toBe('there is no such file');
  expect(whyUnread(new Error('EISDIR: is a directory'))).toBe('EISDIR: is a directory');
});
