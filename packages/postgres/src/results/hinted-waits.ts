import type { Observer } from '@pgqueue/core';
import type { Database } from '../connection/database.ts';
import type { HintChannel } from '../hints/hints.ts';
import { channelName } from '../hints/hints.ts';
import type { Listener } from '../hints/listener.ts';
import { startListener } from '../hints/listener.ts';
import type { Waited, WaitsParts } from './waits.ts';
import { Waits } from './waits.ts';

/** Parts that the waits for jobs and those for flows have in common. */
export interface HearingParts {
  readonly database: Database;
  /** Direct connection that hears hints; undefined: the waits poll. */
  readonly connectionString: string | undefined;
  readonly applicationName: string;
  readonly observe: Observer;
  /** Checks the schema before the first statement. */
  readonly verify: () => Promise<unknown>;
}

export interface HintedWaitsParts<State>
  extends HearingParts, Pick<WaitsParts<State>, 'look' | 'hasEnded' | 'pause'> {
  /** Channel whose payloads list what has ended; an empty one: something has. */
  readonly channel: HintChannel;
}

/** Waits by hint and by polling. Made by {@link createHintedWaits}. */
export interface HintedWaits<State> {
  /** See {@link Waits.wait}. */
  readonly wait: (id: string, timeoutMs: number, signal?: AbortSignal) => Promise<Waited<State>>;
  /** Rejects all waits, and closes the connection that hears hints. */
  readonly stop: (error: Error) => Promise<void>;
}

/** Time without waits after which the connection that hears hints is closed, in milliseconds. */
const idleMs = 30_000;

/** Creates waits. Opens no connection before somebody waits. */
export function createHintedWaits<State>(parts: HintedWaitsParts<State>): HintedWaits<State> {
  const { look, hasEnded, observe, verify, pause } = parts;
  const hearing = createHearing(parts, (ids) => waits.hint(ids));
  const waits = new Waits<State>({
    look: async (ids, exact) => {
      await verify();
      return look(ids, exact);
    },
    hasEnded,
    onError: (error, retryMs) => observe({ type: 'database.error', during: 'result', error, retryMs }),
    onWaiting: hearing.need,
    ...(pause === undefined ? {} : { pause }),
  });
  return {
    wait: (id, timeoutMs, signal) => waits.wait(id, timeoutMs, signal),
    stop: async (error) => {
      waits.stop(error);
      await hearing.stop();
    },
  };
}

/** A connection that hears of ends, open while somebody waits. */
interface Hearing {
  readonly need: (needed: boolean) => void;
  readonly stop: () => Promise<void>;
}

function createHearing<State>(
  { database, connectionString, applicationName, channel, observe }: HintedWaitsParts<State>,
  hint: (ids?: readonly string[]) => void,
): Hearing {
  if (connectionString === undefined) return { need: () => {}, stop: () => Promise.resolve() };
  let listener: Listener | undefined;
  let closing: Promise<void> = Promise.resolve();
  let timer: NodeJS.Timeout | undefined;
  const close = (): void => {
    closing = listener?.stop() ?? closing;
    listener = undefined;
  };
  return {
    need: (needed) => {
      clearTimeout(timer);
      if (!needed) timer = setTimeout(close, idleMs).unref();
      else {
        listener ??= startListener({
          connectionString,
          channels: [channelName(database.schema, channel)],
          onHint: (_channel, payload) => hint(payload === '' ? undefined : payload.split(',')),
          onError: (error) => observe({ type: 'database.error', during: 'listen', error }),
          applicationName,
        });
      }
    },
    stop: async () => {
      clearTimeout(timer);
      close();
      await closing;
    },
  };
}
