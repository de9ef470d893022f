import type { Database, StoredQueueSettings } from '@pgqueue/postgres';
import type { BusyKey, WaitingKey } from '@pgqueue/postgres/internal/dashboard';
import {
  countWaiting,
  defaultSettings,
  readBusyKeys,
  readLanes,
  readSettings,
  readWaitingKeys,
} from '@pgqueue/postgres/internal/dashboard';
import type { KeyRow, Keys, ShareWindow } from '../contract.ts';
import type { Desk } from '../desk.ts';
import type { Parameters } from '../http/parameters.ts';
import { atLeast, timeOf } from './wire.ts';

/** Ended jobs that shares are computed from, the latest ones. */
const seenMax = 10_000;
const windowsMs: Readonly<Record<ShareWindow, number>> = { minutes: 300_000, hour: 3_600_000 };
const activeMax = 100;
const countMax = 500;
/** Waiting lanes that are read for fair shares; with more of them nobody knows the shares. */
const lanesMax = 500;

export async function keysPage({ database }: Desk, query: Parameters): Promise<Keys> {
  const window = query.oneOf('window', ['minutes', 'hour']) ?? 'hour';
  const queue = query.text('queue', 100);
  const key = query.text('key', 200);
  const after = cursorIn(query);
  const limit = query.limit();
  query.done();
  const [busy, { keys: waiting, next }, lanes, settings] = await Promise.all([
    readBusyKeys(database, { windowMs: windowsMs[window], jobsMax: seenMax }),
    readWaitingKeys(database, {
      ...(queue === undefined ? {} : { queue }),
      ...(key === undefined ? {} : { key }),
      ...(after === undefined ? {} : { after }),
      limit,
      countMax,
    }),
    readLanes(database, { limit: lanesMax + 1 }),
    readSettings(database),
  ]);
  const shares = sharesOf({ busy: busy.keys, waiting: [...waiting, ...lanes], settings });
  const row = (lane: Lane, counted: WaitingKey | undefined, ran: BusyKey | undefined): KeyRow => {
    return {
      queue: lane.queue,
      key: lane.key,
      waiting: atLeast(counted?.waiting ?? 0, counted?.more ?? false),
      running: ran?.running ?? 0,
      oldestMs: counted?.oldestMs ?? null,
      busyMs: ran?.busyMs ?? 0,
      share: shares.shareOf(lane.queue, ran?.busyMs ?? 0),
      fairShare: lanes.length > lanesMax ? null : shares.fairShareOf(lane.queue),
      weight: shares.queueOf(lane.queue).weight,
      done: ran?.done ?? 0,
    };
  };
  const ranBy = new Map(busy.keys.map((one) => [nameOf(one), one]));
  const meant = (one: Lane): boolean =>
    (queue === undefined || one.queue === queue) && (key === undefined || one.key === key);
  const active = after === undefined ? busy.keys.filter(meant).slice(0, activeMax) : [];
  const counted = await waitingOf(database, active, waiting);
  return {
    at: timeOf(busy.now),
    window,
    seen: { from: timeOf(busy.from), jobs: busy.jobs },
    countedUpTo: countMax,
    active: active.map((one) => row(one, counted.get(nameOf(one)), one)),
    waiting: waiting.filter((one) => one.waiting > 0).map((one) => row(one, one, ranBy.get(nameOf(one)))),
    next: next === null ? null : cursorOf(next),
  };
}

type Lane = Pick<BusyKey, 'queue' | 'key'>;

function nameOf({ queue, key }: Lane): string {
  return JSON.stringify([queue, key]);
}

async function waitingOf(
  database: Database,
  active: readonly BusyKey[],
  known: readonly WaitingKey[],
): Promise<ReadonlyMap<string, WaitingKey>> {
  const counted = new Map(known.map((one) => [nameOf(one), one]));
  const others = active.filter((one) => !counted.has(nameOf(one)));
  for (const one of await countWaiting(database, others, countMax)) counted.set(nameOf(one), one);
  return counted;
}

interface Shares {
  readonly queueOf: (queue: string) => Pick<StoredQueueSettings, 'pool' | 'weight'>;
  readonly shareOf: (queue: string, busyMs: number) => number;
  readonly fairShareOf: (queue: string) => number;
}

/**
 * Computes fair shares: by weight between the queues of a pool that have work, equal between a queue's keys.
 */
function sharesOf({
  busy,
  waiting,
  settings,
}: {
  readonly busy: readonly BusyKey[];
  readonly waiting: readonly Lane[];
  readonly settings: Awaited<ReturnType<typeof readSettings>>;
}): Shares {
  const queueOf: Shares['queueOf'] = (queue) => settings.get(queue)?.settings ?? defaultSettings;
  const keys = new Map<string, Set<string>>();
  for (const { queue, key } of [...busy, ...waiting]) {
    const own = keys.get(queue) ?? new Set();
    keys.set(queue, own.add(key));
  }
  const weights = new Map<string, number>();
  for (const queue of keys.keys()) {
    const { pool, weight } = queueOf(queue);
    weights.set(pool, (weights.get(pool) ?? 0) + weight);
  }
  const busyBy = new Map<string, number>();
  for (const { queue, busyMs } of busy) {
    const { pool } = queueOf(queue);
    busyBy.set(pool, (busyBy.get(pool) ?? 0) + busyMs);
  }
  return {
    queueOf,
    shareOf: (queue, busyMs) => part(busyMs, busyBy.get(queueOf(queue).pool)),
    fairShareOf: (queue) => {
      const { pool, weight } = queueOf(queue);
      return part(weight, weights.get(pool)) / Math.max(1, keys.get(queue)?.size ?? 1);
    },
  };
}

function part(of: number, whole: number | undefined): number {
  return whole === undefined || whole <= 0 ? 0 : of / whole;
}

function cursorOf({ queue, key }: Lane): string {
  return Buffer.from(JSON.stringify([queue, key])).toString('base64url');
}

function cursorIn(query: Parameters): Lane | undefined {
  const after = query.text('after', 2_000);
  if (after === undefined) return undefined;
  try {
    const value: unknown = JSON.parse(Buffer.from(after, 'base64url').toString('utf8'));
    if (Array.isArray(value) && value.length === 2 && value.every((one) => typeof one === 'string')) {
      const [queue = '', key = ''] = value as readonly string[];
      return { queue, key };
    }
  } catch {
    // reported below
  }
  query.fail('after is no cursor: give the "next" of the page before');
  return undefined;
}
