// Keeps folders small and arrows one way: no folder of a package's sources or of tests with more than 20 files, no circle of
// imports between files or between folders of a package, types included.
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { importedModules } from './check-boundaries.mjs';

const filesMax = 20;
/** Files that tests and the compiler leave behind. */
const generated = /(^|\/)(node_modules|dist|scratch|\.next)\/|\.tsbuildinfo$/;

/**
 * Breaches under `root`; empty when all is well.
 * @param {string} root
 */
export function roomProblems(root) {
  const packages = join(root, 'packages');
  const homes = readdirSync(packages)
    .flatMap((name) => ['src', 'sql', join('web', 'src')].map((part) => join(packages, name, part)))
    .concat(join(root, 'bench', 'src'))
    .filter((home) => existsSync(home));
  return [
    ...homes.flatMap((home) => [...crowds(root, home), ...circles(root, home)]),
    ...(existsSync(join(root, 'test')) ? crowds(root, join(root, 'test')) : []),
  ];
}

/** @param {string} root @param {string} home */
function crowds(root, home) {
  const files = filesIn(home).filter((file) => !generated.test(file));
  return [...Map.groupBy(files, (file) => relative(root, dirname(join(home, file))))]
    .filter(([, inside]) => inside.length > filesMax)
    .map(
      ([folder, inside]) =>
        `${folder}: ${inside.length} files, where ${filesMax} are the most: give one part and its tests a folder of their own`,
    );
}

/** @param {string} root @param {string} home */
function circles(root, home) {
  const code = filesIn(home).filter((file) => /\.tsx?$/.test(file) && !file.includes('.test.'));
  const known = new Set(code);
  /** @type {Map<string, Set<string>>} */
  const files = new Map();
  /** @type {Map<string, Set<string>>} */
  const folders = new Map();
  for (const file of code) {
    const path = join(home, file);
    const targets = importedModules(path, readFileSync(path, 'utf8'))
      .filter((specifier) => specifier.startsWith('.'))
      .map((specifier) => relative(home, resolve(dirname(path), specifier)))
      .filter((target) => known.has(target));
    files.set(file, new Set(targets));
    // what lies in no folder puts the folders together
    const own = dirname(file);
    if (own === '.') continue;
    const arrows = folders.get(own) ?? new Set();
    for (const target of targets)
      if (dirname(target) !== '.' && dirname(target) !== own) arrows.add(dirname(target));
    folders.set(own, arrows);
  }
  const where = relative(root, home);
  return [...strong(files), ...strong(folders)]
    .map((names) => `${where}: ${names.toSorted().join(', ')}`)
    .map((circle) => `${circle} import each other in a circle`);
}

/**
 * The groups of more than one that reach each other (Tarjan 1972).
 * @param {ReadonlyMap<string, ReadonlySet<string>>} graph
 */
function strong(graph) {
  /** @type {Map<string, { index: number, low: number, waits: boolean }>} */
  const seen = new Map();
  /** @type {string[]} */
  const stack = [];
  /** @type {string[][]} */
  const found = [];
  /** @param {string} name */
  const visit = (name) => {
    const own = { index: seen.size, low: seen.size, waits: true };
    seen.set(name, own);
    stack.push(name);
    for (const target of graph.get(name) ?? []) {
      const other = seen.get(target) ?? visit(target);
      if (other.waits) own.low = Math.min(own.low, other.low);
    }
    if (own.low === own.index) {
      const group = stack.splice(stack.indexOf(name));
      for (const member of group) {
        const of = seen.get(member);
        if (of !== undefined) of.waits = false;
      }
      if (group.length > 1) found.push(group);
    }
    return own;
  };
  for (const name of graph.keys()) if (!seen.has(name)) visit(name);
  return found;
}

/** @param {string} home */
function filesIn(home) {
  return readdirSync(home, { recursive: true, encoding: 'utf8', withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(home, join(entry.parentPath, entry.name)));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const problems = roomProblems(resolve(fileURLToPath(import.meta.url), '../..'));
  for (const problem of problems) console.error(problem);
  process.exitCode = problems.length === 0 ? 0 : 1;
}
