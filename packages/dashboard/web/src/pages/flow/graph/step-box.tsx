import type { ReactNode } from 'react';
import { memo } from 'react';
import { visible } from '../../../format/text.ts';
import { Mark } from '../../../ui/status.tsx';
import { Foreign } from '../../../ui/text.tsx';
import { Span, Time } from '../../../ui/time.tsx';
import { Progress } from '../state/progress.tsx';
import { countsText, stepTones, wordOf } from '../state/states.ts';
import classes from './graph.module.css';
import type { Place, Scale, Sizes } from './layout.ts';

interface StepBoxProps {
  readonly id: string;
  readonly place: Place;
  readonly sizes: Sizes;
  readonly scale: Scale;
  /** Number of all steps. */
  readonly count: number;
  readonly isChosen: boolean;
  readonly isActive: boolean;
  readonly onChoose: (step: number) => void;
}

/** One step in the graph. */
export const StepBox = memo(function StepBox(props: StepBoxProps): ReactNode {
  const { id, place, sizes, scale, count, isChosen, isActive, onChoose } = props;
  const { step, x, y } = place;
  const word = wordOf(step);
  // a card is named by its own text
  const label = scale === 'cards' ? undefined : `${visible(step.name)} ${word} ${countsText(step)}`;
  return (
    <div
      id={id}
      role="option"
      aria-selected={isChosen}
      aria-setsize={count}
      aria-posinset={step.step + 1}
      aria-label={label}
      title={label}
      className={scale === 'cards' ? classes.card : classes.tile}
      data-tone={stepTones[word]}
      data-word={word}
      data-chosen={isChosen}
      data-active={isActive}
      style={{ left: x, top: y, width: sizes.width, height: sizes.height }}
      onClick={() => onChoose(step.step)}
    >
      {scale === 'cards' && <Card place={place} />}
    </div>
  );
});

function Card({ place: { step } }: { readonly place: Place }): ReactNode {
  const word = wordOf(step);
  return (
    <>
      <span className={classes.name}>
        <Foreign text={step.name} max={80} />
      </span>
      <span className={classes.row}>
        <Mark tone={stepTones[word]}>{word}</Mark>
        {step.kind === 'timer' ? (
          <span>{step.due === null ? <Span ms={step.delayMs} /> : <Time at={step.due} as="ago" />}</span>
        ) : (
          <span className={classes.counts} title={countsText(step)}>
            {countsText(step)}
          </span>
        )}
      </span>
      {step.kind === 'jobs' ? <Progress of={step} /> : <span className={classes.kind}>{step.kind}</span>}
    </>
  );
}
