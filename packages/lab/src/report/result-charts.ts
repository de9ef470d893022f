import type { Chart } from './charts.ts';
import { axisOf } from './charts.ts';
import type { Comparison } from '../simulation/compare.ts';
import type { LaneResult, Simulation } from '../simulation/result.ts';
import { namesOf, sayLimit } from './tables.ts';
import { sayLane, sayMs, sayShare, unitFor } from './format.ts';

/** Most keys in one chart. */
const keysMax = 16;
/** Shortest wait that charts show, in milliseconds. Shorter waits look the same. */
const shortestMs = 1;

/** A result with its name. */
interface Named {
  readonly name: string;
  readonly result: Simulation;
}

export function chartsOf(result: Simulation): readonly Chart[] {
  const one = { name: result.policy, result };
  return [waitsChart([one]), waitsByKey(result), ...overTime(one), sharesChart(one), ...limitsChart(result)];
}

export function comparisonCharts(comparison: Comparison): readonly Chart[] {
  const { base, other } = comparison;
  const named = namesOf(comparison);
  const [one, two] = [
    { name: named.base, result: base },
    { name: named.other, result: other },
  ];
  return [
    waitsChart([one, two]),
    keyWaitsOfBoth(comparison, named),
    entitlementChart([one, two]),
    ...[one, two].flatMap((named) =>
      overTime(named).map((chart) => ({ ...chart, title: `${chart.title}: ${named.name}` })),
    ),
  ];
}

function waitsChart(all: readonly Named[]): Chart {
  return {
    title: 'How long jobs wait',
    note: 'So many percent of all jobs wait no longer than this. The scale of time is logarithmic.',
    option: {
      xAxis: axisOf({ type: 'value', min: 0, max: 100, name: '% of jobs' }),
      yAxis: axisOf({ type: 'log', min: shortestMs, axisLabel: { formatter: (ms: number) => sayMs(ms) } }),
      series: all.map(({ name, result }) => ({
        type: 'line',
        name,
        showSymbol: false,
        data: result.waitPercentilesMs.map((ms, percent) => [percent, Math.max(shortestMs, ms)]),
      })),
    },
  };
}

function waitsByKey({ lanes, queues }: Simulation): Chart {
  const shown = lanes.slice(0, keysMax);
  const bars = [
    ['p50', (lane: LaneResult) => lane.waits.p50Ms],
    ['p95', (lane: LaneResult) => lane.waits.p95Ms],
    ['p99', (lane: LaneResult) => lane.waits.p99Ms],
  ] as const;
  return {
    title: 'Waits by key',
    note: 'The keys that used most slot time.',
    option: barOption(
      shown.map((lane) => sayLane(lane, { alone: queues.length === 1, max: 18 })),
      bars.map(([name, of]) => ({ name, values: shown.map((lane) => of(lane) ?? 0) })),
      sayMs,
    ),
  };
}

function keyWaitsOfBoth({ base, lanes }: Comparison, named: ReturnType<typeof namesOf>): Chart {
  const shown = lanes.slice(0, keysMax);
  return {
    title: 'p95 of waits by key',
    note: 'The keys for which it changes most.',
    option: barOption(
      shown.map((lane) => sayLane(lane, { alone: base.queues.length === 1, max: 18 })),
      [
        { name: named.base, values: shown.map((lane) => lane.base?.waits.p95Ms ?? 0) },
        { name: named.other, values: shown.map((lane) => lane.other?.waits.p95Ms ?? 0) },
      ],
      sayMs,
    ),
  };
}

function sharesChart({ name, result }: Named): Chart {
  const { lanes, queues } = result;
  const shown = entitled(result);
  const part = (of: (lane: LaneResult) => number): readonly number[] => {
    const sum = lanes.reduce((total, lane) => total + of(lane), 0);
    return shown.map((lane) => (sum === 0 ? 0 : of(lane) / sum));
  };
  return {
    title: 'Slot time against weight',
    note: 'Of the slot time that was given to keys which had more jobs waiting: what each got, and what its weight entitled it to.',
    option: barOption(
      shown.map((lane) => sayLane(lane, { alone: queues.length === 1, max: 18 })),
      [
        { name: 'by weight', values: part(({ served }) => served.entitledMs) },
        { name, values: part(({ served }) => served.servedMs) },
      ],
      sayShare,
    ),
  };
}

/**
 * Compares the shares of their entitlement that keys got under two policies. The slot time that a key is entitled to differs between policies,
 * since it depends on when the key and others wait.
 */
