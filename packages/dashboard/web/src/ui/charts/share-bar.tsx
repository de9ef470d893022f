import type { ReactNode } from 'react';
import { percent } from '../../format/numbers.ts';
import classes from './share-bar.module.css';

interface ShareBarProps {
  /** Share received, from 0 to 1. */
  readonly share: number;
  /** Fair share, from 0 to 1; a mark on the bar. Null: it is not known. */
  readonly fair: number | null;
  /** Value at the end of the scale, the same for all bars of a table. */
  readonly scale: number;
}

/** Shows a share as a bar, with a mark at the fair share. */
export function ShareBar({ share, fair, scale }: ShareBarProps): ReactNode {
  const at = (value: number): string => `${Math.min(100, (value / Math.max(scale, 1e-9)) * 100)}%`;
  return (
    <div className={classes.row}>
      <div className={classes.track} aria-hidden>
        <div className={classes.bar} style={{ width: at(share) }} />
        {fair !== null && <div className={classes.fair} style={{ left: at(fair) }} />}
      </div>
      <span className={classes.value}>{percent(share)}</span>
    </div>
  );
}
