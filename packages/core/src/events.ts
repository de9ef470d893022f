import type { JobStatus } from './job/job.ts';
import { loggedFields } from './logged.ts';

/** What happens in a producer, scheduler or worker, as data: ids and figures, never payloads. */
export type PgQueueEvent =
  | { readonly type: 'enqueued'; readonly count: number; readonly queue: string; readonly task: string }
  | { readonly type: 'leader.elected'; readonly scheduler: string; readonly epoch: number }
  | {
      readonly type: 'leader.lost';
      readonly scheduler: string;
      readonly epoch: number;
      /** It was told to stop: nothing is wrong. */
      readonly stopped?: true;
    }
  | {
      readonly type: 'tick';
      readonly dispatched: number;
      /** The same by queue and task. */
      readonly batch: readonly { readonly queue: string; readonly task: string; readonly jobs: number }[];
      readonly held: Readonly<Record<string, number>>;
      readonly durationMs: number;
    }
  | {
      readonly type: 'policy.failed';
      readonly policy: string;
      /** The gate or order that failed, or the function of the policy. */
      readonly part: string;
      readonly error: unknown;
      /** It took longer than it may, and is left out for so long. */
      readonly suspendedMs?: number;
    }
  | {
      /** Who leads, or led last, has a policy of another name than this scheduler, which is to take over from it. */
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
      /** Ticks leave it out, since it is not what it must be; the others go on. */
      readonly type: 'tick.unreadable';
      readonly kind: 'job' | 'node' | 'queue';
      readonly id: string;
      readonly problem: string;
    }
  | {
      readonly type: 'shadow.compared';
      readonly policy: string;
      readonly shadow: string;
      /** Since the scheduler leads: snapshots that both planned, and those that the shadow had no time for. */
      readonly snapshots: number;
      readonly skipped: number;
      /** Jobs that both would have dispatched, and only one of them. */
      readonly both: number;
      readonly liveOnly: number;
      readonly shadowOnly: number;
    }
  | { readonly type: 'node.lost'; readonly node: string; readonly jobs: number }
  | { readonly type: 'leases.reaped'; readonly jobs: number }
  | { readonly type: 'schedule.fired'; readonly schedule: string; readonly job: string }
  | { readonly type: 'schedule.failed'; readonly schedule: string; readonly error: unknown }
  | {
      /** Its queue takes no more jobs of its key at present: this slot is left out, and the next one comes at its time. */
      readonly type: 'schedule.skipped';
      readonly schedule: string;
      /** Unix ms. */
      readonly slotMs: number;
      readonly error: unknown;
    }
  | { readonly type: 'node.registered'; readonly node: string; readonly incarnation: string }
  | { readonly type: 'node.ended'; readonly node: string; readonly incarnation: string }
  | { readonly type: 'node.draining'; readonly node: string; readonly running: number }
  | {
      /** A handler kept the event loop for so long; told when it is over. */
      readonly type: 'node.blocked';
      readonly node: string;
      readonly blockedMs: number;
      /** Whose handlers were running, at most ten. One: it was that. */
      readonly jobs: readonly { readonly job: string; readonly task: string }[];
    }
  /** No heartbeat has arrived for so long that others may take this node's jobs at any moment: it has aborted them. */
  | { readonly type: 'node.fenced'; readonly node: string; readonly jobs: number; readonly silentMs: number }
  /** Leases that the database took for this node's, after a failover that lost their settlements, say: it has given them back. */
  | { readonly type: 'node.forgot'; readonly node: string; readonly jobs: number }
  /** The heartbeat's thread could not start, or died: the main thread beats meanwhile. */
  | {
      readonly type: 'node.thread_failed';
      readonly node: string;
      readonly error: unknown;
      readonly retryMs: number;
    }
  /** The database takes no settlements, and so many wait that the node claims no more; `settler.drained`: it claims again. */
  | { readonly type: 'settler.full'; readonly pending: number; readonly bytes: number }
  | { readonly type: 'settler.drained'; readonly pending: number; readonly bytes: number }
  | {
      readonly type: 'job.started';
      readonly job: string;
      readonly queue: string;
      readonly task: string;
      readonly key: string;
      /** 1: its first; those that crashed or were given back count. */
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
  /** The process of an isolated handler died; the job is ready again. At its crash limit it is settled as dead. */
  | {
      readonly type: 'job.crashed';
      readonly job: string;
      readonly queue: string;
      readonly task: string;
      readonly durationMs: number;
      readonly error: unknown;
    }
  | {
      /** A rejection in its handler that nobody handled; `counted`: it ends the attempt as its error, when the handler returns. */
      readonly type: 'job.floating';
      readonly job: string;
      readonly task: string;
      readonly error: unknown;
      readonly counted: boolean;
    }
  | {
      /** Its handler failed after a transaction of its own had settled the job as done. It stays done, and is not tried again. */
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
  | {
      readonly type: 'database.error';
      readonly during: string;
      readonly error: unknown;
      readonly retryMs?: number;
    };

/** So many jobs of each queue and task. */
export function countByTask(
  jobs: readonly { readonly queue: string; readonly task: string }[],
): readonly { readonly queue: string; readonly task: string; readonly jobs: number }[] {
  const queues = new Map<string, Map<string, number>>();
  const add = (queue: string, task: string, count: number): void => {
    const tasks = queues.get(queue) ?? new Map<string, number>();
    queues.set(queue, tasks.set(task, (tasks.get(task) ?? 0) + count));
  };
  // jobs of one kind mostly stand side by side
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

/** Gets every event of a process, synchronously; must not throw (what it throws is dropped). */
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
  'database.error': 'warn',
};

/** Turns events into log lines: the one place where pgqueue logs. A settled job that failed is a warning, a dead one an error; a reign that ends by `stop` is neither. */
export function logObserver(logger: Logger): Observer {
  return (event) => {
    const { type, ...data } = event;
    const level = levelOf(event);
    logger[level](loggedFields(data), type);
  };
}

/** Several observers as one; what one throws does not reach the others. */
export function allObservers(...observers: readonly (Observer | undefined)[]): Observer {
  return (event) => {
    for (const observer of observers) {
      try {
        observer?.(event);
      } catch {
        // an observer is the user's code: its failure must not stop a scheduler or a worker
      }
    }
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

/** Terminal statuses: a job that has one never leaves it, but for a redrive of a dead one. */
export const terminalStatuses: readonly JobStatus[] = ['done', 'cancelled', 'expired', 'dead'];
