// The API reference, generated from the docstrings of every public entry point:
// node docs/api-reference.mjs [--check]
// writes docs/api; `--check` only reports whether docs/api is up to date. In both modes, a public name
// without
// a docstring and a broken link in a docstring are errors.
import { cpSync, existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Application, LogLevel, ReflectionKind } from 'typedoc';

const root = fileURLToPath(new URL('..', import.meta.url));
const committed = join(root, 'docs/api');
/** In the order in which a reader meets them. */
const folders = [
  'pgqueue',
  'core',
  'producer',
  'scheduler',
  'worker',
  'router',
  'telemetry',
  'lab',
  'dashboard',
  'cli',
  'postgres',
  'testing',
];

const types = [ReflectionKind.Interface, ReflectionKind.TypeAlias];

/** @satisfies {import('typedoc').TypeDocOptions} */
const options = {
  plugin: [fileURLToPath(import.meta.resolve('typedoc-plugin-markdown'))],
  tsconfig: join(root, 'docs/tsconfig.api.json'),
  basePath: root,
  readme: 'none',
  disableGit: true,
  disableSources: true,
  excludePrivate: true,
  excludeInternal: true,
  excludeExternals: true,
  logLevel: LogLevel.Warn,
  sort: ['kind', 'alphabetical'],
  validation: { notExported: true, invalidLink: true },
};

/** One page an entry point, members of interfaces and options as tables. */
const markdown = {
  outputFileStrategy: 'modules',
  flattenOutputFiles: true,
  excludeScopesInPaths: true,
  hideBreadcrumbs: true,
  hidePageHeader: true,
  useCodeBlocks: true,
  expandObjects: true,
  parametersFormat: 'table',
  interfacePropertiesFormat: 'table',
  classPropertiesFormat: 'table',
  typeAliasPropertiesFormat: 'table',
  propertyMembersFormat: 'table',
  typeDeclarationFormat: 'table',
};

/**
 * Returns the public entry points: the name that a user imports, its source file, and the description of its
 * package. Leaves out `./internal`, which only pgqueue's own packages use.
 */
function entryPoints() {
  return folders.flatMap((folder) => {
    const home = join(root, 'packages', folder);
    const { name, description, exports } = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8'));
    return Object.entries(exports).flatMap(([subpath, target]) => {
      const source = target['@pgqueue/source'];
      return source === undefined || subpath.startsWith('./internal')
        ? []
        : [{ name: join(name, subpath), source: join(home, source), description }];
    });
  });
}

/**
 * Writes all pages into an empty folder. Returns the number of problems, which the logger has printed.
 * @param {string} out
 */
async function generate(out) {
  const entries = entryPoints();
  const app = await Application.bootstrapWithPlugins({
    ...options,
    ...markdown,
    entryPoints: entries.map(({ source }) => source),
    outputs: [{ name: 'markdown', path: out }],
  });
  const points = app.getEntryPoints() ?? [];
  for (const point of points) {
    const entry = entries.find(({ source }) => source === point.sourceFile.fileName);
    point.displayName = entry?.name ?? point.displayName;
  }
  const project = app.converter.convert(points);
  app.validate(project);
  for (const name of undocumented(project)) app.logger.warn(`${name} has no docstring`);
  await app.generateOutputs(project);
  writeFileSync(join(out, 'README.md'), index(entries, project));
  return app.logger.errorCount + app.logger.warningCount;
}

/**
 * Returns the exported names without a docstring. Members may go without one, so typedoc's own check does not
 * fit.
 * @param {import('typedoc').ProjectReflection} project
 */
function undocumented(project) {
  const exported = (project.children ?? []).flatMap((module) => module.children ?? []);
  return exported
    .filter((name) => !name.isReference())
    .filter((name) => ![name, ...(name.signatures ?? [])].some((part) => part.hasComment()))
    .map((name) => name.getFriendlyFullName());
}

/**
 * Returns the page that lists the others: each package with its description, and the exports of its further
 * entry points.
 * @param {ReturnType<typeof entryPoints>} entries
 * @param {import('typedoc').ProjectReflection} project
 */
function index(entries, project) {
  const rows = entries.map(({ name, description }) => {
    const page = `${name.replace('@pgqueue/', '').replaceAll('/', '.')}.md`;
    const module = project.children?.find((child) => child.name === name);
    const values = module?.children
      ?.filter((child) => !(child.isReference() ? child.getTargetReflectionDeep() : child).kindOf(types))
      .map((child) => `\`${child.name}\``);
    return `| [${name}](${page}) | ${name.split('/').length > 2 ? (values?.join(', ') ?? '') : description} |`;
  });
  return `# API reference

Written by \`npm run docs:api\` from the docstrings of the sources: do not edit. One page for each entry point.
What packages export under \`./internal\` is for each other: it is not described here, and any release may change it.

| import | what it is |
| --- | --- |
${rows.join('\n')}
`;
}

/** @param {string} folder */
function pages(folder) {
  const names = existsSync(folder) ? readdirSync(folder) : [];
  return new Map(names.map((name) => [name, readFileSync(join(folder, name), 'utf8')]));
}

const scratch = mkdtempSync(join(tmpdir(), 'pgqueue-api-'));
try {
  const problems = await generate(scratch);
  const [now, then] = [pages(scratch), pages(committed)];
  const stale = [...new Set([...now.keys(), ...then.keys()])].filter(
    (name) => now.get(name) !== then.get(name),
  );
  if (process.argv.includes('--check')) {
    for (const name of stale) console.error(`docs/api/${name} is stale: run \`npm run docs:api\``);
    process.exitCode = problems + stale.length === 0 ? 0 : 1;
  } else {
    rmSync(committed, { recursive: true, force: true });
    cpSync(scratch, committed, { recursive: true });
    console.log(`docs/api: ${now.size} pages, ${stale.length} changed`);
    process.exitCode = problems === 0 ? 0 : 1;
  }
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
