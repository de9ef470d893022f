import type { ReactNode } from 'react';
import { useId } from 'react';
import classes from './panel.module.css';

interface PanelProps {
  readonly title: string;
  /** Short note on what the content covers. */
  readonly note?: ReactNode;
  readonly actions?: ReactNode;
  readonly children: ReactNode;
  /** Lets the content reach the edges, for tables. */
  readonly flush?: boolean;
}

/** A section of a page with its own heading. */
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

/** Figures side by side, each with a label. */
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

/** Names and values in two columns. */
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
