import { retryPauseMs } from '@pgqueue/core';
import type { Heartbeat } from '@pgqueue/postgres';
import { heartbeatNode, openLone } from '@pgqueue/postgres';
import type { ThreadLink, ThreadParts } from './thread-link.ts';
import { connectionOf, openThread } from './thread-link.ts';
import type { BeatInput } from './thread-protocol.ts';
import { sharedNowMs } from './thread-protocol.ts';

/**
 * Sends heartbeats, from a thread and a connection of its own. While that thread starts, or can't, the main thread sends them. When
 * the main thread asks for none although it should, the thread goes on by itself: it is kept by a handler.
 *
 * The session of that connection shows, by its end, that the process was killed. The main thread has another one for as long as it beats
 * itself, since processes die early, too.
 */
export interface Beater {
  readonly start: () => void;
  readonly beat: (input: BeatInput) => Promise<Heartbeat>;
  /** The incarnation is over: nothing is to be kept alive. */
  readonly rest: () => void;
  readonly stop: () => Promise<void>;
}

const restartMaxMs = 60_000;

export function createBeater(parts: ThreadParts): Beater {
  const { settings, marks } = parts;
  const { node, observe } = settings;
  let link: ThreadLink | undefined;
  let restart: NodeJS.Timeout | undefined;
  let failures = 0;
  const own = openLone({ ...connectionOf(parts), onBroken: parts.beatNow });

  const failed = (error: unknown): void => {
    link = undefined;
    failures += 1;
    const retryMs = retryPauseMs(failures, restartMaxMs);
    observe({ type: 'node.thread_failed', node, error, retryMs });
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
    beat: async (input) => {
      if (link?.ready() === true) {
        const answer = await link.beat(input);
        failures = 0;
        own.close(); // the thread has named its own by now
        return answer;
      }
      link?.tell({ kind: 'know', input }); // it hears that when it has started
      const sentAt = sharedNowMs();
      const answer = await heartbeatNode(own, { ...input, node, pid: await own.pid() });
      if (answer.alive) marks.stamp('beat', sentAt);
      return answer;
    },
    rest: () => link?.tell({ kind: 'rest' }),
    stop: async () => {
      clearTimeout(restart);
      own.close();
      await link?.end();
    },
  };
}
