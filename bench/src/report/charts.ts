// Charts as SVG text, rendered by ECharts without a browser; the colours are CSS variables of the page.
import { BarChart, LineChart, ScatterChart } from 'echarts/charts';
import { GridComponent, LegendComponent } from 'echarts/components';
import { init, use } from 'echarts/core';
import { SVGRenderer } from 'echarts/renderers';

use([BarChart, LineChart, ScatterChart, GridComponent, LegendComponent, SVGRenderer]);

const width = 760;
const rowHeight = 26;
export const colours = 10;
// ECharts computes with colours, so it cannot draw with variables: each of these is replaced by one
// afterwards
const ink = '#010203';
const line = '#040506';
const series: readonly string[] = Array.from({ length: colours }, (_, at) => `#0a0b${10 + at}`);

/** One bar: a median, and the values it was computed from. */
export interface Bar {
  readonly name: string;
  readonly value: number;
  readonly all: readonly number[];
  /** Index into the page's colours. */
  readonly colour: number;
}

/** Draws horizontal bars, the first on top, with a dot for each repetition. */
export function bars(rows: readonly Bar[]): string {
  const shown = rows.filter(({ value }) => !Number.isNaN(value)).toReversed();
  return draw(60 + shown.length * rowHeight, {
    grid: { left: 230, right: 24, top: 10, bottom: 30 },
    xAxis: axisOf({ type: 'value' }),
    yAxis: axisOf({ type: 'category', data: shown.map(({ name, value }) => `${name}   ${short(value)}`) }),
    series: [
      {
        type: 'bar',
        barWidth: '60%',
        data: shown.map(({ value, colour }) => ({
          value,
          itemStyle: { color: series[colour % colours] },
        })),
      },
      {
        type: 'scatter',
        symbolSize: 5,
        itemStyle: { color: ink },
        data: shown.flatMap(({ all }, row) => (all.length > 1 ? all.map((value) => [value, row]) : [])),
      },
    ],
  });
}

/** Draws one line for each series of values, one value a second. */
export function lines(
  all: readonly { readonly name: string; readonly values: readonly number[]; readonly colour: number }[],
): string {
  return draw(320, {
    grid: { left: 70, right: 16, top: 60, bottom: 40 },
    legend: { top: 0, textStyle: { color: ink } },
    xAxis: axisOf({
      type: 'value',
      name: 'seconds',
      max: Math.max(...all.map(({ values }) => values.length)),
    }),
    yAxis: axisOf({ type: 'value', min: 0 }),
    series: all.map(({ name, values, colour }) => ({
      type: 'line',
      name,
      showSymbol: false,
      lineStyle: { width: 1.5, color: series[colour % colours] },
      itemStyle: { color: series[colour % colours] },
      data: values.map((value, at) => [at + 1, value]),
    })),
  });
}

function short(value: number): string {
  return value >= 100 ? Math.round(value).toLocaleString('en-US') : String(Number(value.toPrecision(3)));
}

function axisOf(option: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return {
    axisLabel: { color: ink },
    nameTextStyle: { color: ink },
    nameLocation: 'middle',
    nameGap: 26,
    axisLine: { lineStyle: { color: line } },
    splitLine: { lineStyle: { color: line } },
    ...option,
  };
}

function draw(height: number, option: Readonly<Record<string, unknown>>): string {
  const chart = init(null, null, { renderer: 'svg', ssr: true, width, height });
  try {
    chart.setOption({ animation: false, textStyle: { color: ink, fontFamily: 'inherit' }, ...option });
    return themed(chart.renderToSVGString());
  } finally {
    chart.dispose();
  }
}

/**
 * Replaces the placeholder colours by CSS variables and the fixed width by 100 %. Removes the style sheet and
 * the attributes that only serve pointer events.
 */
function themed(svg: string): string {
  const named: readonly (readonly [string, string])[] = [
    [ink, '--ink'],
    [line, '--line'],
    ...series.map((colour, at) => [colour, `--c${at + 1}`] as const),
  ];
  return named.reduce(
    (page, [from, to]) => page.replaceAll(`="${from}"`, `="var(${to})"`),
    svg
      .replaceAll(/<style[^>]*>[\s\S]*?<\/style>/g, '')
      .replaceAll(/ (?:class|ecmeta_[a-z_]+|pointer-events)="[^"]*"/g, '')
      .replace(/ width="\d+" height="\d+"/, ' width="100%"'),
  );
}
