// Keeps the comments of packages, bench, scripts, tests, examples and docs easy to read: no sentence of a
// comment begins with a word that hides who acts or what is meant.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseSync } from 'oxc-parser';

const folders = ['packages', 'bench', 'scripts', 'test', 'examples', 'docs'];
const vague = /^(What|Who|Whoever|Whom|Whose|Whether|Where|Of)\b/;

/**
 * Returns the sentences that begin with a vague word, of the comments in these folders under `root`.
 * @param {string} root
 */
export function commentProblems(root) {
  // also those that git does not track yet
  const listed = ['ls-files', '-z', '--cached', '--others', '--exclude-standard', ...folders];
  const files = execFileSync('git', listed, { cwd: root, encoding: 'utf8' });
  return files
    .split('\0')
    .filter((file) => /\.(ts|tsx|mjs|sql)$/.test(file) && existsSync(join(root, file)))
    .flatMap((file) => vagueSentences(file, readFileSync(join(root, file), 'utf8')));
}

/** @param {string} file @param {string} text */
export function vagueSentences(file, text) {
  return commentsOf(file, text).flatMap((comment) =>
    sentencesOf(comment)
      .filter((sentence) => vague.test(sentence))
      .map((sentence) => `${file}: "${sentence.slice(0, 80)}" begins with a word that hides who acts`),
  );
}

/** @param {string} file @param {string} text @returns {readonly string[]} */
function commentsOf(file, text) {
  if (file.endsWith('.sql')) return blocksOf([...text.matchAll(/^ *-- ?(.*)\n/gm)]);
  const { comments } = parseSync(file, text);
  const lines = comments.filter(({ type }) => type === 'Line');
  return [
    ...comments
      .filter(({ type }) => type === 'Block')
      .map(({ value }) => value.replaceAll(/^ *\*+ ?/gm, ' ').replaceAll(/@\w+/g, '. ')),
    ...blocksOf(
      lines.map(({ value, start, end }) => ({
        0: text.slice(start, end + 1),
        1: value.trim(),
        index: start,
      })),
    ),
  ];
}

/**
 * Joins comments of one line that follow each other.
 * @param {readonly { readonly 0: string, readonly 1?: string, readonly index: number }[]} lines
 */
function blocksOf(lines) {
  /** @type {string[]} */
  const blocks = [];
  let end = -1;
  for (const line of lines) {
    const own = line[1] ?? '';
    const follows = line.index <= end + indentMax && blocks.length > 0;
    if (follows) blocks.push(`${blocks.pop()} ${own}`);
    else blocks.push(own);
    end = line.index + line[0].length;
  }
  return blocks;
}

/** A comment of one line goes on in the next one if no more than this stands between them, in characters. */
const indentMax = 12;

/** @param {string} comment */
function sentencesOf(comment) {
  return comment
    .replaceAll(/`[^`]*`/g, 'x')
    .split(/(?<=[.!?])\s+/)
    .map((sentence) => sentence.trim().replace(/^[-*(]\s*/, ''));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const problems = commentProblems(resolve(fileURLToPath(import.meta.url), '../..'));
  for (const problem of problems) console.error(problem);
  if (problems.length > 0) console.error(`${problems.length} sentences`);
  process.exitCode = problems.length === 0 ? 0 : 1;
}
