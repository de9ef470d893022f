import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { arch, cpus, release, totalmem, type } from 'node:os';
import { dirname, join } from 'node:path';

/** What a figure depends on beside the code. */
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

/** The version of an installed package; a package need not export its manifest. */
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

/** Of the repository that this file is in, and whether it holds changes beside; undefined where there is none. */
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
      '../../../migrations',
    );
    return `${git('rev-parse', '--short', 'HEAD')}${changed === '' ? '' : ' with changes'}`;
  } catch {
    return undefined;
  }
}
