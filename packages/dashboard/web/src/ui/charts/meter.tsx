import type { ReactNode } from 'react';
import { exact } from '../../format/numbers.ts';
import classes from './meter.module.css';

/** Shows how much of a maximum is used, as a bar and in numbers. */
export function Meter({ value, max }: { readonly value: number; readonly max: number }): ReactNode {
  const share = max === 0 ? 0 : Math.min(1, value / max);
  return (
    <span className={classes.meter}>
      <span className={classes.track} aria-hidden>
        <span className={classes.bar} style={{ width: `${share * 100}%` }} />
      </span>
      {exact(value)} of {exact(max)}
    </span>
  );
}
