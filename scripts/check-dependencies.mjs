// Rules about dependencies: exact versions with a reason in the catalog, nothing but `catalog:` and
// `workspace:` in manifests, no registry address in the lockfile.
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const sections = ['dependencies', 'devDependencies', 'peerDependencies', 'optionalDependencies'];

/**
 * The catalog entries, each with the comment on the line above it.
 * @param {string} workspace text of pnpm-workspace.yaml
 */
export function catalogEntries(workspace) {
  const lines = workspace.split('\n');
  const entries = [];
  let section = '';
  for (const [index, line] of lines.entries()) {
    section = /^(\w+):/.exec(line)?.[1] ?? section;
    const named = /^ {2}(\w+):$/.exec(line)?.[1];
    if (section.startsWith('catalogs') && named !== undefined) section = `catalogs.${named}`;
    const entry = /^\s+'?([^'\s:#]+)'?: +'?([^'\s]+)'?/.exec(line);
    if (!section.startsWith('catalog') || entry === null) continue;
    const reason = /^\s+# (.+)/.exec(lines[index - 1] ?? '')?.[1];
    entries.push({ section, name: entry[1] ?? '', version: entry[2] ?? '', reason });
  }
  return entries;
}

/**
 * Returns the breaches of the rules in the repository at `root`; empty when all is well.
 * @param {string} root
 */
export function dependencyProblems(root) {
  /** @param {string} file */
  const read = (file) => readFileSync(join(root, file), 'utf8');
  const problems = [];
  const workspace = read('pnpm-workspace.yaml');
  for (const { section, name, version, reason } of catalogEntries(workspace)) {
    if (reason === undefined) problems.push(`pnpm-workspace.yaml: ${name} has no reason above it`);
    // `npm:NAME@VERSION` is a second version of a package, under a name of its own
    if (section !== 'catalogs.peers' && !/^(npm:[\w./@-]+@)?\d+\.\d+\.\d+(-[\w.]+)?$/.test(version)) {
      problems.push(`pnpm-workspace.yaml: ${name} has no exact version, but ${version}`);
    }
  }
  for (const file of manifests(root)) {
    const manifest = JSON.parse(read(file));
    for (const section of sections) {
      for (const [name, spec] of Object.entries(manifest[section] ?? {})) {
        if (!/^(catalog|workspace):/.test(String(spec))) {
          problems.push(`${file}: ${name} is "${spec}"; use catalog: or workspace:`);
        }
      }
    }
  }
  const { packageManager } = JSON.parse(read('package.json'));
  const pnpm = catalogEntries(workspace).find(({ name }) => name === 'pnpm');
  if (pnpm !== undefined && packageManager !== `pnpm@${pnpm.version}`) {
    problems.push(`packageManager is ${packageManager}, the catalog has pnpm ${pnpm.version}`);
  }
  if (/tarball:|https?:\/\//.test(read('pnpm-lock.yaml'))) {
    problems.push('pnpm-lock.yaml: contains an address');
  }
  return problems;
}

/** @param {string} root */
function manifests(root) {
  const found = ['package.json', 'bench/package.json', 'docs/package.json'].filter((file) =>
    existsSync(join(root, file)),
  );
  for (const parent of ['packages', 'examples']) {
    if (!existsSync(join(root, parent))) continue;
    for (const name of readdirSync(join(root, parent))) {
      const file = join(parent, name, 'package.json');
      if (existsSync(join(root, file))) found.push(file);
    }
  }
  return found;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const problems = dependencyProblems(fileURLToPath(new URL('..', import.meta.url)));
  for (const problem of problems) console.error(problem);
  process.exitCode = problems.length === 0 ? 0 : 1;
}
