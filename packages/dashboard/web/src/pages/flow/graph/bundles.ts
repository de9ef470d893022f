import type { NeedCondition } from '../../../../../src/contract.ts';
import type { Box, Layout, Line } from './layout.ts';

/**
 * Many lines between a step and one layer, drawn as one: a bar beside the layer, and a line from its middle to
 * the step.
 */
export interface Bundle {
  readonly key: string;
  /** Step at which the lines meet. */
  readonly hub: number;
  readonly condition: NeedCondition;
  readonly count: number;
  readonly bar: { readonly x: number; readonly top: number; readonly bottom: number };
  readonly x1: number;
  readonly y1: number;
  readonly x2: number;
  readonly y2: number;
}

/** Lines from which on a bundle is drawn: more of them are a coloured surface. */
const bundleMin = 25;
/** Distance of the bar from the layer, in pixels. */
const apart = 6;

interface Group {
  /** Their lines end at this step, or begin at it. */
  readonly side: 'in' | 'out';
  readonly step: number;
  readonly layer: number;
  readonly condition: NeedCondition;
  readonly lines: Line[];
}

/** Divides the lines of a drawing into bundles and single ones. */
export function bundlesOf(layout: Pick<Layout, 'lines' | 'layers' | 'places' | 'sizes'>): {
  readonly bundles: readonly Bundle[];
  readonly single: readonly Line[];
  /** Step at which a line that is bundled meets the others. */
  readonly hubs: ReadonlyMap<Line, number>;
} {
  const { lines, layers } = layout;
  const layerOf = new Map(layers.flatMap((members, layer) => members.map((step) => [step, layer] as const)));
  const groups = new Map<string, Group>();
  for (const line of lines) {
    const { from, to, condition } = line;
    for (const [side, step, other] of [
      ['in', to, from],
      ['out', from, to],
    ] as const) {
      const layer = layerOf.get(other) ?? 0;
      const key = `${side} ${step} ${layer} ${condition}`;
      const group = groups.get(key) ?? { side, step, layer, condition, lines: [] };
      group.lines.push(line);
      groups.set(key, group);
    }
  }
  const hubs = new Map<Line, number>();
  const bundles = [...groups].flatMap(([key, group]): readonly Bundle[] => {
    const rest = group.lines.filter((line) => !hubs.has(line));
    if (rest.length < bundleMin) return [];
    for (const line of rest) hubs.set(line, group.step);
    return bundleOf(layout, key, { ...group, lines: rest });
  });
  return { bundles, single: lines.filter((line) => !hubs.has(line)), hubs };
}

function bundleOf(
  { places, sizes, layers }: Pick<Layout, 'layers' | 'places' | 'sizes'>,
  key: string,
  { side, step, layer, condition, lines }: Group,
): readonly Bundle[] {
  const own = places.get(step);
  const block = blockOf(layers[layer] ?? [], { places, sizes });
  if (own === undefined || block === undefined) return [];
  const middle = own.y + sizes.height / 2;
  const x = side === 'in' ? block.right + apart : block.left - apart;
  const bar = { x, top: block.top, bottom: block.bottom };
  // a line that leaves a tall layer far from the step would be out of sight
  const y = Math.min(Math.max(middle, block.top), block.bottom);
  const ends =
    side === 'in'
      ? { x1: x, y1: y, x2: own.x, y2: middle }
      : { x1: own.x + sizes.width, y1: middle, x2: x, y2: y };
  return [{ key, hub: step, condition, count: lines.length, bar, ...ends }];
}

function blockOf(
  members: readonly number[],
  { places, sizes }: Pick<Layout, 'places' | 'sizes'>,
): Box | undefined {
  let box: Box | undefined;
  for (const member of members) {
    const place = places.get(member);
    if (place === undefined) continue;
    const { x, y } = place;
    box = {
      left: Math.min(box?.left ?? x, x),
      top: Math.min(box?.top ?? y, y),
      right: Math.max(box?.right ?? 0, x + sizes.width),
      bottom: Math.max(box?.bottom ?? 0, y + sizes.height),
    };
  }
  return box;
}

/** Reports whether a rectangle shows a part of a bundle. */
export function isIn({ bar, x1, x2, y1, y2 }: Bundle, box: Box): boolean {
  const [left, right] = [Math.min(bar.x, x1), Math.max(bar.x, x2)];
  const [top, bottom] = [Math.min(bar.top, y1, y2), Math.max(bar.bottom, y1, y2)];
  return left < box.right && right > box.left && top < box.bottom && bottom > box.top;
}
