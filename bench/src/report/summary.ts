import type { Report, Run, Sizes } from './report.ts';
import type { Spread } from '../statistics.ts';
import { spreadOf } from '../statistics.ts';

/** All repetitions of one case by one peer. */
export interface Row {
  readonly peer: string;
  readonly setting: string;
  readonly repetitions: number;
  readonly metrics: Readonly<Record<string, Spread>>;
  readonly faults: readonly string[];
}

export interface Section {
  readonly work: string;
  readonly case: string;
  /** Names of the metrics that occur in any row, in order. */
  readonly metrics: readonly string[];
  readonly rows: readonly Row[];
  /** Sizes of the first run. */
  readonly sizes: Sizes;
}

/** Presentation of a metric. */
export interface Metric {
  readonly title: string;
  readonly digits: number;
  /** Shows the median without the range. */
  readonly single?: true;
}

const metrics: Readonly<Record<string, Metric>> = {
  jobsPerSecond: { title: 'jobs/s', digits: 0 },
  nodeMicros: { title: 'Node µs/job', digits: 1, single: true },
  storeMicros: { title: 'store µs/job', digits: 1, single: true },
  walBytes: { title: 'WAL B/job', digits: 0, single: true },
  deadRows: { title: 'dead rows/job', digits: 2, single: true },
  early: { title: 'early jobs/s', digits: 0 },
  late: { title: 'late jobs/s', digits: 0 },
  kept: { title: 'late / early', digits: 2 },
  claimEarly: { title: 'claim p99 ms, early', digits: 1 },
  claimLate: { title: 'claim p99 ms, late', digits: 1 },
  p50: { title: 'p50 ms', digits: 1 },
  p90: { title: 'p90 ms', digits: 1, single: true },
  p99: { title: 'p99 ms', digits: 1 },
  max: { title: 'max ms', digits: 1, single: true },
  share: { title: 'share', digits: 2 },
  bDoneMs: { title: 'B done, ms', digits: 0 },
  aBefore: { title: "A's jobs/s before", digits: 0 },
  aMeanwhile: { title: "A's jobs/s meanwhile", digits: 0 },
  ofPlain: { title: 'of the rate without a flow', digits: 2 },
  dependentMs: { title: 'last end to next begin, ms', digits: 1 },
  plainPerSecond: { title: 'jobs/s without a flow', digits: 0 },
  cpuOfPlain: { title: 'CPU of that without a flow', digits: 2 },
  flowStartMs: { title: 'call that starts the flow, ms', digits: 0, single: true },
  ofTenSingles: { title: 'p50 of ten single p50', digits: 2 },
  single: { title: 'single p50 ms', digits: 1 },
  flows: { title: 'flows', digits: 0, single: true },
  highest: { title: 'highest flows/s sustained', digits: 0 },
  startedPerSecond: { title: 'flows started/s', digits: 0 },
  endedPerSecond: { title: 'flows ended/s', digits: 0 },
  backlog: { title: 'flows left at the end', digits: 0 },
  transactionsPerSecond: { title: 'transactions/s', digits: 1 },
  nodePercent: { title: 'Node % of a core', digits: 2 },
  storePercent: { title: 'PostgreSQL % of a core', digits: 2 },
  sustained: { title: 'sustained jobs/s', digits: 0, single: true },
  offered: { title: 'offered jobs/s', digits: 0, single: true },
  workerRssEarly: { title: 'worker RSS MiB, early', digits: 0, single: true },
  workerRssLate: { title: 'late', digits: 0, single: true },
  workerHeapEarly: { title: 'worker heap MiB, early', digits: 0, single: true },
  workerHeapLate: { title: 'late', digits: 0, single: true },
  schedulerRssEarly: { title: 'scheduler RSS MiB, early', digits: 0, single: true },
  schedulerRssLate: { title: 'late', digits: 0, single: true },
  schedulerHeapEarly: { title: 'scheduler heap MiB, early', digits: 0, single: true },
  schedulerHeapLate: { title: 'late', digits: 0, single: true },
  tablesEarly: { title: 'tables MiB, early', digits: 0, single: true },
  tablesLate: { title: 'late', digits: 0, single: true },
  historyEarly: { title: 'history MiB, early', digits: 0, single: true },
  historyLate: { title: 'late', digits: 0, single: true },
  waitingEarly: { title: 'jobs waiting, early', digits: 0, single: true },
  waitingLate: { title: 'late', digits: 0, single: true },
  startMs: { title: 'start ms', digits: 0, single: true },
  seconds: { title: 's', digits: 2, single: true },
  jobs: { title: 'jobs', digits: 0, single: true },
};

export function metricOf(name: string): Metric {
  return metrics[name] ?? { title: name, digits: 1 };
}

/** Groups runs into one section for each case of each work, in the order in which they ran. */
export function sectionsOf({ runs }: Pick<Report, 'runs'>): readonly Section[] {
  const groups = Map.groupBy(runs, ({ work, case: name }) => `${work}\n${name}`);
  return [...groups.values()].map((group) => ({
    work: group[0]?.work ?? '',
    case: group[0]?.case ?? '',
    metrics: [...new Set(group.flatMap((run) => Object.keys(run.metrics)))],
    sizes: group[0]?.sizes ?? { jobs: NaN, seconds: NaN },
    rows: [...Map.groupBy(group, ({ peer, setting }) => `${peer}\n${setting}`).values()].map(rowOf),
  }));
}

function rowOf(runs: readonly Run[]): Row {
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.metrics)))];
  return {
    peer: runs[0]?.peer ?? '',
    setting: runs[0]?.setting ?? '',
    repetitions: runs.length,
    metrics: Object.fromEntries(
      names.map((name) => [name, spreadOf(runs.map((run) => run.metrics[name] ?? NaN))]),
    ),
    faults: runs.flatMap(({ faults, repetition }) => faults.map((fault) => `#${repetition}: ${fault}`)),
  };
}

/** Text for the size of the runs and the number of repetitions. */
export function sizeText({ work, sizes, rows }: Section): string {
  const counts = rows.map(({ repetitions }) => repetitions);
  const [least, most] = [Math.min(...counts), Math.max(...counts)];
  const times = `${least === most ? least : `${least} to ${most}`} ${most === 1 ? 'repetition' : 'repetitions'}`;
  if (work === 'flows') return `--jobs ${sizes.jobs}, --seconds ${sizes.seconds}; ${times}.`;
  const timed = ['sustain', 'pinned', 'backlog', 'latency', 'idle'].includes(work);
  return `${timed ? `--seconds ${sizes.seconds}` : `--jobs ${sizes.jobs}`}; ${times}.`;
}

/** Formats a median, followed by its range if there were several repetitions. */
export function spreadText(spread: Spread | undefined, { digits, single }: Metric): string {
  if (spread === undefined || Number.isNaN(spread.median)) return '–';
  const text = (value: number): string =>
    value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const range = spread.count > 1 && single !== true ? ` (${text(spread.min)}–${text(spread.max)})` : '';
  return `${text(spread.median)}${range}`;
}
