import type { JsonValue, Time } from './api.ts';

/** A rule that holds jobs. */
export interface HeldBy {
  /** Name of the gate; `later`: the order preferred other jobs. */
  readonly gate: string;
  readonly jobs: number;
  /** The 10 queues in which it holds most jobs. */
  readonly queues: readonly { readonly queue: string; readonly jobs: number }[];
}

/** A recent failure of a policy. */
export interface PolicyFault {
  readonly policy: string;
  readonly part: string;
  readonly message: string;
  readonly count: number;
  readonly first: Time;
  readonly last: Time;
  readonly suspendedUntil: Time | null;
}

/** Comparison of the shadow policy with the live one. */
export interface Shadow {
  readonly policy: string;
  readonly snapshots: number;
  readonly skipped: number;
  readonly failed: number;
  /** Jobs in both plans. */
  readonly both: number;
  /** Jobs that only the live policy dispatched, by what held them in the shadow plan. */
  readonly liveOnly: Readonly<Record<string, number>>;
  readonly shadowOnly: Readonly<Record<string, number>>;
  /** Mean distance between a job's places in the two plans. */
  readonly rankDifference: number | null;
  readonly meanMs: number | null;
  readonly keys: readonly {
    readonly queue: string;
    readonly key: string;
    /** Share of the dispatched jobs, 0 to 1, under each policy. */
    readonly live: number;
    readonly shadow: number;
  }[];
}

/**
 * Lead of a share in a fair order, such as a queue or a key: the cost that it was charged, divided by its
 * weight, beyond that of the share beside it which has least. That share has a lead of 0, and goes next.
 */
export interface Lead {
  readonly pool: string;
  /** Names from the outermost level to the innermost: with the standard levels the queue, then the key. */
  readonly path: readonly string[];
  /** 0 or more. */
  readonly lead: number;
  /**
   * Unit of the cost: jobs, what the order's function says, or worker time in milliseconds. Worker time is
   * charged when an attempt ends; until then the order adds an estimate, which is not in `lead`.
   */
  readonly unit: 'jobs' | 'cost' | 'time';
}

/** Answer to GET /api/policy. */
export interface PolicyPage {
  readonly at: Time;
  /** Null: there is no leader. */
  readonly leader: string | null;
  readonly epoch: number;
  /** Name of the leader's policy; null: it has not reported. */
  readonly policy: string | null;
  /**
   * Time of the report this page is from; null: there is none. `stale`: it says nothing about the present.
   */
  readonly reported: Time | null;
  readonly stale: boolean;
  readonly held: readonly HeldBy[];
  readonly ticks: {
    readonly count: number;
    readonly p50Ms: number | null;
    readonly p99Ms: number | null;
    readonly lastBatch: number;
    readonly dispatched: number;
  } | null;
  /** Lanes with waiting jobs that the leader knows. */
  readonly lanes: number | null;
  readonly inFlight: number | null;
  readonly forecast: Readonly<Record<string, number>> | null;
  readonly faults: readonly PolicyFault[];
  readonly shadow: Shadow | null;
  /** Leads of the shares in fair orders: the 200 smallest, in ascending order. */
  readonly leads: readonly Lead[];
  /** State that policies keep between plans, as stored; up to 64 KiB of JSON text each. */
  readonly state: readonly {
    readonly policy: string;
    readonly saved: Time;
    /** Null: too large to show. */
    readonly state: JsonValue;
    readonly bytes: number;
  }[];
}
