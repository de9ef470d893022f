import type { IsolatedOptions } from '@pgqueue/core';
import { Tinypool } from 'tinypool';
import type { ChildInput } from './protocol.ts';

/** Processes, kept for the next attempt. */
export interface ChildPool {
  /** Resolves when the child has ended the attempt; rejects when it has died, or was killed. */
  readonly run: (attempt: {
    readonly input: ChildInput;
    readonly killed: AbortSignal;
    readonly channel: {
      readonly postMessage: (message: unknown) => void;
      readonly onMessage: (send: (message: unknown) => void) => void;
    };
  }) => Promise<void>;
  /** Which process has taken an attempt. */
  readonly began: (attempt: object, pid: number) => void;
  /** In words, of one that died. */
  readonly whyGone: (attempt: object, error: unknown) => string;
  readonly close: () => Promise<void>;
}

/** An idle one ends after this time. */
const idleMs = 10_000;
/** The node's slots are the limit: there is no other here. */
const childrenMax = 10_000;

interface ProcessOfPool {
  readonly process?: {
    readonly pid?: number;
    readonly exitCode: number | null;
    readonly signalCode: string | null;
  };
}

export function openPool({ memoryMb }: IsolatedOptions): ChildPool {
  const pool = new Tinypool({
    // two literals: bundlers that look for such files find the one that is there
    filename: (import.meta.url.endsWith('.ts')
      ? new URL('./child.ts', import.meta.url)
      : new URL('./child.js', import.meta.url)
    ).href,
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
  const starting = new Set<AbortController>();
  // of one without an attempt: it died idle, or while it started
  pool.on('error', () => {
    for (const dead of starting) dead.abort();
  });

  return {
    run: async ({ input, killed, channel }) => {
      const start = new AbortController();
      starting.add(start);
      try {
        await pool.run(input, { signal: AbortSignal.any([killed, start.signal]), channel });
      } finally {
        starting.delete(start);
      }
    },
    began: (attempt, pid) => {
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
