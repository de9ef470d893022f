const columns = new WeakMap<readonly string[], ReadonlyMap<string, number>>();

/**
 * Returns the column of each name. Cached by the array of names, which plans keep while the names are the
 * same.
 */
export function columnsOf(names: readonly string[]): ReadonlyMap<string, number> {
  const known = columns.get(names);
  if (known !== undefined) return known;
  const made = new Map<string, number>();
  for (let column = 0; column < names.length; column += 1) made.set(names[column] ?? '', column);
  columns.set(names, made);
  return made;
}
