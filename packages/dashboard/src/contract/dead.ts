import type { Count, PageQuery, Time } from './api.ts';
import type { AttemptError } from './jobs.ts';

/** Reason of death: out of tries, out of crashes, or the handler gave up. */
export type DeadReason = 'max_tries' | 'crash_limit' | 'gave_up';

/** Selects the dead jobs that match all given fields. */
export interface DeadFilter {
  readonly queue?: string;
  readonly task?: string;
  readonly reason?: DeadReason;
  /** Id of a group, see {@link DeadGroup.group}. */
  readonly group?: string;
  /** Died at this time or later. */
  readonly since?: Time;
  /** Died before this time. */
  readonly until?: Time;
}

/** Query of GET /api/dead. */
export interface DeadQuery extends DeadFilter, PageQuery {}

/** A dead job. */
export interface DeadRow {
  readonly id: string;
  readonly queue: string;
  readonly task: string;
  readonly key: string;
  readonly reason: DeadReason;
  readonly tries: number;
  readonly crashes: number;
  readonly created: Time;
  readonly died: Time;
  /** Time since its death, by the database's clock. */
  readonly ageMs: number;
  readonly node: string | null;
  readonly lastError: AttemptError | null;
  readonly group: string;
}

/** Answer to GET /api/dead, latest death first. */
export interface DeadPage {
  readonly items: readonly DeadRow[];
  readonly next: string | null;
  /** Like {@link JobsPage.lookedBackTo}, with the time of death. */
  readonly lookedBackTo: Time | null;
}

/**
 * Dead jobs of one task with the same kind of error. Messages that differ only in numbers, ids and quoted
 * parts count as the same.
 */
export interface DeadGroup {
  /** Id of the group, to use as a filter. */
  readonly group: string;
  readonly queue: string;
  readonly task: string;
  readonly reason: DeadReason;
  /** Name of the error, if it has one. */
  readonly name: string | null;
  /** Message, with `…` for the parts that differ; that of `sample` if nothing else is left of it. */
  readonly message: string;
  readonly jobs: number;
  readonly first: Time;
  readonly last: Time;
  /** Up to 5 keys of these jobs. */
  readonly keys: readonly string[];
  /** The job that died last. */
  readonly sample: { readonly id: string; readonly error: AttemptError | null };
}

/** Answer to GET /api/dead/groups: up to 100 groups, largest first. */
export interface DeadGroups {
  readonly at: Time;
  readonly groups: readonly DeadGroup[];
  /** There are more, smaller ones. */
  readonly more: boolean;
  /** Number of dead jobs examined, the newest ones. */
  readonly looked: Count;
}
