import { PgQueueError } from '@pgqueue/core';
import type * as Echarts from 'echarts/core';

/** A chart. Its names are shown as they are, so the caller has to sanitize them. */
export interface Chart {
  readonly title: string;
  /** Text that explains the chart. */
  readonly note?: string;
  /** An option of ECharts, without colours. Series get the colours of the page, in their order. */
  readonly option: Readonly<Record<string, unknown>>;
  readonly height?: number;
}

/** Draws a chart as SVG text. Its colours are variables of the page: `--ink`, `--line`, `--c1` to `--c8`. */
export type Draw = (chart: Chart) => string;

const width = 760;
export const colours = 8;
// ECharts computes with colours and can't draw with variables, so each of these stands for one
const ink = '#010203';
const line = '#040506';
const series: string[] = Array.from({ length: colours }, (_, at) => `#0a0b${String(10 + at)}`);

/**
 * Loads the plotting library. It is optional, since it takes 65 MB on disk.
 * @throws {PgQueueError} `configuration` if it is not installed
 */
export async function loadDraw(): Promise<Draw> {
  const echarts = await load();
  return ({ option, height = 300 }) => {
    const chart = echarts.init(null, null, { renderer: 'svg', ssr: true, width, height });
    try {
      chart.setOption({ ...frame, ...option });
      return themed(chart.renderToSVGString());
    } finally {
      chart.dispose();
    }
  };
}

const axis = {
  axisLabel: { color: ink },
  nameTextStyle: { color: ink },
  axisLine: { lineStyle: { color: line } },
  splitLine: { lineStyle: { color: line } },
};

const frame = {
  animation: false,
  color: series,
  textStyle: { color: ink, fontFamily: 'inherit' },
  grid: { left: 16, right: 16, top: 40, bottom: 32 },
  legend: {
    top: 0,
    icon: 'roundRect',
    itemWidth: 14,
    itemHeight: 10,
    itemGap: 18,
    textStyle: { color: ink },
    borderColor: line,
  },
};

/** Returns an axis in the colours of the page. */
export function axisOf(option: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const axisLabel = { ...axis.axisLabel, ...(option['axisLabel'] as object | undefined) };
  return { nameLocation: 'middle', nameGap: 28, ...axis, ...option, axisLabel };
}

async function load(): Promise<typeof Echarts> {
  try {
    const [core, charts, components, renderers] = await Promise.all([
      import('echarts/core'),
      import('echarts/charts'),
      import('echarts/components'),
      import('echarts/renderers'),
    ]);
    core.use([
      charts.BarChart,
      charts.LineChart,
      components.GridComponent,
      components.LegendComponent,
      components.MarkLineComponent,
      renderers.SVGRenderer,
    ]);
    return core;
  } catch (error) {
    if ((error as { readonly code?: unknown }).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new PgQueueError(
      'configuration',
      'charts need echarts, which is not installed: npm install echarts',
      {
        cause: error,
      },
    );
  }
}

/**
 * Applies the page's colours and width, and removes the style sheet that ECharts adds for pointers over its
 * shapes.
 */
function themed(svg: string): string {
  let page = svg
    .replaceAll(/<style[^>]*>[\s\S]*?<\/style>/g, '')
    .replaceAll(/ (?:class|ecmeta_[a-z_]+|pointer-events)="[^"]*"/g, '')
    .replace(/ width="\d+" height="\d+"/, ' width="100%"');
  // whole attribute values only: a name in the text may look like a colour
  const named: readonly (readonly [string, string])[] = [
    [ink, '--ink'],
    [line, '--line'],
    ...series.map((colour, at) => [colour, `--c${at + 1}`] as const),
  ];
  for (const [from, to] of named) page = page.replaceAll(`="${from}"`, `="var(${to})"`);
  return page;
}
