import type { JobStatus } from './job/job.ts';
import { loggedFields } from './logged.ts';
import { quietly } from './runtime/when-done.ts';

/** Event of a producer, scheduler or worker, as data: ids and figures, never payloads. */
export type PgQueueEvent =
  | { readonly type: 'enqueued'; readonly count: number; readonly queue: string; readonly task: string }
  | { readonly type: 'leader.elected'; readonly scheduler: string; readonly epoch: number }
  | {
      readonly type: 'leader.lost';
      readonly scheduler: string;
      readonly epoch: number;
      /** Set when the scheduler was told to stop: nothing is wrong. */
      readonly stopped?: true;
    }
  | {
      readonly type: 'tick';
      readonly dispatched: number;
      /** Number of dispatched jobs by queue and task. */
      readonly batch: readonly { readonly queue: string; readonly task: string; readonly jobs: number }[];
      readonly held: Readonly<Record<string, number>>;
      readonly durationMs: number;
    }
  | {
      readonly type: 'policy.failed';
      readonly policy: string;
      /** Gate or order that failed, or the function of the policy. */
      readonly part: string;
      readonly error: unknown;
      /** Milliseconds for which the part is left out, because it exceeded its time limit. */
      readonly suspendedMs?: number;
    }
  | {
      /**
       * The scheduler that leads, or led last, has a policy of another name than this scheduler, which may
       * take over from it.
       */
      readonly type: 'policy.differs';
      readonly policy: string;
      readonly leader: string;
      readonly other: string;
    }
  | {
      readonly type: 'policy.prepare_failed';
      readonly policy: string;
      readonly part: string;
      readonly error: unknown;
      readonly retryMs: number;
    }
  | {
      /** Ticks leave out this job, node or queue because its data are invalid. All others go on. */
      readonly type: 'tick.unreadable';
      readonly kind: 'job' | 'node' | 'queue';
      readonly id: string;
      readonly problem: string;
    }
  | {
      readonly type: 'shadow.compared';
      readonly policy: string;
      readonly shadow: string;
      /**
       * Snapshots since this scheduler's term began: those that both policies planned (`snapshots`), and
       * those that the shadow had no time for (`skipped`).
       */
      readonly snapshots: number;
      readonly skipped: number;
      /** Jobs that both policies would have dispatched, and those that only one of them would have. */
      readonly both: number;
      readonly liveOnly: number;
      readonly shadowOnly: number;
    }
  | {
      readonly type: 'flow.ended';
      readonly flow: string;
      readonly name: string;
      /** done, failed or cancelled. */
      readonly state: string;
    }
  | { readonly type: 'node.lost'; readonly node: string; readonly jobs: number }
  | { readonly type: 'leases.reaped'; readonly jobs: number }
  | { readonly type: 'schedule.fired'; readonly schedule: string; readonly job: string }
  | { readonly type: 'schedule.failed'; readonly schedule: string; readonly error: unknown }
  | {
      /**
       * The queue takes no more waiting jobs of the key at present. This slot is left out; the next one comes
       * at its time.
       */
      readonly type: 'schedule.skipped';
      readonly schedule: string;
      /** Unix milliseconds. */
      readonly slotMs: number;
      readonly error: unknown;
    }
  | { readonly type: 'node.registered'; readonly node: string; readonly incarnation: string }
  | { readonly type: 'node.ended'; readonly node: string; readonly incarnation: string }
  | { readonly type: 'node.draining'; readonly node: string; readonly running: number }
  | {
      /** A handler blocked the event loop for `blockedMs`. Emitted when it is over. */
      readonly type: 'node.blocked';
      readonly node: string;
      readonly blockedMs: number;
      /** Jobs whose handlers were running, up to 10. A single one is the likely cause. */
      readonly jobs: readonly { readonly job: string; readonly task: string }[];
    }
  /**
   * The node's heartbeats have failed for so long (`silentMs`) that others may take its jobs at any moment.
   * The node has aborted them.
   */
  | { readonly type: 'node.fenced'; readonly node: string; readonly jobs: number; readonly silentMs: number }
  /**
   * The node has given back leases that the database attributed to it but it did not hold, for example after
   * a failover that lost their settlements.
   */
  | { readonly type: 'node.forgot'; readonly node: string; readonly jobs: number }
  /** The heartbeat's thread could not start, or died. The main thread sends the heartbeats meanwhile. */
  | {
      readonly type: 'node.thread_failed';
      readonly node: string;
      readonly error: unknown;
      readonly retryMs: number;
    }
  /**
   * The database takes no settlements, and the ones that wait have reached the node's limit: it claims no
   * more jobs. With `settler.drained`, it claims again.
   */
  | { readonly type: 'settler.full'; readonly pending: number; readonly bytes: number }
  | { readonly type: 'settler.drained'; readonly pending: number; readonly bytes: number }
  | {
      readonly type: 'job.started';
      readonly job: string;
      readonly queue: string;
      readonly task: string;
      readonly key: string;
      /** 1 for the job's first attempt. Attempts that crashed or were released count too. */
      readonly attempt: number;
      readonly waitedMs: number;
    }
  | {
      readonly type: 'job.settled';
      readonly job: string;
      readonly queue: string;
      readonly task: string;
      readonly verdict: 'done' | 'retry' | 'snooze' | 'dead' | 'cancelled';
      readonly durationMs: number;
      readonly error?: unknown;
    }
  | {
      readonly type: 'job.stale';
      readonly job: string;
      readonly task: string;
      readonly during: 'settle' | 'extend' | 'heartbeat';
    }
  | {
      readonly type: 'job.timeout';
      readonly job: string;
      readonly task: string;
      readonly timeoutMs: number;
    }
  /**
   * The process of an isolated handler died, and the job is ready again. At its crash limit the job is
   * settled as dead.
   */
  | {
      readonly type: 'job.crashed';
      readonly job: string;
      readonly queue: string;
      readonly task: string;
      readonly durationMs: number;
      readonly error: unknown;
    }
  | {
      /**
       * A promise in the handler was rejected and nobody handled it. `counted`: the rejection ends the
       * attempt as its error when the handler returns.
       */
      readonly type: 'job.floating';
      readonly job: string;
      readonly task: string;
      readonly error: unknown;
      readonly counted: boolean;
    }
  | {
      /**
       * The handler failed after its own transaction had settled the job as done. The job stays done, and is
       * not tried again.
       */
      readonly type: 'job.late_error';
      readonly job: string;
      readonly queue: string;
      readonly task: string;
      readonly error: unknown;
    }
  | {
      readonly type: 'job.invalid';
      readonly job: string;
      readonly task: string;
      readonly problems: readonly string[];
    }
  /**
   * A value of the job is encrypted under a key that this node does not have: `error` names it. The job waits for
   * another node, or for the key; nothing was counted.
   */
  | {
      readonly type: 'codec.key_missing';
      readonly job: string;
      readonly task: string;
      readonly error: unknown;
    }
  | {
      readonly type: 'database.error';
      readonly during: string;
      readonly error: unknown;
      readonly retryMs?: number;
    };

