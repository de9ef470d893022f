// A PostgreSQL server that a test stops, kills and starts again.
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { openSync, closeSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { until } from '../until.ts';
import type { Base } from './machine.ts';
import { binaries as defaultBinaries, freePort, run, serverIdentity } from './machine.ts';

export interface ServerOptions {
  readonly base: Base;
  readonly name: string;
  /** Folder of the server's programs. Default: those of PostgreSQL 15. */
  readonly binaries?: string;
  /**
   * Settings in addition to the common ones: no fsync (processes die here, not machines), 100 connections.
   */
  readonly settings?: Readonly<Record<string, string>>;
  readonly env?: Readonly<Record<string, string>>;
  /** URL of the primary whose standby it becomes; without it, a new database cluster is made. */
  readonly standbyOf?: string;
  /**
   * Empty folders for its data and (`wal`) its write-ahead log, on disks that may fill up. Default: one
   * folder of the base for both.
   */
  readonly data?: string;
  readonly wal?: string;
}

export interface PostgresServer {
  readonly name: string;
  readonly port: number;
  /** URL of a superuser, to the database `postgres`. */
  readonly url: string;
  readonly data: string;
  /** Starts the server; resolves when it answers. */
  readonly start: () => Promise<void>;
  readonly stop: (mode: 'fast' | 'immediate') => Promise<void>;
  /** Kills the postmaster with -9; its children end when they notice. */
  readonly kill: () => Promise<void>;
  readonly running: () => boolean;
  /** Ends its recovery; resolves when it accepts writes. */
  readonly promote: () => Promise<void>;
  /** Runs a statement as a superuser, on a connection of its own. */
  readonly query: <Row>(text: string, values?: readonly unknown[]) => Promise<readonly Row[]>;
  readonly log: () => string;
}

const common = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: '100',
  shared_buffers: '64MB',
  fsync: 'off',
  full_page_writes: 'off',
};

const startMs = 30_000;

/** Makes a server, which runs after `start`. */
export async function createPostgres(options: ServerOptions): Promise<PostgresServer> {
  const { base, name, binaries = defaultBinaries, settings = {}, env = {}, standbyOf, wal } = options;
  const { data = base.make(name) } = options;
  const port = await freePort();
  const walArgs = wal === undefined ? [] : [`--waldir=${wal}`];
  if (standbyOf === undefined) {
    const fixed = ['-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--no-locale', '-N'];
    await run(join(binaries, 'initdb'), ['-D', data, ...fixed, ...walArgs]);
  } else {
    const from = ['-h', '127.0.0.1', '-p', new URL(standbyOf).port, '-U', 'postgres'];
    const how = ['-R', '-X', 'stream', '-c', 'fast', '-N'];
    await run(join(binaries, 'pg_basebackup'), ['-D', data, ...from, ...how, ...walArgs]);
  }
  const args = Object.entries({ ...common, ...settings, cluster_name: name }).flatMap(([key, value]) => [
    '-c',
    `${key}=${value}`,
  ]);
  const log = join(base.folder, `${name}.log`);
  return controlled({
    name,
    binaries,
    port,
    data,
    env,
    log,
    args: ['-D', data, '-p', String(port), ...args],
  });
}

interface Parts {
  readonly name: string;
  readonly binaries: string;
  readonly port: number;
  readonly data: string;
  readonly env: Readonly<Record<string, string>>;
  readonly log: string;
  readonly args: readonly string[];
}

function controlled({ name, binaries, port, data, env, log, args }: Parts): PostgresServer {
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  let child: ChildProcess | undefined;
  const running = (): boolean => child !== undefined && child.exitCode === null && child.signalCode === null;

  const spawnOne = (): ChildProcess => {
    const out = openSync(log, 'a');
    const one = spawn(join(binaries, 'postgres'), [...args], {
      ...serverIdentity(),
      cwd: '/',
      env: { ...process.env, LC_ALL: 'C', ...env },
      stdio: ['ignore', out, out],
    });
    closeSync(out);
    return one;
  };
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    if (child === undefined || !running()) return;
    const exited = once(child, 'exit');
    child.kill(signal);
    await exited;
  };
  const query = <Row>(text: string, values: readonly unknown[] = []): Promise<readonly Row[]> =>
    ask(url, text, values);

  return {
    name,
    port,
    url,
    data,
    running,
    query,
    start: async () => {
      await until(
        `${name} to answer`,
        async () => {
          // after a kill -9 the old children may still hold its shared memory: then the server exits, and is
          // started again
          if (!running()) child = spawnOne();
          return query('select 1').catch(() => undefined);
        },
        startMs,
      ).catch((error: unknown) => {
        throw new Error(`${String(error)}:\n${readFileSync(log, 'utf8').slice(-2_000)}`, { cause: error });
      });
    },
    stop: (mode) => end(mode === 'fast' ? 'SIGINT' : 'SIGQUIT'),
    kill: () => end('SIGKILL'),
    promote: async () => {
      await query('select pg_promote(true, 30)');
    },
    log: () => readFileSync(log, 'utf8'),
  };
}

/** Runs one statement on a connection of its own. */
export async function ask<Row>(
  url: string,
  text: string,
  values: readonly unknown[] = [],
): Promise<readonly Row[]> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: 2_000,
    query_timeout: 20_000,
  });
  client.on('error', () => {}); // expected: tests stop this server
  try {
    await client.connect();
    return (await client.query(text, [...values])).rows as Row[];
  } finally {
    await client.end().catch(() => {});
  }
}
