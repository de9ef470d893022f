// A primary and its streaming standby, which takes over.
import type { FaultMaker } from '../../chaos/fault.ts';
import { until } from '../until.ts';
import type { Base } from './machine.ts';
import type { PostgresServer } from './server.ts';
import { createPostgres } from './server.ts';
import type { Switch } from './switch.ts';
import { startSwitch } from './switch.ts';

export interface Pair {
  /** Address that leads to the current primary. */
  readonly address: Switch;
  readonly primary: () => PostgresServer;
  readonly standby: () => PostgresServer;
  /** Cuts the standby off from the primary. */
  readonly partition: () => void;
  /**
   * Kills the primary for good, promotes the standby, and points the address at it. Resolves when it accepts
   * writes.
   */
  readonly failOver: () => Promise<void>;
  /** Makes a new standby after a failover, copied from the new primary. */
  readonly rebuild: () => Promise<void>;
  /** Returns the URL of the server that the address leads to. */
  readonly directUrl: () => string;
  readonly stop: () => Promise<void>;
}

export interface PairOptions {
  readonly base: Base;
  /** True if a commit is answered only when the standby has it. */
  readonly synchronous: boolean;
  /** Runs before the standby is made. */
  readonly prepare: (url: string) => Promise<unknown>;
}

/** Shortens the default of 5 s, for which a synchronous commit waits after each restart of the primary. */
const settings = { wal_retrieve_retry_interval: '100ms' };

export async function startPair({ base, synchronous, prepare }: PairOptions): Promise<Pair> {
  let primary = await createPostgres({ base, name: 'server-1', settings });
  await primary.start();
  await prepare(primary.url);
  let attached = await attach({ base, synchronous, primary, name: 'server-2' });
  const address = await startSwitch(primary.url);
  let failovers = 0;
  return {
    address,
    primary: () => primary,
    standby: () => attached.standby,
    partition: () => attached.shipping.point(undefined),
    failOver: async () => {
      await primary.kill();
      primary = attached.standby;
      failovers += 1;
      await primary.promote();
      address.point(primary.port);
    },
    rebuild: async () => {
      if (primary !== attached.standby) return; // the standby was not promoted
      await attached.shipping.close();
      attached = await attach({ base, synchronous, primary, name: `server-${failovers + 2}` });
    },
    directUrl: () => primary.url,
    stop: async () => {
      await Promise.all([address.close(), attached.shipping.close()]);
      await Promise.all([primary.stop('immediate'), attached.standby.stop('immediate')]);
    },
  };
}

interface Attached {
  readonly standby: PostgresServer;
  /** Connection between the primary and the standby. */
  readonly shipping: Switch;
}

async function attach({
  base,
  synchronous,
  primary,
  name,
}: Pick<PairOptions, 'base' | 'synchronous'> & {
  readonly primary: PostgresServer;
  readonly name: string;
}): Promise<Attached> {
  const shipping = await startSwitch(primary.url);
  const standby = await createPostgres({ base, name, standbyOf: shipping.url, settings });
  await standby.start();
  if (synchronous) {
    await primary.query(`alter system set synchronous_standby_names = '*'`);
    await primary.query('select pg_reload_conf()');
  }
  const wanted = `select from pg_stat_replication where state = 'streaming' and sync_state = '${synchronous ? 'sync' : 'async'}'`;
  await until('the standby to stream', async () => (await primary.query(wanted)).length > 0);
  return { standby, shipping };
}

/** Fault in which the primary dies and its standby takes over; healed when there is a new standby. */
export function failOverFault(pair: Pair, { synchronous }: Pick<PairOptions, 'synchronous'>): FaultMaker {
  const kind = synchronous ? 'failover-synchronous' : 'failover-asynchronous';
  return {
    kind,
    lastsMs: [0, 2_000],
    takes: ['server', 'pooler'],
    spoils: synchronous ? ['recent-commits'] : ['recent-commits', 'shipped-commits'],
    make: () => ({ kind, start: () => pair.failOver(), heal: () => pair.rebuild() }),
  };
}
