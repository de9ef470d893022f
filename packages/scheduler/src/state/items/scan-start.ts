/** Cost of reading one item by its position, in positions scanned. */
const lookupCost = 20;
/** Distance between regular positions. The parts of batches lie in between. */
export const spacing = 256;
/** Scanned positions per item that are always acceptable. */
const sparse = 4;
/** Most items below the scan start, which are read one by one. */
const strayMax = 1_000;

/**
 * Picks the position the in-flight scan starts from, so one long-running item does not make every tick
 * re-read all dead rows behind it. `positions`: the known items; `end`: one past the highest position ever
 * used. The few items below the start are read by their position.
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
