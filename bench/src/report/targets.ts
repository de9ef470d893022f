import { spreadOf } from '../statistics.ts';
import type { Section } from './summary.ts';

/** A performance target of pgqueue: a ratio, or a figure of one run. */
export interface Target {
  readonly what: string;
  readonly value: number;
  readonly atLeast?: number;
  readonly atMost?: number;
}

/** Looks up a median; NaN if it was not measured. */
type Find = (at: {
  readonly work: string;
  /** Prefix of the case's name; default: any case. */
  readonly case?: string;
  readonly peer: string;
  readonly setting?: string;
  readonly metric: string;
}) => number;

const own = { peer: 'pgqueue', setting: 'default' } as const;
const graphile = { peer: 'graphile-worker', setting: 'best' } as const;
/** Other peers that keep their jobs in PostgreSQL. */
const others = ['graphile-worker', 'pg-boss', 'bullmq-postgres'];

/** Targets that the given sections contain figures for. */
export function targetsOf(sections: readonly Section[]): readonly Target[] {
  const find: Find = ({ work, case: name = '', peer, setting = 'best', metric }) =>
    sections
      .find((section) => section.work === work && section.case.startsWith(name))
      ?.rows.find((row) => row.peer === peer && row.setting === setting)?.metrics[metric]?.median ?? NaN;
  return [
    ...draining(find),
    ...enqueuing(find),
    ...flowing(find),
    ...depending(find),
    ...waiting(find),
    ...costing(find),
  ].filter(({ value }) => Number.isFinite(value));
}

export function isMet({ value, atLeast = -Infinity, atMost = Infinity }: Target): boolean {
  return value >= atLeast && value <= atMost;
}

/** Cells for a table: target, value, bound, and `yes` or `no`. */
export function targetRow(target: Target): readonly [string, string, string, string] {
  const { what, value, atLeast, atMost } = target;
  const text = (number: number): string => String(Number(number.toPrecision(3)));
  const bound = atLeast === undefined ? `≤ ${text(atMost ?? NaN)}` : `≥ ${text(atLeast)}`;
  return [what, text(value), bound, isMet(target) ? 'yes' : 'no'];
}

function draining(find: Find): readonly Target[] {
  const rate = (name: string, peer: string, setting: string): number =>
    find({ work: 'drain', case: name, peer, setting, metric: 'jobsPerSecond' });
  const [one, four] = ['1 worker', '4 worker'];
  const mine = rate(one, own.peer, own.setting);
  return [
    {
      what: 'drain, 1 process: of graphile-worker’s best',
      value: mine / rate(one, graphile.peer, graphile.setting),
      atLeast: 1.4,
    },
    {
      what: 'drain, 1 process: of graphile-worker’s README',
      value: mine / rate(one, graphile.peer, 'readme'),
      atLeast: 30,
    },
    { what: 'drain, 1 process: of the table', value: mine / rate(one, 'table', 'hand-tuned'), atLeast: 0.5 },
    {
      what: 'drain, 4 processes: of graphile-worker’s best',
      value: rate(four, own.peer, own.setting) / rate(four, graphile.peer, graphile.setting),
      atLeast: 1,
    },
  ];
}

function enqueuing(find: Find): readonly Target[] {
  const rate = (name: string, peer: string, setting: string): number =>
    find({ work: 'enqueue', case: name, peer, setting, metric: 'jobsPerSecond' });
  const least = { 'one by one, 1 connection': 0.8, 'one by one, 10 connections': 0.6 };
  const ones = Object.entries(least).map(([name, atLeast]) => ({
    what: `enqueue ${name}: of INSERT and commit`,
    value: rate(name, own.peer, own.setting) / rate(name, 'table', 'raw'),
    atLeast,
  }));
  const many = ['by 1000, 1 connection', 'by 1000, 4 connections'].map((name) => ({
    what: `enqueue ${name}: of the best peer on Postgres`,
    value: rate(name, own.peer, own.setting) / best(others.map((peer) => rate(name, peer, 'best'))),
    atLeast: 1.3,
  }));
  return [...ones, ...many];
}

function best(values: readonly number[]): number {
  return spreadOf(values).max;
}

