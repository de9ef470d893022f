// A run as a page: faults, throughput and the age of the oldest waiting job over time, one above the other.
import { axisOf, loadDraw } from '../../packages/lab/src/report/charts.ts';
import type { Chart } from '../../packages/lab/src/report/charts.ts';
import { escapeHtml } from '../../packages/lab/src/report/html.ts';
import { lineOf } from './checker/check.ts';
import type { EventOf, HistoryEvent } from './checker/history.ts';
import type { ChaosRun } from './run.ts';

type Point = readonly [seconds: number, value: number] | readonly [null, null];

/** @throws where echarts, which is optional, is not installed */
export async function timelineHtml({ history, verdict }: ChaosRun): Promise<string> {
  const draw = await loadDraw();
  const events = history.toSorted((a, b) => a.at - b.at);
  const fromMs = events[0]?.at ?? 0;
  const seconds = (at: number): number => Math.round((at - fromMs) / 100) / 10;
  const lived = events.filter(({ type }) => type !== 'final' && type !== 'item');
  const axis = { type: 'value', max: seconds(lived.at(-1)?.at ?? fromMs), name: 'seconds' };
  const charts = [
    faultChart(events, seconds, axis),
    rateChart(events, seconds, axis),
    sampleChart(
      events,
      { title: 'Age of the oldest waiting job, seconds', of: ({ oldestMs }) => oldestMs / 1_000 },
      { seconds, axis },
    ),
    sampleChart(events, { title: 'Jobs waiting', of: ({ waiting }) => waiting }, { seconds, axis }),
  ];
  const figures = charts.map(
    (chart) => `<figure><figcaption>${escapeHtml(chart.title)}</figcaption>${draw(chart)}</figure>`,
  );
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
<title>Chaos, seed ${verdict.seed}</title>
<style>${style}</style>
</head>
<body>
<h1>Chaos, seed ${verdict.seed}</h1>
<p>${escapeHtml(lineOf(verdict))}</p>
${figures.join('\n')}
</body>
</html>
`;
}

type Seconds = (at: number) => number;
type Axis = Readonly<Record<string, unknown>>;

function faultChart(events: readonly HistoryEvent[], seconds: Seconds, axis: Axis): Chart {
  const faults = events.filter((event) => event.type === 'fault');
  const kinds = [...new Set(faults.map(({ kind }) => kind))].toSorted().toReversed();
  const least = Number(axis['max']) / 150; // short ones are seen, too
  const data = faults.flatMap(({ n, kind, phase }): Point[] => {
    if (phase !== 'made') return [];
    const at = (wanted: string): number | undefined =>
      faults.find((other) => other.n === n && other.phase === wanted)?.at;
    const row = kinds.indexOf(kind);
    const from = seconds(at('start') ?? 0);
    const to = Math.max(seconds(at('healed') ?? at('made') ?? 0), from + least);
    return [
      [from, row],
      [to, row],
      [null, null],
    ];
  });
  return {
    title: 'Faults, from their beginning to their end',
    height: 60 + kinds.length * 18,
    option: {
      legend: { show: false },
      grid: { left: 180, right: 16, top: 10, bottom: 40 },
      xAxis: axisOf(axis),
      yAxis: axisOf({ type: 'category', data: kinds }),
      series: [{ type: 'line', name: 'faults', data, showSymbol: false, lineStyle: { width: 8 } }],
    },
  };
}

function rateChart(events: readonly HistoryEvent[], seconds: Seconds, axis: Axis): Chart {
  const settled = events.flatMap((event) =>
    event.type === 'settle' && event.phase === 'ok'
      ? event.verdicts.map(() => Math.floor(seconds(event.at)))
      : [],
  );
  const enqueues = new Map(
    events.flatMap((event) =>
      event.type === 'enqueue' && event.phase === 'invoke' ? [[event.op, event.ids.length] as const] : [],
    ),
  );
  const enqueued = events.flatMap((event) =>
    event.type === 'enqueue' && event.phase === 'ok'
      ? Array.from({ length: enqueues.get(event.op) ?? 0 }, () => Math.floor(seconds(event.at)))
      : [],
  );
  const last = Math.max(0, settled.at(-1) ?? 0);
  const perSecond = (times: readonly number[]): readonly Point[] => {
    const counts = new Map<number, number>();
    for (const at of times) counts.set(at, (counts.get(at) ?? 0) + 1);
    return Array.from({ length: last + 1 }, (_, at): Point => [at, counts.get(at) ?? 0]);
  };
  return {
    title: 'Jobs a second',
    option: {
      grid: { left: 60, right: 16, top: 40, bottom: 40 },
      xAxis: axisOf(axis),
      yAxis: axisOf({ type: 'value' }),
      series: [
        {
          type: 'line',
          name: 'settled',
          data: perSecond(settled),
          showSymbol: false,
          lineStyle: { width: 1 },
        },
        {
          type: 'line',
          name: 'enqueued',
          data: perSecond(enqueued),
          showSymbol: false,
          lineStyle: { width: 1 },
        },
      ],
    },
  };
}

function sampleChart(
  events: readonly HistoryEvent[],
  { title, of }: { readonly title: string; readonly of: (sample: EventOf<'sample'>) => number },
  { seconds, axis }: { readonly seconds: Seconds; readonly axis: Axis },
): Chart {
  const data = events.flatMap((event): Point[] =>
    event.type === 'sample' ? [[seconds(event.at), of(event)]] : [],
  );
  return {
    title,
    option: {
      legend: { show: false },
      grid: { left: 60, right: 16, top: 10, bottom: 40 },
      xAxis: axisOf(axis),
      yAxis: axisOf({ type: 'value' }),
      series: [{ type: 'line', name: title, data, showSymbol: false, lineStyle: { width: 1 } }],
    },
  };
}

const style = `
:root { --page: #fff; --ink: #1c2024; --line: #d9dbe0; --c1: #d55e00; --c2: #0072b2; }
@media (prefers-color-scheme: dark) { :root { --page: #15171a; --ink: #e6e8eb; --line: #363b41; --c1: #f0874a; --c2: #4fa8dd; } }
body { margin: 0 auto; padding: 1.5rem; max-width: 80rem; background: var(--page); color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0; } figure { margin: 1.5rem 0 0; } figcaption { font-weight: 600; } figure svg { display: block; height: auto; }
`;
