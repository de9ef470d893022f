import { existsSync } from 'node:fs';
import type { IsolatedOptions } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import { Tinypool } from 'tinypool';
import type { ChildInput } from './protocol.ts';

/** Child processes, kept for the next attempt. */
export interface ChildPool {
  /** Runs an attempt. Resolves when the child has ended it; rejects when the child died or was killed. */
  readonly run: (run: {
    readonly attempt: object;
    readonly input: ChildInput;
    readonly killed: AbortSignal;
    readonly channel: {
      readonly postMessage: (message: unknown) => void;
      readonly onMessage: (send: (message: unknown) => void) => void;
    };
  }) => Promise<void>;
  /** Records which process has taken an attempt. */
  readonly began: (attempt: object, pid: number) => void;
  /** Describes how the process of an attempt died. */
  readonly whyGone: (attempt: object, error: unknown) => string;
  readonly close: () => Promise<void>;
}

/** Problem of a worker with isolated handlers, where {@link childModule} finds nothing. */
export const noChild =
  'isolated handlers need files of @pgqueue/worker, which a bundler has left out: keep it external to the bundle';

/** Time after which an idle process ends. */
const idleMs = 10_000;
/** The pool sets no limit of its own: the node's slots are the limit. */
const childrenMax = 10_000;

interface ProcessOfPool {
  readonly process?: {
    readonly pid?: number;
    readonly exitCode: number | null;
    readonly signalCode: string | null;
    readonly kill: (signal: NodeJS.Signals) => void;
  };
}

/** Returns the main module of the processes; undefined: a bundler has moved this code away from it. */
export function childModule(): URL | undefined {
  const here = import.meta.url as string | undefined; // undefined in a bundle that is CommonJS
  if (here === undefined) return undefined;
  // A literal for the built file alone: webpack and Next.js look for the file of every such literal, and fail without it.
  const child = here.endsWith('.ts')
    ? new URL(here.replace(/[^/]+$/, 'child.ts'))
    : new URL('./child.js', import.meta.url);
  // They copy it under another name, without what it imports.
  return /\/child\.[jt]s$/.test(child.pathname) && existsSync(child) ? child : undefined;
}

export function openPool({ memoryMb }: IsolatedOptions): ChildPool {
  const child = childModule();
  if (child === undefined) throw new PgQueueError('configuration', noChild);
  const pool = new Tinypool({
    filename: child.href,
    name: 'runAttempt',
    runtime: 'child_process',
    minThreads: 0,
    maxThreads: childrenMax,
    concurrentTasksPerWorker: 1,
    idleTimeout: idleMs,
    serialization: 'advanced',
    env: { ...process.env } as Record<string, string>,
    ...(memoryMb === undefined
      ? {}
      : { execArgv: [...process.execArgv, `--max-old-space-size=${memoryMb}`] }),
  });
  const processes = new WeakMap<object, ProcessOfPool>();
  const starting = new Map<object, AbortController>();
  // Emitted for a process without an attempt: it died while idle, or while it started. The event does not
  // name the process, so every attempt that no process has begun is aborted.
  pool.on('error', () => {
    for (const start of starting.values()) start.abort();
  });

  return {
    run: async ({ attempt, input, killed, channel }) => {
      const start = new AbortController();
      starting.set(attempt, start);
      const kill = (): void => processes.get(attempt)?.process?.kill('SIGKILL');
      killed.addEventListener('abort', kill, { once: true }); // the pool's own SIGTERM ends only what is idle
      try {
        await pool.run(input, { signal: AbortSignal.any([killed, start.signal]), channel });
      } finally {
        starting.delete(attempt);
      }
    },
    began: (attempt, pid) => {
      starting.delete(attempt);
      const own = (pool.threads as readonly ProcessOfPool[]).find((child) => child.process?.pid === pid);
      if (own !== undefined) processes.set(attempt, own);
    },
    whyGone: (attempt, error) => {
      const { exitCode = null, signalCode = null } = processes.get(attempt)?.process ?? {};
      if (signalCode !== null) return `its process was ended by ${signalCode}`;
      if (exitCode !== null) return `its process ended with exit code ${exitCode}`;
      const why = error instanceof Error ? error.message : String(error);
      return `its process died: ${why}`;
    },
    close: () => pool.destroy(),
  };
}
