import { defineConfig } from 'vitest/config';

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
};

/** What they measure is time: they run one by one, when nothing else does. */
const timed = [
  'test/integration/fairness-*.test.ts',
  'test/integration/limits-cycles.test.ts',
  'test/integration/limits-rate.test.ts',
];

/** They bring servers of their own, and stop, kill and replace them under whole systems of processes. */
const failover = ['test/integration/failover-*.test.ts'];

/** What does not depend on the server's version (arguments, output, libraries, whole processes that die) is tried on one of them. */
const once =
  process.env['PGQUEUE_TEST_MAJOR'] === '15'
    ? [
        'test/{docs,kill-points,seeded-bugs}/**',
        'test/integration/security-{api,canary,cli,http,tls}.test.ts',
        'test/integration/{adapters,cli,node}-*.test.ts',
        'test/integration/{health,takeover,limits-sweep,worker-isolation,worker-thread}.test.ts',
      ]
    : [];

export default defineConfig({
  test: {
    maxWorkers: 2,
    projects: [
      {
        ...shared,
        test: { ...common, name: 'unit', include: ['packages/*/src/**/*.test.ts'] },
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
          exclude: [...timed, ...failover, ...once],
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
          testTimeout: 240_000,
        },
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
          name: 'docker',
          include: ['test/docker/**/*.test.ts'],
          testTimeout: 600_000,
        },
      },
    ],
  },
});
