import { unreachable } from '@pgqueue/core/internal';
import type { Comparison, Difference } from '../simulation/compare.ts';
import { laneDifferenceTable } from './compare-tables.ts';
import type { FaultCount } from '../simulation/planning.ts';
import type { LimitUse, QueueResult, Simulation } from '../simulation/result.ts';
import type { Table } from './table.ts';
import { sayLane, sayMs, sayName, sayNumber, sayShare } from './format.ts';

/** Most keys that are listed. */
const keysMax = 25;

/** Returns the tables of one simulation, without empty ones. */
export function tablesOf(result: Simulation): readonly Table[] {
  return [overview(result), ...details(result)].filter(({ rows }) => rows.length > 0);
}

/** Returns the tables of two policies side by side, without empty ones. */
export function comparisonTables(comparison: Comparison): readonly Table[] {
  const { base, other, differences } = comparison;
  const named = namesOf(comparison);
  return [
    {
      title: 'Overview',
      heads: ['measure', named.base, named.other, 'change'],
      rows: differences.map((difference) => [
        difference.measure,
        sayDifference(difference, difference.base),
        sayDifference(difference, difference.other),
        sayChange(difference),
      ]),
    },
    laneDifferenceTable(comparison, named),
    ...details(base).map((table) => ({ ...table, title: `${table.title}: ${named.base}` })),
    ...details(other).map((table) => ({ ...table, title: `${table.title}: ${named.other}` })),
  ].filter(({ rows }) => rows.length > 0);
}

/** Returns the names of both policies. Equal names are made distinct. */
export function namesOf({ base, other }: Pick<Comparison, 'base' | 'other'>): {
  readonly base: string;
  readonly other: string;
} {
  const [one, two] = [sayName(base.policy), sayName(other.policy)];
  return one === two ? { base: `${one} (against)`, other: two } : { base: one, other: two };
}

function overview(result: Simulation): Table {
  const { jobs, waits, plans } = result;
  const alone = result.queues.length === 1;
  return {
    title: 'Overview',
    heads: ['measure', sayName(result.policy)],
    rows: [
      ['jobs', `${jobs.arrived}, ${jobs.done} done${others(result)}`],
      ['time', sayMs(result.endMs - result.startMs)],
      [
        'waits',
        `mean ${sayMs(waits.meanMs)}, p50 ${sayMs(waits.p50Ms)}, p95 ${sayMs(waits.p95Ms)}, p99 ${sayMs(waits.p99Ms)}, longest ${sayMs(waits.maxMs)}`,
      ],
      [
        'slots',
        `${result.slots}, ${sayShare(result.utilisation)} used, ${sayShare(result.busyWhileWaiting)} while jobs wait`,
      ],
      [
        "Jain's index",
        result.jain === null
          ? '- (no two keys waited for the same slots for long)'
          : `${result.jain.toFixed(3)}, in the ${sayMs(result.contendedMs)} in which keys waited for the same slots`,
      ],
      ...deadlineRow(result),
      ...flowRow(result),
      [
        'plans',
        `${plans.made}, ${plans.empty} of them empty${plans.recalled > 0 ? `, ${plans.recalled} work items recalled` : ''}`,
      ],
      ...forecastRow(result),
      ['keys', `${result.lanes.length}${alone ? '' : ` in ${result.queues.length} queues`}`],
    ],
  };
}

function others({ jobs }: Simulation): string {
  const { dead, expired, unfinished, retries, crashes } = jobs;
  return Object.entries({ dead, expired, unfinished, retries, crashes })
    .flatMap(([name, count]) => (count === 0 ? [] : [`, ${count} ${name}`]))
    .join('');
}

function deadlineRow({ deadlines: { set, missed, late } }: Simulation): readonly (readonly string[])[] {
  if (set === 0) return [];
  const worst = late.count === 0 ? '' : `, up to ${sayMs(late.maxMs)} late`;
  return [['deadlines', `${set}, ${missed} missed (${sayShare(missed / set)})${worst}`]];
}

function flowRow({ flows, makespans }: Simulation): readonly (readonly string[])[] {
  if (flows.length === 0) return [];
  const counts = { arrived: 0, done: 0, failed: 0, unfinished: 0 };
  for (const { flows: own } of flows) {
    for (const name of Object.keys(counts) as (keyof typeof counts)[]) counts[name] += own[name];
  }
  const { arrived, done, ...rest } = counts;
  const said = Object.entries(rest).flatMap(([name, count]) => (count === 0 ? [] : [`, ${count} ${name}`]));
  return [
    [
      'flows',
      `${arrived}, ${done} done${said.join('')}; makespan p50 ${sayMs(makespans.p50Ms)}, p99 ${sayMs(makespans.p99Ms)}`,
    ],
  ];
}

function forecastRow({ forecast }: Simulation): readonly (readonly string[])[] {
  const counts = Object.entries(forecast);
  if (counts.length === 0) return [];
  return [
    ['highest forecast', counts.map(([name, count]) => `${sayName(name)} ${sayNumber(count)}`).join(', ')],
  ];
}

function details(result: Simulation): readonly Table[] {
  return [
    queuesTable(result),
    keysTable(result),
    flowsTable(result),
    limitsTable(result),
    heldTable(result),
    faultsTable(result),
  ];
}

function queuesTable({ queues }: Simulation): Table {
  return {
    title: 'Queues',
    heads: [
      'queue',
      'jobs',
      'done',
      'wait p50',
      'p95',
      'p99',
      'slot time',
      'weight',
      'most waiting',
      'missed',
    ],
    rows: queues.length < 2 ? [] : queues.map(queueRow),
  };
}

