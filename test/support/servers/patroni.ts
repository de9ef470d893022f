// Patroni with etcd: servers that choose their primary themselves, and an address that follows it.
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '../until.ts';
import type { Base } from './machine.ts';
import { binaries, freePort, serverIdentity } from './machine.ts';
import type { Switch } from './switch.ts';
import { startSwitch } from './switch.ts';

export interface Cluster {
  /** Address that leads to the primary, like a load balancer that asks Patroni's REST interface. */
  readonly address: Switch;
  readonly directUrl: () => string;
  readonly primary: () => string | undefined;
  /**
   * Kills the primary's postmaster and its Patroni with -9, for good. Resolves to the member's name when
   * Patroni has exited.
   */
  readonly killPrimary: () => Promise<string>;
  /** Has Patroni make another member the primary, as soon as one can be; resolves when it is. @throws if Patroni refuses */
  readonly switchOver: () => Promise<void>;
  /** Closes the address, and kills each member's Patroni. The base's shell ends the servers. */
  readonly stop: () => Promise<void>;
}

interface Member {
  readonly name: string;
  readonly port: number;
  readonly restPort: number;
  readonly data: string;
  readonly process: ChildProcess;
}

/**
 * Seconds; the shortest values that Patroni allows together: loop_wait + 2 * retry_timeout <= ttl. A dead
 * primary's lease ends after `ttl`.
 */
const seconds = { ttl: 5, loop_wait: 1, retry_timeout: 2 };
const startMs = 60_000;
const followMs = 100;

export async function startPatroni(base: Base, names: readonly string[]): Promise<Cluster> {
  const etcdPort = await startEtcd(base);
  const members: Member[] = [];
  // one after the other: the first makes the database, the others copy it
  for (const name of names) {
    const member = await startMember(base, name, etcdPort);
    members.push(member);
    await until(
      `${name} to run`,
      async () => (await answer(member, members[0] === member ? 'primary' : 'replica')) === 200,
      startMs,
    );
  }
  const [first] = members;
  if (first === undefined) throw new Error('no member is named');
  if (members.length > 1) await until('a synchronous standby', async () => anySynchronous(members), startMs);
  let current: Member | undefined = first;
  const address = await startSwitch(urlOf(first));
  const following = follow(members, (member) => {
    current = member;
    address.point(member?.port);
  });
  return {
    address,
    directUrl: () => urlOf(current ?? first),
    primary: () => current?.name,
    killPrimary: async () => {
      const victim = current ?? first;
      const postmaster = Number.parseInt(readFileSync(join(victim.data, 'postmaster.pid'), 'utf8'), 10);
      const exited = once(victim.process, 'exit');
      victim.process.kill('SIGKILL');
      process.kill(postmaster, 'SIGKILL');
      await exited;
      return victim.name;
    },
    switchOver: async () => {
      let leader = first;
      await until(
        'Patroni to switch over',
        async () => {
          leader = current ?? first;
          const response = await fetch(`http://127.0.0.1:${leader.restPort}/switchover`, {
            method: 'POST',
            body: JSON.stringify({ leader: leader.name }),
          }).catch(() => undefined); // it has just been killed
          // 412: no other member can take over at this moment
          if (response === undefined || response.status === 412) return false;
          if (!response.ok) throw new Error(`Patroni refuses to switch over: ${response.status}`);
          return true;
        },
        startMs,
      );
      await until('another primary', () => current !== undefined && current !== leader, startMs);
    },
    stop: async () => {
      await following.stop();
      await address.close();
      // the base's shell ends the servers
      await Promise.all(
        members.map(async ({ process: patroni }) => {
          if (patroni.exitCode !== null || patroni.signalCode !== null) return;
          const exited = once(patroni, 'exit');
          patroni.kill('SIGKILL');
          await exited;
        }),
      );
    },
  };
}

function urlOf({ port }: Member): string {
  return `postgres://postgres@127.0.0.1:${port}/postgres`;
}

