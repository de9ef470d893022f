import { types } from 'node:util';
import type { Policy, Preparation } from '@pgqueue/core';

/** What is wrong with a policy that can be told before it plans. `called`: the option that gave it. */
export function policyProblems(called: string, policy: Policy): readonly string[] {
  if (typeof policy !== 'object' || policy === null) return [`${called} must be a policy`];
  const { name, plan, initial, prepare = [], written, explain, restore, softParts = [] } = policy;
  if (![prepare, softParts].every((list) => Array.isArray(list))) {
    return [`${called}: prepare and softParts must be lists`];
  }
  const names = prepare.map((preparation) => preparation.name);
  return [
    ...(typeof name === 'string' && name.length >= 1 && name.length <= 200
      ? []
      : [`${called}.name must have 1 to 200 characters`]),
    ...(typeof plan === 'function' ? [] : [`${called}.plan must be a function`]),
    ...Object.entries({ plan, written, explain, restore }).flatMap(([of, value]) =>
      types.isAsyncFunction(value)
        ? [`${called}.${of} must not be async: what it has to wait for goes into prepare`]
        : [],
    ),
    ...(typeof initial === 'object' && initial !== null
      ? []
      : [`${called}.initial must be an object, with one member for each part that keeps state`]),
    ...(new Set(names).size === names.length ? [] : [`${called}: two preparations have the same name`]),
    ...prepare.flatMap((preparation) => preparationProblems(called, preparation)),
  ];
}

function preparationProblems(
  called: string,
  { name, everyMs, deadlineMs, fetch }: Preparation,
): readonly string[] {
  const within = (value: number, min: number, max: number): boolean => value >= min && value <= max;
  return [
    ...(within(everyMs, 10, 86_400_000) ? [] : [`${called}: everyMs of ${name} must be 10 to 86400000`]),
    ...(within(deadlineMs, 1, 600_000) ? [] : [`${called}: deadlineMs of ${name} must be 1 to 600000`]),
    ...(typeof fetch === 'function' ? [] : [`${called}: fetch of ${name} must be a function`]),
  ];
}
