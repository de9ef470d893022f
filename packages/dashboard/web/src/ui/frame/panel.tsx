import type { ReactNode } from 'react';
import { useId } from 'react';
import classes from './panel.module.css';

interface PanelProps {
  readonly title: string;
  /** What the numbers are of, in a few words. */
  readonly note?: ReactNode;
  readonly actions?: ReactNode;
  readonly children: ReactNode;
  /** The content reaches to the edges: for tables. */
  readonly flush?: boolean;
}

/** One thing of a page, under a heading of its own. */
export function Panel({ title, note, actions, children, flush = false }: PanelProps): ReactNode {
  const id = useId();
  return (
    <section className={classes.panel} aria-labelledby={id}>
      <header className={classes.head}>
        <h2 id={id} className={classes.title}>
          {title}
        </h2>
        {note !== undefined && <span className={classes.note}>{note}</span>}
        {actions !== undefined && <div className={classes.actions}>{actions}</div>}
      </header>
      <div className={flush ? classes.flush : classes.body}>{children}</div>
    </section>
  );
}

export interface Figure {
  readonly label: string;
  readonly value: ReactNode;
  readonly note?: ReactNode;
  readonly tone?: 'bad' | 'warn' | undefined;
}

/** Numbers side by side, each with its name. */
export function Figures({ figures }: { readonly figures: readonly Figure[] }): ReactNode {
  return (
    <dl className={classes.figures}>
      {figures.map(({ label, value, note, tone }) => (
        <div key={label} className={classes.figure} data-tone={tone}>
          <dt>{label}</dt>
          <dd>
            <span className={classes.value}>{value}</span>
            {note !== undefined && <span className={classes.note}>{note}</span>}
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** Names and what they stand for, in two columns. */
export function Facts({ facts }: { readonly facts: readonly (readonly [string, ReactNode])[] }): ReactNode {
  return (
    <dl className={classes.facts}>
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
