// Keeps names that say something: no file of a package is called by a word that fits any file, and no type of the engine's packages
// has two meanings.
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { basename, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { sourceFiles } from './check-boundaries.mjs';

const vague = new Set(
  `aux base common core data helper helpers info lib manager memory misc etc other service shared stuff
   thing things tool tools util utils utilities various words`.split(/\s+/),
);
const engine = ['core', 'postgres', 'producer', 'scheduler', 'worker'];

/**
 * Breaches under `root`; empty when all is well.
 * @param {string} root
 */
export function nameProblems(root) {
  const packages = existsSync(join(root, 'packages')) ? readdirSync(join(root, 'packages')) : [];
  const sources = packages.flatMap((name) => sourcesOf(join(root, 'packages', name, 'src')));
  const badFiles = sources
    .filter((file) => vague.has(basename(file).replace(/\..*$/, '')))
    .map((file) => `${relative(root, file)}: this name fits any file; say what is in it`);
  return [...badFiles, ...doubles(root)];
}

/** @param {string} root */
function doubles(root) {
  /** @type {Map<string, Set<string>>} */
  const homes = new Map();
  for (const file of engine.flatMap((name) => sourcesOf(join(root, 'packages', name, 'src')))) {
    for (const [, name = ''] of readFileSync(file, 'utf8').matchAll(
      /^export (?:interface|type|class) (\w+)/gm,
    )) {
      homes.set(name, (homes.get(name) ?? new Set()).add(relative(root, file)));
    }
  }
  return [...homes]
    .filter(([, files]) => files.size > 1)
    .map(
      ([name, files]) => `${name} is a type of ${[...files].join(' and of ')}: give one of them another name`,
    );
}

/** @param {string} home */
function sourcesOf(home) {
  return sourceFiles(home, /\.tsx?$/).filter(
    (file) => !/\.test\.ts$|(^|\/)testing\//.test(relative(home, file)),
  );
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const problems = nameProblems(resolve(fileURLToPath(import.meta.url), '../..'));
  for (const problem of problems) console.error(problem);
  process.exitCode = problems.length === 0 ? 0 : 1;
}