function flowing(find: Find): readonly Target[] {
  const late = (work: string, peer: string, setting = 'best'): number =>
    find({ work, peer, setting, metric: 'late' });
  const mine = (work: string, metric: string, name = ''): number =>
    find({ ...own, work, metric, case: name });
  return [
    { what: 'sustain: late of early', value: mine('sustain', 'kept'), atLeast: 0.95 },
    {
      what: 'sustain: of the best peer on Postgres, late',
      value: mine('sustain', 'late') / best(others.map((peer) => late('sustain', peer))),
      atLeast: 1.5,
    },
    {
      what: 'pinned: of not pinned, late',
      value: mine('pinned', 'late') / mine('sustain', 'late'),
      atLeast: 0.9,
    },
    {
      what: 'pinned: of the best peer on Postgres, late',
      value: mine('pinned', 'late') / best(others.map((peer) => late('pinned', peer))),
      atLeast: 16,
    },
    {
      what: 'pinned: claim p99, late of early',
      value: mine('pinned', 'claimLate') / mine('pinned', 'claimEarly'),
      atMost: 2,
    },
    {
      what: 'backlog: 5,000,000 of 10,000',
      value: mine('backlog', 'jobsPerSecond', '5,000,000') / mine('backlog', 'jobsPerSecond', '10,000'),
      atLeast: 0.95,
    },
    {
      what: 'keys: 10,000 of 1',
      value: mine('keys', 'jobsPerSecond', '10,000') / mine('keys', 'jobsPerSecond', '1 key'),
      atLeast: 0.6,
    },
    {
      what: '10,000 keys: of graphile-worker’s best drain, without keys',
      value:
        mine('keys', 'jobsPerSecond', '10,000') /
        find({ ...graphile, work: 'drain', case: '1 worker', metric: 'jobsPerSecond' }),
      atLeast: 0.7,
    },
    ...['1 ms', '10 ms'].map((name) => {
      const theirs = find({ ...graphile, work: 'handlers', case: name, metric: 'share' });
      return {
        what: `handlers of ${name}: of what the slots can do`,
        value: mine('handlers', 'share', name),
        // what graphile-worker can't do either need not be done whole
        atLeast: Math.min(0.9, theirs * 1.1 || Infinity),
      };
    }),
    { what: 'soak: last minute of the second', value: mine('soak', 'kept'), atLeast: 0.95 },
  ];
}

function waiting(find: Find): readonly Target[] {
  const waited = (name: string, metric: string): number =>
    find({ ...own, work: 'latency', case: name, metric }) /
    find({ ...graphile, work: 'latency', case: name, metric });
  const fair = (metric: string): number => find({ ...own, work: 'fair', case: 'with A and B', metric });
  return [
    { what: 'latency p50: of graphile-worker', value: waited('woken', 'p50'), atMost: 1 },
    { what: 'latency p99: of graphile-worker', value: waited('woken', 'p99'), atMost: 1.2 },
    {
      what: 'latency p50 at 1,000 a second: of graphile-worker',
      value: waited('1,000', 'p50'),
      atMost: 1.2,
    },
    {
      what: 'latency p50 by polling, ms',
      value: find({ ...own, work: 'latency', case: 'by polling', metric: 'p50' }),
      atMost: 30,
    },
    { what: 'fair: B done, ms', value: fair('bDoneMs'), atMost: 200 },
    {
      what: 'fair: A’s rate meanwhile, of that before',
      value: fair('aMeanwhile') / fair('aBefore'),
      atLeast: 0.5,
    },
  ];
}

function depending(find: Find): readonly Target[] {
  const flows = (name: string, metric: string): number => find({ ...own, work: 'flows', case: name, metric });
  return [
    {
      what: 'a step of 100,000: of the rate without a flow',
      value: flows('a step', 'ofPlain'),
      atLeast: 0.9,
    },
    {
      what: 'a step of 100,000: to the job behind it, ms',
      value: flows('a step', 'dependentMs'),
      atMost: 50,
    },
    { what: 'a chain of ten: of ten single jobs', value: flows('a chain', 'ofTenSingles'), atMost: 2.5 },
    { what: 'flows of ten steps a second, sustained', value: flows('1,000', 'highest'), atLeast: 1_000 },
  ];
}

function costing(find: Find): readonly Target[] {
  const cost = (who: { readonly peer: string; readonly setting: string }, metric: string): number =>
    find({ ...who, work: 'drain', case: '1 worker', metric });
  const cpu = (who: { readonly peer: string; readonly setting: string }): number =>
    cost(who, 'nodeMicros') + cost(who, 'storeMicros');
  const idle = (metric: string): number => find({ ...own, work: 'idle', metric });
  return [
    { what: 'CPU a job: of graphile-worker', value: cpu(own) / cpu(graphile), atMost: 0.9 },
    {
      what: 'WAL a job: of graphile-worker',
      value: cost(own, 'walBytes') / cost(graphile, 'walBytes'),
      atMost: 1,
    },
    { what: 'idle: transactions/s', value: idle('transactionsPerSecond'), atMost: 3 },
    { what: 'idle: % of a core', value: idle('nodePercent') + idle('storePercent'), atMost: 0.5 },
  ];
}
