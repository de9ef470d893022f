import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';

export const root: string = fileURLToPath(new URL('../..', import.meta.url));
export const packages = [
  'core',
  'postgres',
  'telemetry',
  'producer',
  'scheduler',
  'worker',
  'pgqueue',
  'router',
  'lab',
  'dashboard',
  'cli',
  'testing',
] as const;

/** One published package: its archive, and the files in it. */
export interface Tarball {
  readonly name: string;
  readonly file: string;
  /** Folder into which the archive is unpacked. */
  readonly folder: string;
  /** Paths of all its files, sorted. */
  readonly files: readonly string[];
  readonly manifest: Manifest;
}

export interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly repository?: unknown;
  readonly exports: Readonly<Record<string, string | Readonly<Record<string, string>>>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}

/** Packs all packages as a release does, one after the other, because they build each other. */
export async function packAll(into: string): Promise<readonly Tarball[]> {
  const tarballs: Tarball[] = [];
  for (const name of packages) {
    const pack = ['pack', '--json', '--pack-destination', into];
    const { stdout } = await run('pnpm', pack, join(root, 'packages', name));
    const { filename } = JSON.parse(stdout.slice(stdout.indexOf('{'))) as { readonly filename: string };
    const target = join(into, name);
    mkdirSync(target);
    await run('tar', ['-xzf', filename, '-C', target], into);
    tarballs.push(read(filename, join(target, 'package')));
  }
  return tarballs;
}

function read(file: string, folder: string): Tarball {
  const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest;
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => statSync(join(folder, name)).isFile())
    .toSorted();
  return { name: manifest.name, file, folder, files, manifest };
}

/**
 * Returns the problems that publint finds in a tarball, and those of its types under every way of resolving
 * modules.
 */
export async function tarballProblems({ name, file, folder, manifest }: Tarball): Promise<readonly string[]> {
  const archive = readFileSync(file);
  const tarball = archive.buffer.slice(archive.byteOffset, archive.byteOffset + archive.byteLength);
  const { messages } = await publint({ pack: { tarball }, strict: true });
  const said = messages
    .filter(({ code }) => code !== 'USE_TYPE')
    .map((message) => formatMessage(message, manifest, { color: false }) ?? message.code);
  try {
    // the profile leaves out resolvers that can't read ESM; any other problem ends the command with 1
    const { stdout } = await run('attw', [file, '--profile', 'esm-only'], folder);
    return stdout.includes(`"${name}"`) ? said : [...said, `attw did not look at it: ${stdout}`];
  } catch (error) {
    return [...said, String(error)];
  }
}

/** Returns every specifier that a user can import. */
export function entryPoints(tarballs: readonly Tarball[]): readonly string[] {
  return tarballs.flatMap(({ name, manifest }) =>
    Object.entries(manifest.exports)
      .filter(([, target]) => typeof target === 'object')
      .map(([subpath]) => join(name, subpath)),
  );
}

/**
 * Runs a command with this Node and the repository's tools first on its path. Rejects with the complete
 * output.
 */
export async function run(
  command: string,
  args: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string>> = {},
): Promise<{ readonly stdout: string; readonly stderr: string }> {
  const tools = [dirname(process.execPath), join(root, 'node_modules/.bin'), process.env['PATH']];
  try {
    return await promisify(execFile)(command, args, {
      cwd,
      env: { ...ownEnvironment(), PATH: tools.join(delimiter), ...env },
      maxBuffer: 64 * 1024 * 1024,
    });
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { readonly stdout?: string; readonly stderr?: string };
    throw new Error(`${command} ${args.join(' ')} failed\n${stdout}\n${stderr}`, { cause: error });
  }
}

/**
 * Returns the environment without the variables that an outer `npm run` sets for this repository: an inner
 * npm would use them.
 */
function ownEnvironment(): NodeJS.ProcessEnv {
  const foreign =
    /^(?:npm_(?:package|lifecycle|command|execpath|config_local_prefix)|INIT_CWD|NODE_OPTIONS|VITEST)/;
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !foreign.test(name)));
}
