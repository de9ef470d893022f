import type { ChartProps } from './chart-props.ts';
import { plotHeight } from './chart-props.ts';
import type { ReactNode } from 'react';
import { lazy, Suspense } from 'react';
import classes from './chart.module.css';

const Plot = lazy(async () => ({ default: (await import('./plot.tsx')).Plot }));

/** A chart of one measure over time, with its unit on the axis and all values in the tooltip. */
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
