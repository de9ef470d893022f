import { fork } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { within } from '@pgqueue/core';
import type { Logger } from '@pgqueue/core';

/** A process beside a worker, which is started again whenever it ends. */
export interface Reserve {
  readonly start: () => void;
  /** Lets it finish what it runs, and leave. */
  readonly stop: () => Promise<void>;
  /** Ends it at once. */
  readonly kill: () => void;
}

export interface ReserveParts {
  /** Of this command, for the other process. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** It is killed when it takes longer to stop. */
  readonly stopMs: number;
  readonly logger: Logger;
}

/** Until it is started again; twice as long each time that it lived for less than `steadyMs`. */
const pauseMs = { first: 100, most: 30_000 };
const steadyMs = 60_000;

/**
 * Runs this command once more, as a process of its own: what it runs can kill it, and not the worker beside it; nor does it end with a
 * worker that was killed. It writes its log to the same stderr, and nothing else.
 */
export function createReserve({ args, env, stopMs, logger }: ReserveParts): Reserve {
  let child: ChildProcess | undefined;
  let again: NodeJS.Timeout | undefined;
  let pause = pauseMs.first;
  let stopping = false;

  const start = (): void => {
    if (stopping) return;
    const [, command = ''] = process.argv;
    const began = performance.now();
    const one = fork(command, args, {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    child = one;
    const over = (why: object): void => {
      if (child !== one) return;
      child = undefined;
      if (stopping) return;
      pause = performance.now() - began < steadyMs ? Math.min(2 * pause, pauseMs.most) : pauseMs.first;
      logger.warn({ ...why, againInMs: pause }, 'reserve.ended');
      again = setTimeout(start, pause);
    };
    one.once('exit', (code, signal) => over({ code, signal }));
    one.on('error', (error) => over({ err: error }));
    logger.info({ reserve: one.pid }, 'reserve.started');
  };

  return {
    start,
    stop: async () => {
      stopping = true;
      clearTimeout(again);
      if (child === undefined) return;
      const one = child;
      const exited = new Promise<void>((resolve) => void one.once('exit', () => resolve()));
      if (one.connected) one.disconnect();
      if (await within(stopMs, exited)) return;
      logger.warn({ reserve: one.pid }, 'reserve.killed');
      one.kill('SIGKILL');
      await exited;
    },
    kill: () => void child?.kill('SIGKILL'),
  };
}
