// Runs the test projects and adds them up:
//   node scripts/test.mjs [--containers] [vitest arguments, e.g. a file filter]
// Unit and repository tests once; then the database tests on PostgreSQL 18, with those of the packed
// packages and those that measure time, and on 15 where Debian's server is installed. `--containers` runs the docker tests, then the
// database tests in a container; it fails without an engine. Ends with what failed, a line each, and `N passed, N failed`.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const reports = mkdtempSync(join(tmpdir(), 'pgqueue-report-'));

/** @typedef {{ title: string, projects: readonly string[], env?: Readonly<Record<string, string>> }} Run */

/** @param {boolean} containers @returns {readonly Run[]} */
function plan(containers) {
  if (containers) {
    const env = { PGQUEUE_TEST_SERVER: 'container' };
    return [
      { title: 'docker: the image and the compose topology', projects: ['docker'] },
      { title: 'database, in a container', projects: ['database'], env },
    ];
  }
  const plain = { title: 'unit, repository', projects: ['unit', 'repo'] };
  // A server given by the caller has the version it has.
  if (process.env['PGQUEUE_TEST_DATABASE_URL'] || process.env['PGQUEUE_TEST_IMAGE']) {
    return [plain, { title: 'database, server given', projects: ['database'] }];
  }
  const majors = process.env['PGQUEUE_TEST_MAJOR']?.split(',') ?? ['18'];
  const debian = existsSync('/usr/lib/postgresql/15/bin/postgres');
  if (process.env['PGQUEUE_TEST_MAJOR'] === undefined && debian) majors.push('15');
  return [
    plain,
    ...majors.map((major, index) => ({
      title: `database, PostgreSQL ${major}`,
      // what is packed does not depend on the server, time is measured on one, and failovers bring their own: once is enough
      projects: index === 0 ? ['database', 'packed', 'timed', 'failover'] : ['database'],
      env: { PGQUEUE_TEST_MAJOR: major },
    })),
    { title: 'bench: every work, small', projects: ['bench'] },
    { title: 'browser: the dashboard in Chromium', projects: ['browser'] },
    // by itself: its processes want the machine, and its recovery times mean something
    { title: 'chaos: faults among real processes', projects: ['chaos'] },
  ];
}

/** @param {Run} run @param {readonly string[]} args */
function execute({ title, projects, env }, args) {
  console.log(`\n# ${title}`);
  const report = join(reports, `${title.replaceAll(/\W+/g, '-')}.json`);
  const { status } = spawnSync(
    'vitest',
    [
      'run',
      '--passWithNoTests',
      ...projects.flatMap((project) => ['--project', project]),
      '--reporter=default',
      '--reporter=json',
      `--outputFile.json=${report}`,
      ...args,
    ],
    { cwd: root, stdio: ['ignore', 'inherit', 'inherit'], env: { ...process.env, ...env } },
  );
  if (!existsSync(report)) return { passed: 0, failed: [`${title}: no report, exit ${status}`] };
  const { numPassedTests, testResults } = JSON.parse(readFileSync(report, 'utf8'));
  const failed = /** @type {readonly TestFile[]} */ (testResults).flatMap((file) => failuresOf(title, file));
  if (status !== 0 && failed.length === 0) failed.push(`${title}: exit ${status}`);
  return { passed: numPassedTests, failed };
}

/**
 * @typedef {{ name: string, status: string, message: string,
 *   assertionResults: readonly { fullName: string, status: string, failureMessages?: readonly string[] }[] }} TestFile
 */

/**
 * A file can fail on its own: it does not load, or leaks. That counts as one more failure.
 * @param {string} title @param {TestFile} file
 */
function failuresOf(title, file) {
  const place = `${title}: ${relative(root, file.name)}`;
  const first = (/** @type {string | undefined} */ text) => text?.split('\n', 1)[0]?.slice(0, 300) ?? '';
  const tests = file.assertionResults.filter((test) => test.status === 'failed');
  if (tests.length === 0 && file.status === 'failed') return [`${place}: ${first(file.message)}`];
  return tests.map((test) => `${place} > ${test.fullName}: ${first(test.failureMessages?.[0])}`);
}

const args = process.argv.slice(2);
const runs = plan(args.includes('--containers'));
let passed = 0;
const failed = [];
for (const run of runs) {
  const outcome = execute(
    run,
    args.filter((arg) => arg !== '--containers'),
  );
  passed += outcome.passed;
  failed.push(...outcome.failed);
}
rmSync(reports, { recursive: true, force: true });
if (passed + failed.length === 0) console.error('no test ran');
for (const failure of failed) console.log(`failed: ${failure}`);
console.log(`${passed} passed, ${failed.length} failed`);
process.exitCode = failed.length > 0 || passed === 0 ? 1 : 0;
