import type { BigIntText, JsonValue, PageQuery, Time } from './common.ts';

/** Query of GET /api/audit. */
export interface AuditQuery extends PageQuery {
  readonly actor?: string;
  readonly action?: string;
}

/** An action: who, what, when. */
export interface AuditRow {
  readonly n: BigIntText;
  readonly at: Time;
  readonly actor: string;
  /** `dashboard` or `cli`. */
  readonly via: string;
  /** The user of the database. */
  readonly databaseUser: string;
  /** `jobs.cancel`, `queue.set`, `node.reset`, `bulk.redrive`, … */
  readonly action: string;
  /** A queue, a node, a schedule, one job's id; null: several jobs. */
  readonly target: string | null;
  /** What was asked: settings, a filter, ids (the first 100). */
  readonly details: JsonValue;
  /** What came of it; null: it is under way, failed, or its process ended with it. */
  readonly result: JsonValue;
}

/** Answer to GET /api/audit: newest first. */
export interface AuditPage {
  readonly items: readonly AuditRow[];
  readonly next: string | null;
}
