// Runs the test projects and adds them up:
//   node scripts/test.mjs [--containers] [vitest arguments, e.g. a file filter]
// Unit and repository tests once; then the database tests on PostgreSQL 18, with those of the packed
// packages and those that measure time, and on 15 where Debian's server is installed. `--containers` runs the docker tests, then the
// database tests in a container; it fails without an engine.
// Files in which something failed are run once more at the end, one by one: on a machine that others use, too, what failed for want of
// time passes then, and is named as unsteady. Ends with what failed, a line each, and `N passed, N failed`.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const reports = mkdtempSync(join(tmpdir(), 'pgqueue-report-'));

/** More files than these are not for want of time. */
const unsteadyMax = 6;

/** @typedef {{ title: string, projects: readonly string[], env?: Readonly<Record<string, string>> }} Run */
/** @typedef {{ text: string, file?: string }} Failure `file`: none, where a run failed as a whole */

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

/**
 * @param {Run} run @param {readonly string[]} args
 * @returns {{ passed: number, failed: readonly Failure[] }}
 */
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
  if (!existsSync(report)) return { passed: 0, failed: [{ text: `${title}: no report, exit ${status}` }] };
  const { numPassedTests, testResults } = JSON.parse(readFileSync(report, 'utf8'));
  const failed = /** @type {readonly TestFile[]} */ (testResults).flatMap((file) => failuresOf(title, file));
  if (status !== 0 && failed.length === 0) failed.push({ text: `${title}: exit ${status}` });
  return { passed: numPassedTests, failed };
}

/** Whether every file in which something failed passes by itself. @param {Run} run @param {readonly Failure[]} failed */
function passesAlone(run, failed) {
  const files = new Set(failed.map(({ file }) => file));
  if (files.size > unsteadyMax || [...files].some((file) => file === undefined)) return false;
  const again = { ...run, title: `${run.title}: once more, one by one` };
  const outcome = execute(again, [
    '--no-file-parallelism',
    ...[...files].filter((file) => file !== undefined),
  ]);
  return outcome.failed.length === 0 && outcome.passed > 0;
}

/**
 * @typedef {{ name: string, status: string, message: string,
 *   assertionResults: readonly { fullName: string, status: string, failureMessages?: readonly string[] }[] }} TestFile
 */

/**
 * A file can fail on its own: it does not load, or leaks. That counts as one more failure.
 * @param {string} title @param {TestFile} file @returns {readonly Failure[]}
 */
function failuresOf(title, file) {
  const name = relative(root, file.name);
  const place = `${title}: ${name}`;
  const first = (/** @type {string | undefined} */ text) => text?.split('\n', 1)[0]?.slice(0, 300) ?? '';
  const tests = file.assertionResults.filter((test) => test.status === 'failed');
  if (tests.length === 0 && file.status === 'failed')
    return [{ text: `${place}: ${first(file.message)}`, file: name }];
  return tests.map((test) => ({
    text: `${place} > ${test.fullName}: ${first(test.failureMessages?.[0])}`,
    file: name,
  }));
}

const args = process.argv.slice(2);
const vitestArgs = args.filter((arg) => arg !== '--containers');
let passed = 0;
/** @type {{ run: Run, failed: readonly Failure[] }[]} */
const red = [];
for (const run of plan(args.includes('--containers'))) {
  const outcome = execute(run, vitestArgs);
  passed += outcome.passed;
  if (outcome.failed.length > 0) red.push({ run, failed: outcome.failed });
}
const verdicts = red.map(({ run, failed }) => ({ failed, unsteady: passesAlone(run, failed) }));
let failures = 0;
for (const { failed, unsteady } of verdicts) {
  for (const { text } of failed) console.log(`${unsteady ? 'unsteady' : 'failed'}: ${text}`);
  if (unsteady) passed += failed.length;
  else failures += failed.length;
}
rmSync(reports, { recursive: true, force: true });
if (passed + failures === 0) console.error('no test ran');
console.log(`${passed} passed, ${failures} failed`);
process.exitCode = failures > 0 || passed === 0 ? 1 : 0;
