import type { JobStatus, JsonValue, PageQuery, Time } from './common.ts';

/** Which jobs are meant: those that fit everything given. */
export interface JobFilter {
  readonly status?: JobStatus;
  readonly queue?: string;
  readonly task?: string;
  readonly key?: string;
  /** Created from then on, as their ids tell it (UUID v7). */
  readonly since?: Time;
  /** Created before. */
  readonly until?: Time;
  /** In the message of its last error, whatever the case. */
  readonly error?: string;
  /** A field of the payload, as names with points between (`customer.id`); with `value`. Operators only. */
  readonly field?: string;
  /** What that field is, as text (`42`, `true`, `acme`). */
  readonly value?: string;
}

/** Query of GET /api/jobs. */
export interface JobsQuery extends JobFilter, PageQuery {}

/** One attempt's error. All of it is text that others wrote. */
export interface AttemptError {
  readonly kind: 'error' | 'timeout' | 'crash' | 'invalid';
  readonly name: string | null;
  readonly message: string;
  readonly stack: string | null;
}

/** A job as lists show it. */
export interface JobRow {
  readonly id: string;
  readonly status: JobStatus;
  readonly queue: string;
  readonly task: string;
  readonly key: string;
  readonly priority: number;
  readonly tries: number;
  /** Null once it has ended in history, as are the other limits. */
  readonly maxTries: number | null;
  readonly crashes: number;
  readonly created: Time;
  /** By the database's clock. */
  readonly ageMs: number;
  readonly runAfter: Time | null;
  /** Who runs it, or ran it last. */
  readonly node: string | null;
  readonly started: Time | null;
  readonly finished: Time | null;
  /** The message alone, 200 characters at most. */
  readonly lastError: string | null;
}

/** Answer to GET /api/jobs: newest first. */
export interface JobsPage {
  readonly items: readonly JobRow[];
  readonly next: string | null;
  /**
   * A page looks at so many jobs and no more. Then it has fewer items than were asked for (perhaps none) and a `next`, and this
   * says back to which time of creation it has looked: offer to go on. Null: the page is full, or the last.
   */
  readonly lookedBackTo: Time | null;
}

/** What only operators see, redacted where a hook says so. */
export interface JobDocuments {
  readonly payload: JsonValue;
  /** What its handler returned; null: nothing, or not done. */
  readonly result: JsonValue;
  /** What an attempt kept for the next one. */
  readonly checkpoint: JsonValue;
}

/** One step of a job's life, in the order of time. */
export type TimelineEntry =
  | { readonly kind: 'created'; readonly at: Time }
  /** A delay or a backoff: not before then. Only of a job that is delayed now. */
  | { readonly kind: 'due'; readonly at: Time }
  | {
      /** An attempt that failed. */
      readonly kind: 'failed';
      /** 1 for the first. */
      readonly attempt: number;
      /** When it ended. */
      readonly at: Time;
      /** When it began, and how long it took; null: that was not kept. */
      readonly started: Time | null;
      readonly durationMs: number | null;
      readonly node: string | null;
      readonly error: AttemptError;
    }
  | {
      /** It was scheduled: its work item waits for a node, or is held by one. */
      readonly kind: 'dispatched';
      readonly at: Time;
      readonly position: string | null;
    }
  | {
      /** The attempt that runs now. */
      readonly kind: 'running';
      readonly attempt: number;
      readonly at: Time;
      readonly durationMs: number;
      readonly node: string;
      readonly leaseEnds: Time | null;
      readonly cancelAsked: Time | null;
    }
  | {
      /** The end. `started` and `durationMs` are of the last attempt. */
      readonly kind: 'done' | 'cancelled' | 'expired' | 'dead';
      readonly at: Time;
      readonly started: Time | null;
      readonly durationMs: number | null;
      readonly node: string | null;
      /** Of dead ones: `max_tries`, `crash_limit` or `gave_up`. */
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
    /** What its handler last reported. */
    readonly progress: JsonValue;
    readonly hasCheckpoint: boolean;
    /** It was lost with its node before: it begins on a node that holds nothing else. */
    readonly suspect: boolean;
    readonly reason: string | null;
    readonly traceparent: string | null;
  };
  /** Null: this user sees no payloads. */
  readonly documents: JobDocuments | null;
  /** At most the newest 100 failed attempts. */
  readonly timeline: readonly TimelineEntry[];
  /** Where its trace is shown: http or https; null: it has none, or no template was given. */
  readonly traceUrl: string | null;
  /** What can be done with it now; empty for viewers. */
  readonly actions: readonly ('retry' | 'run_now' | 'cancel' | 'reprioritise' | 'delete')[];
}

/** One thing that a job waits for, or that says what became of it. */
export interface ExplainedReason {
  /** `held`, `in_line`, `no_free_slot`, `paused_queue`, `delayed`, `running`, …: as `pgqueue explain --json` has it. */
  readonly kind: string;
  /** In words, as `pgqueue explain` says it. */
  readonly text: string;
  /** When that may change by time alone; null: not by time. */
  readonly until: Time | null;
}

/** Answer to GET /api/jobs/:id/explain. Of a pending job the leading scheduler is asked, which takes up to 2 s. */
export interface Explanation {
  readonly id: string;
  readonly status: JobStatus;
  /** The first to be mended first. */
  readonly reasons: readonly ExplainedReason[];
  /** Due jobs of its queue and key that come first; null: it does not wait for a turn. */
  readonly ahead: number | null;
  /** The same of all keys, as far as the leader knows. */
  readonly aheadInOrder: number | null;
  /** When it may start; null: it does not wait for a turn, or the leader did not answer. */
  readonly start: {
    readonly at: Time | null;
    /** Until somebody does something. */
    readonly blocked: boolean;
    readonly evidence: readonly string[];
  } | null;
  /** Whose answer this is, and the time of its snapshot; null: the leader was not asked, or gave none. */
  readonly policy: { readonly name: string; readonly at: Time } | null;
}