/** Returns the HTTP status with which a member reports if it has this role; 0 if it does not answer. */
async function answer({ restPort }: Member, role: 'primary' | 'replica' | 'sync'): Promise<number> {
  try {
    const { status } = await fetch(`http://127.0.0.1:${restPort}/${role}`, {
      method: 'OPTIONS',
      signal: AbortSignal.timeout(1_000),
    });
    return status;
  } catch {
    return 0;
  }
}

async function anySynchronous(members: readonly Member[]): Promise<boolean> {
  for (const member of members) if ((await answer(member, 'sync')) === 200) return true;
  return false;
}

function follow(
  members: readonly Member[],
  found: (member: Member | undefined) => void,
): { readonly stop: () => Promise<void> } {
  let last = members[0];
  const stopping = new AbortController();
  const look = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      let primary: Member | undefined;
      for (const member of members) if ((await answer(member, 'primary')) === 200) primary = member;
      if (primary !== last) found((last = primary));
      await new Promise((resolve) => void setTimeout(resolve, followMs));
    }
  };
  const looking = look();
  return {
    stop: async () => {
      stopping.abort();
      await looking;
    },
  };
}

function launch(base: Base, name: string, [file = '', ...args]: readonly string[]): ChildProcess {
  const out = openSync(join(base.folder, `${name}.log`), 'a');
  const child = spawn(file, args, { ...serverIdentity(), cwd: base.folder, stdio: ['ignore', out, out] });
  closeSync(out);
  if (child.pid !== undefined) base.guard(name, child.pid);
  return child;
}

async function startEtcd(base: Base): Promise<number> {
  const [client, peer] = [await freePort(), await freePort()];
  const [clients, peers] = [client, peer].map((port) => `http://127.0.0.1:${port}`);
  const flags = {
    'data-dir': base.make('etcd'),
    'listen-client-urls': clients,
    'advertise-client-urls': clients,
    'listen-peer-urls': peers,
    'initial-advertise-peer-urls': peers,
    'initial-cluster': `default=${peers}`,
    'log-level': 'error',
  };
  const child = launch(base, 'etcd', [
    'etcd',
    ...Object.entries(flags).map(([flag, value]) => `--${flag}=${value}`),
  ]);
  child.unref();
  const healthy = async (): Promise<boolean> =>
    (await fetch(`${clients}/health`).catch(() => undefined))?.ok === true;
  await until('etcd to answer', healthy, startMs);
  return client;
}

async function startMember(base: Base, name: string, etcdPort: number): Promise<Member> {
  const [port, restPort] = [await freePort(), await freePort()];
  const data = base.make(name);
  const parameters = {
    unix_socket_directories: '',
    max_connections: 100,
    shared_buffers: '64MB',
    fsync: 'off',
    wal_retrieve_retry_interval: '100ms',
  };
  const user = { username: 'postgres', password: 'postgres' };
  // JSON is valid YAML
  const settings = {
    scope: 'pgqueue',
    name,
    restapi: { listen: `127.0.0.1:${restPort}`, connect_address: `127.0.0.1:${restPort}` },
    etcd3: { host: `127.0.0.1:${etcdPort}` },
    bootstrap: {
      dcs: { ...seconds, synchronous_mode: true, postgresql: { parameters, use_slots: true } },
      initdb: [{ encoding: 'UTF8' }, { locale: 'C' }, { auth: 'trust' }, 'no-sync'],
    },
    postgresql: {
      listen: `127.0.0.1:${port}`,
      connect_address: `127.0.0.1:${port}`,
      data_dir: data,
      bin_dir: binaries,
      pgpass: join(base.folder, `${name}.pgpass`),
      authentication: { superuser: user, replication: user },
      pg_hba: ['host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust'],
    },
  };
  const file = join(base.folder, `${name}.yml`);
  writeFileSync(file, JSON.stringify(settings));
  return { name, port, restPort, data, process: launch(base, `patroni-${name}`, ['patroni', file]) };
}

/** Returns the end of a member's Patroni log, for a test that fails. */
export function patroniLog(base: Base, name: string): string {
  const file = join(base.folder, `patroni-${name}.log`);
  return existsSync(file) ? readFileSync(file, 'utf8').slice(-4_000) : '';
}
