/**
 * Thread that sends a node's heartbeats, started by the worker. It goes on while a handler blocks the main
 * thread, and then reports on stderr which jobs were running. A bundler needs this file as an entry of its
 * own.
 * @module
 */
import { writeSync } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';
import type { MessagePort } from 'node:worker_threads';
import { heartbeatNode, openLone } from '@pgqueue/postgres/internal/heartbeat';
import type { BeatInput, FromThread, ThreadData, ToThread } from './thread-protocol.ts';
import { idleTickMsOf, sentError, SharedMarks, sharedNowMs, tickMsOf } from './thread-protocol.ts';

/** Runs the thread, over the port to the worker that started it. */
export function beatInThread(port: MessagePort, data: ThreadData): void {
  const { node, heartbeatMs, blockedMs, shared } = data;
  const marks = new SharedMarks(shared);
  // Others take the node for dead soon after its session has ended. So a broken session is answered at once,
  // even while the main thread is blocked.
  const database = openLone({ ...data, onBroken: () => later(0) });
  let known: BeatInput | undefined;
  let alone: NodeJS.Timeout | undefined;
  let failures = 0;
  let last: Promise<unknown> = Promise.resolve();

  const say = (message: FromThread): void => port.postMessage(message);

  const beat = async (input: BeatInput): Promise<FromThread & { readonly kind: 'beaten' }> => {
    const sentAt = sharedNowMs();
    const answer = await heartbeatNode(database, { ...input, node, pid: await database.pid() });
    if (answer.alive) marks.stamp('beat', sentAt);
    else if (known?.incarnation === input.incarnation) known = undefined;
    return { kind: 'beaten', number: 0, answer };
  };

  /** Runs statements one after another, as one connection requires. */
  const inTurn = (work: () => Promise<void>): void => {
    last = last.then(work, work);
  };

  /**
   * Schedules a heartbeat of the thread's own. If the main thread has not asked for one by then, something is
   * blocking it, and the node must not be lost by that.
   */
  const later = (ms: number): void => {
    clearTimeout(alone);
    if (known !== undefined) alone = setTimeout(beatAlone, ms);
  };
  const beatAlone = (): void =>
    inTurn(async () => {
      if (known === undefined) return;
      failures = await beat(known).then(
        () => 0,
        () => failures + 1, // the main thread asks once it can, and gets the error then
      );
      later(failures > 0 ? Math.min(1_000, heartbeatMs, 100 * 2 ** failures) : heartbeatMs);
    });

  port.on('message', (message: ToThread) => {
    clearTimeout(alone);
    if (message.kind === 'stand-down') {
      known = undefined;
      return;
    }
    known = { ...message.input, running: message.input.leases.length, leases: [] };
    if (message.kind === 'know') return later(heartbeatMs * 1.5);
    const { number, input } = message;
    inTurn(async () => {
      try {
        say({ ...(await beat(input)), number });
        later(heartbeatMs * 1.5);
      } catch (error) {
        say({ kind: 'failed', number, error: sentError(error) });
        later(Math.min(1_000, heartbeatMs) * 1.5);
      }
    });
  });
  if (blockedMs > 0) watch(marks, node, blockedMs);
  say({ kind: 'ready' });
}

/**
 * Reports a main thread whose stamps are too old. The time between reports doubles, so that an endless loop
 * does not fill the log.
 */
function watch(marks: SharedMarks, node: string, blockedMs: number): void {
  let sayAtMs = blockedMs;
  const look = (): void => {
    // A process that was frozen as a whole has not kept anybody waiting.
    const frozen = marks.ageMs('thread') > blockedMs;
    marks.stamp('thread');
    const ageMs = marks.ageMs('main');
    if (ageMs === Infinity) return; // no handler runs
    if (ageMs < blockedMs || frozen) sayAtMs = Math.max(blockedMs, frozen ? ageMs * 2 : 0);
    else if (ageMs >= sayAtMs) {
      sayAtMs = ageMs * 2;
      const line = {
        level: 'warn',
        time: Date.now(),
        node,
        blockedMs: Math.round(ageMs),
        jobs: marks.running,
      };
      try {
        // Writes to file descriptor 2, since process.stderr needs the main thread.
        writeSync(2, `${JSON.stringify({ ...line, msg: 'node.blocked' })}\n`);
      } catch {
        // Nobody reads stderr at the moment; the event follows when the block ends.
      }
    }
  };
  const lookOn = (): void => {
    look();
    const idle = marks.ageMs('main') === Infinity;
    setTimeout(lookOn, idle ? idleTickMsOf(blockedMs) : tickMsOf(blockedMs));
  };
  marks.stamp('thread');
  lookOn();
}

/** Reports whether the thread data is that of a node: a foreign thread may import this module, too. */
function isOurs(data: Partial<ThreadData> | null | undefined): data is ThreadData {
  return data?.shared instanceof SharedArrayBuffer && typeof data.heartbeatMs === 'number';
}

const given = workerData as Partial<ThreadData> | null | undefined;
if (parentPort !== null && isOurs(given)) beatInThread(parentPort, given);
