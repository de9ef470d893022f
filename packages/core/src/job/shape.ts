/**
 * Deepest nesting of arrays and objects in one payload, in levels. Recursive code of schemas and databases
 * overflows somewhere beyond it.
 */
export const nestingMax = 500;

/**
 * Returns the problem that makes a value out of JSON dangerous to pass on, or undefined. A key `__proto__`,
 * or `constructor` with a key `prototype` below it, reaches the prototype of an object that it is merged
 * into. A `constructor` without `prototype` is allowed, since real data has some. Nesting deeper than
 * `nestingMax` levels is refused. Visits every key once, without recursion.
 */
export function shapeProblem(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (isFlat(value)) return keyProblem(value);
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

/**
 * Reports whether no object is below this one. Fast path, since most payloads are flat and a worker checks
 * each of them. Inherited keys can only make it look deeper.
 */
function isFlat(value: object): boolean {
  if (Array.isArray(value)) return false;
  for (const key in value) {
    const inner = (value as Readonly<Record<string, unknown>>)[key];
    if (typeof inner === 'object' && inner !== null) return false;
  }
  return true;
}

function keyProblem(container: { readonly constructor?: unknown }): string | undefined {
  if (Object.hasOwn(container, '__proto__')) return 'must not have a key __proto__';
  if (!Object.hasOwn(container, 'constructor')) return undefined;
  const { constructor: inner } = container;
  return typeof inner === 'object' && inner !== null && Object.hasOwn(inner, 'prototype')
    ? 'must not have a key constructor with a key prototype below it'
    : undefined;
}
