// A primary and its streaming standby.
import { until } from '../until.ts';
import type { Base } from './machine.ts';
import type { PostgresServer } from './server.ts';
import { createPostgres } from './server.ts';
import type { Switch } from './switch.ts';
import { startSwitch } from './switch.ts';

export interface Pair {
  readonly primary: PostgresServer;
  readonly standby: PostgresServer;
  /** Leads to the primary, whichever that is. */
  readonly address: Switch;
  /** The standby hears nothing more of the primary, until one of them is asked to fail over. */
  readonly partition: () => void;
  /** Kills the primary for good, promotes the standby, and lets the address lead there; resolves when it takes writes. */
  readonly failOver: () => Promise<void>;
  /** Where the address leads. */
  readonly directUrl: () => string;
  readonly stop: () => Promise<void>;
}

export interface PairOptions {
  readonly base: Base;
  /** A commit is answered when the standby has it. */
  readonly synchronous: boolean;
  /** Before the standby is made. */
  readonly prepare: (url: string) => Promise<unknown>;
}

/** The default, 5 s, is how long a synchronous commit waits after each restart of the primary. */
const settings = { wal_retrieve_retry_interval: '100ms' };

export async function startPair({ base, synchronous, prepare }: PairOptions): Promise<Pair> {
  const primary = await createPostgres({ base, name: 'primary', settings });
  await primary.start();
  await prepare(primary.url);
  const shipping = await startSwitch(primary.url);
  const standby = await createPostgres({ base, name: 'standby', standbyOf: shipping.url, settings });
  await standby.start();
  if (synchronous) {
    await primary.query(`alter system set synchronous_standby_names = 'standby'`);
    await primary.query('select pg_reload_conf()');
  }
  const wanted = synchronous ? 'sync' : 'async';
  await until(
    'the standby to stream',
    async () =>
      (
        await primary.query(
          `select from pg_stat_replication where state = 'streaming' and sync_state = '${wanted}'`,
        )
      ).length > 0,
    15_000,
  );
  const address = await startSwitch(primary.url);
  let current = primary;
  return {
    primary,
    standby,
    address,
    partition: () => shipping.point(undefined),
    failOver: async () => {
      await primary.kill();
      current = standby;
      await standby.promote();
      address.point(standby.port);
    },
    directUrl: () => current.url,
    stop: async () => {
      await Promise.all([address.close(), shipping.close()]);
    },
  };
}
