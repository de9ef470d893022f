import type { ReactNode } from 'react';
import { useEffect } from 'react';
import { installation } from '../../api/mount.ts';
import classes from './page.module.css';

interface PageProps {
  readonly title: string;
  /** Replaces the title in the heading. */
  readonly heading?: ReactNode;
  readonly note?: ReactNode;
  readonly actions?: ReactNode;
  readonly children: ReactNode;
}

export function Page({ title, heading, note, actions, children }: PageProps): ReactNode {
  useEffect(() => {
    document.title = [title, ...(installation === undefined ? [] : [installation]), 'pgqueue'].join(' · ');
  }, [title]);
  return (
    <div className={classes.page}>
      <header className={classes.head}>
        <div className={classes.words}>
          <h1 tabIndex={-1} className={classes.title}>
            {heading ?? title}
          </h1>
          {note !== undefined && <p className={classes.note}>{note}</p>}
        </div>
        {actions !== undefined && <div className={classes.actions}>{actions}</div>}
      </header>
      {children}
    </div>
  );
}
