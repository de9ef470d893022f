import type { JobStatus, JsonValue, PageQuery, Time } from './api.ts';

/** Selects the jobs that match all given fields. */
export interface JobFilter {
  readonly status?: JobStatus;
  readonly queue?: string;
  readonly task?: string;
  readonly key?: string;
  /** Id of the flow that it belongs to. */
  readonly flow?: string;
  /** Name of a step of that flow; needs `flow`. */
  readonly step?: string;
  /** Created at this time or later, according to their ids; those that are no UUID v7 don't match. */
  readonly since?: Time;
  /** Created before this time. */
  readonly until?: Time;
  /** Text in the message of the last error; case is ignored. */
  readonly error?: string;
  /** Field of the payload, as names separated by points (`customer.id`); needs `value`. Operators only. */
  readonly field?: string;
  /** Value of that field, as text (`42`, `true`, `acme`). */
  readonly value?: string;
}

/** Query of GET /api/jobs. */
export interface JobsQuery extends JobFilter, PageQuery {}

/** Error of one attempt. All texts come from outside and must be escaped. */
export interface AttemptError {
  readonly kind: 'error' | 'timeout' | 'crash' | 'invalid';
  readonly name: string | null;
  readonly message: string;
  readonly stack: string | null;
}

/** A job in a list. */
export interface JobRow {
  readonly id: string;
  readonly status: JobStatus;
  readonly queue: string;
  readonly task: string;
  readonly key: string;
  readonly priority: number;
  readonly tries: number;
  /** Null, as are the other limits, once the job is in history. */
  readonly maxTries: number | null;
  readonly crashes: number;
  readonly created: Time;
  /** Age by the database's clock. */
  readonly ageMs: number;
  readonly runAfter: Time | null;
  /** Node that runs it, or ran it last. */
  readonly node: string | null;
  readonly started: Time | null;
  readonly finished: Time | null;
  /** Message only, up to 200 characters. */
  readonly lastError: string | null;
}

/** Answer to GET /api/jobs, newest first. */
export interface JobsPage {
  readonly items: readonly JobRow[];
  readonly next: string | null;
  /**
   * Set if the page reached its limit of 5,000 examined rows a table. The page then has fewer items than
   * requested, perhaps none, and a `next`; jobs created before this time have not been examined yet. Null:
   * the page is full, or the last.
   */
  readonly lookedBackTo: Time | null;
}

/** Documents that only operators see, after the redact hook. */
export interface JobDocuments {
  readonly payload: JsonValue;
  /** Result of the handler; null: none, or not done. */
  readonly result: JsonValue;
  /** Checkpoint kept for the next attempt. */
  readonly checkpoint: JsonValue;
}

/** Name of a document that the redact hook is asked about. */
export type DocumentName = keyof JobDocuments | 'progress';

/** One event in a job's life; entries are in order of time. */
export type TimelineEntry =
  | { readonly kind: 'created'; readonly at: Time }
  /** Due time of a delayed job, after a delay or a backoff. */
  | { readonly kind: 'due'; readonly at: Time }
  | {
      /** A failed attempt. */
      readonly kind: 'failed';
      /** 1 for the first attempt. */
      readonly attempt: number;
      /** End of the attempt. */
      readonly at: Time;
      /** Start and duration; null: not recorded. */
      readonly started: Time | null;
      readonly durationMs: number | null;
      readonly node: string | null;
      readonly error: AttemptError;
    }
  | {
      /** Dispatched: its work item waits for a node or is held by one. */
      readonly kind: 'dispatched';
      readonly at: Time;
      readonly position: string | null;
    }
  | {
      /** The running attempt. */
      readonly kind: 'running';
      readonly attempt: number;
      readonly at: Time;
      readonly durationMs: number;
      readonly node: string;
      readonly leaseEnds: Time | null;
      readonly cancelAsked: Time | null;
    }
  | {
      /** The end. `started` and `durationMs` describe the last attempt. */
      readonly kind: 'done' | 'cancelled' | 'expired' | 'dead';
      readonly at: Time;
      readonly started: Time | null;
      readonly durationMs: number | null;
      readonly node: string | null;
      /** Reason of a dead job: `max_tries`, `crash_limit` or `gave_up`; else null. */
      readonly reason: string | null;
    };

/** Answer to GET /api/jobs/:id. */
export interface JobPage {
  readonly at: Time;
  readonly job: JobRow & {
    readonly maxCrashes: number | null;
    readonly expiresAt: Time | null;
    readonly timeoutMs: number | null;
    readonly uniqueKey: string | null;
    readonly payloadVersion: number;
    readonly attributes: Readonly<Record<string, string | number | boolean | null>>;
    readonly pool: string | null;
    readonly position: string | null;
    /** Progress last reported by the handler. */
    readonly progress: JsonValue;
    readonly hasCheckpoint: boolean;
    /** The job was lost with its node before, so a node starts it only when it holds nothing else. */
    readonly suspect: boolean;
    readonly reason: string | null;
    readonly traceparent: string | null;
    /** Flow that it belongs to; null: none. The names are null once the flow is no longer kept. */
    readonly flow: { readonly id: string; readonly name: string | null; readonly step: string | null } | null;
  };
  /** Null: this user sees no payloads. */
  readonly documents: JobDocuments | null;
  /** Documents of this answer that the redact hook changed, or that are hidden since it failed. */
  readonly redacted: readonly DocumentName[];
  /** Includes up to 100 failed attempts, the newest. */
  readonly timeline: readonly TimelineEntry[];
  /** Address of its trace, http or https; null: it has no trace, or the option `traceUrl` is not set. */
  readonly traceUrl: string | null;
  /** Actions possible now; empty for viewers. */
  readonly actions: readonly ('retry' | 'run_now' | 'cancel' | 'reprioritise' | 'delete')[];
}

/** A reason why a job waits, or what became of it. */
export interface ExplainedReason {
  /**
   * `held`, `in_line`, `no_free_slot`, `paused_queue`, `delayed`, `running` and others, as in the output of
   * `pgqueue explain --json`.
   */
  readonly kind: string;
  /** Text, as in `pgqueue explain`, with what the user can do about it on these pages. */
  readonly text: string;
  /** Time at which the reason may pass; null: it does not pass by time alone. */
  readonly until: Time | null;
}

/** Answer to GET /api/jobs/:id/explain. For a pending job it asks the leading scheduler, for up to 2 s. */
export interface Explanation {
  readonly id: string;
  readonly status: JobStatus;
  /** Reasons, in the order in which to resolve them. */
  readonly reasons: readonly ExplainedReason[];
  /** Due jobs of its lane ahead of it; null: it does not wait in a lane. */
  readonly ahead: number | null;
  /** Jobs of all keys ahead of it, as far as the leader knows. */
  readonly aheadInOrder: number | null;
  /** Estimated start; null: it does not wait in a lane, or the leader did not answer. */
  readonly start: {
    readonly at: Time | null;
    /** It does not start until someone changes something. */
    readonly blocked: boolean;
    readonly evidence: readonly string[];
  } | null;
  /**
   * Policy that answered, and the time of its snapshot; null: the leader was not asked, or did not answer.
   */
  readonly policy: { readonly name: string; readonly at: Time } | null;
}
