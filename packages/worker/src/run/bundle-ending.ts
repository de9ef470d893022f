import { isOutcome } from '@pgqueue/core/internal';
import type { Ending } from '../lease/ending.ts';

/**
 * Returns the endings of a bundle's jobs, in their order, from the value that its handler returned ({@link
 * BatchHandler} lists the possible values).
 */
export async function batchEndings(
  ids: readonly string[],
  returned: unknown,
): Promise<readonly Extract<Ending, { readonly kind: 'returned' | 'threw' }>[]> {
  if (returned instanceof Map) {
    const given = await allEndings([...returned.values()]);
    const byId = new Map([...returned.keys()].map((id, index) => [id as unknown, given[index]]));
    const known = new Set<unknown>(ids);
    const unknown = [...byId.keys()].filter((id) => !known.has(id));
    if (unknown.length > 0) {
      return failed(ids, `the handler returned a Map that names ${unknown.length} of no job of its bundle`);
    }
    return ids.map((id) => byId.get(id) ?? { kind: 'returned', value: undefined });
  }
  if (Array.isArray(returned)) {
    const given = await allEndings(returned);
    if (given.length === ids.length) return given;
    return failed(ids, `the handler returned a list of ${given.length} for ${ids.length} jobs`);
  }
  if (ids.length > 1 && isOutcome(returned) && returned.kind === 'fan_out') {
    return failed(
      ids,
      `the handler returned one fanOut for ${ids.length} jobs, each of which would add its jobs: return a list, or a Map by job id`,
    );
  }
  return ids.map(() => ({ kind: 'returned', value: returned }));
}

/** Awaits every promise, so that no rejection stays unhandled. */
async function allEndings(
  values: readonly unknown[],
): Promise<readonly Extract<Ending, { readonly kind: 'returned' | 'threw' }>[]> {
  const settled = await Promise.allSettled(values);
  return settled.map((one) => {
    if (one.status === 'rejected') return { kind: 'threw', error: one.reason as unknown };
    if (one.value instanceof Error && !isOutcome(one.value)) return { kind: 'threw', error: one.value };
    return { kind: 'returned', value: one.value };
  });
}

function failed(
  ids: readonly string[],
  message: string,
): readonly { readonly kind: 'threw'; readonly error: unknown }[] {
  return ids.map(() => ({ kind: 'threw', error: new Error(message) }));
}
