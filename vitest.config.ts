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
  // longer than anything takes beside much other work: a test waits for what happens, and does not measure it
  testTimeout: 300_000,
  hookTimeout: 300_000,
  expect: { poll: { timeout: 150_000 } },
};

const withServer = { ...common, globalSetup: ['test/support/global-setup.ts'] };

/** Test files of some folders of `test`. */
const under = (...folders: readonly string[]): string[] =>
  folders.map((folder) => `test/${folder}/**/*.test.ts`);

/** They bring servers of their own, and stop, kill and replace them under whole systems of processes. */
const failover = ['test/integration/failover/*.test.ts'];

/**
 * Tests that spend their time in whole processes (the command line, clients, packages, nodes that die), in large tables, or in many
 * random sequences: `npm run test:ci`, on both versions.
 */
const slow = [
  ...under(
    ...['cli', 'executables', 'limits', 'models', 'nodes', 'plans', 'shared-limits'].map(
      (folder) => `integration/${folder}`,
    ),
  ),
  ...under('conformance', 'packed', 'integration/clients'),
  'test/integration/{connections/restore,telemetry/health,scheduler/stuck,security/{api,canary,cli,life},worker/floating}.test.ts',
];

/** The same of what comes only after many seconds: `npm run test:long`, on one version. */
const long = [
  'test/integration/{cli/installations,connections/{dead-ends,settings-matrix},limits/{rate,sweep},nodes/{demo,found-sooner,takeover},plans/pinned-late,scheduler/behind,shared-limits/{chaos,uneven},worker/isolation}.test.ts',
];

/**
 * Tests that do not depend on the server's version (arguments, output, libraries, loops and their pauses, connections that
 * break) run on one of them. Statements and their plans are tried on both.
 */
const once =
  process.env['PGQUEUE_TEST_MAJOR'] === '15'
    ? [
        'test/{conformance,packed}/**',
        'test/integration/{cli,executables}/*.test.ts',
        'test/integration/clients/*.test.ts',
        'test/integration/connections/{embedded-folder,harness,no-scheduler,pgbouncer,silent-start}.test.ts',
        'test/integration/dashboard/{api/document,api/guard,cli,guard,live,mounts,several}.test.ts',
        'test/integration/encryption/{canary,jobs}.test.ts',
        'test/integration/enqueue/adapters-*.test.ts',
        'test/integration/installations/{fair-share,move,move-load,producer,puller,puller-down,worker}.test.ts',
        'test/integration/limits/properties.test.ts',
        'test/integration/nodes/{death,fence,heartbeat,node,outage,poison,thread}.test.ts',
        'test/integration/scheduler/{faults,health,leader,policies,stuck}.test.ts',
        'test/integration/security/{api,canary,cli,http,tls}.test.ts',
        'test/integration/telemetry/{health,monitoring,telemetry}.test.ts',
        'test/integration/testing-kit/*.test.ts',
        'test/integration/shared-limits/{leases.property,parts}.test.ts',
        'test/integration/worker/{floating,stop}.test.ts',
      ]
    : [];

/** Mistakes of a worker that the conformance suite must find. */
const mistakes = 'test/conformance/mistakes.test.ts';

/** Files share their processes: a new one for each costs more than most files do. */
const shares = { isolate: false };

/**
 * `npm test`: the projects unit, repo and database, on PostgreSQL 18. `npm run test:ci`: slow, and both on PostgreSQL 15. `npm run
 * test:long`: those up to chaos. The others have commands of their own.
 */
const projects = [
  {
    ...common,
    ...shares,
    name: 'unit',
    include: ['packages/*/{src,web}/**/*.test.ts', 'bench/src/**/*.test.ts'],
  },
  {
    ...common,
    name: 'repo',
    include: under('tidy', 'types', 'security'),
  },
  {
    ...withServer,
    ...shares,
    name: 'database',
    include: under('integration'),
    exclude: [...slow, ...long, ...failover, ...once],
  },
  {
    ...withServer,
    name: 'slow',
    include: slow,
    exclude: [...long, ...once, mistakes],
  },
  { ...withServer, name: 'docs', include: under('docs'), exclude: ['test/docs/scratch/**'] },
  {
    ...withServer,
    name: 'long',
    // tests of the chaos bench and of the proofs, too
    include: [...long, ...under('interleavings', 'kill-points', 'chaos', 'proofs')],
    exclude: ['test/chaos/smoke.test.ts'],
    testTimeout: 600_000,
  },
  // do the tests find what is wrong? `npm run test:checkers`, each night
  { ...withServer, name: 'checkers', include: [...under('seeded-bugs', 'formal'), mistakes] },
  { ...common, name: 'bench', include: under('bench') },
  { ...withServer, name: 'browser', include: under('browser'), testTimeout: 600_000 },
  {
    ...common,
    name: 'failover',
    include: failover,
    testTimeout: 900_000,
    hookTimeout: 600_000,
    sequence: { groupOrder: 1 },
  },
  { ...common, name: 'chaos', include: ['test/chaos/smoke.test.ts'], testTimeout: 900_000 },
  // a minute or more, most of it npm's: `npm run test:next`
  { ...withServer, name: 'next', include: under('next') },
  // Helm and schemas, 70 MB from npm: `npm run test:kubernetes`, on Linux with an x64 processor
  { ...withServer, name: 'kubernetes', include: under('kubernetes'), testTimeout: 600_000 },
  // needs Citus, which has to be built from source, and is skipped without it: `npm run test:citus`
  { ...common, name: 'citus', include: under('citus'), testTimeout: 600_000 },
  { ...common, name: 'docker', include: under('docker'), testTimeout: 600_000 },
];

export default defineConfig({
  test: {
    // one more than CI has processors: most tests wait, for leases, servers and processes
    maxWorkers: 3,
    sequence: { sequencer: LongFirst },
    projects: projects.map((test) => ({ ...shared, test })),
  },
});
