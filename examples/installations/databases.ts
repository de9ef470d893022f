// Databases of the demo: PostgreSQL servers of its own, one of which it kills.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { createOperator, migrate } from '@pgqueue/postgres';
import { startEmbedded } from '@pgqueue/postgres/testing';
import type { Installation } from '@pgqueue/router';

export interface DemoDatabase {
  readonly installation: Installation;
  /** Kills the server as a power failure does. */
  readonly kill: () => void;
  readonly restart: () => Promise<void>;
  readonly close: () => Promise<void>;
}

/** Makes a server with an installation. */
export async function openDatabase(number: number): Promise<DemoDatabase> {
  const data = mkdtempSync(join(tmpdir(), 'pgqueue-demo-'));
  let server = await startEmbedded({ data });
  const port = Number(new URL(server.adminUrl).port);
  const installation = { number, name: `db-${number}`, connectionString: server.adminUrl };
  await migrate({ connectionString: server.adminUrl });
  const operator = createOperator({ connectionString: server.adminUrl });
  await operator.installation.init({ number, name: installation.name });
  await operator.close();
  return {
    installation,
    kill: () =>
      process.kill(Number.parseInt(readFileSync(join(data, 'postmaster.pid'), 'utf8'), 10), 'SIGKILL'),
    restart: async () => {
      server = await started(data, port);
    },
    close: async () => {
      await server.stop();
      rmSync(data, { recursive: true, force: true });
    },
  };
}

/** Processes of the killed server may still hold its memory: until they have ended, another one does not start. */
async function started(data: string, port: number): ReturnType<typeof startEmbedded> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await startEmbedded({ data, port });
    } catch (error) {
      if (tries === 50) throw error;
      await delay(200);
    }
  }
}
