import { randomBytes } from 'node:crypto';
import type { Actor } from './crew.ts';
import { hire } from './crew.ts';
import type { Order, Role } from './orders.ts';
import type { Peer, Place, Setting } from '../peers/peer.ts';
import { runSql, withClient } from '../peers/sql.ts';
import { cpuMsOf, serverCpuMs } from './processes.ts';
import type { RedisServer } from './redis.ts';
import type { Server } from './server.ts';

/** One peer in one setting, with its own database and processes, for one repetition of a work. */
export interface Stage {
  readonly peer: Peer;
  readonly setting: Setting;
  readonly place: Place;
  readonly hire: (role: Role) => Promise<Actor>;
  /** Resources used up to this moment. */
  readonly usage: () => Promise<Usage>;
  readonly remains: () => Promise<boolean>;
  /** Vacuums, analyzes and checkpoints, so that every repetition starts from the same state. */
  readonly settle: () => Promise<void>;
  readonly close: () => Promise<void>;
}

/** Resources used since the server and the processes started; NaN where they cannot be measured. */
export interface Usage {
  /** CPU time of the workers and of the scheduler process. */
  readonly nodeMs: number;
  readonly producerMs: number;
  readonly storeMs: number;
  readonly walBytes: number;
}

/** Dead rows: `made` since the database was created, `waiting` to be vacuumed. */
export interface DeadRows {
  readonly made: number;
  readonly waiting: number;
}

export interface StageOptions {
  readonly peer: Peer;
  readonly setting: Setting;
  readonly server: Server;
  readonly redis: RedisServer | undefined;
  readonly profile: string | undefined;
  readonly scratch: string;
}

export async function openStage(options: StageOptions): Promise<Stage> {
  const { peer, setting, server, redis, profile, scratch } = options;
  const name = `bench_${randomBytes(5).toString('hex')}`;
  await runSql(server.adminUrl, `create database ${name}`);
  const url = new URL(server.adminUrl);
  url.pathname = `/${name}`;
  const place: Place = { databaseUrl: url.href, redisUrl: redis?.url };
  const actors: Actor[] = [];
  const close = async (): Promise<void> => {
    await Promise.all(actors.map((actor) => actor.end()));
    if (peer.store === 'redis') await redis?.flush();
    await runSql(server.adminUrl, `drop database if exists ${name} with (force)`);
  };
  try {
    await peer.install(place, setting.name);
  } catch (error) {
    await close();
    throw error;
  }
  return {
    peer,
    setting,
    place,
    hire: async (role) => {
      const measured = peer.name === 'pgqueue' && role !== 'producer';
      const actor = await hire({
        role,
        peer: peer.name,
        place,
        profile: measured ? profile : undefined,
        scratch,
      });
      actors.push(actor);
      return actor;
    },
    usage: async () => ({
      nodeMs: cpuOf(actors.filter(({ role }) => role !== 'producer')),
      producerMs: cpuOf(actors.filter(({ role }) => role === 'producer')),
      storeMs: peer.store === 'redis' ? serverCpuMs(redis?.pid) : serverCpuMs(server.pid),
      walBytes: peer.store === 'redis' ? NaN : await walBytes(server.adminUrl),
    }),
    remains: () => peer.remains(place),
    settle: async () => {
      if (peer.store === 'redis') return;
      await runSql(place.databaseUrl, 'vacuum analyze', 'checkpoint');
    },
    close,
  };
}

function cpuOf(actors: readonly Actor[]): number {
  return actors.reduce((sum, { pid }) => sum + cpuMsOf(pid), 0);
}

function walBytes(adminUrl: string): Promise<number> {
  return withClient(adminUrl, async (client) => {
    const { rows } = await client.query<{ bytes: number }>(
      `select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8 as bytes`,
    );
    return rows[0]?.bytes ?? NaN;
  });
}

/** Reads the counts of closed connections: those of an open one arrive up to a second late. */
export function deadRows({ peer, place }: Stage): Promise<DeadRows> {
  if (peer.store === 'redis') return Promise.resolve({ made: NaN, waiting: NaN });
  return withClient(place.databaseUrl, async (client) => {
    const { rows } = await client.query<DeadRows>(
      `select coalesce(sum(n_tup_upd + n_tup_del), 0)::float8 as made, coalesce(sum(n_dead_tup), 0)::float8 as waiting
       from pg_stat_user_tables`,
    );
    return rows[0] ?? { made: NaN, waiting: NaN };
  });
}

export async function tellAll(actors: readonly Actor[], order: Order): Promise<void> {
  await Promise.all(actors.map((actor) => actor.tell(order)));
}
