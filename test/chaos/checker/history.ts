// What a history is: JSON lines, written outside the database that has the faults, by every process of a run. The checker reads nothing
// else. Whoever drives other parts (a single node, an SQL session) can write the same lines and use the same checker.

/**
 * What a client knows of a call. `ok`: the answer came. `fail`: the server said that nothing was changed (an SQL error, a rollback). `unknown`:
 * no answer came; it may have happened. An `invoke` without any of them is unknown, too: its process died.
 */
export type Phase = 'invoke' | 'ok' | 'fail' | 'unknown';

export type SettleOutcome = 'done' | 'retry' | 'dead' | 'snooze' | 'cancelled';
export type SettleVerdict = SettleOutcome | 'repeated';

/** What the checker must know of the run; the first line. */
export interface RunFacts {
  readonly seed: number;
  /** Without a heartbeat for so long, a node is lost. */
  readonly lostAfterMs: number;
  /** Most work items at once, of the items' `group`. */
  readonly groupMax?: number;
  /** Queues whose keys are ordered: one work item at a time, in the order of `seq`. */
  readonly orderedQueues?: readonly string[];
  /** Of one queue's dispatches, over any window. */
  readonly rate?: { readonly queue: string; readonly perSecond: number; readonly burst: number };
  /** Tasks whose handlers write one witness row in `ctx.transaction` and nothing else. */
  readonly witnessTasks?: readonly string[];
  /** By task: how many crashes kill a job. Its handler may not begin more often. */
  readonly crashMax?: Readonly<Record<string, number>>;
  /** Milliseconds to add to `at` for Unix time, as it was at the beginning. */
  readonly epochMs: number;
}

type Call<Name extends string, Invoked, Answered> =
  | ({ readonly type: Name; readonly phase: 'invoke'; readonly op: string } & Invoked)
  | ({ readonly type: Name; readonly phase: 'ok'; readonly op: string } & Answered)
  | { readonly type: Name; readonly phase: 'fail' | 'unknown'; readonly op: string };

/** Each call has an `op`, unique in the run, which joins its two lines. Lists are kept short: a long run has millions of them. */
export type HistoryEntry =
  | { readonly type: 'run'; readonly facts: RunFacts }
  /** A producer's enqueue, alone or in a transaction of its own; `ok` after the COMMIT, `fail` after a rollback. */
  | Call<'enqueue', { readonly ids: readonly string[] }, object>
  /** Somebody asks for a job's cancellation. */
  | Call<'cancel', { readonly id: string }, object>
  /** A node's claim: one token, and the leases it brought with their length. */
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
  /** `verdicts` has the accepted ones; an id that is missing was refused as stale. In a transaction: `ok` after its COMMIT. */
  | Call<
      'settle',
      { readonly leases: readonly (readonly [id: string, token: string, outcome: SettleOutcome])[] },
      { readonly verdicts: readonly (readonly [id: string, verdict: SettleVerdict])[] }
    >
  /** A heartbeat that was answered, and when it was sent. */
  | { readonly type: 'beat'; readonly node: string; readonly sentAt: number }
  /** An incarnation left in order: what it held is released. */
  | { readonly type: 'leave'; readonly node: string }
  /** A process ended (a worker's by the name of its node); its next one may register at once. `expected`: it was killed, or told to stop. */
  | { readonly type: 'down'; readonly node: string; readonly why: string; readonly expected: boolean }
  /** An operator resets a node; written before it is asked for. */
  | { readonly type: 'reset'; readonly node: string }
  /** A handler begins and ends. */
  | { readonly type: 'start'; readonly id: string; readonly token: string; readonly node: string }
  | { readonly type: 'end'; readonly id: string; readonly token: string }
  /** `made`: the fault is there; `healed`: what it took away is back; `failed`: it could not be made. */
  | {
      readonly type: 'fault';
      readonly n: number;
      readonly kind: string;
      readonly phase: 'start' | 'made' | 'heal' | 'healed' | 'failed';
      readonly target?: string;
      readonly spoils?: readonly string[];
      readonly why?: string;
    }
  /** A snapshot (REPEATABLE READ) of the database was looked at: what was broken in it; [] is good. */
  | { readonly type: 'snapshot'; readonly broken: readonly string[] }
  /** For the timeline. */
  | {
      readonly type: 'sample';
      readonly waiting: number;
      readonly running: number;
      readonly oldestMs: number;
    }
  /** At the end, from the database: where each job stands. A job with two terminal rows has two lines; `open`: it has not ended. */
  | {
      readonly type: 'final';
      readonly id: string;
      readonly task: string;
      readonly state: 'done' | 'cancelled' | 'expired' | 'dead' | 'open';
      readonly token: string | null;
      readonly witnesses: number;
    }
  /**
   * At the end, from a trigger's records in the database: one life of a work item. `from` and `to` are numbers of one sequence, drawn when the
   * row was written and right before the commit that removed it: an order that no clock can spoil; null: not removed.
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

/** `at`: milliseconds of the machine's monotonic clock, one for all processes; `by`: the process. */
export type HistoryEvent = HistoryEntry & { readonly at: number; readonly by: string };
export type EventOf<Type extends HistoryEntry['type']> = Extract<HistoryEvent, { readonly type: Type }>;