function entitlementChart(all: readonly [Named, Named]): Chart {
  const [{ result: first }] = all;
  const shown = entitled(first);
  const ratios = ({ lanes }: Simulation): readonly number[] => {
    const byName = new Map(
      lanes.map(({ queue, key, served }) => [JSON.stringify([queue, key]), served.ratio]),
    );
    return shown.map(({ queue, key }) => byName.get(JSON.stringify([queue, key])) ?? 0);
  };
  return {
    title: 'Share of their entitlement that keys got',
    note: 'Of the slot time that was given to keys which had more jobs waiting: what each got, by what its weight entitled it to under that policy. No bar: too little to tell.',
    option: barOption(
      shown.map((lane) => sayLane(lane, { alone: first.queues.length === 1, max: 18 })),
      all.map(({ name, result }) => ({ name, values: ratios(result) })),
      sayShare,
    ),
  };
}

function entitled({ lanes }: Simulation): readonly LaneResult[] {
  return lanes.filter(({ served }) => served.entitledMs > 0).slice(0, keysMax);
}

function limitsChart({ limits }: Simulation): readonly Chart[] {
  const shown = limits.filter(({ use }) => use !== null).slice(0, keysMax);
  if (shown.length === 0) return [];
  const uses = shown.map(({ use }) => use ?? 0);
  return [
    {
      title: 'Use of limits',
      note: 'While something waited for them.',
      option: barOption(shown.map(sayLimit), [{ name: 'used', values: uses }], sayShare),
    },
  ];
}

type Points = readonly (readonly [number, number])[];

function overTime({ result }: Named): readonly Chart[] {
  const { stepMs } = result.series;
  const unit = unitFor(result.endMs - result.startMs);
  const time = axisOf({
    type: 'value',
    min: 0,
    max: 'dataMax',
    name: `${unit.name} from the first arrival`,
    axisLabel: { showMaxLabel: false },
  });
  const at = (values: readonly number[]): Points =>
    values.map((value, step) => [(step * stepMs) / unit.ms, value]);
  return [jobsChart(result, time, at), slotsChart(result, time, at)];
}

function jobsChart({ series }: Simulation, time: object, at: (values: readonly number[]) => Points): Chart {
  const count = axisOf({ type: 'value', minInterval: 1 });
  const line = { type: 'line', showSymbol: false };
  return {
    title: 'Jobs over time',
    option: {
      xAxis: time,
      yAxis: [count, { ...count, splitLine: { show: false } }],
      series: [
        { ...line, name: 'running (left)', data: at(series.running) },
        { ...line, name: 'waiting (right)', yAxisIndex: 1, data: at(series.waiting) },
      ],
    },
  };
}

function slotsChart(
  { series, queues }: Simulation,
  time: object,
  at: (values: readonly number[]) => Points,
): Chart {
  const alone = queues.length === 1;
  const own = series.lanes.slice(0, 7);
  const others = series.running.map((all, step) =>
    Math.max(
      0,
      own.reduce((left, { running }) => left - (running[step] ?? 0), all),
    ),
  );
  const areas = [
    ...own.map((lane) => ({ name: sayLane(lane, { alone, max: 18 }), values: lane.running })),
    { name: 'others', values: others },
  ].filter(({ values }) => values.some((value) => value > 1e-9));
  return {
    title: 'Slots by key over time',
    option: {
      xAxis: time,
      yAxis: axisOf({ type: 'value' }),
      grid: { left: 16, right: 16, top: 64, bottom: 32 },
      series: areas.map(({ name, values }) => ({
        type: 'line',
        name,
        stack: 'slots',
        showSymbol: false,
        lineStyle: { width: 0 },
        areaStyle: { opacity: 0.8 },
        data: at(values),
      })),
    },
  };
}

function barOption(
  names: readonly string[],
  bars: readonly { readonly name: string; readonly values: readonly number[] }[],
  say: (value: number) => string,
): Chart['option'] {
  const rotate = names.length > 6 ? 35 : 0;
  return {
    // positions, not names: two keys may look the same
    xAxis: axisOf({
      type: 'category',
      data: names.map((_, at) => String(at)),
      axisLabel: { interval: 0, rotate, formatter: (at: string) => names[Number(at)] ?? '' },
      splitLine: { show: false },
    }),
    yAxis: axisOf({ type: 'value', axisLabel: { formatter: (value: number) => say(value) } }),
    series: bars.map(({ name, values }) => ({ type: 'bar', name, data: [...values] })),
  };
}
