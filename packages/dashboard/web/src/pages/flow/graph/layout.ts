import type { FlowStep, NeedCondition } from '../../../../../src/contract.ts';
import { unreachable } from '../../../format/unreachable.ts';

/** A step as a card with its numbers, or as a coloured tile, for a survey of a large flow. */
export type Scale = 'cards' | 'tiles';

/** Sizes of a drawing, in pixels. */
export interface Sizes {
  readonly width: number;
  readonly height: number;
  /** Space between steps of a layer, side by side and one below the other. */
  readonly between: number;
  readonly below: number;
  /** Space between layers, for the lines. */
  readonly layers: number;
  readonly edge: number;
}

/** A step in the drawing, by its upper left corner. */
export interface Place {
  readonly step: FlowStep;
  readonly x: number;
  readonly y: number;
}

/** A line from a needed step to the one that needs it, by their numbers. */
export interface Line {
  readonly from: number;
  readonly to: number;
  readonly condition: NeedCondition;
}

/** A drawing of a flow: layers from left to right. */
export interface Layout {
  readonly sizes: Sizes;
  readonly width: number;
  readonly height: number;
  /** By number of the step. */
  readonly places: ReadonlyMap<number, Place>;
  /** Numbers of the steps of each layer, from top to bottom, then from left to right. */
  readonly layers: readonly (readonly number[])[];
  readonly lines: readonly Line[];
}

/** Steps of a layer that stand in one column; a larger layer becomes a square of several columns. */
const rowsMin = 30;
/** Height up to which layers are centred, in pixels. Above it their tops would be out of sight. */
const centredMax = 900;

/**
 * Lays out steps by their layers. Within a layer they stand in the order of the middle of what they need, which
 * keeps most lines from crossing. Takes O(steps × log steps + needs).
 */
export function layoutOf(steps: readonly FlowStep[], sizes: Sizes): Layout {
  const places = new Map<number, Place>();
  const byLayer = byLayerOf(steps);
  const tall = Math.max(0, ...byLayer.map((members) => tallOf(members.length))) * pitch(sizes);
  const layers: number[][] = [];
  let x = sizes.edge;
  for (const members of byLayer) {
    const ordered = inOrder(members, places);
    const rows = rowsOf(ordered.length);
    const own = tallOf(ordered.length) * pitch(sizes);
    const top = sizes.edge + (tall <= centredMax ? (tall - own) / 2 : 0);
    for (const [index, step] of ordered.entries()) {
      const column = Math.floor(index / rows);
      places.set(step.step, {
        step,
        x: x + column * (sizes.width + sizes.between),
        y: top + (index % rows) * pitch(sizes),
      });
    }
    layers.push(ordered.map(({ step }) => step));
    const columns = Math.ceil(ordered.length / rows);
    x += columns * (sizes.width + sizes.between) - sizes.between + sizes.layers;
  }
  return {
    sizes,
    width: Math.max(0, x - sizes.layers) + sizes.edge,
    height: tall - sizes.below + 2 * sizes.edge,
    places,
    layers,
    lines: steps.flatMap(({ step, needs }) =>
      needs.map(([from, condition]): Line => ({ from, to: step, condition })),
    ),
  };
}

/** Groups steps by their layers, which are numbered from 0. */
function byLayerOf(steps: readonly FlowStep[]): readonly (readonly FlowStep[])[] {
  const layers: FlowStep[][] = [];
  for (const step of steps) (layers[step.layer] ??= []).push(step);
  return layers.filter((members) => members !== undefined);
}

function pitch({ height, below }: Sizes): number {
  return height + below;
}

/** Returns the steps of a full column of a layer. */
function rowsOf(steps: number): number {
  return Math.max(rowsMin, Math.ceil(Math.sqrt(steps * 3)));
}

function tallOf(steps: number): number {
  return Math.min(steps, rowsOf(steps));
}

function inOrder(members: readonly FlowStep[], places: ReadonlyMap<number, Place>): readonly FlowStep[] {
  const middle = new Map(
    members.map(({ step, needs }) => [
      step,
      needs.reduce((sum, [needed]) => sum + (places.get(needed)?.y ?? 0), 0) / Math.max(1, needs.length),
    ]),
  );
  return members.toSorted((a, b) => (middle.get(a.step) ?? 0) - (middle.get(b.step) ?? 0) || a.step - b.step);
}

/** A rectangle in the drawing. */
export interface Box {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

/** Returns the steps that a rectangle shows. */
export function placesIn({ places, sizes }: Layout, box: Box): readonly Place[] {
  return [...places.values()].filter(
    ({ x, y }) => x < box.right && x + sizes.width > box.left && y < box.bottom && y + sizes.height > box.top,
  );
}

/** A line with its ends: the middle of the right and of the left side of two steps. */
export interface Drawn extends Line {
  readonly x1: number;
  readonly y1: number;
  readonly x2: number;
  readonly y2: number;
}

/** Returns up to `max` of the lines that may cross a rectangle, and the number of all of them. */
export function linesIn(
  { lines, places, sizes }: Layout,
  box: Box,
  max: number,
): { readonly drawn: readonly Drawn[]; readonly all: number } {
  const drawn: Drawn[] = [];
  let all = 0;
  for (const line of lines) {
    const [from, to] = [places.get(line.from), places.get(line.to)];
    if (from === undefined || to === undefined) continue;
    const [x1, y1] = [from.x + sizes.width, from.y + sizes.height / 2];
    const [x2, y2] = [to.x, to.y + sizes.height / 2];
    const apart =
      x1 > box.right || x2 < box.left || Math.min(y1, y2) > box.bottom || Math.max(y1, y2) < box.top;
    if (apart) continue;
    all += 1;
    if (drawn.length < max) drawn.push({ ...line, x1, y1, x2, y2 });
  }
  return { drawn, all };
}

const bendMax = 120;

/** Returns the path of a line, as the attribute `d` of an SVG path has it. */
export function pathOf({ x1, y1, x2, y2 }: Pick<Drawn, 'x1' | 'y1' | 'x2' | 'y2'>): string {
  const bend = Math.min(bendMax, (x2 - x1) / 2);
  return `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
}

/** Direction in which a key leads from a step to another one. */
export type Direction = 'up' | 'down' | 'left' | 'right';

/**
 * Returns the step next to a step: above or below it in its layer, the first that it needs, or the first that
 * needs it. Itself if there is none.
 */
export function nextTo({ layers, lines, places }: Layout, from: number, direction: Direction): number {
  const layer = layers[layers.findIndex((members) => members.includes(from))] ?? [];
  const at = layer.indexOf(from);
  const highest = (others: readonly number[]): number =>
    others.toSorted((a, b) => (places.get(a)?.y ?? 0) - (places.get(b)?.y ?? 0))[0] ?? from;
  switch (direction) {
    case 'up':
      return layer[at - 1] ?? from;
    case 'down':
      return layer[at + 1] ?? from;
    case 'left':
      return highest(lines.filter(({ to }) => to === from).map((line) => line.from));
    case 'right':
      return highest(lines.filter((line) => line.from === from).map(({ to }) => to));
    default:
      return unreachable(direction);
  }
}
