import type { ReactNode } from 'react';
import { exact, short } from '../format/numbers.ts';
import classes from './held.module.css';
import { Foreign, Nothing } from './text.tsx';

const shownMax = 3;

/** Jobs that the counts of held jobs are made of: a scheduler reads no more of a key than it may dispatch. */
export const heldOf = 'of the first jobs of each key that the scheduler looked at';

/** Shows the 3 rules that hold most jobs, with their counts. */
export function HeldBy({ held }: { readonly held: Readonly<Record<string, number>> | null }): ReactNode {
  if (held === null) return <Nothing says="not known" />;
  const rules = Object.entries(held).sort(([, one], [, other]) => other - one);
  if (rules.length === 0) return <Nothing says="nothing held" />;
  return (
    <span className={classes.rules}>
      {rules.slice(0, shownMax).map(([rule, jobs]) => (
        <span key={rule} className={classes.rule} title={`${exact(jobs)} jobs`}>
          <Foreign text={rule.replaceAll('_', ' ')} max={40} /> <b>{short(jobs)}</b>
        </span>
      ))}
      {rules.length > shownMax && <span className={classes.rule}>and {rules.length - shownMax} more</span>}
    </span>
  );
}
