import { setTimeout as delay } from 'node:timers/promises';
import type { AbortReason, Observer, SingleTaskHandler } from '@pgqueue/core';
import type { ClaimedJob } from '@pgqueue/core/internal';
import { PgQueueError } from '@pgqueue/core';
import type { Database } from '@pgqueue/postgres';
import type { Target } from '@pgqueue/postgres/internal';
import type { Attempt } from '../attempt/attempt.ts';
import { Bag } from '../lease/bag.ts';
import type { Around } from '../run/around.ts';
import { aroundHandler } from '../run/around.ts';
import { createExecutor } from '../run/executor.ts';
import { createFloating } from '../attempt/unhandled-rejections.ts';
import { createIsolation } from '../isolation/isolation.ts';
import type { WorkerLogger } from '../options.ts';
import { createSettler, noHints } from '../settle/settler.ts';
import type { Transactions } from '../attempt/transaction/transaction.ts';
import { createTransactions } from '../attempt/transaction/transaction.ts';

/** Longest wait for a handler whose attempt was aborted and is over. */
const graceMs = 1_000;

/** Options of {@link runAttempt}. */
export interface LoneAttemptOptions {
  readonly handler: SingleTaskHandler;
  /** Middleware around the handler. */
  readonly around?: Around;
  /** The leased job; its lease begins now. */
  readonly job: ClaimedJob;
  /** Target of the statements about the lease: extend, settle and so on. */
  readonly database: Target;
  /** Connections for `ctx.transaction`; without a pool it is refused. */
  readonly pool?: Database['pool'];
  readonly observe: Observer;
  readonly logger?: WorkerLogger;
}

/** One attempt under way. */
export interface LoneAttempt {
  /**
   * Resolves when the handler has returned and its settlement was answered. Waits a second at most for a handler that goes
   * on after a timeout or a lost lease.
   */
  readonly ended: Promise<void>;
  /** Aborts the attempt for a reason, as a worker would. */
  readonly abort: (reason: AbortReason) => void;
}

/** Runs one leased job as a worker does, from the check of its payload to its settlement. */
export function runAttempt(options: LoneAttemptOptions): LoneAttempt {
  const { handler, around, job, database, pool, observe, logger } = options;
  const attempts = new Bag<Attempt>();
  const floating = createFloating('fail');
  const settler = createSettler({ database, observe, hints: noHints, onAccepted: () => {} });
  const isolation = createIsolation({ codec: undefined, observe });
  const transactions = pool === undefined ? refused : createTransactions(pool);
  const executor = createExecutor({
    handlers: new Map([[handler.task.name, aroundHandler(around, handler)]]),
    attempts,
    settler,
    hints: noHints,
    queueHints: noHints,
    isolation,
    observe,
    blocked: { call: (_job, run, ...given) => run(...given) },
    floating,
    database,
    transactions,
    codec: undefined,
    logger,
    onNext: () => {},
  });
  const run = async (): Promise<void> => {
    floating.open();
    try {
      const ran = executor.run([job], { claimedAt: performance.now() });
      await Promise.race([ran, executor.quiet()]);
      // one that its own transaction has settled, or that is suspended, was not aborted: its handler goes on to its end
      const isAborted = [...attempts].every(({ aborted }) => aborted !== undefined);
      await (isAborted ? withinGrace(ran) : ran);
      await settler.idle();
    } finally {
      transactions.destroy();
      await isolation.close();
    }
  };
  return {
    ended: run(),
    abort: (reason) => {
      for (const attempt of attempts) attempt.abort(reason);
    },
  };
}

/** Waits in real time: a test may have put timers of its own in place of the global ones. */
async function withinGrace(ran: Promise<void>): Promise<void> {
  const over = new AbortController();
  try {
    await Promise.race([ran, delay(graceMs, undefined, { signal: over.signal })]);
  } finally {
    over.abort();
  }
}

const refused: Transactions = {
  run: () =>
    Promise.resolve({
      kind: 'rolled_back',
      error: new PgQueueError('configuration', 'ctx.transaction needs a database, and none was given'),
    }),
  destroy: () => {},
};
