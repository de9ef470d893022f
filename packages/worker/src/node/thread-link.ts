import { Worker } from 'node:worker_threads';
import { within } from '@pgqueue/core/internal';
import type { DatabaseOptions } from '@pgqueue/postgres';
import type { Heartbeat, LoneOptions, Target } from '@pgqueue/postgres/internal';
import type { NodeSettings } from '../node-options.ts';
import type { BeatInput, FromThread, SharedMarks, ThreadData, ToThread } from './thread-protocol.ts';
import { receivedError } from './thread-protocol.ts';

export interface ThreadParts {
  readonly settings: NodeSettings;
  readonly databaseOptions: Omit<DatabaseOptions, 'pool'>;
  readonly database: Target;
  readonly queryTimeoutMs: number;
  readonly marks: SharedMarks;
  /**
   * Sends a heartbeat now: another session sends heartbeats from now on, or the present one has ended, and
   * others must know.
   */
  readonly beatNow: () => void;
}

/** Returns the options of the connection that is kept for heartbeats alone. */
export function connectionOf({
  settings,
  databaseOptions,
  database,
  queryTimeoutMs,
}: ThreadParts): LoneOptions {
  const { node, connectionString } = settings;
  const applicationName = `${databaseOptions.applicationName ?? `pgqueue ${node}`} heartbeat`;
  return { connectionString, schema: database.schema, applicationName, queryTimeoutMs };
}

/** One life of the heartbeat's thread. */
export interface ThreadLink {
  /** True once the thread has started, while it answers. */
  readonly ready: () => boolean;
  readonly tell: (message: Exclude<ToThread, { readonly kind: 'beat' }>) => void;
  readonly beat: (input: BeatInput) => Promise<Heartbeat>;
  readonly end: () => Promise<void>;
}

const stopMs = 1_000;
/** Time for an answer beyond the timeouts of its statements. */
const answerMs = 1_000;

/**
 * Starts the thread. `failed` is called once, if the thread ends without being told to.
 * @throws the errors of `new Worker`
 */
export function openThread(parts: ThreadParts, failed: (error: unknown) => void): ThreadLink {
  const { queryTimeoutMs } = parts;
  const thread = startThread(parts);
  const asked = new Map<number, PromiseWithResolvers<Heartbeat>>();
  let ready = false;
  let over = false;
  let number = 0;

  const post = (message: ToThread): void => {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
    thread.postMessage(message);
  };
  const end = (error: unknown): Promise<unknown> => {
    over = true;
    for (const { reject } of asked.values()) reject(error);
    return thread.terminate();
  };
  const fail = (error: unknown): void => {
    if (over) return;
    void end(error);
    failed(error);
  };

  thread.unref(); // the thread must not keep an idle process alive
  thread.on('error', fail);
  thread.on('exit', (code) => fail(new Error(`the heartbeat's thread ended with ${code}`)));
  thread.on('message', (message: FromThread) => {
    if (message.kind === 'ready') {
      ready = true;
      parts.beatNow();
      return;
    }
    const one = asked.get(message.number);
    if (message.kind === 'beaten') one?.resolve(message.answer);
    else one?.reject(receivedError(message.error));
  });

  return {
    ready: () => ready && !over,
    tell: post,
    beat: async (input) => {
      number += 1;
      const mine = number;
      const one = Promise.withResolvers<Heartbeat>();
      asked.set(mine, one);
      post({ kind: 'beat', number: mine, input });
      const inTime =
        (await within(2 * queryTimeoutMs + answerMs, one.promise)) ||
        // If this thread was too busy to read it, the answer is there, and arrives before the next timer.
        (await within(answerMs, one.promise));
      asked.delete(mine);
      if (!inTime) {
        const error = new Error("the heartbeat's thread does not answer");
        fail(error);
        throw error;
      }
      return one.promise;
    },
    end: async () => {
      await within(stopMs, end(new Error('the node is leaving')));
    },
  };
}

/** Starts the file beside this one that has the same ending: sources run as they are. */
function startThread(parts: ThreadParts): Worker {
  const { node, heartbeatThread, heartbeatMs, blockedMs } = parts.settings;
  const clocks = { heartbeatMs, blockedMs };
  const workerData: ThreadData = { ...connectionOf(parts), node, ...clocks, shared: parts.marks.buffer };
  const options = { workerData, name: 'pgqueue heartbeat' };
  if (typeof heartbeatThread !== 'boolean') return new Worker(heartbeatThread, options);
  const here = import.meta.url;
  // A literal for the built file alone: webpack and Next.js look for the file of every such literal, and fail without it.
  return here.endsWith('.ts')
    ? new Worker(new URL(here.replace(/[^/]+$/, 'heartbeat-thread.ts')), options)
    : new Worker(new URL('./heartbeat-thread.js', import.meta.url), options);
}
