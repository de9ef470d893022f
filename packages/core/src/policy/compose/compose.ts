import type { Coalesce, Parts } from '../parts.ts';
import type { Shape } from '../../options/options.ts';
import {
  aFlag,
  aFunction,
  aListOf,
  aNumber,
  anObject,
  aText,
  optional,
  optionProblems,
} from '../../options/options.ts';
import { repeated } from '../../options/repeated.ts';
import { aGate, anOrder } from '../check-part.ts';
import type { Json } from '../../job/job.ts';
import type { Gate } from '../gate.ts';
import { createKinds } from '../planning/kind-memory.ts';
import type { KindMemory } from '../planning/kind-memory.ts';
import { madeWith } from '../made-with.ts';
import { isOwnPart } from '../own-parts.ts';
import { standardGates } from '../gates/standard.ts';
import type { Order } from '../order.ts';
import { fairShare } from '../orders/fair-share/fair-share.ts';
import { turns } from '../orders/ranked.ts';
import { explainWith } from '../planning/explain.ts';
import type { Plan, PolicyFault } from '../plan.ts';
import { planWith } from '../planning/make-plan.ts';
import type { Policy, Preparation, SavedPart, Watch } from '../policy.ts';
import type { PolicyState } from '../plan.ts';
import type { Snapshot } from '../snapshot.ts';
import { throwProblems } from '../../errors.ts';

/** The parts of a policy: see {@link policy}. */
export interface PolicyOptions {
  /** Display name. Default: the order's name. */
  readonly name?: string;
  /**
   * Asked in this order, after {@link standardGates}. The first gate that holds a job is named as the reason.
   */
  readonly gates?: readonly Gate[];
  /** Default: {@link fairShare} between queues, and within each queue between its keys. */
  readonly order?: Order;
  readonly coalesce?: readonly Coalesce[];
  /**
   * Set to recall scheduled jobs that no node has leased when a job comes that outranks them. The order must
   * have `outranks`. Default false.
   */
  readonly recall?: boolean;
}

const coalescing: Shape<Coalesce> = {
  when: aFunction,
  max: aNumber({ min: 2, max: 1_000, whole: true }),
  ageMs: aNumber({ min: 0 }),
};

const shape: Shape<PolicyOptions> = {
  name: optional(aText()),
  gates: optional(aListOf(aGate, 'a list of gates')),
  order: optional(anOrder),
  coalesce: optional(aListOf(anObject(coalescing), 'a list of rules')),
  recall: optional(aFlag),
};

/**
 * Composes gates and an order into a policy. The limits of queue_config always apply too.
 * @throws {PgQueueError} `configuration`, with all problems at once
 */
export function policy(options: PolicyOptions = {}): Policy {
  const wrong = optionProblems(options, shape);
  throwProblems('configuration', `policy${calledBy(options)}`, wrong);
  const { order = fairShare(), coalesce = [], recall = false } = options;
  const gates = [...standardGates(), ...(options.gates ?? []), ...(order.gates ?? [])];
  const parts: Parts = { gates, order, coalesce, recall };
  throwProblems('configuration', `policy ${options.name ?? order.name}`, partProblems(parts));
  const limits = gates.filter(({ onError }) => onError === 'hold');
  const instead: Parts = { gates: limits, order: turns(), coalesce: [], recall: false };
  return madeWith(parts, {
    ...whole(options.name ?? order.name, parts),
    fallback: whole(`${options.name ?? order.name}: fallback`, instead),
  });
}

/**
 * Reports whether a policy keeps to the limits of queue_config by itself. A copy of such a policy with a plan
 * of its own may not.
 */
export function isGuarded(policy: Policy): boolean {
  return policy.guarded === policy.plan;
}

/** Reports whether a policy contains no function of the user's, so that nothing in it can loop forever. */
export function isTrusted(policy: Policy): boolean {
  return policy.trusted === policy.plan;
}

