import type { IsolatedOptions } from '@pgqueue/core';
import { Tinypool } from 'tinypool';
import type { ChildInput } from './words.ts';

/** Threads or processes, kept for the next attempt. */
export interface ChildPool {
  readonly in: IsolatedOptions['in'];
  /** Resolves when the child has ended the attempt; rejects when it has died, or was killed. */
  readonly run: (attempt: {
    readonly input: Omit<ChildInput, 'port'>;
    readonly killed: AbortSignal;
    readonly port?: ChildInput['port'] & object;
    readonly channel?: {
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

export function openPool({ in: place, memoryMb }: IsolatedOptions): ChildPool {
  const pool = new Tinypool({
    // two literals: bundlers that look for such files find the one that is there
    filename: (import.meta.url.endsWith('.ts')
      ? new URL('./child.ts', import.meta.url)
      : new URL('./child.js', import.meta.url)
    ).href,
    name: 'runAttempt',
    runtime: place === 'process' ? 'child_process' : 'worker_threads',
    minThreads: 0,
    maxThreads: childrenMax,
    concurrentTasksPerWorker: 1,
    idleTimeout: idleMs,
    useAtomics: false, // a thread that waits by them hears nothing else
    serialization: 'advanced',
    ...(place === 'process' ? { env: { ...process.env } as Record<string, string> } : {}),
    ...memoryOptions(place, memoryMb),
  });
  const processes = new WeakMap<object, ProcessOfPool>();
  const starting = new Set<AbortController>();
  // of one without an attempt: it died idle, or while it started
  pool.on('error', () => {
    for (const dead of starting) dead.abort();
  });

  return {
    in: place,
    run: async ({ input, killed, port, channel }) => {
      const start = new AbortController();
      starting.add(start);
      try {
        await pool.run(port === undefined ? input : { ...input, port }, {
          signal: AbortSignal.any([killed, start.signal]),
          ...(port === undefined ? {} : { transferList: [port] }),
          ...(channel === undefined ? {} : { channel }),
        });
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
      return place === 'process' ? `its process died: ${why}` : `its thread died: ${why}`;
    },
    close: () => pool.destroy(),
  };
}

function memoryOptions(
  place: IsolatedOptions['in'],
  memoryMb: number | undefined,
): Pick<NonNullable<ConstructorParameters<typeof Tinypool>[0]>, 'execArgv' | 'resourceLimits'> {
  if (memoryMb === undefined) return {};
  if (place === 'thread') return { resourceLimits: { maxOldGenerationSizeMb: memoryMb } };
  return { execArgv: [...process.execArgv, `--max-old-space-size=${memoryMb}`] };
}
