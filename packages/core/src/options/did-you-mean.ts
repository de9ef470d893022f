/** Longest name that is compared, in characters. A longer one is hardly a misspelling. */
const longest = 40;

/**
 * Returns the name that was probably meant: one a few edits away, or one with the same beginning (`window`
 * for `windowMs`).
 * @param surely set when `name` may well be intended; then only one edit counts, and not of the first letter
 */
export function nearest(name: string, names: readonly string[], surely = false): string | undefined {
  if (name.length > longest) return undefined;
  const wanted = name.toLowerCase();
  let best: string | undefined;
  let least = Infinity;
  for (const candidate of names) {
    const changes = changesBetween(wanted, candidate.toLowerCase(), surely);
    if (changes >= least) continue;
    least = changes;
    best = candidate;
  }
  return best;
}

/** Returns the number of edits between two names, or Infinity when they are not alike. */
function changesBetween(wanted: string, other: string, surely: boolean): number {
  const changes = distance(wanted, other);
  if (surely) return changes <= 1 && wanted[0] === other[0] ? changes : Infinity;
  const starts = wanted.length > 2 && (other.startsWith(wanted) || wanted.startsWith(other));
  if (starts) return Math.min(2, changes);
  return changes <= Math.max(1, Math.round(Math.min(wanted.length, other.length) / 3)) ? changes : Infinity;
}

/**
 * Returns the number of characters to add, leave out, replace, or swap with their neighbour (optimal string
 * alignment).
 */
function distance(a: string, b: string): number {
  let [before, last] = [[] as number[], Array.from({ length: b.length + 1 }, (_, at) => at)];
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      let least = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (last[j - 1] ?? 0) + same);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        least = Math.min(least, (before[j - 2] ?? 0) + 1);
      }
      row.push(least);
    }
    [before, last] = [last, row];
  }
  return last[b.length] ?? 0;
}
