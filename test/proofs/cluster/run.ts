// One run over several installations: load and moves under faults, then quiet, then the verdict.
import { setTimeout as delay } from 'node:timers/promises';
import { breaches } from '@pgqueue/postgres/internal';
import { createRouter } from '@pgqueue/router';
import { chances } from '../../chaos/workload.ts';
import { until } from '../../support/until.ts';
import { countRows } from '../fleet.ts';
import { recordedItems } from '../recorder.ts';
import type { End, Item } from './judge.ts';
import { judge } from './judge.ts';
import { startLoad } from './load.ts';
import type { Site } from './servers.ts';
import { openSites } from './servers.ts';
import { openStage } from './stage.ts';

export interface ClusterOptions {
  readonly seed: number;
  /** Milliseconds of faults. */
  readonly ms: number;
  readonly sites: number;
  readonly keys: number;
  readonly workers: number;
  readonly perSecond: number;
  /** Milliseconds between two faults, on average. */
  readonly faultEveryMs: number;
}

export interface ClusterReport {
  readonly jobs: number;
  readonly faults: Readonly<Record<string, number>>;
  /** Enqueues that were tried again, by their code. */
  readonly again: Readonly<Record<string, number>>;
  /** Jobs that ended, by installation. */
  readonly ended: Readonly<Record<string, number>>;
  readonly violations: readonly string[];
}

/** Longest time for all jobs to end once nothing disturbs them. */
const quietMs = 180_000;

export async function clusterRun(options: ClusterOptions): Promise<ClusterReport> {
  const { seed, ms, keys, workers, perSecond, faultEveryMs } = options;
  const random = chances('cluster', seed);
  const sites = await openSites(options.sites);
  const stage = await openStage({ sites, random: chances('faults', seed), workers });
  const router = createRouter({ installations: sites.seenBy('clients'), pollMs: 500 });
  try {
    const load = startLoad({
      router,
      keys: Array.from({ length: keys }, (_, n) => `key-${n}`),
      perSecond,
      random: chances('load', seed),
      writers: 8,
    });
    const endsAt = performance.now() + ms;
    while (performance.now() < endsAt) {
      await delay(faultEveryMs * (0.5 + random()));
      stage.strike();
    }
    const failed = await stage.calm();
    await load.stop();
    const late = await until('all jobs to end', () => isEmpty(sites.all), quietMs).then(
      () => [],
      (error: unknown) => [String(error)],
    );
    const records = await Promise.all(sites.all.map(recordsOf));
    const items = records.flatMap((one) => one.items);
    const ends = records.flatMap((one) => one.ends);
    return {
      jobs: load.sent.length,
      faults: Object.fromEntries(stage.faults),
      again: Object.fromEntries(load.again),
      ended: Object.fromEntries(records.map((one, index) => [`site-${index + 1}`, one.ends.length] as const)),
      violations: [
        ...failed,
        ...late,
        ...judge({ sent: load.sent, items, ends }),
        ...records.flatMap(({ wrong }) => wrong),
      ],
    };
  } finally {
    await router.close();
    await stage.stop();
    await sites.close();
  }
}

async function isEmpty(sites: readonly Site[]): Promise<boolean> {
  const left = await Promise.all(sites.map(({ database }) => countRows(database, 'queue')));
  return left.every((count) => count === 0);
}

async function recordsOf({ database, installation }: Site): Promise<{
  readonly items: readonly Item[];
  readonly ends: readonly End[];
  readonly wrong: readonly string[];
}> {
  const site = installation.name;
  const [items, ends, wrong] = await Promise.all([
    recordedItems(database),
    database.query<Omit<End, 'site'>>(
      `select id, outcome from pgqueue.history union all select id, 'dead' from pgqueue.dead_letter`,
      [],
    ),
    breaches(database),
  ]);
  return {
    items: items.map((item) => ({ ...item, site })),
    ends: ends.map((end) => ({ ...end, site })),
    wrong: wrong.map((breach) => `${site}: ${JSON.stringify(breach)}`),
  };
}
