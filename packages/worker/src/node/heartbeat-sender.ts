import { errorData, errorLine, retryPauseMs } from '@pgqueue/core/internal';
import type { Heartbeat } from '@pgqueue/postgres/internal';
import { heartbeatNode, openLone, warn } from '@pgqueue/postgres/internal';
import type { ThreadLink, ThreadParts } from './thread-link.ts';
import { connectionOf, openThread } from './thread-link.ts';
import type { BeatInput } from './thread-protocol.ts';
import { sharedNowMs } from './thread-protocol.ts';

/**
 * Sends heartbeats from a thread with a connection of its own. While that thread starts, or cannot start, the
 * main thread sends them. If the main thread asks for no heartbeat when it should, a handler is blocking it,
 * and the thread goes on by itself.
 *
 * The end of that connection's session shows others that the process was killed. The main thread has a
 * session of its own while it sends the heartbeats, since processes die early, too.
 */
export interface HeartbeatSender {
  readonly start: () => void;
  readonly send: (input: BeatInput) => Promise<Heartbeat>;
  /** Keeps nothing alive any more: the incarnation is over. */
  readonly standDown: () => void;
  readonly stop: () => Promise<void>;
}

const restartMaxMs = 60_000;

export function createHeartbeatSender(parts: ThreadParts): HeartbeatSender {
  const { settings, marks } = parts;
  const { node, observe } = settings;
  let link: ThreadLink | undefined;
  let restart: NodeJS.Timeout | undefined;
  let failures = 0;
  /** The thread has worked once, or a warning says that it does not. */
  let told = false;
  const own = openLone({ ...connectionOf(parts), onBroken: parts.beatNow });

  const failed = (error: unknown): void => {
    link = undefined;
    failures += 1;
    const retryMs = retryPauseMs(failures, restartMaxMs);
    observe({ type: 'node.thread_failed', node, error, retryMs });
    if (!told) {
      const why = errorLine(errorData(error));
      warn(
        'PGQUEUE_NO_HEARTBEAT_THREAD',
        `the heartbeat thread of node ${node} has failed: ${why}. A handler that blocks the event loop can lose the node. If a bundler has moved the thread's file, give its URL as heartbeatThread`,
      );
      told = true;
    }
    restart = setTimeout(start, retryMs).unref();
    parts.beatNow();
  };
  const start = (): void => {
    if (settings.heartbeatThread === false) return;
    try {
      link = openThread(parts, failed);
    } catch (error) {
      failed(error);
    }
  };

  return {
    start,
    send: async (input) => {
      if (link?.ready() === true) {
        const answer = await link.beat(input);
        failures = 0;
        told = true;
        own.close(); // the thread's heartbeat has named its own session
        return answer;
      }
      link?.tell({ kind: 'know', input }); // the thread reads this once it has started
      const sentAt = sharedNowMs();
      const answer = await heartbeatNode(own, { ...input, node, pid: await own.pid() });
      if (answer.alive) marks.stamp('beat', sentAt);
      return answer;
    },
    standDown: () => link?.tell({ kind: 'stand-down' }),
    stop: async () => {
      clearTimeout(restart);
      own.close();
      await link?.end();
    },
  };
}
