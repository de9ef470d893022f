import { within } from '@pgqueue/core';
import type { Executor } from '../connection/executor.ts';

/** The channels of a schema. `queue`: jobs were enqueued; `work`: a batch was written (payload: pool); `done`: slots are free (payload: the jobs that ended, as far as they are few; empty: others, too);
 * `cancel`: running jobs are to be cancelled; `leader`: the leading scheduler has resigned. */
export type HintChannel = 'queue' | 'work' | 'done' | 'cancel' | 'leader';

/** The NOTIFY channel of a schema's hints of one kind. */
export function channelName(schema: string, channel: HintChannel): string {
  return `${schema}:${channel}`;
}

/** A sender of hints, made by {@link createHints}. */
export interface Hints {
  /**
   * Asks for a hint soon; over time at most one per interval is sent, from outside any transaction. Never throws, never waits; nothing after `stop`.
   * `ids`: all that it is about; hints that are sent as one tell them only where each does, and they are few.
   */
  readonly send: (ids?: readonly string[]) => void;
  /** Whether the statement that is about to run may carry the hint itself; whoever got a yes says with `rode` what became of it. */
  readonly ride: () => boolean;
  /** `sent`: the hint was committed; else it goes by itself, about `ids`. */
  readonly rode: (sent: boolean, ids?: readonly string[]) => void;
  readonly stop: () => Promise<void>;
}

/** Ids that one hint tells at most. */
const toldMax = 64;
/** One that was carried has cost next to nothing: so soon the next one may go. */
const riddenMs = 1;
/** So many go one after the other where none was sent for so many intervals: two jobs that come together need not wait for each other. */
const burstMax = 4;
/** How long a hint that is under way is waited for. */
const stopMs = 1_000;

/**
 * Sends hints on one channel, one after the other, and over time at most one per `intervalMs`: a NOTIFY in every enqueue or settle
 * would serialise their commits. The first few go out at once.
 */
export function createHints(executor: Executor, schema: string, channel: HintChannel, intervalMs = 5): Hints {
  const name = channelName(schema, channel);
  let timer: NodeJS.Timeout | undefined;
  let again = false;
  /** What the next one tells; null: nothing. */
  let told: readonly string[] | null = [];
  let busy = false;
  let stopped = false;
  /** Hints that may go at once, as of `countedAt`. */
  let saved = burstMax;
  let countedAt = performance.now();
  let sending: Promise<unknown> = Promise.resolve();

  const tell = (ids: readonly string[] | undefined): void => {
    const all = ids === undefined || told === null ? null : [...told, ...ids];
    told = all === null || all.length > toldMax ? null : all;
  };

  const now = (): void => {
    saved = Math.min(burstMax, saved + (performance.now() - countedAt) / intervalMs);
    const payload = told?.join(',') ?? '';
    [again, busy, told] = [false, true, []];
    sending = executor
      .query("select set_config('synchronous_commit', 'off', true), pg_notify($1, $2)", [name, payload])
      .catch(() => []) // a hint that is lost costs one polling interval
      .then(answered);
  };

  const answered = (): void => {
    saved -= 1;
    // counted from the answer: a slow database must not have a connection taken up by hints all the time
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
    send: (ids) => {
      tell(ids);
      again = true;
      if (!busy && !stopped) now();
    },
    ride: () => {
      if (busy || stopped) return false;
      busy = true;
      return true;
    },
    rode: (sent, ids) => {
      if (sent) return rest(Math.min(riddenMs, intervalMs));
      tell(ids);
      if (!stopped) now();
    },
    stop: async () => {
      stopped = true;
      clearTimeout(timer);
      await within(stopMs, sending);
    },
  };
}
