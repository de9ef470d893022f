import type { ReactNode } from 'react';
import classes from './progress.module.css';

interface Numbers {
  readonly added: number;
  readonly done: number;
  readonly dead: number;
  readonly other: number;
}

/** Shows jobs as a bar: done, dead, cancelled or expired, and left. The numbers must stand beside it. */
export function Progress({ of: { added, done, dead, other } }: { readonly of: Numbers }): ReactNode {
  const width = (jobs: number): { readonly width: string } => ({
    width: `${added === 0 ? 0 : Math.min(100, (jobs / added) * 100)}%`,
  });
  return (
    <span className={classes.track} aria-hidden>
      <span data-part="done" style={width(done)} />
      <span data-part="dead" style={width(dead)} />
      <span data-part="other" style={width(other)} />
    </span>
  );
}
