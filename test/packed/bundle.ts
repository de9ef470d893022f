import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { root, run } from './tarballs.ts';

/** A program of the project that esbuild has bundled. */
export interface Bundle {
  /** Runs it with arguments; resolves to what it prints, as JSON. */
  readonly start: (...uses: readonly string[]) => Promise<unknown>;
}

/** Bundles `bundled.ts` of a project as a user would, into a folder of its own. */
export async function bundle(
  project: string,
  folder: string,
  { format, args, databaseUrl }: Bundling,
): Promise<Bundle> {
  const out = join(project, folder, 'out');
  const end = format === 'cjs' ? '.cjs' : '.js';
  const form = [`--format=${format}`, `--outdir=${out}`, `--out-extension:.js=${end}`];
  const common = ['bundled.ts', '--bundle', '--platform=node', '--log-level=error'];
  await run(esbuild(), [...common, ...form, ...args], project);
  const main = join(out, `bundled${end}`);
  return {
    start: async (...uses) => {
      const { stdout } = await run(process.execPath, [main, ...uses], project, { DATABASE_URL: databaseUrl });
      return JSON.parse(stdout) as unknown;
    },
  };
}

interface Bundling {
  readonly format: 'esm' | 'cjs';
  readonly args: readonly string[];
  readonly databaseUrl: string;
}

/** Returns the path of esbuild's command, which the site of the documentation brings. */
function esbuild(): string {
  let manifest = join(root, 'docs/package.json');
  for (const name of ['vitepress', 'vite', 'esbuild'])
    manifest = createRequire(manifest).resolve(`${name}/package.json`);
  return join(dirname(manifest), 'bin/esbuild');
}
