import type { ReactNode } from 'react';
import { percent } from '../../format/numbers.ts';
import classes from './share-bar.module.css';

interface ShareBarProps {
  /** From 0 to 1. */
  readonly share: number;
  /** What it should be at most; a mark on the bar. */
  readonly fair: number;
  /** The end of the scale: the longest of all bars fills it. */
  readonly scale: number;
}

/** What somebody got, beside what was his: a bar, and a mark. */
export function ShareBar({ share, fair, scale }: ShareBarProps): ReactNode {
  const at = (value: number): string => `${Math.min(100, (value / Math.max(scale, 1e-9)) * 100)}%`;
  return (
    <div className={classes.row}>
      <div className={classes.track} aria-hidden>
        <div className={classes.bar} style={{ width: at(share) }} />
        <div className={classes.fair} style={{ left: at(fair) }} />
      </div>
      <span className={classes.value}>{percent(share)}</span>
    </div>
  );
}
