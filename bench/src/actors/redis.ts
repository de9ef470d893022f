import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';

/** A Redis server started by the bench, with the durability that is usual in production. */
export interface RedisServer {
  readonly url: string;
  readonly pid: number;
  readonly version: string;
  readonly settings: string;
  /** Deletes all data. */
  readonly flush: () => Promise<void>;
  readonly stop: () => Promise<void>;
}

const settings = { appendonly: 'yes', appendfsync: 'everysec', save: '', 'maxmemory-policy': 'noeviction' };
const readyMs = 10_000;

/**
 * Version of the installed `redis-server`; undefined if it is not installed (`apt-get install redis-server`).
 */
export function redisVersion(): string | undefined {
  try {
    return /v=(\S+)/.exec(
      execFileSync('redis-server', ['--version'], { encoding: 'utf8', stdio: 'pipe' }),
    )?.[1];
  } catch {
    return undefined;
  }
}

/** @throws if redis-server is not installed or does not answer within 10 s */
export async function startRedis(): Promise<RedisServer> {
  const version = redisVersion();
  if (version === undefined) {
    throw new Error(
      'bullmq needs redis-server, which is not installed: apt-get install redis-server, or leave it out of --peers',
    );
  }
  const folder = mkdtempSync(join(tmpdir(), 'pgqueue-bench-redis-'));
  const port = await freePort();
  const flags = Object.entries({ ...settings, port: String(port), bind: '127.0.0.1', dir: folder }).flatMap(
    ([name, value]) => [`--${name}`, value],
  );
  const server = spawn('redis-server', flags, { stdio: 'ignore' });
  const exited = once(server, 'exit');
  const client = new Redis({ host: '127.0.0.1', port, lazyConnect: true, maxRetriesPerRequest: null });
  client.on('error', () => {}); // the client retries until the server answers
  const stop = async (): Promise<void> => {
    client.disconnect();
    if (server.exitCode === null) {
      server.kill('SIGKILL'); // its data is not needed
      await exited;
    }
    rmSync(folder, { recursive: true, force: true });
  };
  const refused = setTimeout(() => client.disconnect(), readyMs);
  try {
    await client.ping();
  } catch (error) {
    await stop();
    throw new Error('redis-server does not answer', { cause: error });
  } finally {
    clearTimeout(refused);
  }
  return {
    url: `redis://127.0.0.1:${port}`,
    pid: server.pid ?? 0,
    version,
    settings: Object.entries(settings)
      .map(([name, value]) => `${name} ${value === '' ? '""' : value}`)
      .join(', '),
    flush: async () => void (await client.flushall()),
    stop,
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
