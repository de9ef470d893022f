// Servers of the proof, an installation on each, and the proxies through which its processes reach them.
import type { Database } from '@pgqueue/postgres';
import { createOperator, migrate } from '@pgqueue/postgres';
import { openDatabase } from '@pgqueue/postgres/internal';
import { startServer } from '@pgqueue/postgres/testing';
import type { Installation } from '@pgqueue/router';
import type { CutProxy } from '../../support/cut-proxy.ts';
import { startCutProxy } from '../../support/cut-proxy.ts';
import type { Base } from '../../support/servers/machine.ts';
import { createBase } from '../../support/servers/machine.ts';
import { startPatroni } from '../../support/servers/patroni.ts';
import { createPostgres } from '../../support/servers/server.ts';
import { lacks } from '../../support/tools.ts';
import { record } from '../recorder.ts';
import { queues } from './actors/limits.ts';

/**
 * Way to a server, by who takes it: that of its own schedulers, that of the schedulers of other installations, that of
 * the workers, or that of the producers and of whoever moves keys.
 */
export type Way = 'own' | 'others' | 'workers' | 'clients';

const ways: readonly Way[] = ['own', 'others', 'workers', 'clients'];

/** An installation on a server of its own. */
export interface Site {
  readonly installation: Installation;
  /** A way that no fault touches, for those who look on. */
  readonly database: Database;
  readonly proxies: Readonly<Record<Way, CutProxy>>;
  /** The server can be crashed and started again; undefined: it runs through. */
  readonly server?: { readonly crash: () => Promise<void>; readonly start: () => Promise<void> };
}

export interface Sites {
  readonly all: readonly Site[];
  /** Installations as somebody sees them who goes these ways; `self` goes its own. */
  readonly seenBy: (way: Way, self?: Site) => readonly Installation[];
  readonly close: () => Promise<void>;
}

interface Opened extends Pick<Site, 'server'> {
  readonly url: string;
  readonly close: () => Promise<void>;
}

/**
 * Three servers of which Patroni chooses the primary, by an address that leads to it. Their first crash kills the primary
 * for good; each later one is a switchover.
 */
async function openPatroni(base: Base): Promise<Opened> {
  const cluster = await startPatroni(base, ['one', 'two', 'three']);
  let killed = false;
  return {
    url: cluster.address.url,
    server: {
      crash: async () => {
        if (killed) await cluster.switchOver();
        else await cluster.killPrimary();
        killed = true;
      },
      start: async () => {}, // Patroni does
    },
    close: () => cluster.stop(),
  };
}

/** Debian's server can be crashed; where it is not installed, the one that tests use runs through. */
async function openServer(base: Base | undefined, name: string): Promise<Opened> {
  if (base === undefined) {
    const server = await startServer();
    return { url: server.adminUrl, close: () => server.stop() };
  }
  const postgres = await createPostgres({ base, name });
  await postgres.start();
  return {
    url: postgres.url,
    server: { crash: () => postgres.stop('immediate'), start: () => postgres.start() },
    close: () => postgres.stop('immediate'),
  };
}

async function openSite(number: number, { url, server }: Opened): Promise<Site> {
  const name = `site-${number}`;
  await migrate({ connectionString: url });
  const operator = createOperator({ connectionString: url });
  await operator.installation.init({ number, name });
  for (const queue of queues) await operator.queues.set(queue, { keyConcurrency: 1 });
  await operator.close();
  const database = openDatabase({ connectionString: url, connectionsMax: 4 });
  await record(database);
  const made = await Promise.all(ways.map(async (way) => [way, await startCutProxy(url)] as const));
  const proxies = Object.fromEntries(made) as Record<Way, CutProxy>;
  return {
    installation: { number, name, connectionString: url },
    database,
    proxies,
    ...(server === undefined ? {} : { server }),
  };
}

/** @param patroni the first one is kept by Patroni */
export async function openSites(count: number, patroni: boolean): Promise<Sites> {
  const base = lacks('postgresql-15') ? undefined : createBase();
  if (patroni && (base === undefined || lacks('patroni') || lacks('etcd')))
    throw new Error('install postgresql-15, patroni and etcd-server, or leave out --patroni');
  const numbers = Array.from({ length: count }, (_, index) => index + 1);
  const servers = await Promise.all(
    numbers.map((number) =>
      patroni && number === 1 && base !== undefined ? openPatroni(base) : openServer(base, `site-${number}`),
    ),
  );
  const all = await Promise.all(servers.map((opened, index) => openSite(index + 1, opened)));
  return {
    all,
    seenBy: (way, self) =>
      all.map((site) => ({
        ...site.installation,
        connectionString: site.proxies[site === self ? 'own' : way].url,
      })),
    close: async () => {
      await Promise.all(all.map(({ database }) => database.close()));
      await Promise.all(all.flatMap(({ proxies }) => Object.values(proxies).map((proxy) => proxy.close())));
      await Promise.all(servers.map((server) => server.close()));
      await base?.remove();
    },
  };
}