function whole(name: string, parts: Parts): Policy {
  const all = [...parts.gates, parts.order];
  const kinds = createKinds(parts.gates);
  const plan: Policy['plan'] = (snapshot, state, watch) =>
    planParts(parts, snapshot, {
      state,
      watch,
      kinds: watch?.aside === true ? createKinds(parts.gates) : kinds,
    });
  return {
    name,
    initial: Object.fromEntries(
      all.flatMap(({ name, initial }) => (initial === undefined ? [] : [[name, initial] as const])),
    ),
    restore: (saved) => restoreParts(all, saved),
    plan,
    written: (state, written) => {
      const changed: Record<string, Json> = { ...state };
      for (const part of all) {
        const own = state[part.name];
        if (part.written !== undefined && own !== undefined) changed[part.name] = part.written(own, written);
      }
      return changed;
    },
    explain: (snapshot, state, job, lane, watch) => explainWith(parts, { snapshot, state, job, lane, watch }),
    needs: {
      settlements: all.some(({ needs }) => needs?.settlements === true),
      health: all.some(({ needs }) => needs?.health === true),
    },
    prepare: all.flatMap(({ name, prepare }): Preparation[] =>
      prepare === undefined ? [] : [{ name, ...prepare }],
    ),
    softParts: all.filter(({ soft }) => soft === true).map(({ name }) => name),
    kindOf: kindBy(parts.gates),
    tellsTime: parts.gates.every(({ tellsTime }) => tellsTime === true),
    guarded: plan,
    ...(parts.coalesce.length === 0 && all.every(isOwnPart) ? { trusted: plan } : {}),
  };
}

/** Names kinds by the groups of the gates that tell jobs of one lane apart. Undefined: no gate does. */
function kindBy(gates: readonly Gate[]): Policy['kindOf'] {
  const telling = gates.flatMap(({ groups }) =>
    groups === undefined || groups.lane === true ? [] : [groups],
  );
  if (telling.length === 0) return undefined;
  return (job) => JSON.stringify(telling.map(({ of }) => of(job)));
}

/** Makes a plan. An order that fails is replaced for this plan; the gates stay. */
function planParts(
  parts: Parts,
  snapshot: Snapshot,
  options: {
    readonly state: PolicyState;
    readonly watch: Watch | undefined;
    readonly kinds: KindMemory | null;
  },
): Plan {
  const faults: PolicyFault[] = [];
  const { order } = parts;
  if (options.watch?.avoids(order.name, null) === true) {
    return planWith({ ...parts, order: turns() }, snapshot, { ...options, faults });
  }
  try {
    return planWith(parts, snapshot, { ...options, faults });
  } catch (error) {
    faults.push({ part: order.name, error, instead: 'turns' });
    return planWith({ ...parts, order: turns() }, snapshot, { ...options, faults });
  }
}

function restoreParts(
  parts: readonly (Gate | Order)[],
  saved: Readonly<Record<string, SavedPart>>,
): PolicyState {
  const state: Record<string, Json> = {};
  for (const part of parts) {
    if (part.initial === undefined) continue;
    const was = Object.hasOwn(saved, part.name) ? saved[part.name] : undefined;
    state[part.name] =
      was === undefined ? part.initial : (part.restore?.(was.state, was.savedMs) ?? was.state);
  }
  return state;
}

/** Returns the problems that the types of the parts can't express. */
function partProblems({ gates, order, recall }: Parts): readonly string[] {
  return [
    ...repeated([...gates, order].map(({ name }) => name)).map(
      (name) => `two of its gates or orders are called ${JSON.stringify(name)}: give one another name`,
    ),
    ...(recall && order.outranks === undefined
      ? [
          `recall needs an order that says which job outranks another: strictPriority() does, and byScore and ranked do with outranks; ${order.name} does not`,
        ]
      : []),
  ];
}

function calledBy(options: unknown): string {
  const { name }: { readonly name?: unknown } =
    typeof options === 'object' && options !== null ? options : {};
  return typeof name === 'string' && name !== '' ? ` ${name}` : '';
}