/** Counts jobs by queue and task. */
export function countByTask(
  jobs: readonly { readonly queue: string; readonly task: string }[],
): readonly { readonly queue: string; readonly task: string; readonly jobs: number }[] {
  const queues = new Map<string, Map<string, number>>();
  const add = (queue: string, task: string, count: number): void => {
    const tasks = queues.get(queue) ?? new Map<string, number>();
    queues.set(queue, tasks.set(task, (tasks.get(task) ?? 0) + count));
  };
  // count runs first: jobs of one queue and task mostly stand side by side
  let last: (typeof jobs)[number] | undefined;
  let count = 0;
  for (const job of jobs) {
    if (last !== undefined && (last.queue !== job.queue || last.task !== job.task)) {
      add(last.queue, last.task, count);
      count = 0;
    }
    last = job;
    count += 1;
  }
  if (last !== undefined) add(last.queue, last.task, count);
  return [...queues].flatMap(([queue, tasks]) =>
    [...tasks].map(([task, count]) => ({ queue, task, jobs: count })),
  );
}

/**
 * Receives every event of a process, synchronously. Must not throw: its error is dropped, and so is the rejection
 * of a promise that it returns, which nobody waits for.
 */
export type Observer = (event: PgQueueEvent) => void;

/** The part of a pino logger that {@link logObserver} needs. */
export interface Logger {
  debug(data: object, message: string): void;
  info(data: object, message: string): void;
  warn(data: object, message: string): void;
  error(data: object, message: string): void;
}

const levels: Readonly<Record<PgQueueEvent['type'], 'debug' | 'info' | 'warn' | 'error'>> = {
  enqueued: 'debug',
  'leader.elected': 'info',
  'leader.lost': 'warn',
  tick: 'debug',
  'policy.failed': 'error',
  'policy.differs': 'warn',
  'policy.prepare_failed': 'warn',
  'tick.unreadable': 'error',
  'shadow.compared': 'debug',
  'node.lost': 'warn',
  'leases.reaped': 'warn',
  'flow.ended': 'info',
  'schedule.fired': 'info',
  'schedule.failed': 'error',
  'schedule.skipped': 'warn',
  'node.registered': 'info',
  'node.ended': 'warn',
  'node.draining': 'info',
  'node.blocked': 'warn',
  'node.fenced': 'error',
  'node.forgot': 'warn',
  'node.thread_failed': 'warn',
  'settler.full': 'warn',
  'settler.drained': 'info',
  'job.started': 'debug',
  'job.settled': 'debug',
  'job.stale': 'warn',
  'job.timeout': 'warn',
  'job.crashed': 'warn',
  'job.floating': 'error',
  'job.late_error': 'error',
  'job.invalid': 'warn',
  'codec.key_missing': 'warn',
  'database.error': 'warn',
};

/**
 * Returns an observer that turns events into log lines. pgqueue logs nowhere else. A settled job that is to
 * be retried is a warning, and a dead one an error. The end of a term by `stop` is neither.
 */
export function logObserver(logger: Logger): Observer {
  return (event) => {
    const { type, ...data } = event;
    const level = levelOf(event);
    logger[level](loggedFields(data), type);
  };
}

/** Joins several observers into one. An error of one of them, thrown or by its promise, reaches nobody. */
export function allObservers(...observers: readonly (Observer | undefined)[]): Observer {
  return (event) => {
    for (const observer of observers) quietly(() => observer?.(event));
  };
}

function levelOf(event: PgQueueEvent): 'debug' | 'info' | 'warn' | 'error' {
  if (event.type === 'job.settled') return settledLevel(event);
  if (event.type === 'leader.lost' && event.stopped === true) return 'info';
  return levels[event.type];
}

function settledLevel({ verdict }: { readonly verdict: string }): 'debug' | 'warn' | 'error' {
  if (verdict === 'dead') return 'error';
  return verdict === 'retry' ? 'warn' : 'debug';
}

/** Terminal statuses. A job never leaves one, except by a redrive of a dead job. */
export const terminalStatuses: readonly JobStatus[] = ['done', 'cancelled', 'expired', 'dead'];
