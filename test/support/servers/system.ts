// The whole system as processes: a producer, two schedulers, two workers; and the fate of the jobs that it
// acknowledged.
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Actor } from '../actors.ts';
import { startActor } from '../actors.ts';
import { until } from '../until.ts';
import type { SystemConfig } from './actors/config.ts';
import type { Record, Verdict } from './record.ts';
import { judge, openRecord } from './record.ts';
import { ask } from './server.ts';

export type Role = 'producer' | 'scheduler' | 'worker';

export interface SystemOptions {
  /** URL that the processes connect to. */
  readonly url: string;
  /** URLs of single processes, by name. */
  readonly urls?: Readonly<{ [name: string]: string }>;
  /** Returns the direct URL of the database, for the judge; called each time, because failovers change it. */
  readonly directUrl?: () => string;
  readonly config?: Partial<SystemConfig>;
  /** Environment variables of single processes, by name. */
  readonly env?: Readonly<{ [name: string]: Readonly<{ [variable: string]: string }> }>;
}

export interface System extends Record {
  readonly actors: ReadonlyMap<string, Actor>;
  readonly add: (role: Role, name: string) => Promise<Actor>;
  /** Returns the messages of these types from all processes, those that left included. */
  readonly told: (types: readonly string[]) => readonly string[];
  /** Stops a process in order. */
  readonly remove: (name: string) => Promise<void>;
  /** Stops the producers; resolves when no job is left in QUEUE. */
  readonly finish: (timeoutMs?: number) => Promise<void>;
  /** Judges the run after `finish`. `died`: processes that ended without being told to. */
  readonly judge: () => Promise<Verdict & { readonly died: readonly string[] }>;
  readonly stop: () => Promise<void>;
}

const defaults: Omit<SystemConfig, 'folder'> = {
  perSecond: 100,
  charge: false,
  listen: true,
  schedulerLeaseMs: 2_000,
  // far longer than a busy machine takes to answer: nodes are lost only if a test wants it
  heartbeatMs: 1_000,
  lostAfterMs: 15_000,
};

/** Creates a system without processes; see {@link startSystem}. */
function createSystem(options: SystemOptions): System {
  const { url, directUrl = () => url } = options;
  const folder = mkdtempSync(join(tmpdir(), 'pgqueue-system-'));
  const config: SystemConfig = { ...defaults, ...options.config, folder };
  const record = openRecord(folder);
  const actors = new Map<string, Actor>();
  const died: string[] = [];
  const leaving = new Set<string>();
  const all: Actor[] = [];

  const add: System['add'] = async (role, name) => {
    const actor = await startActor(role, {
      url: options.urls?.[name] ?? url,
      name,
      env: options.env?.[name] ?? {},
      ...(role === 'scheduler'
        ? { options: schedulerOptions(config) }
        : { options: config, file: new URL(`actors/${role}.ts`, import.meta.url) }),
    });
    actor.process.once('exit', (code, signal) => {
      if (!leaving.has(name)) died.push(`${name}: ${signal ?? code}`);
    });
    actors.set(name, actor);
    all.push(actor);
    leaving.delete(name);
    return actor;
  };
  const remove = async (name: string): Promise<void> => {
    leaving.add(name);
    await actors.get(name)?.stop();
    actors.delete(name);
  };

  return {
    ...record,
    actors,
    add,
    remove,
    told: (types) =>
      all.flatMap(({ name, heard }) =>
        heard.filter(({ type }) => types.includes(type)).map((said) => `${name}: ${JSON.stringify(said)}`),
      ),
    finish: async (timeoutMs = 300_000) => {
      await finishProducers(actors, timeoutMs);
      const open = (): Promise<readonly unknown[]> => ask(directUrl(), 'select from pgqueue.queue limit 1');
      await until('every job to end', async () => (await open().catch(() => [{}])).length === 0, timeoutMs);
    },
    judge: async () => ({ ...(await judge(directUrl(), record)), died }),
    stop: async () => {
      await Promise.all([...actors.keys()].map(remove));
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function schedulerOptions({ schedulerLeaseMs, listen, charge }: SystemConfig): object {
  return {
    leaseMs: schedulerLeaseMs,
    listen,
    tells: ['node.lost', 'leases.reaped', 'database.error'],
    policies: new URL('actors/policies.ts', import.meta.url).href,
    ...(charge ? { policy: 'shares of time' } : {}),
  };
}

async function finishProducers(actors: ReadonlyMap<string, Actor>, timeoutMs: number): Promise<void> {
  for (const [name, { tell, heard }] of actors) {
    if (!name.startsWith('producer')) continue;
    tell('finish');
    await until(`${name} to finish`, () => heard.some(({ type }) => type === 'finished'), timeoutMs);
  }
}

/** Starts a producer, a leader, its standby and two workers. */
export async function startSystem(options: SystemOptions): Promise<System> {
  const system = createSystem(options);
  try {
    await Promise.all([
      ...['leader', 'standby'].map((name) => system.add('scheduler', name)),
      ...['node-1', 'node-2'].map((name) => system.add('worker', name)),
      system.add('producer', 'producer'),
    ]);
    return system;
  } catch (error) {
    await system.stop();
    throw error;
  }
}
