/** Levels of arrays and objects in one payload at most: recursive code of schemas and databases overflows somewhere beyond. */
export const nestingMax = 500;

/**
 * What makes a value out of JSON dangerous to hand on; undefined: nothing. A key `__proto__` or `constructor` reaches the prototype of
 * whatever it is merged into. Looks at every key once, without recursion.
 */
export function shapeProblem(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  let level: object[] = [value];
  for (let depth = 1; level.length > 0; depth += 1) {
    if (depth > nestingMax) return `must not be nested deeper than ${nestingMax} levels`;
    const below: object[] = [];
    for (const container of level) {
      const problem = Array.isArray(container) ? undefined : keyProblem(container);
      if (problem !== undefined) return problem;
      for (const inner of Object.values(container) as readonly unknown[]) {
        if (typeof inner === 'object' && inner !== null) below.push(inner);
      }
    }
    level = below;
  }
  return undefined;
}

function keyProblem(container: object): string | undefined {
  for (const key of ['__proto__', 'constructor']) {
    if (Object.hasOwn(container, key)) return `must not have a key ${key}`;
  }
  return undefined;
}
