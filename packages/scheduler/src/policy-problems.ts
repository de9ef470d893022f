import { types } from 'node:util';
import type { Policy, Preparation } from '@pgqueue/core';
import type { Rule, Shape } from '@pgqueue/core/internal';
import {
  aFlag,
  aFunction,
  aListOf,
  anObject,
  anything,
  aText,
  needsShape,
  optional,
  optionProblems,
  preparationShape,
} from '@pgqueue/core/internal';

const preparation: Shape<Preparation> = { name: aText({ max: 100 }), ...preparationShape };

const aPart: Rule = anObject({}, { own: true });

const shape: Shape<Policy> = {
  name: aText({ max: 200 }),
  initial: { ...aPart, expected: 'an object, with one member for each part that keeps state' },
  restore: optional(aFunction),
  plan: aFunction,
  written: optional(aFunction),
  explain: optional(aFunction),
  needs: optional(anObject(needsShape)),
  prepare: optional(aListOf(anObject(preparation, { own: true }))),
  softParts: optional(aListOf(aText())),
  guarded: optional(anything),
  trusted: optional(anything),
  kindOf: optional(aFunction),
  tellsTime: optional(aFlag),
  fallback: optional(aPart),
};

/**
 * Lists the problems of a policy that can be detected before it plans. `called`: name of the option that
 * holds the policy, used in messages.
 */
export function policyProblems(called: string, policy: unknown): readonly string[] {
  if (!isObject(policy) || !('plan' in policy)) {
    return [`${called} must be what policy({ gates, order }) returns, or an object with a plan of its own`];
  }
  const { plan, written, explain, restore, prepare } = policy;
  const names = Array.isArray(prepare)
    ? prepare.map((one: unknown) => (isObject(one) ? one['name'] : one))
    : [];
  return [
    ...optionProblems(policy, shape, { path: called, own: true }),
    ...Object.entries({ plan, written, explain, restore }).flatMap(([of, value]) =>
      types.isAsyncFunction(value)
        ? [`${called}.${of} must not be async: what it has to wait for goes into prepare`]
        : [],
    ),
    ...(new Set(names).size === names.length ? [] : [`${called}: two preparations have the same name`]),
  ];
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}
