import type { ServerKind } from './running-server.ts';
import type { RunningServer } from './running-server.ts';
/**
 * A PostgreSQL server for tests, from whatever the machine offers. The first that works wins:
 *
 * 1. `PGQUEUE_TEST_DATABASE_URL`: a server somebody else runs; it is left alone at the end;
 * 2. a container, where an engine answers (`PGQUEUE_TEST_IMAGE`, else `postgres:<major>`);
 * 3. the embedded server (18), or Debian's (15).
 *
 * `PGQUEUE_TEST_SERVER=container|embedded|debian` insists on one of them.
 */
import pg from 'pg';
import { containerEngineAnswers, startContainer } from './server-container.ts';
import { debianServer, startDebian, startEmbedded } from './server-local.ts';

/** A running server, for tests only: no durability, trust authentication. */
export interface TestServer {
  readonly kind: ServerKind;
  /** Connection string of a superuser, to the database `postgres`. */
  readonly adminUrl: string;
  /** Major version that the server itself reports, whatever was requested. */
  readonly major: number;
  /** Stops the server and removes its data. Can be called more than once. */
  stop(): Promise<void>;
}

/** Options of {@link startServer}. */
export interface StartServerOptions {
  /** Default 18. A server given by URL or image has its own version. */
  readonly major?: ServerMajor;
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/**
 * Starts a server by the first provider that works.
 * @throws {AggregateError} if no provider can; `errors` has the reason of each
 */
export async function startServer(options: StartServerOptions = {}): Promise<TestServer> {
  const { major = 18, env = process.env } = options;
  const running = await startAny(major, env);
  try {
    return { ...running, major: await serverMajor(running.adminUrl) };
  } catch (error) {
    await running.stop();
    throw error;
  }
}

async function startAny(
  major: ServerMajor,
  env: Readonly<Record<string, string | undefined>>,
): Promise<RunningServer> {
  const given = env['PGQUEUE_TEST_DATABASE_URL'];
  const wanted = env['PGQUEUE_TEST_SERVER'];
  if (given && !wanted) return { kind: 'url', adminUrl: given, stop: () => Promise.resolve() };
  const image = env['PGQUEUE_TEST_IMAGE'] ?? `postgres:${major}`;
  const failures: unknown[] = [];
  for (const provider of providers(major, image, env)) {
    if (wanted ? wanted !== provider.kind : !(await provider.isAvailable())) continue;
    try {
      return await provider.start();
    } catch (cause) {
      failures.push(new Error(`${provider.kind}: ${describe(cause)}`, { cause }));
    }
  }
  throw new AggregateError(
    failures,
    `No PostgreSQL ${major} for tests (${failures.map(describe).join('; ') || 'no provider'}). ` +
      'Set PGQUEUE_TEST_DATABASE_URL, run a container engine, or install the server.',
  );
}

interface Provider {
  readonly kind: ServerKind;
  readonly isAvailable: () => boolean | Promise<boolean>;
  readonly start: () => Promise<RunningServer>;
}

function providers(
  major: ServerMajor,
  image: string,
  env: Readonly<Record<string, string | undefined>>,
): readonly Provider[] {
  return [
    {
      kind: 'container',
      isAvailable: () => containerEngineAnswers(env),
      start: () => startContainer(image),
    },
    { kind: 'embedded', isAvailable: () => major === 18, start: startEmbedded },
    {
      kind: 'debian',
      isAvailable: () => debianServer(major) !== undefined,
      start: () => startDebian(major),
    },
  ];
}

function describe(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

async function serverMajor(connectionString: string): Promise<number> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  try {
    const { rows } = await client.query<{ version: number }>(
      `SELECT current_setting('server_version_num')::int / 10000 AS version`,
    );
    return rows[0]?.version ?? 0;
  } finally {
    await client.end();
  }
}

/** The major versions of PostgreSQL that the tests run on. */
export type ServerMajor = 15 | 18;
