import type { Observer } from '@pgqueue/core';
import { startLoop } from '@pgqueue/core/internal';
import type { Database, ReportedPolicy } from '@pgqueue/postgres';
import { readReportedPolicy, sqlState } from '@pgqueue/postgres/internal';

/**
 * Reports, once per leader, that another scheduler leads or led with a policy of a different name. Schedulers
 * that take over from each other should use the same policy. It only reads what leaders report about
 * themselves.
 */
export interface OtherPolicies {
  readonly stop: () => Promise<void>;
}

export interface OtherPoliciesOptions {
  readonly database: Database;
  /** Name of this scheduler's policy. */
  readonly policy: string;
  readonly observe: Observer;
  readonly leads: () => boolean;
  /**
   * Last report before this scheduler started, since this scheduler may become the leader before its first
   * read.
   */
  readonly before: ReportedPolicy | undefined;
  /** Milliseconds between two reads. Default 15,000. */
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
        // during the query this scheduler may have become the leader
        if (found?.leads === true && !leads()) compare(found);
      }
      return everyMs;
    },
    // database errors are reported by the lease renewal; a role from an older release may lack the privilege
    failed: (error) => (sqlState(error) === noRightState ? dayMs : everyMs),
  });
  return { stop: loop.stop };
}

/** Reads the last reported policy; undefined: none was reported, or it can't be read. */
export async function lastReportedPolicy(database: Database): Promise<ReportedPolicy | undefined> {
  return readReportedPolicy(database).catch(() => undefined);
}
