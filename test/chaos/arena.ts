// Everything that a run consists of: a server whose life the bench controls, proxies, a pooler, and the processes.
import { setTimeout as delay } from 'node:timers/promises';
import { migrate } from '@pgqueue/postgres';
import type { CutProxy } from '../support/cut-proxy.ts';
import { startCutProxy } from '../support/cut-proxy.ts';
import type { PgBouncer } from '../support/pgbouncer.ts';
import { startPgBouncer } from '../support/pgbouncer.ts';
import { createClock } from '../support/servers/clock.ts';
import { createDisk } from '../support/servers/disk.ts';
import { createBase } from '../support/servers/machine.ts';
import type { PostgresServer } from '../support/servers/server.ts';
import { createPostgres } from '../support/servers/server.ts';
import { lacks } from '../support/tools.ts';
import type { ChaosConfig } from './actors/config.ts';
import { installAudit } from './audit.ts';
import type { FaultServer } from './fault.ts';
import type { Arena, ProxyName } from './faults/arena.ts';
import type { SlotOptions } from './fleet.ts';
import { openFleet } from './fleet.ts';
import type { Write } from './record.ts';

export interface ArenaOptions {
  readonly config: Omit<ChaosConfig, 'listen'>;
  readonly write: Write;
  readonly producers: number;
  readonly workers: number;
  /** Share of the workers that are on the Python client, rounded up. */
  readonly python: number;
  /** True if the server runs under a clock that can be set. */
  readonly serverClock: boolean;
  /** True if the server's write-ahead log is on a small disk. */
  readonly smallDisk: boolean;
}

export interface OpenArena extends Arena {
  readonly close: () => Promise<void>;
}

const poolSize = 12;
const diskBytes = 192 * 1_024 * 1_024;
const smallWal = { max_wal_size: '64MB', min_wal_size: '32MB' };

/**
 * Opens everything but the processes, which `fleet.start` starts. If anything fails, closes what is open
 * already.
 */
export async function openArena(options: ArenaOptions): Promise<OpenArena> {
  const { config, write } = options;
  const base = createBase();
  const closing: (() => Promise<void>)[] = [() => base.remove()];
  const close = async (): Promise<void> => {
    for (const one of closing.splice(0).toReversed()) await one();
  };
  try {
    const fakeTime = !lacks('faketime');
    const serverClock = options.serverClock && fakeTime ? createClock(base, 'server') : undefined;
    const disk =
      options.smallDisk && !lacks('the right to mount') ? createDisk(base, 'wal', diskBytes) : undefined;
    const postgres = await createPostgres({
      base,
      name: 'chaos',
      ...(serverClock === undefined ? {} : { env: serverClock.env }),
      ...(disk === undefined ? {} : { wal: disk.folder, settings: smallWal }),
    });
    await postgres.start();
    closing.push(() => postgres.stop('immediate'));
    await migrate({ connectionString: postgres.url });
    await installAudit(postgres.url);
    const server = faultServer(postgres);
    const proxies = await openProxies(postgres.url);
    closing.push(async () => {
      await Promise.all(Object.values(proxies).map((proxy) => proxy.close()));
    });
    const pooler = lacks('pgbouncer') ? undefined : await openPooler(postgres.url);
    if (pooler !== undefined) closing.push(() => pooler.current.stop());
    const clock = (name: string): Pick<SlotOptions, 'clock'> =>
      fakeTime ? { clock: createClock(base, name) } : {};
    const slots = slotsOf(options, { proxies, pooler: pooler?.current.url, clock });
    const fleet = openFleet({ slots, config, write });
    closing.push(() => fleet.stop());
    return { fleet, server, proxies, pooler, serverClock, disk, write, close };
  } catch (error) {
    await close();
    throw error;
  }
}

function faultServer(postgres: PostgresServer): FaultServer {
  return {
    adminUrl: postgres.url,
    start: () => postgres.start(),
    stop: (how) => (how === 'kill' ? postgres.kill() : postgres.stop(how)),
  };
}

async function openProxies(url: string): Promise<Readonly<Record<ProxyName, CutProxy>>> {
  const [workers, schedulers, producers] = await Promise.all([
    startCutProxy(url),
    startCutProxy(url),
    startCutProxy(url),
  ]);
  return { workers, schedulers, producers };
}

async function openPooler(url: string): Promise<NonNullable<Arena['pooler']>> {
  let current: PgBouncer = await startPgBouncer(url, poolSize);
  return {
    get current() {
      return current;
    },
    restart: async (downMs) => {
      const listenPort = Number(new URL(current.url).port);
      await current.stop();
      await delay(downMs);
      current = await startPgBouncer(url, poolSize, { listenPort });
    },
  };
}

interface Ways {
  readonly proxies: Readonly<Record<ProxyName, CutProxy>>;
  readonly pooler: string | undefined;
  readonly clock: (name: string) => Pick<SlotOptions, 'clock'>;
}

/**
 * Assigns routes, clocks and languages: the last worker and the last producer connect through the pooler; one
 * worker and one scheduler have a clock of their own. With a share of a half, two of three workers are in
 * Python: the one with the clock, and the one behind the pooler.
 */
function slotsOf(
  { producers, workers, python }: ArenaOptions,
  { proxies, pooler, clock }: Ways,
): readonly SlotOptions[] {
  const by = (name: ProxyName, last: boolean): Pick<SlotOptions, 'url' | 'listen'> =>
    last && pooler !== undefined ? { url: pooler, listen: false } : { url: proxies[name].url, listen: true };
  return [
    ...['left', 'right'].map((name): SlotOptions => ({
      name,
      role: 'scheduler',
      ...by('schedulers', false),
      ...(name === 'left' ? clock(name) : {}),
    })),
    ...Array.from({ length: workers }, (_, index): SlotOptions => {
      const name = `node-${index + 1}`;
      const own = index === 0 ? clock(name) : {};
      const way = by('workers', workers > 1 && index === workers - 1);
      const inPython = Math.ceil((index + 1) * python) > Math.ceil(index * python);
      return { name, role: 'worker', ...way, ...own, python: inPython };
    }),
    ...Array.from({ length: producers }, (_, index): SlotOptions => ({
      name: `producer-${index + 1}`,
      role: 'producer',
      ...by('producers', producers > 1 && index === producers - 1),
    })),
  ];
}
