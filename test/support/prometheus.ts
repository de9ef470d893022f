import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { until } from './until.ts';

const given = fileURLToPath(new URL('../../docker/monitoring/', import.meta.url));

/** A series at one moment. */
export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface Prometheus {
  /** An address of its API. @throws where it answers with an error */
  readonly ask: <Data>(path: string, query: Readonly<Record<string, string>>) => Promise<Data>;
  readonly query: (expression: string) => Promise<readonly Sample[]>;
  readonly stop: () => Promise<void>;
}

/** Debian's Prometheus with the configuration of docker/monitoring, but for where processes are and how often it asks. */
export async function startPrometheus(
  ports: Readonly<Record<'scheduler' | 'worker', number>>,
): Promise<Prometheus> {
  const folder = mkdtempSync(join(tmpdir(), 'pgqueue-prometheus-'));
  const config = readFileSync(join(given, 'prometheus.yaml'), 'utf8')
    .replaceAll(/_interval: 15s/g, '_interval: 1s')
    .replaceAll(/\[(?:'(scheduler|worker)-\w+:9464'(?:, )?)+\]/g, (_, role: 'scheduler' | 'worker') => {
      return `['127.0.0.1:${ports[role]}']`;
    });
  writeFileSync(join(folder, 'prometheus.yaml'), config);
  cpSync(join(given, 'alerts.yaml'), join(folder, 'alerts.yaml'));
  const port = await freePort();
  const args = [
    `--config.file=${join(folder, 'prometheus.yaml')}`,
    `--storage.tsdb.path=${join(folder, 'data')}`,
    `--web.listen-address=127.0.0.1:${port}`,
  ];
  const child = spawn('prometheus', args, { stdio: 'ignore' });
  const ask: Prometheus['ask'] = async (path, query) => {
    const url = `http://127.0.0.1:${port}/api/v1/${path}?${new URLSearchParams(query).toString()}`;
    const answer = (await (await fetch(url)).json()) as {
      readonly status: string;
      readonly error?: string;
      readonly data: unknown;
    };
    if (answer.status !== 'success') throw new Error(`Prometheus: ${answer.error}`);
    return answer.data as never;
  };
  const stop = async (): Promise<void> => {
    if (child.exitCode === null && child.kill()) await once(child, 'exit');
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    await until(
      'Prometheus to be ready',
      () =>
        fetch(`http://127.0.0.1:${port}/-/ready`)
          .then(({ ok }) => ok)
          .catch(() => false),
      30_000,
    );
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    ask,
    stop,
    query: async (expression) => {
      const { result } = await ask<{
        readonly result: readonly {
          readonly metric: Sample['labels'];
          readonly value: readonly [number, string];
        }[];
      }>('query', { query: expression });
      return result.map(({ metric, value }) => ({ labels: metric, value: Number(value[1]) }));
    },
  };
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  return port;
}
