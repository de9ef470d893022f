// The format of a history: JSON lines, written by every process of a run, outside the database that has the
// faults. The checker reads nothing else. Drivers of other parts (a single node, an SQL session) can write
// the same lines and use the same checker.

/**
 * A client's knowledge of a call. `ok`: the answer came. `fail`: the server reported that nothing was changed
 * (an SQL error, a rollback). `unknown`: no answer came; the call may have taken effect. An `invoke` without
 * a second line is unknown too: its process died.
 */
export type Phase = 'invoke' | 'ok' | 'fail' | 'unknown';

export type SettleOutcome = 'done' | 'retry' | 'dead' | 'snooze' | 'cancelled';
export type SettleVerdict = SettleOutcome | 'repeated';

/** Facts of the run that the checker needs; the first line of a history. */
export interface RunFacts {
  readonly seed: number;
  /** Milliseconds without a heartbeat after which a node is lost. */
  readonly lostAfterMs: number;
  /** Limit of concurrent work items for each `group`. */
  readonly groupMax?: number;
  /** Queues whose keys are ordered: one work item at a time, in the order of `seq`. */
  readonly orderedQueues?: readonly string[];
  /** Limit of one queue's dispatches, over any window. */
  readonly rate?: { readonly queue: string; readonly perSecond: number; readonly burst: number };
  /** Tasks whose handlers write one witness row in `ctx.transaction` and nothing else. */
  readonly witnessTasks?: readonly string[];
  /** Number of crashes that kill a job, by task. Its handler may not begin more often. */
  readonly crashMax?: Readonly<Record<string, number>>;
  /** Milliseconds to add to `at` for Unix time, measured at the beginning of the run. */
  readonly epochMs: number;
}

type Call<Name extends string, Invoked, Answered> =
  | ({ readonly type: Name; readonly phase: 'invoke'; readonly op: string } & Invoked)
  | ({ readonly type: Name; readonly phase: 'ok'; readonly op: string } & Answered)
  | { readonly type: Name; readonly phase: 'fail' | 'unknown'; readonly op: string };

/**
 * Each call has an `op`, unique in the run, which joins its two lines. Entries are kept short: a long run has
 * millions of them.
 */
export type HistoryEntry =
  | { readonly type: 'run'; readonly facts: RunFacts }
  /** A producer's enqueue, alone or in a transaction of its own; `ok` after the COMMIT, `fail` after a rollback. */
  | Call<'enqueue', { readonly ids: readonly string[] }, object>
  /** A request to cancel a job. */
  | Call<'cancel', { readonly id: string }, object>
  /** A node's claim: one token, and the leases that it returned, with their length. */
  | Call<
      'claim',
      { readonly node: string; readonly token: string },
      { readonly leases: readonly (readonly [id: string, leaseMs: number])[] }
    >
  | Call<
      'extend',
      { readonly leases: readonly (readonly [id: string, token: string, ms: number])[] },
      { readonly held: readonly string[] }
    >
  | Call<
      'release',
      { readonly leases: readonly (readonly [id: string, token: string])[] },
      { readonly given: readonly string[] }
    >
  /**
   * A settlement. `verdicts` has the accepted ones; a missing id was refused as stale. In a transaction: `ok`
   * after its COMMIT.
   */
  | Call<
      'settle',
      { readonly leases: readonly (readonly [id: string, token: string, outcome: SettleOutcome])[] },
      { readonly verdicts: readonly (readonly [id: string, verdict: SettleVerdict])[] }
    >
  /**
   * A scheduler sends a plan. `readAt`: time at which its last read of the lanes was sent; jobs that were
   * committed later need not be known to the plan.
   */
  | { readonly type: 'dispatch'; readonly ids: readonly string[]; readonly readAt: number }
  /** An answered heartbeat, and the time when it was sent. */
  | { readonly type: 'beat'; readonly node: string; readonly sentAt: number }
  /** An incarnation left in order, and released its leases. */
  | { readonly type: 'leave'; readonly node: string }
  /**
   * A process ended (a worker's by the name of its node); its successor may register at once. `expected`: it
   * was killed or told to stop.
   */
  | { readonly type: 'down'; readonly node: string; readonly why: string; readonly expected: boolean }
  /** An operator resets a node; written before the request. */
  | { readonly type: 'reset'; readonly node: string }
  /** A handler begins and ends. */
  | { readonly type: 'start'; readonly id: string; readonly token: string; readonly node: string }
  | { readonly type: 'end'; readonly id: string; readonly token: string }
  /**
   * A step of a fault. `made`: it has begun; `healed`: everything works again; `failed`: it could not be
   * made.
   */
  | {
      readonly type: 'fault';
      readonly n: number;
      readonly kind: string;
      readonly phase: 'start' | 'made' | 'heal' | 'healed' | 'failed';
      readonly target?: string;
      readonly spoils?: readonly string[];
      readonly why?: string;
    }
  /**
   * A check of one snapshot (REPEATABLE READ) of the database. `broken`: the broken invariants; empty is
   * good.
   */
  | { readonly type: 'snapshot'; readonly broken: readonly string[] }
  /** A sample for the timeline. */
  | {
      readonly type: 'sample';
      readonly waiting: number;
      readonly running: number;
      readonly oldestMs: number;
    }
  /**
   * The final state of a job, read from the database. A job with two terminal rows has two lines. `open`: it
   * has not ended.
   */
  | {
      readonly type: 'final';
      readonly id: string;
      readonly task: string;
      readonly state: 'done' | 'cancelled' | 'expired' | 'dead' | 'open';
      readonly token: string | null;
      readonly witnesses: number;
    }
  /**
   * One life of a work item, read at the end from the records of a trigger. `from` and `to` are numbers of
   * one sequence, drawn when the row was written and right before the commit that removed it, so no clock
   * affects their order. `to` is null if the row was not removed.
   */
  | {
      readonly type: 'item';
      readonly id: string;
      readonly position: number;
      readonly queue: string;
      readonly key: string;
      readonly group: string;
      readonly seq: number;
      readonly tries: number;
      readonly from: number;
      readonly to: number | null;
      readonly dispatchedMs: number;
    };

/**
 * An entry with its time and process. `at`: milliseconds of the machine's monotonic clock, one for all
 * processes; `by`: the process.
 */
export type HistoryEvent = HistoryEntry & { readonly at: number; readonly by: string };
export type EventOf<Type extends HistoryEntry['type']> = Extract<HistoryEvent, { readonly type: Type }>;
