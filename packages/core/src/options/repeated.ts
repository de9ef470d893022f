/** Returns the values that are there more than once, each once. */
export function repeated<Value>(values: readonly Value[]): readonly Value[] {
  const seen = new Set<Value>();
  return [...new Set(values.filter((value) => seen.size === seen.add(value).size))];
}
