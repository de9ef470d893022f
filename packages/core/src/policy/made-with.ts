import type { Policy } from './policy.ts';

const optionsOf = new WeakMap<object, object>();

/** Notes the options of a gate, an order or a policy: what it is made of, which its functions don't show. */
export function madeWith<Made extends object>(options: object, made: Made): Made {
  optionsOf.set(made, options);
  return made;
}

/** Members of gates, orders and policies that tell what they do; others may be different in each process. */
const telling = [
  'onError',
  'groups',
  'needs',
  'prepare',
  'soft',
  'softParts',
  'tellsTime',
  'outranks',
  'gates',
  'open',
  'plan',
  'restore',
  'written',
] as const;

/**
 * Returns a text that is the same for policies that are made alike, as far as that shows: names, options, and the source of
 * functions. It does not show what a function of the user's has closed over.
 */
export function policyText(policy: Policy): string {
  try {
    return JSON.stringify(policy, plainly);
  } catch {
    return JSON.stringify(policy.name);
  }
}

function plainly(_name: string, value: unknown): unknown {
  if (typeof value === 'function' || typeof value === 'bigint') return String(value);
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  const { name, open, plan } = value as Readonly<Record<string, unknown>>;
  const options = optionsOf.get(value);
  if (options !== undefined) return { name, options };
  if (typeof open === 'function' || typeof plan === 'function') {
    const members = telling.map((member) => [member, (value as Readonly<Record<string, unknown>>)[member]]);
    return { name, ...(Object.fromEntries(members) as object) };
  }
  const parent: unknown = Object.getPrototypeOf(value);
  return parent === null || parent === Object.prototype ? value : Object.prototype.toString.call(value);
}
