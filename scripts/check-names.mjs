// Keeps names that say something: no file or folder of a package is called by a word that fits any file, no type of the
// engine's packages has two meanings, and no SQL function is called with more than six arguments that have no name.
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
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
  const badNames = packages.flatMap((name) => {
    const home = join(root, 'packages', name, 'src');
    return sourcesOf(home)
      .filter((file) =>
        relative(home, file)
          .split('/')
          .some((part) => vague.has(part.replace(/\..*$/, ''))),
      )
      .map((file) => `${relative(root, file)}: this name fits any file; say what is in it`);
  });
  return [...badNames, ...doubles(root), ...namelessArguments(root)];
}

/** @param {string} root */
function namelessArguments(root) {
  const sql = sourceFiles(join(root, 'packages/postgres/sql'), /\.sql$/);
  const names = sql.flatMap((file) =>
    [...readFileSync(file, 'utf8').matchAll(/^create function (\w+)/gm)].map(([, name]) => name),
  );
  if (names.length === 0) return [];
  const calls = new RegExp(`(?<!create function |on function )\\b(?:${names.join('|')})\\(`, 'g');
  const callers = [
    ...sql,
    ...sourcesOf(join(root, 'packages/postgres/src')),
    ...sourceFiles(join(root, 'clients'), /\.py$/),
  ];
  return callers.flatMap((file) => {
    const text = readFileSync(file, 'utf8');
    return [...text.matchAll(calls)]
      .filter(
        ({ 0: call, index }) =>
          argumentsAt(text, index + call.length).filter((one) => !one.includes('=>')).length > 6,
      )
      .map(({ 0: call }) => `${relative(root, file)}: ${call}…) has more than six arguments without a name`);
  });
}

/**
 * Splits the arguments of a call, which begin at `from`.
 * @param {string} text
 * @param {number} from
 */
function argumentsAt(text, from) {
  const found = [''];
  let depth = 0;
  for (const letter of text.slice(from)) {
    if (depth === 0 && letter === ')') break;
    if ('([{'.includes(letter)) depth += 1;
    if (')]}'.includes(letter)) depth -= 1;
    if (depth === 0 && letter === ',') found.push('');
    else found.push((found.pop() ?? '') + letter);
  }
  return found;
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
