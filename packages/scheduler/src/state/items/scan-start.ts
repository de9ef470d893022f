/** A look at an item by its position costs as much as passing so many. */
const lookupCost = 20;
/** Positions are so far apart, but for those of what batches were taken apart into. */
export const spacing = 256;
/** So many for each item are passed without a thought. */
const sparse = 4;
/** Items that are looked at by their positions at most. */
const strayMax = 1_000;

/**
 * Where a look at work items begins, of which these are known; `end`: behind all that there ever were. Those before it are few, and looked at one by one: a
 * job that runs for hours would have it pass all that has ended since, as long as vacuum can't clear that away.
 */
export function frontOf(positions: readonly number[], end: number): number {
  const first = positions.reduce((least, position) => Math.min(least, position), end);
  if (end - first <= (positions.length * sparse + lookupCost) * spacing) return first;
  const inOrder = [...positions, end].toSorted((a, b) => a - b).slice(0, strayMax + 1);
  let [front, least] = [first, (end - first) / spacing];
  for (const [strays, position] of inOrder.entries()) {
    const cost = strays * lookupCost + (end - position) / spacing;
    if (cost < least) [front, least] = [position, cost];
  }
  return front;
}
