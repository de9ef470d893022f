import { AreaChart, BarChart, LineChart } from '@mantine/charts';
import type { ReactNode } from 'react';
import type { ChartProps, Point, Series } from './chart-props.ts';
import { plotHeight } from './chart-props.ts';
import { hourAndMinute } from '../../format/times.ts';

/** Draws a chart with recharts, which is loaded with the first chart. */
export function Plot({ kind, points, series, format, ticks }: ChartProps): ReactNode {
  const shared = {
    h: plotHeight,
    data: points.map((point) => ({ ...point, at: hourAndMinute(point.at) })),
    dataKey: 'at',
    series: series.map((one) => ({ ...one })),
    valueFormatter: format,
    withLegend: series.length > 1,
    legendProps: { verticalAlign: 'top' as const, height: 28 },
    gridAxis: 'x' as const,
    strokeDasharray: '0',
    tickLine: 'none' as const,
    gridColor: 'var(--line)',
    textColor: 'var(--ink-faint)',
    xAxisProps: { minTickGap: 48, fontSize: 11, interval: 'equidistantPreserveStart' as const },
    yAxisProps: {
      width: 62,
      fontSize: 11,
      tickCount: 4,
      domain: [0, ticks?.at(-1) ?? 'auto'] as [number, number | 'auto'],
      ...(ticks !== undefined && { ticks: [...ticks] }),
    },
    tooltipAnimationDuration: 0,
  };
  // the topmost label needs room above its line; a legend provides it
  const chart = {
    accessibilityLayer: false,
    margin: { top: series.length > 1 ? 5 : 14, right: 5, bottom: 5, left: 5 },
  };
  return (
    <>
      {kind === 'bars' && (
        <BarChart {...shared} type="stacked" barChartProps={chart} barProps={{ isAnimationActive: false }} />
      )}
      {kind === 'lines' && (
        <LineChart
          {...shared}
          withDots={isSparse(points, series)}
          strokeWidth={1.5}
          curveType="linear"
          connectNulls={false}
          lineChartProps={chart}
          lineProps={{ isAnimationActive: false }}
        />
      )}
      {kind === 'area' && (
        <AreaChart
          {...shared}
          withDots={isSparse(points, series)}
          strokeWidth={1.5}
          curveType="linear"
          areaChartProps={chart}
          areaProps={{ isAnimationActive: false }}
        />
      )}
    </>
  );
}

/** Reports whether a series has fewer than 4 points; its line would hardly be visible, so dots are drawn. */
function isSparse(points: readonly Point[], series: readonly Series[]): boolean {
  return series.some(({ name }) => points.filter((point) => typeof point[name] === 'number').length < 4);
}
