import type { BigIntText, Count, Time } from './api.ts';
import type { Warning } from './overview.ts';

/** A task that a node can run, in the payload versions `min` to `max`. */
export interface NodeTask {
  readonly task: string;
  readonly min: number;
  readonly max: number;
  readonly timeoutMs: number | null;
  readonly batch: boolean;
  readonly isolated: boolean;
}

/** A worker node. Ended nodes are listed for a day. */
export interface NodeRow {
  readonly id: string;
  readonly state: 'alive' | 'draining' | 'left' | 'lost';
  /** Its heartbeat is late; the scheduler will soon take back its jobs. */
  readonly overdue: boolean;
  readonly pool: string;
  readonly slots: number;
  /** Slots that run something. */
  readonly slotsInUse: number;
  /** Work items it holds a lease on, with batches that are claimed ahead. */
  readonly leases: number;
  readonly tasks: readonly NodeTask[];
  readonly heartbeatAgeMs: number;
  /** Time since this incarnation began. */
  readonly ageMs: number;
  readonly software: string;
}

/** Answer to GET /api/nodes: up to 500 nodes, live ones first, each state by id. */
export interface Nodes {
  readonly at: Time;
  readonly nodes: readonly NodeRow[];
  readonly more: boolean;
}

/** A schedule. */
export interface ScheduleRow {
  readonly name: string;
  readonly cron: string;
  readonly timezone: string;
  readonly task: string;
  /** Null, as are the options, if this user sees no payloads. */
  readonly payload: unknown;
  readonly options: unknown;
  readonly paused: boolean;
  readonly next: Time | null;
  /** The next 5 slots. Empty: paused, or the expression cannot be parsed. */
  readonly upcoming: readonly Time[];
  readonly last: Time | null;
  /** Problem with the expression or the timezone; null: none. */
  readonly problem: string | null;
}

/** Answer to GET /api/schedules: up to 500 schedules, by name. */
export interface Schedules {
  readonly at: Time;
  readonly schedules: readonly ScheduleRow[];
  readonly more: boolean;
}

/** A table of the installation, from PostgreSQL's statistics. */
export interface TableHealth {
  readonly table: string;
  readonly liveRows: BigIntText;
  readonly deadRows: BigIntText;
  /** Size including indexes and TOAST. */
  readonly bytes: BigIntText;
  readonly indexBytes: BigIntText;
  /** `deadRows` / (`liveRows` + `deadRows`), 0 to 1. */
  readonly deadShare: number | null;
  readonly lastVacuum: Time | null;
  readonly lastAnalyze: Time | null;
}

/** A migration; `applied` is null if it is still to be applied. */
export interface MigrationRow {
  readonly version: number;
  readonly name: string;
  readonly applied: Time | null;
}

/** Answer to GET /api/health. */
export interface Health {
  readonly at: Time;
  /** Version, such as `18.4`. */
  readonly server: string;
  readonly leader: {
    /** Null: there is no leader. */
    readonly name: string | null;
    readonly epoch: number;
    readonly expiresInMs: number | null;
  };
  /** Session in this database with the oldest snapshot, which holds back vacuum most. */
  readonly oldestSnapshot: {
    readonly pid: number;
    readonly application: string;
    readonly user: string | null;
    readonly state: string | null;
    /** Null: hidden from the database's role (pg_read_all_stats would show it). */
    readonly ageMs: number | null;
  } | null;
  readonly tables: readonly TableHealth[];
  readonly connections: { readonly used: number; readonly max: number };
  /** Migrations, newest first. This dashboard works with the schema versions `needs` to `knows`. */
  readonly migrations: {
    readonly version: number;
    readonly needs: number;
    readonly knows: number;
    readonly applied: readonly MigrationRow[];
  };
  readonly history: {
    /** Days up to today, in UTC, that can have rows; `oldest` is the begin of the first. */
    readonly days: number;
    readonly oldest: Time | null;
    /** Rows in the default partition, outside every day's partition. */
    readonly inDefault: Count;
  };
  readonly warnings: readonly Warning[];
}

/** Answer to GET /api/health/doctor. */
export interface Doctor {
  readonly at: Time;
  readonly tookMs: number;
  readonly healthy: boolean;
  readonly checked: readonly string[];
  readonly findings: readonly {
    readonly check: string;
    /** Invariant that is violated. */
    readonly says: string;
    readonly severity: 'error' | 'warning';
    readonly count: number;
    readonly samples: readonly string[];
    readonly remedy: string;
    /** `pgqueue doctor --mend` can correct it. */
    readonly mendable: boolean;
  }[];
}
