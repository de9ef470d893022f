import type { BigIntText, JsonValue, PageQuery, Time } from './api.ts';

/** Query of GET /api/audit. */
export interface AuditQuery extends PageQuery {
  readonly actor?: string;
  readonly action?: string;
}

/** A recorded action. */
export interface AuditRow {
  readonly n: BigIntText;
  readonly at: Time;
  readonly actor: string;
  /** `dashboard` or `cli`. */
  readonly via: string;
  /** User of the database. */
  readonly databaseUser: string;
  /** `jobs.cancel`, `queue.set`, `node.reset`, `bulk.redrive`, … */
  readonly action: string;
  /** Queue, node, schedule or job id; null: several jobs. */
  readonly target: string | null;
  /** Requested settings, filter or ids (the first 100). Null for viewers. */
  readonly details: JsonValue;
  /** Result. Null: for viewers, and if the action is under way, failed, or its process ended. */
  readonly result: JsonValue;
}

/** Answer to GET /api/audit, newest first. */
export interface AuditPage {
  readonly items: readonly AuditRow[];
  readonly next: string | null;
}
