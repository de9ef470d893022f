// Runs the tests and adds them up:
//   node scripts/test.mjs [vitest arguments, e.g. a file filter]       `npm test`: units, repository, and database on PostgreSQL 18
//   node scripts/test.mjs --ci           `npm run test:ci`: processes, clients, packages; PostgreSQL 15
//   node scripts/test.mjs --long         `npm run test:long`: faults, searches, failovers, the docs' examples, browser, chaos
//   node scripts/test.mjs --containers   `npm run test:docker`: the image, then the database tests in a container; needs an engine
// Tells at the end which programs are missing here and which tests were skipped for them, then every test that failed, a line
// each, and `N passed, N failed`. Exits with 0 or 1.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const scratch = mkdtempSync(join(tmpdir(), 'pgqueue-tests-'));
const missingFile = join(scratch, 'missing');

/** @typedef {{ title: string, projects: readonly string[], env?: Readonly<Record<string, string>> }} Run */
/** @typedef {import('../test/support/progress.ts').Outcome} Outcome */

/** A server that the caller gives has the version that it has. */
const given = process.env['PGQUEUE_TEST_DATABASE_URL'] ?? process.env['PGQUEUE_TEST_IMAGE'];
const has15 = existsSync('/usr/lib/postgresql/15/bin/postgres');

/** @type {Readonly<Record<string, readonly Run[]>>} */
const suites = {
  quick: [{ title: 'units, repository, database', projects: ['unit', 'repo', 'database'] }],
  ci: [
    { title: 'processes, clients, packages', projects: ['slow'] },
    ...(given === undefined && has15
      ? [
          {
            title: 'database, PostgreSQL 15',
            projects: ['database', 'slow'],
            env: { PGQUEUE_TEST_MAJOR: '15' },
          },
        ]
      : []),
  ],
  long: [
    {
      title: 'faults, searches, documents, browser',
      projects: ['docs', 'long', 'bench', 'browser', 'failover'],
    },
    // by itself: its processes and the busy core beside them want the machine
    { title: 'chaos', projects: ['chaos'] },
  ],
  containers: [
    { title: 'the image and the compose topology', projects: ['docker'] },
    {
      title: 'database, in a container',
      projects: ['database', 'slow'],
      env: { PGQUEUE_TEST_SERVER: 'container' },
    },
  ],
};

/** @param {Run} run @param {readonly string[]} args @returns {Promise<Outcome>} */
async function execute({ title, projects, env }, args) {
  console.log(`# ${title}`);
  const file = join(scratch, 'outcome.json');
  rmSync(file, { force: true });
  const vitest = spawn(
    'vitest',
    [
      'run',
      '--passWithNoTests',
      '--silent=passed-only',
      '--reporter=./test/support/progress.ts',
      ...projects.flatMap((project) => ['--project', project]),
      ...args,
    ],
    {
      cwd: root,
      stdio: ['ignore', 'inherit', 'inherit'],
      env: {
        ...process.env,
        // the tests start thousands of processes, each of which would strip and compile the same sources
        NODE_COMPILE_CACHE: join(scratch, 'compiled'),
        PGQUEUE_TEST_OUTCOME: file,
        PGQUEUE_TEST_MISSING: missingFile,
        ...env,
      },
    },
  );
  const pass = (/** @type {NodeJS.Signals} */ signal) => void vitest.kill(signal);
  process.on('SIGTERM', pass).on('SIGINT', pass);
  const [code, signal] = await once(vitest, 'exit');
  process.off('SIGTERM', pass).off('SIGINT', pass);
  /** @type {Outcome} */
  const outcome = existsSync(file)
    ? JSON.parse(readFileSync(file, 'utf8'))
    : { passed: 0, failed: [], skipped: {}, crashed: [] };
  if (code === 0 || outcome.failed.length + outcome.crashed.length > 0) return outcome;
  return { ...outcome, failed: [{ file: title, message: `vitest ended with ${signal ?? code}` }] };
}

/**
 * Runs tests, and once more the files during which Node.js itself crashed (https://github.com/nodejs/node/issues/56312). A second
 * crash is a failure.
 * @param {Run} run @param {readonly string[]} args @returns {Promise<readonly Outcome[]>}
 */
async function executeAll(run, args) {
  const first = await execute(run, args);
  if (first.crashed.length === 0) return [first];
  for (const file of first.crashed) console.log(`Node.js crashed during ${file}: it runs once more`);
  const again = await execute(run, first.crashed);
  const failed = again.crashed.map((file) => ({ file, message: 'Node.js crashed during it, twice' }));
  return [first, { ...again, failed: [...again.failed, ...failed] }];
}

/**
 * Lists which programs are missing and which tests were skipped for them. Tests that are skipped for no such reason have failed.
 * @param {string} suite @param {readonly Outcome[]} outcomes @returns {Outcome['failed']}
 */
function tellMissing(suite, outcomes) {
  const asked = existsSync(missingFile) ? readFileSync(missingFile, 'utf8').trim().split('\n') : [];
  const missing = [...new Set(asked)].toSorted();
  const skipped = outcomes.flatMap((outcome) => Object.entries(outcome.skipped));
  if (suite === 'ci' && given === undefined && !has15) missing.push('PostgreSQL 15');
  if (missing.length === 0) return skipped.map(([file]) => ({ file, message: 'skipped without a reason' }));
  console.log(`missing on this machine: ${missing.join(', ')} (.ci/run installs all of them on Debian)`);
  for (const [file, count] of skipped)
    console.log(`skipped: ${file}, ${count} test${count === 1 ? '' : 's'}`);
  return [];
}

const args = process.argv.slice(2);
const suite = ['containers', 'long', 'ci'].find((name) => args.includes(`--${name}`)) ?? 'quick';
const vitestArgs = args.filter((arg) => arg !== `--${suite}`);
/** @type {Outcome[]} */
const outcomes = [];
for (const run of suites[suite] ?? []) outcomes.push(...(await executeAll(run, vitestArgs)));
const unreasoned = tellMissing(suite, outcomes);
rmSync(scratch, { recursive: true, force: true });
const passed = outcomes.reduce((sum, outcome) => sum + outcome.passed, 0);
const failed = outcomes.flatMap((outcome) => outcome.failed);
// a filter by name skips tests, too
if (vitestArgs.length === 0) failed.push(...unreasoned);
for (const { file, test, message } of failed)
  console.log(`failed: ${file}${test === undefined ? '' : ` > ${test}`}: ${message}`);
if (passed + failed.length === 0) console.error('no test ran');
console.log(`${passed} passed, ${failed.length} failed`);
process.exitCode = failed.length > 0 || passed === 0 ? 1 : 0;
