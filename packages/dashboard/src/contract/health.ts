import type { BigIntText, Count, Time } from './common.ts';
import type { Warning } from './overview.ts';

/** What a node can run: payload versions of a task, from `min` to `max`. */
export interface NodeTask {
  readonly task: string;
  readonly min: number;
  readonly max: number;
  readonly timeoutMs: number | null;
  readonly batch: boolean;
  readonly isolated: boolean;
}

/** A worker node. Those that ended are shown for a day. */
export interface NodeRow {
  readonly id: string;
  readonly state: 'alive' | 'draining' | 'left' | 'lost';
  /** Its heartbeat is late, and the scheduler will take its jobs back soon. */
  readonly overdue: boolean;
  readonly pool: string;
  readonly slots: number;
  /** Work items that it holds a lease on. */
  readonly leases: number;
  readonly tasks: readonly NodeTask[];
  readonly heartbeatAgeMs: number;
  /** Since this incarnation began. */
  readonly ageMs: number;
  readonly software: string;
}

/** Answer to GET /api/nodes: by id, 500 at most. */
export interface Nodes {
  readonly at: Time;
  readonly nodes: readonly NodeRow[];
  readonly more: boolean;
}

/** A recurring job. */
export interface ScheduleRow {
  readonly name: string;
  readonly cron: string;
  readonly timezone: string;
  readonly task: string;
  /** Null: this user sees no payloads, and no options. */
  readonly payload: unknown;
  readonly options: unknown;
  readonly paused: boolean;
  readonly next: Time | null;
  /** The slots after now, 5 at most. Empty: paused, or the expression can't be read. */
  readonly upcoming: readonly Time[];
  readonly last: Time | null;
  /** Why there are none upcoming; null: nothing is wrong. */
  readonly problem: string | null;
}

/** Answer to GET /api/schedules: by name, 500 at most. */
export interface Schedules {
  readonly at: Time;
  readonly schedules: readonly ScheduleRow[];
  readonly more: boolean;
}

/** A table of the installation, as PostgreSQL's statistics have it. */
export interface TableHealth {
  readonly table: string;
  readonly liveRows: BigIntText;
  readonly deadRows: BigIntText;
  /** Of the table with its indexes and its overflow. */
  readonly bytes: BigIntText;
  readonly indexBytes: BigIntText;
  /** `deadRows` / (`liveRows` + `deadRows`), 0 to 1. */
  readonly deadShare: number | null;
  readonly lastVacuum: Time | null;
  readonly lastAnalyze: Time | null;
}

/** An applied migration, or one that is still to be applied. */
export interface MigrationRow {
  readonly version: number;
  readonly name: string;
  readonly applied: Time | null;
}

/** Answer to GET /api/health. */
export interface Health {
  readonly at: Time;
  /** Such as `18.4`. */
  readonly server: string;
  readonly leader: {
    /** Null: nobody leads. */
    readonly name: string | null;
    readonly epoch: number;
    readonly expiresInMs: number | null;
  };
  /** The session of this database that holds vacuum back most. */
  readonly oldestSnapshot: {
    readonly pid: number;
    readonly application: string;
    readonly user: string | null;
    readonly state: string | null;
    /** Null: the database's role may not see it (it wants pg_read_all_stats). */
    readonly ageMs: number | null;
  } | null;
  readonly tables: readonly TableHealth[];
  readonly connections: { readonly used: number; readonly max: number };
  /** Newest first. `needs` and `knows`: which versions this dashboard can work with. */
  readonly migrations: {
    readonly version: number;
    readonly needs: number;
    readonly knows: number;
    readonly applied: readonly MigrationRow[];
  };
  readonly history: {
    readonly partitions: number;
    readonly oldest: Time | null;
    /** Rows for which no day's partition existed. */
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
    /** What should hold, and doesn't. */
    readonly says: string;
    readonly severity: 'error' | 'warning';
    readonly count: number;
    readonly samples: readonly string[];
    readonly remedy: string;
    /** Whether `pgqueue doctor --fix` can mend it. */
    readonly mendable: boolean;
  }[];
}
