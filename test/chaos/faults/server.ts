// Faults of PostgreSQL and of what stands before it: crashes, ended sessions, too many of them, snapshots that are held.
import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { until } from '../../support/until.ts';
import { benchName } from '../audit.ts';
import type { FaultMaker, FaultServer } from '../fault.ts';
import type { Arena } from './arena.ts';
import { askOnce, nothing, openSession, pick } from './arena.ts';

export function serverFaults(arena: Arena): readonly FaultMaker[] {
  const { server } = arena;
  const crash = (kind: string, how: 'immediate' | 'kill' | 'fast'): FaultMaker => ({
    kind,
    lastsMs: [0, 3_000],
    takes: ['server', 'pooler'],
    // an orderly stop writes everything
    ...(how === 'fast' ? {} : { spoils: ['recent-commits'] as const }),
    make: () => ({ kind, start: () => server.stop(how), heal: () => server.start() }),
  });
  return [
    crash('postgres-immediate', 'immediate'),
    crash('postgres-kill', 'kill'),
    crash('postgres-restart', 'fast'),
    terminated(server),
    crowded(server),
    held(server, {
      kind: 'snapshot-held',
      lastsMs: [5_000, 9_000],
      sql: 'begin isolation level repeatable read; select count(*) from pgqueue.queue',
    }),
    // every handler that writes waits with a connection of its node's in its hand
    held(server, {
      kind: 'pool-exhausted',
      lastsMs: [2_000, 4_000],
      sql: 'begin; lock table chaos.witness in access exclusive mode',
    }),
    wrongTime(arena),
    fullDisk(arena),
  ];
}

/** Two hours back, or a day ahead: every lease has run out, or none does for a while. */
function wrongTime({ serverClock }: Arena): FaultMaker {
  return {
    kind: 'database-clock',
    lastsMs: [2_000, 5_000],
    takes: ['server'],
    spoils: ['clock'],
    ...(serverClock === undefined ? { missing: 'this server has no clock that can be set' } : {}),
    make: (random) => {
      const offsetSeconds = random() < 0.5 ? -7_200 : 86_400;
      return {
        kind: 'database-clock',
        start: () => serverClock?.set(offsetSeconds),
        heal: () => serverClock?.set(0),
      };
    },
  };
}

/** The next segment of the write-ahead log can't be written: the server panics, and does not come up before there is room. */
function fullDisk({ disk, server }: Arena): FaultMaker {
  return {
    kind: 'disk-full',
    lastsMs: [500, 2_500],
    takes: ['server', 'pooler'],
    spoils: ['recent-commits'],
    ...(disk === undefined ? { missing: 'file systems can only be mounted by root' } : {}),
    make: () => ({
      kind: 'disk-full',
      start: async () => {
        disk?.fill();
        const down = async (): Promise<boolean> => {
          try {
            await askOnce(server, 'select pg_switch_wal()');
            return false;
          } catch {
            return true;
          }
        };
        await until('the server to find no room', down, 20_000);
      },
      heal: async () => {
        disk?.free();
        await server.start();
      },
    }),
  };
}

const victims = `
  select pid from pg_stat_activity
  where backend_type = 'client backend' and application_name <> '${benchName}' and pid <> pg_backend_pid() order by pid`;

/** One session a second, five at once at the end. */
function terminated(server: FaultServer): FaultMaker {
  return {
    kind: 'backend-terminate',
    lastsMs: [0, 500],
    takes: ['server'],
    make: (random) => ({
      kind: 'backend-terminate',
      start: async () => {
        for (let n = 0; n < 4; n += 1) {
          await terminateSome(server, random, n === 3 ? 5 : 1);
          await delay(1_000);
        }
      },
      heal: nothing,
    }),
  };
}

async function terminateSome(server: FaultServer, random: () => number, count: number): Promise<void> {
  const found = (await askOnce<{ readonly pid: number }>(server, victims)).map(({ pid }) => pid);
  const chosen = Array.from({ length: Math.min(count, found.length) }, () => pick(found, random));
  await askOnce(server, 'select pg_terminate_backend(pid) from unnest($1::integer[]) as x (pid)', [chosen]);
}

/** All of max_connections is taken; some who had one lose it, and find no other. */
function crowded(server: FaultServer): FaultMaker {
  return {
    kind: 'connections-exhausted',
    lastsMs: [1_500, 3_000],
    takes: ['server', 'pooler'],
    make: (random) => {
      const taken: pg.Client[] = [];
      const fill = async (): Promise<void> => {
        for (let n = 0; n < 200; n += 1) {
          const client = await openSession(server).catch(() => undefined);
          if (client === undefined) return;
          taken.push(client);
        }
      };
      return {
        kind: 'connections-exhausted',
        start: async () => {
          const first = await openSession(server);
          taken.push(first);
          const { rows } = await first.query<{ pid: number }>(victims);
          await fill();
          const pids = rows.map(({ pid }) => pid).filter(() => random() < 0.4);
          await first.query('select pg_terminate_backend(pid) from unnest($1::integer[]) as x (pid)', [pids]);
          await fill();
        },
        heal: async () => {
          await Promise.all(taken.map((client) => client.end().catch(() => {})));
        },
      };
    },
  };
}

/** A session that begins something and stays in it. */
function held(
  server: FaultServer,
  {
    kind,
    lastsMs,
    sql,
  }: { readonly kind: string; readonly lastsMs: readonly [number, number]; readonly sql: string },
): FaultMaker {
  return {
    kind,
    lastsMs,
    takes: [],
    make: () => {
      let client: pg.Client | undefined;
      return {
        kind,
        start: async () => {
          client = await openSession(server);
          await client.query(sql);
        },
        heal: async () => {
          await client?.end().catch(() => {});
        },
      };
    },
  };
}
