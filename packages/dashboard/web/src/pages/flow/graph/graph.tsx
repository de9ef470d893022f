import type { KeyboardEvent, ReactNode } from 'react';
import { useCallback, useEffect, useId, useMemo, useRef, useState } from 'react';
import type { FlowStep } from '../../../../../src/contract.ts';
import { exact } from '../../../format/numbers.ts';
import classes from './graph.module.css';
import type { Direction, Layout, Place, Scale, Sizes } from './layout.ts';
import { layoutOf, nextTo, placesIn } from './layout.ts';
import { Lines, linesMax } from './lines.tsx';
import { StepBox } from './step-box.tsx';
import { useDrag } from './use-drag.ts';
import { useWindow } from './use-window.ts';

const sizes: Readonly<Record<Scale, Sizes>> = {
  cards: { width: 208, height: 66, between: 16, below: 14, layers: 72, edge: 16 },
  tiles: { width: 18, height: 12, between: 4, below: 4, layers: 36, edge: 16 },
};

interface GraphProps {
  readonly steps: readonly FlowStep[];
  readonly scale: Scale;
  /** Number of the chosen step. */
  readonly chosen: number | undefined;
  readonly onChoose: (step: number) => void;
}

const directions: Readonly<Record<string, Direction>> = {
  ArrowUp: 'up',
  ArrowDown: 'down',
  ArrowLeft: 'left',
  ArrowRight: 'right',
};

/**
 * Draws a flow: layers from left to right, one box a step. Only what is in sight is rendered, so thousands of
 * steps cost no more than those that fit. Read aloud, it is a list of steps.
 */
export function Graph({ steps, scale, chosen, onChoose }: GraphProps): ReactNode {
  const id = useId();
  const ground = useRef<HTMLDivElement>(null);
  const layout = useMemo(() => layoutOf(steps, sizes[scale]), [steps, scale]);
  const box = useWindow(ground);
  const drag = useDrag(ground);
  const [own, setOwn] = useState<number>();
  const active = own ?? chosen ?? steps[0]?.step ?? 0;
  useShown(ground, layout, chosen);
  useEffect(() => setOwn(undefined), [chosen]);
  const choose = useCallback(
    (step: number) => {
      setOwn(step);
      onChoose(step);
    },
    [onChoose],
  );
  const onKey = (event: KeyboardEvent): void => {
    const direction = directions[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (direction !== undefined) {
      event.preventDefault();
      const next = nextTo(layout, active, direction);
      setOwn(next);
      show(ground.current, layout, next);
    } else if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
      choose(active);
    }
  };
  const shown = useMemo(() => placesIn(layout, box), [layout, box]);
  const current = layout.places.get(active);
  // the active one is rendered wherever it is, since the list refers to it
  const places = current === undefined || shown.includes(current) ? shown : [...shown, current];
  return (
    <>
      <div
        ref={ground}
        className={classes.ground}
        role="listbox"
        tabIndex={0}
        aria-label="Steps, by layers"
        aria-describedby={`${id}-hint`}
        aria-activedescendant={`${id}-${active}`}
        onKeyDown={onKey}
        {...drag}
      >
        <div className={classes.whole} style={{ width: layout.width, height: layout.height }}>
          <Lines layout={layout} box={box} of={chosen} />
          {places.map((place) => (
            <StepBox
              key={place.step.step}
              id={`${id}-${place.step.step}`}
              place={place}
              sizes={layout.sizes}
              scale={scale}
              count={steps.length}
              isChosen={place.step.step === chosen}
              isActive={place.step.step === active}
              onChoose={choose}
            />
          ))}
        </div>
      </div>
      <p id={`${id}-hint`} className={classes.hint}>
        Arrow keys go from step to step, left to what a step needs and right to what needs it; Enter shows
        one.
        {layout.lines.length > linesMax &&
          ` Many lines to one step are drawn as one, and up to ${exact(linesMax)} others at a time.`}
      </p>
    </>
  );
}

/** Scrolls to the chosen step when it changes, also by the address or the other view. */
function useShown(
  ground: { readonly current: HTMLElement | null },
  layout: Layout,
  chosen: number | undefined,
): void {
  const latest = useRef(layout);
  useEffect(() => {
    latest.current = layout;
  }, [layout]);
  const { sizes } = layout;
  useEffect(() => {
    if (chosen !== undefined) show(ground.current, latest.current, chosen);
  }, [ground, chosen, sizes]);
}

const margin = 24;

/** Scrolls as far as it takes to have a step in sight. */
function show(ground: HTMLElement | null, { places, sizes }: Layout, step: number): void {
  const place: Place | undefined = places.get(step);
  if (ground === null || place === undefined) return;
  ground.scrollTo({
    left: into(ground.scrollLeft, ground.clientWidth, [place.x - margin, place.x + sizes.width + margin]),
    top: into(ground.scrollTop, ground.clientHeight, [place.y - margin, place.y + sizes.height + margin]),
  });
}

function into(at: number, length: number, [from, to]: readonly [number, number]): number {
  return from < at ? from : Math.max(at, to - length);
}
