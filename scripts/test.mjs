// Runs the test projects and adds them up:
//   node scripts/test.mjs [--containers] [vitest arguments, e.g. a file filter]
// Unit and repository tests once; then the database tests on PostgreSQL 18, with those of the packed
// packages and those that measure time, and on 15 where Debian's server is installed. `--containers` runs the docker tests, then the
// database tests in a container; it fails without an engine. Ends with one line: `N passed, N failed`.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
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
  if (!existsSync(report)) return { passed: 0, failed: 1 };
  const { numPassedTests, numFailedTests, testResults } = JSON.parse(readFileSync(report, 'utf8'));
  // A file can fail on its own: it does not load, or leaks. That counts as one more failure.
  const files = testResults.filter(
    (/** @type {{ status: string, assertionResults: { status: string }[] }} */ file) =>
      file.status === 'failed' && file.assertionResults.every((test) => test.status !== 'failed'),
  );
  const failed = numFailedTests + files.length;
  return { passed: numPassedTests, failed: status === 0 ? failed : Math.max(1, failed) };
}

const args = process.argv.slice(2);
const runs = plan(args.includes('--containers'));
const total = { passed: 0, failed: 0 };
for (const run of runs) {
  const { passed, failed } = execute(
    run,
    args.filter((arg) => arg !== '--containers'),
  );
  total.passed += passed;
  total.failed += failed;
}
rmSync(reports, { recursive: true, force: true });
if (total.passed + total.failed === 0) console.error('no test ran');
console.log(`${total.passed} passed, ${total.failed} failed`);
process.exitCode = total.failed > 0 || total.passed === 0 ? 1 : 0;
