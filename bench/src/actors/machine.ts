import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { arch, cpus, release, totalmem, type } from 'node:os';
import { dirname, join } from 'node:path';

/** Facts about the machine that the figures depend on. */
export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGiB: number;
  readonly system: string;
  readonly node: string;
}

export function thisMachine(): Machine {
  const all = cpus();
  return {
    cpu: all[0]?.model.trim() || 'unknown',
    cores: all.length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    system: `${type()} ${release()} ${arch()}`,
    node: process.version,
  };
}

/** Version of an installed package, read from its folder: a package need not export its manifest. */
export function versionOf(name: string): string {
  const own = createRequire(import.meta.url);
  for (const folder of own.resolve.paths(name) ?? []) {
    try {
      const text = readFileSync(join(folder, name, 'package.json'), 'utf8');
      const { version } = JSON.parse(text) as { readonly version: string };
      return version;
    } catch {
      continue;
    }
  }
  return `unknown (${dirname(own.resolve(name))})`;
}

/**
 * Commit of this file's repository, marked if there are uncommitted changes; undefined outside a repository.
 */
export function commitOf(): string | undefined {
  try {
    const git = (...args: readonly string[]): string =>
      execFileSync('git', args, { cwd: import.meta.dirname, encoding: 'utf8', stdio: 'pipe' }).trim();
    const changed = git(
      'status',
      '--porcelain',
      '--untracked-files=no',
      '--',
      '../..',
      '../../../packages',
      '../../../migrations',
    );
    return `${git('rev-parse', '--short', 'HEAD')}${changed === '' ? '' : ' with changes'}`;
  } catch {
    return undefined;
  }
}
