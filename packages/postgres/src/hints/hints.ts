import { within } from '@pgqueue/core/internal';
import type { Executor } from '../connection/executor.ts';

/**
 * Hint channels of a schema.
 * - `queue`: jobs were enqueued (payload: a list of what `enqueueAndHint` tells of each if they are few; empty: the list is
 *   incomplete).
 * - `work`: work items are ready (payload: their pool, or a JSON list of it and the nodes that are to claim; empty: of any
 *   pool, and released ones, too).
 * - `done`: slots are free (payload: the ids of the ended jobs if they are few; empty: the list is
 *   incomplete).
 * - `cancel`: running jobs are to be cancelled.
 * - `flow`: flows have ended (payload: their ids), or one was signalled, cancelled or retried (empty; also if
 *   more than 64 have ended).
 * - `leader`: the leading scheduler has resigned.
 */
export type HintChannel = 'queue' | 'work' | 'done' | 'cancel' | 'flow' | 'leader';

/** Returns the NOTIFY channel of a schema's hints of one kind. */
export function channelName(schema: string, channel: HintChannel): string {
  return `${schema}:${channel}`;
}

/**
 * Returns SQL for whether a commit may carry a hint: one does at a time, since they wait for each other, and none while the server's
 * queue of notifications is nearly full. `channel`: a parameter, by its number.
 */
export function mayHint(channel: string): string {
  return `pg_try_advisory_xact_lock(hashtextextended(${channel}, 0)) and pg_notification_queue_usage() < 0.9`;
}

/** Reports whether a hint of ready work items tells this node to claim. */
export function wakes(
  payload: string,
  { pool, node }: { readonly pool: string; readonly node: string },
): boolean {
  if (payload === '' || payload === pool) return true;
  if (!payload.startsWith('["')) return false;
  try {
    const [of, ...nodes] = JSON.parse(payload) as readonly unknown[];
    return of === pool && nodes.includes(node);
  } catch {
    return false; // a pool of such a name, or anyone's text
  }
}

/** A sender of hints, made by {@link createHints}. */
export interface Hints {
  /**
   * Requests a hint. Hints are sent outside any transaction, at most one per interval on average. Never
   * throws, never waits; does nothing after `stop`.
   * `jobs`: all jobs that the hint is about, as its channel lists them. A hint that answers several requests lists
   * jobs only if every request gave them, and 64 at most.
   */
  readonly send: (jobs?: readonly string[]) => void;
  /** Reports whether the next hint would list so many jobs that are sent now. */
  readonly lists: (jobs: number) => boolean;
  /**
   * Reports whether the statement about to run may carry the hint itself. After true the caller must call
   * `rode`, whatever the statement's outcome: until then no hint is sent.
   */
  readonly ride: () => boolean;
  /**
   * Ends a `ride`. `sent`: the statement committed its hint, and the next one may carry one, too; otherwise a separate hint
   * about `jobs` is sent.
   */
  readonly rode: (sent: boolean, jobs?: readonly string[]) => void;
  readonly stop: () => Promise<void>;
}

/** Maximum number of jobs in one hint. */
const toldMax = 64;
/** The same of jobs that were enqueued: where they come faster, describing all of them costs more than a read. */
const enqueuedMax = 16;
/** Maximum length of a list of jobs in bytes: PostgreSQL takes payloads of less than 8,000. */
export const hintBytesMax = 7_900;
/**
 * Maximum number of hints sent back to back; each idle interval saves one. Two jobs that arrive together need
 * not wait for each other.
 */
const burstMax = 4;
/** Longest wait of `stop` for a hint that is being sent, in milliseconds. */
const stopMs = 1_000;

/** Default interval of hints, in milliseconds. Those of new jobs list them, and each of the jobs waits for its hint. */
const intervals = { queue: 1.5, others: 3 } as const;

/**
 * Creates a sender of hints on one channel. Hints are sent one at a time, and those in statements of their own at most one
 * per `intervalMs` on average; the first four of them at once. A statement that may not carry its hint (`mayHint`) leaves it
 * to one of those, so commits do not wait for each other.
 */
export function createHints(
  executor: Executor,
  schema: string,
  channel: HintChannel,
  intervalMs: number = channel === 'queue' ? intervals.queue : intervals.others,
): Hints {
  const name = channelName(schema, channel);
  let timer: NodeJS.Timeout | undefined;
  let again = false;
  /** Jobs that the next hint lists; null: it lists none. */
  let told: readonly string[] | null = [];
  let busy = false;
  let stopped = false;
  /** Hints that may be sent at once, as of `countedAt`: the tokens of a token bucket. */
  let saved = burstMax;
  let countedAt = performance.now();
  let sending: Promise<unknown> = Promise.resolve();

  const tell = (jobs: readonly string[] | undefined): void => {
    const all = jobs === undefined || told === null ? null : [...told, ...jobs];
    told = all === null || all.length > toldMax ? null : all;
  };

  const now = (): void => {
    saved = Math.min(burstMax, saved + (performance.now() - countedAt) / intervalMs);
    const payload = payloadOf(channel, told?.join() ?? '');
    [again, busy, told] = [false, true, []];
    sending = executor
      .query("select set_config('synchronous_commit', 'off', true), pg_notify($1, $2)", [name, payload])
      .catch(() => []) // a lost hint costs one polling interval
      .then(answered);
  };

  const answered = (): void => {
    saved -= 1;
    // counted from the answer: hints must not occupy a connection of a slow database all the time
    countedAt = performance.now();
    rest(saved >= 1 ? 0 : (1 - saved) * intervalMs);
  };

  const rest = (ms: number): void => {
    if (stopped) return;
    if (ms === 0) next();
    else timer = setTimeout(next, ms).unref();
  };

  const next = (): void => {
    busy = false;
    if (again) now();
  };

  return {
    send: (jobs) => {
      tell(jobs);
      again = true;
      if (!busy && !stopped) now();
    },
    lists: (jobs) => told !== null && told.length + jobs <= enqueuedMax,
    ride: () => {
      if (busy || stopped) return false;
      busy = true;
      return true;
    },
    rode: (sent, jobs) => {
      if (sent) return rest(0);
      tell(jobs);
      if (!stopped) now();
    },
    stop: async () => {
      stopped = true;
      clearTimeout(timer);
      await within(stopMs, sending);
    },
  };
}

function payloadOf(channel: HintChannel, listed: string): string {
  if (listed === '' || Buffer.byteLength(listed) > hintBytesMax) return '';
  return channel === 'queue' ? `[${listed}]` : listed;
}
