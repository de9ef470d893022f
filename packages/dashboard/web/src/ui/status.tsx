import type { ReactNode } from 'react';
import classes from './status.module.css';

/** Tone of a mark. A mark always has a text, too: colour alone does not convey a state. */
export type Tone = 'quiet' | 'accent' | 'good' | 'warn' | 'bad';

export function Mark({ tone, children }: { readonly tone: Tone; readonly children: ReactNode }): ReactNode {
  return (
    <span className={classes.mark} data-tone={tone}>
      <span className={classes.dot} aria-hidden />
      {children}
    </span>
  );
}

const tones: Readonly<Record<string, Tone>> = {
  delayed: 'quiet',
  pending: 'quiet',
  ready: 'accent',
  running: 'accent',
  done: 'good',
  dead: 'bad',
  cancelled: 'quiet',
  expired: 'warn',
  alive: 'good',
  active: 'good',
  draining: 'warn',
  overdue: 'warn',
  left: 'quiet',
  lost: 'bad',
  down: 'bad',
  ok: 'good',
  warning: 'warn',
  error: 'bad',
};

/** Shows the state of a job, a node or an installation. */
export function Status({ of }: { readonly of: string }): ReactNode {
  return <Mark tone={tones[of] ?? 'quiet'}>{of}</Mark>;
}
