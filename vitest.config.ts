import { defineConfig } from 'vitest/config';
import { LongFirst } from './test/support/long-first.ts';

// Workspace packages resolve to their source, so that no test needs a build. The condition is also
// given to Node itself, for processes that a test starts.
const source = '@pgqueue/source';

const conditions = [source, 'module', 'node', 'development|production'];

const shared = {
  resolve: { conditions: [source] },
  ssr: { resolve: { conditions } },
  // where vitest runs the global setup
  environments: { __vitest__: { resolve: { conditions } } },
};

const common = {
  pool: 'forks' as const,
  execArgv: [`--conditions=${source}`],
  setupFiles: ['test/support/leaks.ts'],
  testTimeout: 20_000,
  hookTimeout: 60_000,
  expect: { poll: { timeout: 5_000 } },
};

/** What they measure is time: they run one by one, when nothing else does. */
const timed = [
  'test/integration/demo.test.ts',
  'test/integration/fairness-*.test.ts',
  'test/integration/limits-cycles.test.ts',
  'test/integration/limits-rate.test.ts',
  'test/integration/node-reserve.test.ts',
];

/** They bring servers of their own, and stop, kill and replace them under whole systems of processes. */
const failover = ['test/integration/failover-*.test.ts'];

/**
 * What does not depend on the server's version (arguments, output, libraries, whole processes that die, loops and their pauses,
 * connections that break) is tried on one of them. On both: what SQL does, and how it is planned.
 */
const once =
  process.env['PGQUEUE_TEST_MAJOR'] === '15'
    ? [
        'test/{docs,kill-points,seeded-bugs}/**',
        'test/integration/security-{api,canary,cli,http,tls}.test.ts',
        'test/integration/dashboard-{cli,guard,live,mounts}.test.ts',
        'test/integration/{adapters,cli,node}-*.test.ts',
        'test/integration/testing-{handler,matchers,server}.test.ts',
        'test/integration/{health,monitoring,telemetry,takeover,limits-sweep,embedded-folder,harness}.test.ts',
        'test/integration/database-{dead-ends,pgbouncer}.test.ts',
        'test/integration/scheduler-{faults,health,leader,policies,stuck}.test.ts',
        'test/integration/limits-properties.test.ts',
        'test/integration/worker-{fence,floating,heartbeat,isolation,node,outage,stop,thread}.test.ts',
      ]
    : [];

export default defineConfig({
  test: {
    // one more than CI has processors: whatever runs mostly waits, for leases, servers and processes
    maxWorkers: 3,
    sequence: { sequencer: LongFirst },
    projects: [
      {
        ...shared,
        test: { ...common, name: 'unit', include: ['packages/*/{src,web}/**/*.test.ts'] },
      },
      {
        ...shared,
        test: {
          ...common,
          name: 'repo',
          include: ['tidy', 'types', 'proofs', 'security', 'chaos', 'formal'].map(
            (folder) => `test/${folder}/**/*.test.ts`,
          ),
          exclude: ['test/chaos/smoke.test.ts'],
          testTimeout: 60_000,
        },
      },
      {
        ...shared,
        test: {
          ...common,
          name: 'database',
          include: ['integration', 'docs', 'interleavings', 'kill-points', 'seeded-bugs'].map(
            (folder) => `test/${folder}/**/*.test.ts`,
          ),
          exclude: [...timed, ...failover, ...once, 'test/docs/scratch/**'],
          globalSetup: ['test/support/global-setup.ts'],
          testTimeout: 30_000,
        },
      },
      {
        ...shared,
        test: {
          ...common,
          name: 'timed',
          include: timed,
          globalSetup: ['test/support/global-setup.ts'],
          testTimeout: 30_000,
          fileParallelism: false,
          sequence: { groupOrder: 1 },
        },
      },
      {
        ...shared,
        test: {
          ...common,
          name: 'failover',
          include: failover,
          testTimeout: 150_000,
          hookTimeout: 180_000,
          sequence: { groupOrder: 2 },
        },
      },
      {
        ...shared,
        test: {
          ...common,
          name: 'chaos',
          include: ['test/chaos/smoke.test.ts'],
          testTimeout: 400_000,
        },
      },
      {
        ...shared,
        test: { ...common, name: 'bench', include: ['test/bench/**/*.test.ts'] },
      },
      {
        ...shared,
        test: {
          ...common,
          name: 'packed',
          include: ['test/packed/**/*.test.ts'],
          globalSetup: ['test/support/global-setup.ts'],
          testTimeout: 30_000,
        },
      },
      {
        ...shared,
        test: {
          ...common,
          name: 'browser',
          include: ['test/browser/**/*.test.ts'],
          globalSetup: ['test/support/global-setup.ts'],
          testTimeout: 180_000,
        },
      },
      {
        ...shared,
        // a minute or more, most of it npm's: `npm run test:next`
        test: {
          ...common,
          name: 'next',
          include: ['test/next/**/*.test.ts'],
          globalSetup: ['test/support/global-setup.ts'],
        },
      },
      {
        ...shared,
        test: {
          ...common,
          name: 'docker',
          include: ['test/docker/**/*.test.ts'],
          testTimeout: 600_000,
        },
      },
    ],
  },
});
