// One run over several installations: load and moves under faults, then quiet, then the verdict.
import { setTimeout as delay } from 'node:timers/promises';
import { createOperator } from '@pgqueue/postgres';
import { breaches } from '@pgqueue/postgres/internal';
import { createRouter } from '@pgqueue/router';
import { chances } from '../../chaos/workload.ts';
import { countRows } from '../fleet.ts';
import { recordedItems } from '../recorder.ts';
import type { End, Item } from './judge.ts';
import { crowdOf, judge, windowOf } from './judge.ts';
import { startLoad } from './load.ts';
import { startMoves } from './moves.ts';
import type { Site } from './servers.ts';
import { openSites } from './servers.ts';
import { openStage } from './stage.ts';

export interface ClusterOptions {
  readonly seed: number;
  /** Milliseconds of faults. */
  readonly ms: number;
  readonly sites: number;
  /** Patroni keeps the first one, on three servers. Default: all have one server each. */
  readonly patroni?: boolean;
  readonly keys: number;
  readonly workers: number;
  readonly perSecond: number;
  /** Milliseconds between two faults, on average. */
  readonly faultEveryMs: number;
  /** Milliseconds between two moves of keys, on average. */
  readonly moveEveryMs: number;
}

export interface ClusterReport {
  readonly jobs: number;
  /** Moves of keys, jobs that they took along, and the longest pause of a key in its move, in milliseconds. */
  readonly moves: number;
  readonly moved: number;
  readonly pausedMs: number;
  /** Most calls at once, and the window of mails that came nearest to its limit: mails beyond it, so at most 0. */
  readonly calls: number;
  readonly mails: number;
  readonly faults: Readonly<Record<string, number>>;
  /** Enqueues and moves that were tried again, by the code of their error. */
  readonly again: Readonly<Record<'enqueues' | 'moves', Readonly<Record<string, number>>>>;
  /** Jobs that ended, by installation. */
  readonly ended: Readonly<Record<string, number>>;
  readonly violations: readonly string[];
}

/** Longest time in which no job ends once nothing disturbs them, and for all to end: the limits let some wait long. */
const stuckMs = 60_000;
const quietMs = 1_200_000;

export async function clusterRun(options: ClusterOptions): Promise<ClusterReport> {
  const { seed, ms, workers, perSecond, faultEveryMs } = options;
  const keys = Array.from({ length: options.keys }, (_, n) => `key-${n}`);
  const random = chances('cluster', seed);
  const sites = await openSites(options.sites, options.patroni === true);
  const stage = await openStage({ sites, random: chances('faults', seed), workers });
  const router = createRouter({ installations: sites.seenBy('clients'), pollMs: 500 });
  try {
    const load = startLoad({
      router,
      keys,
      perSecond,
      random: chances('load', seed),
      writers: 8,
    });
    const moves = startMoves({
      router,
      installations: sites.all.map(({ installation }) => installation),
      keys,
      busy: load.busy,
      random: chances('moves', seed),
      everyMs: options.moveEveryMs,
      atOnce: 4,
    });
    const endsAt = performance.now() + ms;
    while (performance.now() < endsAt) {
      await delay(faultEveryMs * (0.5 + random()));
      stage.strike();
    }
    const failed = [...(await stage.calm())];
    await load.stop();
    failed.push(...(await moves.stop()));
    const late = await allEnd(sites.all);
    // copies of routes that an installation missed while it did not answer
    await router.operator.check({ mend: true });
    const records = await Promise.all(sites.all.map(recordsOf));
    const items = records.flatMap((one) => one.items);
    const ends = records.flatMap((one) => one.ends);
    return {
      jobs: load.sent.length,
      moves: moves.done(),
      moved: moves.jobs(),
      pausedMs: Math.round(moves.pausedMs()),
      calls: crowdOf(items)?.count ?? 0,
      mails: windowOf(items).jobs,
      faults: Object.fromEntries(stage.faults),
      again: { enqueues: Object.fromEntries(load.again), moves: Object.fromEntries(moves.again) },
      ended: Object.fromEntries(records.map((one, index) => [`site-${index + 1}`, one.ends.length] as const)),
      violations: [
        ...failed,
        ...late,
        ...judge({ sent: load.sent, items, ends }),
        ...records.flatMap(({ wrong }) => wrong),
        ...(await routesWrong(sites.all)),
      ],
    };
  } finally {
    await router.close();
    await stage.stop();
    await sites.close();
  }
}

/** After a run each key has one home, by the same route everywhere, and none is on its way. */
async function routesWrong(sites: readonly Site[]): Promise<readonly string[]> {
  const found = await Promise.all(
    sites.map(async ({ database, installation: { name } }) => {
      const routes = await database.query<{ readonly key: string; readonly route: string }>(
        `select key, format('%s by version %s, %s', installation, version, state) as route from pgqueue.route`,
        [],
      );
      const [left] = await database.query<{ readonly moves: number; readonly handed: number }>(
        `select (select count(*)::integer from pgqueue.key_move) as moves, (select count(*)::integer from pgqueue.handover) as handed`,
        [],
      );
      return { name, routes, left };
    }),
  );
  const copies = found.flatMap(({ name, routes }) => routes.map((route) => ({ name, ...route })));
  const different = [...Map.groupBy(copies, ({ key }) => key)].filter(
    ([, own]) =>
      new Set(own.map(({ route }) => route)).size > 1 || own.some(({ route }) => !route.endsWith('settled')),
  );
  return [
    ...different.map(
      ([key, own]) => `${key}: ${own.map(({ name, route }) => `${name} says ${route}`).join('; ')}`,
    ),
    ...found.flatMap(({ name, left }) =>
      left === undefined || left.moves + left.handed === 0
        ? []
        : [`${name}: ${left.moves} keys are on their way, ${left.handed} jobs handed over`],
    ),
  ];
}

/** Waits until all jobs have ended. Resolves to what is wrong if they don't. */
async function allEnd(sites: readonly Site[]): Promise<readonly string[]> {
  let [left, fellAt] = [Infinity, performance.now()];
  const endsAt = fellAt + quietMs;
  for (;;) {
    const counts = await Promise.all(sites.map(({ database }) => countRows(database, 'queue')));
    const now = counts.reduce((sum, count) => sum + count, 0);
    if (now === 0) return [];
    if (now < left) [left, fellAt] = [now, performance.now()];
    if (performance.now() > Math.min(endsAt, fellAt + stuckMs))
      return [`${now} jobs do not end`, ...(await Promise.all(sites.map(whatWaits))).flat()];
    await delay(200);
  }
}

/** Says of an installation with jobs how many there are in each state, who is there, and why the first few wait. */
async function whatWaits({ database, installation: { name } }: Site): Promise<readonly string[]> {
  const jobs = await database.query<{
    readonly queue: string;
    readonly status: string;
    readonly count: number;
  }>('select queue, status, count(*)::integer as count from pgqueue.job group by 1, 2 order by 1, 2', []);
  if (jobs.length === 0) return [];
  const nodes = await database.query('select id, state, now() - heartbeat as silent from pgqueue.node', []);
  const first = await database.query<{ readonly id: string }>(
    'select distinct on (queue) id from pgqueue.queue order by queue, seq',
    [],
  );
  const operator = createOperator({ pool: database.pool });
  const whys = await Promise.all(first.map(({ id }) => operator.explain(id)));
  await operator.close();
  return [`${name}: ${JSON.stringify({ jobs, nodes, whys })}`];
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
