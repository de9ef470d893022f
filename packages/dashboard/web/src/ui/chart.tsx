import type { ReactNode } from 'react';
import { lazy, Suspense } from 'react';
import classes from './chart.module.css';

export interface Series {
  readonly name: string;
  readonly label: string;
  readonly color: string;
}

export type Point = { readonly at: number } & Readonly<Record<string, number | null>>;

export interface ChartProps {
  readonly kind: 'bars' | 'lines' | 'area';
  readonly points: readonly Point[];
  readonly series: readonly Series[];
  /** With its unit. */
  readonly format: (value: number) => string;
  /** What it shows, in words: a chart is nothing to those who hear a page. */
  readonly says: string;
  /** Marks of the axis, from nought to its end; left out: round numbers. */
  readonly ticks?: readonly number[];
}

export const plotHeight = 176;

const Plot = lazy(async () => ({ default: (await import('./plot.tsx')).Plot }));

/** One measure over time, with its unit at the axis and all numbers on hovering. */
export function Chart(props: ChartProps): ReactNode {
  return (
    <figure className={classes.figure}>
      <figcaption className={classes.spoken}>{props.says}</figcaption>
      <div aria-hidden style={{ height: plotHeight }}>
        <Suspense fallback={null}>
          <Plot {...props} />
        </Suspense>
      </div>
    </figure>
  );
}
