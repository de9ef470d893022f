// An earlier version of pgqueue out of the repository's own history, beside this one.
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, realpathSync, symlinkSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../..', import.meta.url));

/**
 * The commit before the one that added a file; undefined where the history is not there (a shallow clone, an unpacked archive), which
 * CI's is.
 */
export function earlierCommit(path: string): string | undefined {
  try {
    const added = git('log', '--diff-filter=A', '--format=%H', '--', path).split('\n').at(-1) ?? '';
    if (added === '') throw new Error(`no commit adds ${path}`);
    return git('rev-parse', '--verify', '--quiet', `${added}^`);
  } catch (error) {
    if (process.env['CI'] !== undefined) throw error;
    console.warn(`skipped: the repository's history before ${path} is not here`);
    return undefined;
  }
}

function git(...args: readonly string[]): string {
  return execFileSync('git', args, {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  }).trim();
}

/**
 * Puts the packages and migrations of a commit into an empty folder, with the dependencies that are installed here: they are links to
 * the present ones, which is what an upgrade of everything but pgqueue would give.
 */
export function materialise(commit: string, folder: string): void {
  const parts = ['packages', 'migrations', 'package.json'];
  const archive = execFileSync('git', ['archive', '--format=tar', commit, ...parts], {
    cwd: root,
    maxBuffer: 1e9,
  });
  execFileSync('tar', ['-x', '-C', folder], { input: archive });
  linkModules(root, folder, folder);
  for (const name of readdirSync(join(folder, 'packages'))) {
    linkModules(join(root, 'packages', name), join(folder, 'packages', name), folder);
  }
}

/** The modules of `from` in `to`; pgqueue's own are those of `base`. */
function linkModules(from: string, to: string, base: string): void {
  const modules = join(from, 'node_modules');
  for (const name of entries(modules)) {
    mkdirSync(join(to, 'node_modules', name, '..'), { recursive: true });
    const own = name.startsWith('@pgqueue/');
    const target = own ? join(base, 'packages', basename(name)) : realpathSync(join(modules, name));
    symlinkSync(target, join(to, 'node_modules', name));
  }
}

/** Names of packages, with their scopes. */
function entries(modules: string): readonly string[] {
  try {
    return readdirSync(modules)
      .filter((name) => !name.startsWith('.'))
      .flatMap((name) =>
        name.startsWith('@') ? readdirSync(join(modules, name)).map((one) => `${name}/${one}`) : [name],
      );
  } catch {
    return []; // a package without dependencies
  }
}
