import type { Observer } from '@pgqueue/core';
import { startLoop } from '@pgqueue/core';
import type { Database, ReportedPolicy } from '@pgqueue/postgres';
import { readReportedPolicy, sqlState } from '@pgqueue/postgres';

/**
 * Says, once for each leader, that it leads or led with a policy of another name: two schedulers that are to take over from each other
 * should have the same. It only reads what leaders report of themselves.
 */
export interface OtherPolicies {
  readonly stop: () => Promise<void>;
}

export interface OtherPoliciesOptions {
  readonly database: Database;
  /** The name of this scheduler's own. */
  readonly policy: string;
  readonly observe: Observer;
  readonly leads: () => boolean;
  /** What was reported last when this scheduler started: it may be the next leader before it can look. */
  readonly before: ReportedPolicy | undefined;
  /** Default 15,000. */
  readonly everyMs?: number;
}

const noRightState = '42501';
const dayMs = 86_400_000;

export function watchOtherPolicies(options: OtherPoliciesOptions): OtherPolicies {
  const { database, policy, observe, leads, before, everyMs = 15_000 } = options;
  let told = '';
  const compare = (found: ReportedPolicy | undefined): void => {
    if (found === undefined || found.policy === policy) return;
    const { leader, policy: other } = found;
    const name = JSON.stringify([leader, other]);
    if (name === told) return;
    told = name;
    observe({ type: 'policy.differs', policy, leader, other });
  };
  compare(before);
  const loop = startLoop({
    step: async () => {
      if (!leads()) {
        const found = await readReportedPolicy(database);
        // while it was asked for, it may have become this one's own
        if (found?.leads === true && !leads()) compare(found);
      }
      return everyMs;
    },
    // what is wrong with the database is told by what renews the lease; a role may lack the right since an older release
    failed: (error) => (sqlState(error) === noRightState ? dayMs : everyMs),
  });
  return { stop: loop.stop };
}

/** Undefined: nothing was ever reported, or it can't be read. */
export async function lastReportedPolicy(database: Database): Promise<ReportedPolicy | undefined> {
  return readReportedPolicy(database).catch(() => undefined);
}
