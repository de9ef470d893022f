import { createHash } from 'node:crypto';
import type { Observer, Policy } from '@pgqueue/core';
import { policyText, startLoop } from '@pgqueue/core/internal';
import type { Database } from '@pgqueue/postgres';
import { notePolicy, sqlState } from '@pgqueue/postgres/internal';

/**
 * Notes the policy of this scheduler, so that `status` and `doctor` can compare those of all. Reports, once per leader,
 * that another one leads with a policy of a different name. Schedulers that take over from each other should use
 * the same policy.
 */
export interface OtherPolicies {
  readonly stop: () => Promise<void>;
}

export interface OtherPoliciesOptions {
  readonly database: Database;
  readonly policy: Policy;
  /** Name under which this scheduler leads, or would. */
  readonly name: () => string;
  readonly observe: Observer;
  readonly leads: () => boolean;
  /** Milliseconds between two notes. Default 20,000. */
  readonly everyMs?: number;
}

const noRightState = '42501';
const dayMs = 86_400_000;

export function watchOtherPolicies(options: OtherPoliciesOptions): OtherPolicies {
  const { database, name: ownName, observe, leads, everyMs = 20_000 } = options;
  const policy = options.policy.name;
  const parts = partsOf(options.policy);
  let told = '';
  const tellOf = (leader: string, other: string): void => {
    const name = JSON.stringify([leader, other]);
    if (name === told) return;
    told = name;
    observe({ type: 'policy.differs', policy, leader, other });
  };
  const loop = startLoop({
    step: async () => {
      const leading = await notePolicy(database, ownName(), { policy, parts });
      // during the query this scheduler may have become the leader
      if (leading !== undefined && leading.policy !== policy && !leads())
        tellOf(leading.leader, leading.policy);
      return everyMs;
    },
    // database errors are reported by the lease renewal; a role from an older release may lack the privilege
    failed: (error) => (sqlState(error) === noRightState ? dayMs : everyMs),
  });
  return {
    stop: async () => {
      await loop.stop();
      // one that can't say so is forgotten in a minute
      await notePolicy(database, ownName(), null).catch(() => {});
    },
  };
}

/** Returns a text of fixed length that stands for what a policy is made of. */
function partsOf(policy: Policy): string {
  return createHash('sha256').update(policyText(policy)).digest('base64url');
}
