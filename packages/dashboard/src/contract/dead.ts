import type { Count, PageQuery, Time } from './common.ts';
import type { AttemptError } from './jobs.ts';

/** Why a job is dead: it ran out of tries, out of crashes, or its handler gave up. */
export type DeadReason = 'max_tries' | 'crash_limit' | 'gave_up';

/** Which dead jobs are meant: those that fit everything given. */
export interface DeadFilter {
  readonly queue?: string;
  readonly task?: string;
  readonly reason?: DeadReason;
  /** A group's: see {@link DeadGroup.group}. */
  readonly group?: string;
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
  /** Since it died, by the database's clock. */
  readonly ageMs: number;
  readonly node: string | null;
  readonly lastError: AttemptError | null;
  readonly group: string;
}

/** Answer to GET /api/dead: those that died last first. */
export interface DeadPage {
  readonly items: readonly DeadRow[];
  readonly next: string | null;
  /** As of jobs: the page has looked back to this time of death, and no further. */
  readonly lookedBackTo: Time | null;
}

/** Dead jobs of one task with one kind of error: numbers, ids and quoted parts of its message count as the same. */
export interface DeadGroup {
  /** Its id: what to give as a filter. */
  readonly group: string;
  readonly queue: string;
  readonly task: string;
  readonly reason: DeadReason;
  /** The name of the error, where it has one. */
  readonly name: string | null;
  /** The message with `…` in place of what differs. */
  readonly message: string;
  readonly jobs: number;
  readonly first: Time;
  readonly last: Time;
  /** Keys of some of them, 5 at most. */
  readonly keys: readonly string[];
  /** The one that died last. */
  readonly sample: { readonly id: string; readonly error: AttemptError | null };
}

/** Answer to GET /api/dead/groups: the largest first, 100 at most. */
export interface DeadGroups {
  readonly at: Time;
  readonly groups: readonly DeadGroup[];
  /** The newest so many dead jobs were looked at. */
  readonly looked: Count;
}
