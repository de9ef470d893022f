import type { JsonValue, Time } from './common.ts';

/** A rule that holds jobs. */
export interface HeldBy {
  /** The name of the gate; `later`: the order put others first. */
  readonly gate: string;
  readonly jobs: number;
  /** The queues in which it holds most, 10 at most. */
  readonly queues: readonly { readonly queue: string; readonly jobs: number }[];
}

/** Something of a policy that failed lately. */
export interface PolicyFault {
  readonly policy: string;
  readonly part: string;
  readonly message: string;
  readonly count: number;
  readonly first: Time;
  readonly last: Time;
  readonly suspendedUntil: Time | null;
}

/** How the second policy that plans beside the live one differs. */
export interface Shadow {
  readonly policy: string;
  readonly snapshots: number;
  readonly skipped: number;
  readonly failed: number;
  /** Jobs in both plans. */
  readonly both: number;
  /** Jobs that only the live policy dispatched, by what the other held them with. */
  readonly liveOnly: Readonly<Record<string, number>>;
  readonly shadowOnly: Readonly<Record<string, number>>;
  /** How many places apart, on average. */
  readonly rankDifference: number | null;
  readonly meanMs: number | null;
  readonly keys: readonly {
    readonly queue: string;
    readonly key: string;
    /** Shares of what was dispatched, 0 to 1. */
    readonly live: number;
    readonly shadow: number;
  }[];
}

/** Virtual time of a key in one pool: what it was charged, by weight. The least goes next. */
export interface VirtualTime {
  readonly pool: string;
  /** From the outermost level to the innermost: the queue, then the key, with the standard levels. */
  readonly path: readonly string[];
  readonly time: number;
}

/** Answer to GET /api/policy. */
export interface PolicyPage {
  readonly at: Time;
  /** Null: nobody leads. */
  readonly leader: string | null;
  readonly epoch: number;
  /** The name of its policy; null: it has not reported. */
  readonly policy: string | null;
  /** Of the report that this is from; null: there is none. `stale`: it says nothing about the present. */
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
  /** Keys of queues with waiting jobs that the leader knows of. */
  readonly lanes: number | null;
  readonly inFlight: number | null;
  readonly forecast: Readonly<Record<string, number>> | null;
  readonly faults: readonly PolicyFault[];
  readonly shadow: Shadow | null;
  /** Of fair orders, by time, 200 at most. */
  readonly virtualTimes: readonly VirtualTime[];
  /** What policies keep from plan to plan, as it is stored: 64 KiB of JSON text at most. */
  readonly state: readonly {
    readonly policy: string;
    readonly saved: Time;
    /** Null: too large to show. */
    readonly state: JsonValue;
    readonly bytes: number;
  }[];
}
