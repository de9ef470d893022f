/** A server in a container, through testcontainers. */
import { existsSync } from 'node:fs';
import { request } from 'node:http';
import type { RequestOptions } from 'node:http';
import type { RunningServer } from './running-server.ts';

const pingTimeoutMs = 1_000;
const startTimeoutMs = 120_000;
const defaultSocket = '/var/run/docker.sock';

/** Reports whether a container engine answers at DOCKER_HOST, or at Docker's usual socket. */
export function containerEngineAnswers(env: Readonly<Record<string, string | undefined>>): Promise<boolean> {
  const target = engineAddress(env['DOCKER_HOST']);
  if (target === undefined) return Promise.resolve(false);
  return new Promise((resolve) => {
    const ping = request({ ...target, path: '/_ping', timeout: pingTimeoutMs }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    });
    ping.on('timeout', () => ping.destroy(new Error('timeout')));
    ping.on('error', () => {
      resolve(false);
    });
    ping.end();
  });
}

function engineAddress(host: string | undefined): RequestOptions | undefined {
  if (!host) return existsSync(defaultSocket) ? { socketPath: defaultSocket } : undefined;
  const url = new URL(host);
  if (url.protocol === 'unix:') return { socketPath: url.pathname };
  return { host: url.hostname, port: url.port || 2375 };
}

export async function startContainer(image: string): Promise<RunningServer> {
  const { GenericContainer, Wait } = await import('testcontainers');
  const container = await new GenericContainer(image)
    .withExposedPorts(5432)
    .withEnvironment({ POSTGRES_PASSWORD: 'postgres' })
    .withCommand(['postgres', '-c', 'fsync=off', '-c', 'max_connections=200'])
    // The first message comes from the init phase, which listens on a local socket only.
    .withWaitStrategy(Wait.forLogMessage(/ready to accept connections/, 2))
    .withStartupTimeout(startTimeoutMs)
    .start();
  const address = `${container.getHost()}:${container.getMappedPort(5432)}`;
  let stopped: Promise<unknown> | undefined;
  return {
    kind: 'container',
    adminUrl: `postgres://postgres:postgres@${address}/postgres`,
    stop: async () => {
      await (stopped ??= container.stop());
    },
  };
}
