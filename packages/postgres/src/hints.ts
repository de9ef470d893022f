import { within } from '@pgqueue/core';
import type { Executor } from './executor.ts';

/** The channels of a schema. `queue`: jobs were enqueued; `work`: a batch was written (payload: pool); `done`: slots are free;
 * `cancel`: running jobs are to be cancelled; `leader`: the leading scheduler has resigned. */
export type HintChannel = 'queue' | 'work' | 'done' | 'cancel' | 'leader';

/** The NOTIFY channel of a schema's hints of one kind. */
export function channelName(schema: string, channel: HintChannel): string {
  return `${schema}:${channel}`;
}

/** A sender of hints, made by {@link createHints}. */
export interface Hints {
  /** Asks for a hint soon; at most one per interval is sent, from outside any transaction. Never throws, never waits; nothing after `stop`. */
  readonly send: () => void;
  readonly stop: () => Promise<void>;
}

/** How long a hint that is under way is waited for. */
const stopMs = 1_000;

/**
 * Sends hints on one channel, at most one per `intervalMs`: a NOTIFY in every enqueue or settle would serialise their
 * commits. The first goes out at once.
 */
export function createHints(executor: Executor, schema: string, channel: HintChannel, intervalMs = 5): Hints {
  const name = channelName(schema, channel);
  let timer: NodeJS.Timeout | undefined;
  let again = false;
  let busy = false;
  let stopped = false;
  let sending: Promise<unknown> = Promise.resolve();

  const now = (): void => {
    again = false;
    busy = true;
    sending = executor
      .query("select set_config('synchronous_commit', 'off', true), pg_notify($1, '')", [name])
      .catch(() => []) // a hint that is lost costs one polling interval
      .then(() => {
        // counted from the answer: a slow database must not have all its connections taken up by hints
        if (!stopped) timer = setTimeout(next, intervalMs).unref();
      });
  };

  const next = (): void => {
    busy = false;
    if (again) now();
  };

  return {
    send: () => {
      again = true;
      if (!busy && !stopped) now();
    },
    stop: async () => {
      stopped = true;
      clearTimeout(timer);
      await within(stopMs, sending);
    },
  };
}
