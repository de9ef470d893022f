// A Citus cluster whose three nodes have an installation each.
import type { Database, Operator } from '@pgqueue/postgres';
import { createOperator, migrate } from '@pgqueue/postgres';
import { openDatabase } from '@pgqueue/postgres/internal';
import type { Installation } from '@pgqueue/router';
import { createScheduler } from '@pgqueue/scheduler';
import type { Base } from '../support/servers/machine.ts';
import { createBase } from '../support/servers/machine.ts';
import type { PostgresServer } from '../support/servers/server.ts';
import { createPostgres } from '../support/servers/server.ts';

export interface Node {
  readonly server: PostgresServer;
  readonly installation: Installation;
  readonly database: Database;
  readonly operator: Operator;
}

export interface Cluster {
  readonly coordinator: Node;
  /** Two nodes, which have the shards. */
  readonly workers: readonly [Node, Node];
  readonly nodes: readonly [Node, Node, Node];
  readonly close: () => Promise<void>;
}

/** Starts a coordinator and two worker nodes, and a scheduler for each. `binaries`: programs of a PostgreSQL that has Citus. */
export async function startCluster(binaries: string): Promise<Cluster> {
  const base = createBase();
  const start = (name: string): Promise<PostgresServer> => startServer(base, binaries, name);
  const servers = await Promise.all([start('coordinator'), start('worker-1'), start('worker-2')] as const);
  const [first, ...rest] = servers;
  await first.query(`select citus_set_coordinator_host('127.0.0.1', $1)`, [first.port]);
  for (const { port } of rest) await first.query(`select citus_add_node('127.0.0.1', $1)`, [port]);
  const [coordinator, one, two] = await Promise.all([
    install(servers[0], 1),
    install(servers[1], 2),
    install(servers[2], 3),
  ] as const);
  const nodes = [coordinator, one, two] as const;
  const schedulers = nodes.map(({ server }) =>
    createScheduler({ connectionString: server.url, leaseMs: 2_000, queryTimeoutMs: 5_000 }),
  );
  await Promise.all(schedulers.map((scheduler) => scheduler.start()));
  return {
    coordinator,
    workers: [one, two],
    nodes,
    close: async () => {
      await Promise.all(schedulers.map((scheduler) => scheduler.stop()));
      await Promise.all(nodes.flatMap(({ operator, database }) => [operator.close(), database.close()]));
      await Promise.all(servers.map((server) => server.stop('immediate')));
      await base.remove();
    },
  };
}

async function startServer(base: Base, binaries: string, name: string): Promise<PostgresServer> {
  const settings = {
    shared_preload_libraries: 'citus',
    'citus.shard_count': '8',
    // tests recover transactions themselves, when they have seen them
    'citus.recover_2pc_interval': '-1',
  };
  // the nodes call each other by libpq, which looks for certificates at home
  const env = { HOME: base.folder };
  const server = await createPostgres({ base, name, binaries, settings, env });
  await server.start();
  await server.query('create extension citus');
  return server;
}

/** Makes an installation of a node that other nodes know: Citus would create its types on those, too. */
async function install(server: PostgresServer, number: number): Promise<Node> {
  const { name, url } = server;
  await migrate({ connectionString: `${url}?options=-c%20citus.enable_ddl_propagation%3Doff` });
  const operator = createOperator({ connectionString: url });
  await operator.installation.init({ number, name });
  return {
    server,
    installation: { number, name, connectionString: url },
    database: openDatabase({
      connectionString: url,
      applicationName: 'orders',
      connectionsMax: 20,
      queryTimeoutMs: 10_000,
    }),
    operator,
  };
}
