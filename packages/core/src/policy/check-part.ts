import { throwProblems } from '../errors.ts';
import type { Rule, Shape } from '../options/options.ts';
import { aFlag, aFunction, aListOf, aNumber, anObject, anything, aText } from '../options/options.ts';
import { oneOf, optional, optionProblems } from '../options/options.ts';
import type { Gate, JobGroups } from './gate.ts';
import type { Order } from './order.ts';
import type { Needs, Preparation } from './policy.ts';

/** Name of a gate or an order. */
export const aName: Rule = aText({ max: 100 });

export const preparationShape: Shape<Omit<Preparation, 'name'>> = {
  everyMs: aNumber({ min: 10, max: 86_400_000 }),
  deadlineMs: aNumber({ min: 1, max: 600_000 }),
  validMs: optional(aNumber({ min: 1, max: 86_400_000 })),
  fetch: aFunction,
};

/** Options of `prepare`, which fetches data asynchronously, outside of ticks. */
export const aPreparation: Rule = anObject(preparationShape, {
  what: 'an object with everyMs, deadlineMs and fetch',
});

export const needsShape: Shape<Needs> = { settlements: optional(aFlag), health: optional(aFlag) };

/** Members that gates and orders have in common. */
const part = {
  name: aName,
  initial: optional(anything),
  restore: optional(aFunction),
  open: aFunction,
  written: optional(aFunction),
  needs: optional(anObject(needsShape)),
  prepare: optional(anObject(preparationShape, { own: true })),
  soft: optional(aFlag),
};

const groups: Shape<JobGroups> = { of: aFunction, lane: optional(aFlag) };

const gate: Shape<Gate> = {
  ...part,
  onError: optional(oneOf('hold', 'ignore')),
  groups: optional(anObject(groups)),
  tellsTime: optional(aFlag),
};

/** A gate, possibly of the user's making: its class may have members of its own. */
export const aGate: Rule = anObject(gate, {
  what: 'a gate, such as concurrency({ name, limit }) makes',
  own: true,
});

const order: Shape<Order> = {
  ...part,
  outranks: optional(aFunction),
  gates: optional(aListOf(aGate, 'a list of gates')),
};

export const anOrder: Rule = anObject(order, { what: 'an order, such as fairShare() makes', own: true });

/**
 * Refuses invalid options when a gate or an order is made. In a plan they would only show as a failure of
 * that part.
 * @param made function that makes the part, named in the error when the part has no name
 * @param further returns problems between options, whose types may be wrong too
 * @throws {PgQueueError} `configuration`, with all problems at once
 */
export function checkPart<Options extends object>(
  kind: 'gate' | 'order',
  made: string,
  {
    options,
    shape,
    further,
  }: {
    readonly options: Options;
    readonly shape: Readonly<Record<string, Rule>>;
    readonly further?: (options: Options) => readonly string[];
  },
): void {
  const given: unknown = options;
  const isObject = typeof given === 'object' && given !== null;
  const name: unknown = isObject && 'name' in given ? given.name : undefined;
  throwProblems('configuration', `${kind} ${typeof name === 'string' && name !== '' ? name : made}`, [
    ...optionProblems(options, shape),
    ...(isObject ? (further?.(options) ?? []) : []),
  ]);
}
