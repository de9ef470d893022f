import type { Gate } from '../../gate.ts';
import type { InFlight } from '../../snapshot.ts';
import { openTallies } from '../state/tallies.ts';
import type { Counting, Use, UseMemory } from '../state/use.ts';
import { amountOf, rememberUse } from '../state/use.ts';
import type { SharedRules } from './grant.ts';
import { grantOf, heldVerdict, sharedGate, valueOf, whyWithoutPart } from './grant.ts';

/** State of a shared concurrency after a plan: its preparation tells it to the home of the limit. */
export type SharedUse = {
  /** Number of the grant that the plan kept to; 0: none yet in this term. */
  readonly number: number;
  /** Jobs in flight after the plan. A later plan under the same grant has at most this many, or the part. */
  readonly inFlight: number;
  /** Set when the plan held jobs: the installation could use a greater part. */
  readonly held: boolean;
};

const unused: SharedUse = { number: 0, inFlight: 0, held: false };

/**
 * Limits jobs in flight to the part of a shared limit that this installation has leased. It counts as `concurrency`
 * does. Without a lease, it holds.
 */
export function sharedConcurrency(rules: SharedRules): Gate<SharedUse> {
  const { name, when } = rules;
  const counting: Counting = { groupOf: (job) => valueOf(when, job), costsOf: null };
  const memory = rememberUse(counting);
  return {
    ...sharedGate(rules),
    initial: unused,
    restore: () => unused,
    open: (snapshot, state) => {
      const grant = grantOf(snapshot, name);
      const part = grant?.part ?? 0;
      let used = 0;
      let held = false;
      const counted: UseMemory = {
        of: (inFlight: readonly InFlight[]) => {
          const use = memory.of(inFlight);
          used = usedOf(use);
          return use;
        },
        current: memory.current,
      };
      const inner = openTallies(
        snapshot,
        { ...counting, limitOf: () => part, label: () => name, held: heldVerdict(rules) },
        counted,
      );
      return {
        ...inner,
        admits: (job, lane, member) => {
          const verdict = inner.admits(job, lane, member);
          held ||= verdict !== 'admit';
          return verdict;
        },
        take: (job, lane, member) => {
          inner.take?.(job, lane, member);
          if (!member && valueOf(when, job) !== null) used += 1;
        },
        why: (job, lane) => {
          if (part === 0 || grant === undefined) return whyWithoutPart(rules, grant);
          return {
            ...inner.why(job, lane),
            message: `this installation's part of the shared limit is ${part} of ${grant.size}, all in flight`,
          };
        },
        state: () => {
          const number = grant?.number ?? state.number;
          const same = state.number === number && state.inFlight === used && state.held === held;
          return same ? state : { number, inFlight: used, held };
        },
      };
    },
  };
}

/** Jobs whose value could not be told count, too. */
function usedOf({ used, unknown }: Use): number {
  return amountOf(used.get(''), '') + amountOf(unknown, '');
}
