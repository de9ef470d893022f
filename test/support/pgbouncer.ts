import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';

const binary = '/usr/sbin/pgbouncer';

export interface PgBouncer {
  /** The same database, by way of the pooler. */
  readonly url: string;
  readonly stop: () => Promise<void>;
}

/** The real one, in transaction mode, between here and the database of `target`. It ends with this process, however that ends. */
export async function startPgBouncer(
  target: string,
  poolSize: number,
  { listenPort: given }: { readonly listenPort?: number } = {},
): Promise<PgBouncer> {
  const { hostname, port, username, password, pathname } = new URL(target);
  const listenPort = given ?? (await freePort());
  const folder = mkdtempSync(join(tmpdir(), 'pgqueue-pgbouncer-'));
  const file = join(folder, 'pgbouncer.ini');
  const lines = [
    '[databases]',
    `* = host=${hostname} port=${port} user=${username} password=${password || username}`,
    '[pgbouncer]',
    `listen_addr = 127.0.0.1`,
    `listen_port = ${listenPort}`,
    'unix_socket_dir =',
    'auth_type = any',
    'pool_mode = transaction',
    `default_pool_size = ${poolSize}`,
    'max_client_conn = 100',
    'server_login_retry = 1', // after a restart of the server
  ];
  writeFileSync(file, `${lines.join('\n')}\n`);
  // it refuses to run as root
  const identity = process.getuid?.() === 0 ? postgresUser() : undefined;
  if (identity !== undefined) for (const path of [folder, file]) chownSync(path, identity.uid, identity.gid);
  const script = '"$1" -q "$2" & cat >/dev/null; kill $!; wait';
  const shell = spawn('sh', ['-c', script, 'sh', binary, file], {
    ...identity,
    cwd: '/',
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  const url = `postgres://${username}@127.0.0.1:${listenPort}${pathname}`;
  const stop = async (): Promise<void> => {
    if (shell.exitCode === null) {
      const exited = once(shell, 'exit');
      shell.stdin.end();
      await exited;
    }
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    await answers(url);
  } catch (error) {
    await stop();
    throw error;
  }
  return { url, stop };
}

function postgresUser(): { readonly uid: number; readonly gid: number } {
  const ask = (flag: string): number => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }));
  return { uid: ask('-u'), gid: ask('-g') };
}

async function answers(url: string): Promise<void> {
  for (const deadline = performance.now() + 10_000; ;) {
    const client = new pg.Client({ connectionString: url });
    try {
      await client.connect();
      await client.query('select 1');
      return;
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await delay(20);
    } finally {
      await client.end();
    }
  }
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
