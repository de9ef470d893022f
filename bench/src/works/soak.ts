import type { Actor } from '../actors/crew.ts';
import type { BenchOptions } from '../options.ts';
import type { Wish } from '../peers/peer.ts';
import { withClient } from '../peers/sql.ts';
import type { Stage } from '../actors/stage.ts';
import { percentile } from '../statistics.ts';
import { warmUp, warmUpOf } from './drain.ts';
import { flow, flowMeasured, stretchesOf } from './flow.ts';
import type { Crew } from './measure.ts';
import { assemble } from './measure.ts';
import { followsProducer } from './sustain.ts';
import type { Measured, Metrics, Work } from './work.ts';

const load = 0.8;
/**
 * Longest time spent on finding the sustained rate, in seconds. Its last minute counts: in the first ones
 * there is no vacuum and no history yet.
 */
const findSecondsMax = 600;
const lead = 20_000;
const everySeconds = 5;
const minute = 60;

export const soak: Work = {
  name: 'soak',
  says: `For a long time at ${load * 100} % of what is sustained (found out by half of that time's feeding, ten minutes at most, in its end, or told): whether rate, memory and tables stay what they were in the second minute.`,
  cases: ({ minutes }) => [
    { name: `${minutes} minutes at ${load * 100} %`, takes: followsProducer, run: soaked },
  ],
};

/** Sizes and memory use at one moment of the soak. */
interface Look {
  readonly atSeconds: number;
  readonly values: Metrics;
}

async function soaked(stage: Stage, options: BenchOptions): Promise<Measured> {
  const wish: Wish = { setting: stage.setting.name };
  const seconds = secondsOf(options);
  const crew = await assemble(stage, wish, 1);
  await warmUp(stage, crew, { wish, jobs: warmUpOf(stage, options) });
  const { sustained, faults } = await find(stage, crew, options);
  const rate = Math.max(1, Math.floor(sustained * load));
  await crew.scheduler?.tell({ kind: 'schedule', wish });
  await stage.settle();
  const looks: Look[] = [];
  const flowed = await flow(stage, crew, {
    wish,
    seconds,
    lead: 0,
    before: 0,
    perSecond: rate,
    finish: true,
    look: async (atSeconds) => {
      if (looks.length > 0 && atSeconds < looks.length * everySeconds) return;
      looks.push({ atSeconds, values: { ...memory(crew), ...(await sizes(stage)) } });
    },
  });
  const measured = flowMeasured(flowed);
  return {
    metrics: { sustained, offered: rate, ...measured.metrics, ...comparison(looks, seconds) },
    series: { ...measured.series, ...seriesOf(looks) },
    faults: [...faults, ...measured.faults],
  };
}

function secondsOf({ minutes }: BenchOptions): number {
  return Math.max(2, Math.round(minutes * minute));
}

/** Finds the sustained rate by feeding without a limit, unless the command line gives it. */
async function find(
  stage: Stage,
  crew: Crew,
  options: BenchOptions,
): Promise<{ readonly sustained: number; readonly faults: readonly string[] }> {
  if (options.sustained !== undefined) return { sustained: options.sustained, faults: [] };
  const findSeconds = Math.min(findSecondsMax, Math.ceil(secondsOf(options) / 2));
  const { rates, faults } = await flow(stage, crew, {
    wish: { setting: stage.setting.name },
    seconds: findSeconds,
    lead: Math.min(lead, options.jobs),
    before: 0,
    finish: true,
  });
  const { late } = stretchesOf(findSeconds);
  return { sustained: percentile(rates.slice(late.from, late.to), 0.5), faults };
}

const mebi = 2 ** 20;

function memory({
  workers,
  scheduler,
  producer,
}: {
  readonly workers: readonly Actor[];
  readonly scheduler: Actor | undefined;
  readonly producer: Actor;
}): Metrics {
  const [worker] = workers;
  return {
    workerRss: (worker?.progress().rss ?? NaN) / mebi,
    workerHeap: (worker?.progress().heap ?? NaN) / mebi,
    schedulerRss: (scheduler?.progress().rss ?? NaN) / mebi,
    schedulerHeap: (scheduler?.progress().heap ?? NaN) / mebi,
    waiting: producer.progress().enqueued - workers.reduce((sum, { progress }) => sum + progress().runs, 0),
  };
}

/** Sizes in MiB, with indexes. History is separate, since it grows by the retention of the queue. */
async function sizes({ peer, place }: Stage): Promise<Metrics> {
  if (peer.store === 'redis') return {};
  return withClient(place.databaseUrl, async (client) => {
    const { rows } = await client.query<{ kept: number; tables: number }>(
      `select coalesce(sum(pg_total_relation_size(relid)) filter (where relname like 'history%'), 0)::float8 as kept,
              coalesce(sum(pg_total_relation_size(relid)) filter (where relname not like 'history%'), 0)::float8 as tables
       from pg_stat_user_tables`,
    );
    return { tables: (rows[0]?.tables ?? NaN) / mebi, history: (rows[0]?.kept ?? NaN) / mebi };
  });
}

function seriesOf(looks: readonly Look[]): Readonly<Record<string, readonly number[]>> {
  const names = Object.keys(looks[0]?.values ?? {});
  return Object.fromEntries(
    names.map((name) => [`${name}, every ${everySeconds} s`, looks.map(({ values }) => values[name] ?? NaN)]),
  );
}

/**
 * Compares the early stretch with the late one (see `stretchesOf`). Takes the lowest heap, which is what a
 * collection left, and the median of everything else.
 */
function comparison(looks: readonly Look[], seconds: number): Metrics {
  const stretches = stretchesOf(seconds);
  const [early, late] = [stretches.early, stretches.late].map(({ from, to }) =>
    looks.filter(({ atSeconds }) => atSeconds >= from && atSeconds <= to),
  );
  const of = (some: readonly Look[] = [], name: string, share: number): number =>
    percentile(
      some.map(({ values }) => values[name] ?? NaN).filter((value) => !Number.isNaN(value)),
      share,
    );
  const share = (name: string): number => (name.endsWith('Heap') ? 0 : 0.5);
  return Object.fromEntries(
    ['workerRss', 'workerHeap', 'schedulerRss', 'schedulerHeap', 'tables', 'history', 'waiting'].flatMap(
      (name) => [
        [`${name}Early`, of(early, name, share(name))],
        [`${name}Late`, of(late, name, share(name))],
      ],
    ),
  );
}
