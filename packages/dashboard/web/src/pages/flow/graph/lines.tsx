import type { ReactNode } from 'react';
import { memo, useMemo } from 'react';
import type { NeedCondition } from '../../../../../src/contract.ts';
import { exact } from '../../../format/numbers.ts';
import type { Bundle } from './bundles.ts';
import { bundlesOf, isIn } from './bundles.ts';
import classes from './graph.module.css';
import type { Box, Drawn, Layout } from './layout.ts';
import { linesIn, pathOf } from './layout.ts';

/** Lines that are drawn at a time. */
export const linesMax = 1_000;
/** Lines from which on none is dashed: browsers take seconds for many dashes. */
const dashesMax = 200;
/** Lines that have their condition written beside them. */
const wordsMax = 100;

const conditions: readonly NeedCondition[] = ['done', 'ended', 'failed'];

interface LinesProps {
  readonly layout: Layout;
  readonly box: Box;
  /** Step whose lines stand out. */
  readonly of: number | undefined;
}

/**
 * Draws the lines that cross the rendered part, as one path a condition: thousands of elements would be slow.
 * Many lines between a step and a layer are one. The condition of a line is written on it, unless it is `done`.
 */
export const Lines = memo(function Lines({ layout, box, of }: LinesProps): ReactNode {
  const { bundles, single, hubs } = useMemo(() => bundlesOf(layout), [layout]);
  const { drawn } = useMemo(
    () => linesIn({ ...layout, lines: single }, box, linesMax),
    [layout, single, box],
  );
  const own = useMemo(() => {
    const lines = layout.lines.filter(
      (line) => (line.from === of || line.to === of) && hubs.get(line) !== of,
    );
    return linesIn({ ...layout, lines }, box, dashesMax).drawn;
  }, [layout, hubs, box, of]);
  const isLarge = layout.sizes.height > 20;
  const words = isLarge ? drawn.filter(({ condition }) => condition !== 'done').slice(0, wordsMax) : [];
  const width = Math.max(0, Math.min(box.right, layout.width) - box.left);
  const height = Math.max(0, Math.min(box.bottom, layout.height) - box.top);
  return (
    <svg
      className={classes.lines}
      aria-hidden
      width={width}
      height={height}
      viewBox={`${box.left} ${box.top} ${width} ${height}`}
      style={{ left: box.left, top: box.top }}
      data-dense={drawn.length > dashesMax}
    >
      <Paths lines={drawn} />
      {bundles
        .filter((bundle) => isIn(bundle, box))
        .slice(0, wordsMax)
        .map((bundle) => (
          <BundlePath key={bundle.key} bundle={bundle} isOwn={bundle.hub === of} />
        ))}
      <g data-own>
        <Paths lines={own} />
      </g>
      {words.map((line) => (
        <text key={`${line.from} ${line.to}`} x={(line.x1 + line.x2) / 2} y={(line.y1 + line.y2) / 2 + 4}>
          {line.condition}
        </text>
      ))}
    </svg>
  );
});

function Paths({ lines }: { readonly lines: readonly Drawn[] }): ReactNode {
  return conditions.map((condition) => {
    const path = lines.flatMap((line) => (line.condition === condition ? [pathOf(line)] : []));
    return path.length === 0 ? null : <path key={condition} data-condition={condition} d={path.join('')} />;
  });
}

interface BundlePathProps {
  readonly bundle: Bundle;
  /** The lines of the chosen step. */
  readonly isOwn: boolean;
}

function BundlePath({ bundle, isOwn }: BundlePathProps): ReactNode {
  const { bar, condition, count, x1, x2, y1, y2 } = bundle;
  return (
    <g data-bundle data-own={isOwn ? true : undefined}>
      <path
        data-condition={condition}
        d={`M${bar.x} ${bar.top}V${bar.bottom}${pathOf({ x1, x2, y1, y2 })}`}
      />
      <text x={(x1 + x2) / 2} y={(y1 + y2) / 2 - 6}>
        {exact(count)}
        {condition === 'done' ? '' : ` ${condition}`}
      </text>
    </g>
  );
}