function queueRow({
  queue,
  jobs,
  waits,
  share,
  weight,
  waitingMax,
  deadlines,
}: QueueResult): readonly string[] {
  return [
    sayName(queue),
    String(jobs.arrived),
    String(jobs.done),
    sayMs(waits.p50Ms),
    sayMs(waits.p95Ms),
    sayMs(waits.p99Ms),
    sayShare(share),
    sayNumber(weight),
    String(waitingMax),
    deadlines.set === 0 ? '-' : String(deadlines.missed),
  ];
}

function keysTable({ lanes, queues }: Simulation): Table {
  const shown = lanes.slice(0, keysMax);
  return {
    title: 'Keys',
    heads: [
      'key',
      'jobs',
      'done',
      'wait p50',
      'p95',
      'p99',
      'slot time',
      'weight',
      'share of its entitlement',
      'most waiting',
      'missed',
    ],
    rows: shown.map((lane) => [
      sayLane(lane, { alone: queues.length === 1 }),
      String(lane.jobs.arrived),
      String(lane.jobs.done),
      sayMs(lane.waits.p50Ms),
      sayMs(lane.waits.p95Ms),
      sayMs(lane.waits.p99Ms),
      sayShare(lane.share),
      sayNumber(lane.weight),
      sayShare(lane.served.ratio),
      String(lane.waitingMax),
      lane.deadlines.set === 0 ? '-' : String(lane.deadlines.missed),
    ]),
    note:
      (lanes.length > shown.length
        ? `The ${shown.length} of ${lanes.length} with the most slot time. `
        : '') +
      'Share of its entitlement: the slot time that it was given while it and others had more jobs waiting, against what its weight entitled it to.',
  };
}

function flowsTable({ flows }: Simulation): Table {
  const shown = flows.slice(0, keysMax);
  const left = flows.length > shown.length ? `The first ${shown.length} of ${flows.length}. ` : '';
  return {
    title: 'Flows',
    heads: ['flow', 'flows', 'done', 'failed', 'makespan p50', 'p95', 'p99', 'longest'],
    rows: shown.map(({ flow, flows: { arrived, done, failed }, makespans }) => [
      sayName(flow),
      String(arrived),
      String(done),
      String(failed),
      sayMs(makespans.p50Ms),
      sayMs(makespans.p95Ms),
      sayMs(makespans.p99Ms),
      sayMs(makespans.maxMs),
    ]),
    note: `${left}Makespan: the time from the start of a flow to its end, of those that are done.`,
  };
}

const limitWords: Readonly<Record<LimitUse['kind'], string>> = {
  concurrency: 'jobs in flight',
  keyConcurrency: 'jobs in flight, each key',
  rate: 'jobs a second',
  keyRate: 'jobs a second, each key',
};

/** Describes a limit in words. */
export function sayLimit({ queue, kind }: LimitUse): string {
  return `${sayName(queue)}: ${limitWords[kind]}`;
}

function limitsTable({ limits }: Simulation): Table {
  return {
    title: 'Limits',
    heads: ['limit', 'at', 'mean', 'most', 'used'],
    rows: limits.map((limit) => [
      sayLimit(limit),
      sayNumber(limit.limit),
      sayNumber(limit.mean),
      sayNumber(limit.max),
      sayShare(limit.use),
    ]),
    note: 'Over the time in which something waited.',
  };
}

function heldTable({ held, queues }: Simulation): Table {
  return {
    title: 'Held',
    heads: ['reason', 'jobs on average', 'most', 'plans'],
    rows: held.map(({ queue, reason, meanJobs, maxJobs, plans }) => [
      queues.length === 1 ? sayName(reason) : `${sayName(queue)}: ${sayName(reason)}`,
      sayNumber(meanJobs),
      String(maxJobs),
      String(plans),
    ]),
    note: 'Of the first few jobs of every key, those that a plan looks at, and of all that gates hold together with them.',
  };
}

const insteadWords: Readonly<Record<FaultCount['instead'], string>> = {
  held: 'its jobs were held',
  ignored: 'it was left out',
  turns: 'keys took turns',
  replaced: 'FIFO per key, within the limits',
  kept: 'its state stayed as it was',
};

function faultsTable({ faults, plans }: Simulation): Table {
  return {
    title: 'Faults',
    heads: ['part', 'plans', 'instead', 'message'],
    rows: faults.map(({ part, message, count, instead }) => [
      sayName(part),
      String(count),
      insteadWords[instead],
      sayName(message, 200),
    ]),
    note: `What failed in the policy, of ${plans.made} plans. Of messages that differ in the job or in numbers alone, the first.`,
  };
}

function sayDifference({ unit }: Pick<Difference, 'unit'>, value: number | null): string {
  if (value === null) return '-';
  switch (unit) {
    case 'ms':
      return sayMs(value);
    case 'share':
      return sayShare(value);
    case 'index':
      return value.toFixed(3);
    case 'jobs':
      return String(value);
    default:
      return unreachable(unit);
  }
}

function sayChange({ unit, base, change }: Difference): string {
  if (change === null || base === null) return '-';
  if (change === 0) return 'same';
  const sign = change > 0 ? '+' : '−';
  const size = Math.abs(change);
  if (unit === 'share') return `${sign}${Number((size * 100).toFixed(1))} points`;
  const relative = unit !== 'ms' || base === 0 ? '' : ` (${sign}${sayShare(size / base)})`;
  return `${sign}${sayDifference({ unit }, size)}${relative}`;
}
