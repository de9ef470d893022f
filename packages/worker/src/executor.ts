import type { ClaimedJob, Observer } from '@pgqueue/core';
import { Attempt } from './attempt.ts';
import type { ContextParts } from './context.ts';
import { contextOf } from './context.ts';
import type { Ending } from './ending.ts';
import { conclude } from './ending.ts';
import type { WorkerSettings } from './options.ts';
import type { Settled, Settler } from './settler.ts';

export interface ExecutorParts extends Omit<ContextParts, 'onCommitted'> {
  readonly handlers: WorkerSettings['handlers'];
  /** Where those are kept whose handlers run. */
  readonly attempts: Set<Attempt>;
  readonly settler: Settler;
  readonly observe: Observer;
}

/** Runs claimed jobs, each to its one end. */
export interface Executor {
  /**
   * Resolves when the handler has really returned, so that its slot is not given away twice. What the queue is told does not
   * wait for that: a job past its timeout is settled at once, and what its handler does later is ignored.
   */
  readonly run: (job: ClaimedJob, claimedAt: number) => Promise<void>;
  /** Those whose handlers run. */
  readonly attempts: ReadonlySet<Attempt>;
  /** Resolves when every attempt is over, though handlers that ignore their signal may still run. */
  readonly quiet: () => Promise<void>;
}

export function createExecutor(parts: ExecutorParts): Executor {
  const { observe, settler, attempts } = parts;
  let whenQuiet: (() => void)[] = [];

  const isQuiet = (): boolean => [...attempts].every(({ over }) => over);
  const checkQuiet = (): void => {
    if (whenQuiet.length === 0 || !isQuiet()) return;
    for (const resolve of whenQuiet) resolve();
    whenQuiet = [];
  };

  const end = (attempt: Attempt, ending: Ending): void => {
    if (!attempt.finish()) return;
    const { job, aborted } = attempt;
    const retry = parts.handlers.get(job.task)?.task.defaults.retry ?? {};
    const conclusion = conclude({ job, ending, retry, aborted, random: Math.random() });
    if (conclusion.kind === 'release') settler.release([job]);
    else {
      const { settlement, error } = conclusion;
      const durationMs = performance.now() - attempt.startedAt;
      settler.settle(settlement, (settled) => {
        tell(parts, attempt, {
          settled: settled === 'repeated' ? settlement.outcome : settled,
          durationMs,
          error,
        });
      });
    }
  };

  const onTimeout = (attempt: Attempt): void => {
    const { job, timeoutMs } = attempt;
    observe({ type: 'job.timeout', job: job.id, task: job.task, timeoutMs });
    attempt.abort('timeout');
    end(attempt, { kind: 'timeout', timeoutMs });
  };

  const context: ContextParts = {
    ...parts,
    onCommitted: (attempt) => {
      const durationMs = performance.now() - attempt.startedAt;
      tell(parts, attempt, { settled: 'done', durationMs });
    },
  };

  const run: Executor['run'] = async (job, claimedAt) => {
    const attempt = new Attempt(job, claimedAt, { timeout: onTimeout, over: checkQuiet });
    attempts.add(attempt);
    const waitedMs = Math.max(0, Date.now() - job.created.getTime());
    observe({ type: 'job.started', job: job.id, task: job.task, key: job.key, waitedMs });
    const ending = await handle(context, parts, attempt);
    if (ending.kind === 'invalid') {
      observe({ type: 'job.invalid', job: job.id, task: job.task, problems: ending.problems });
    }
    end(attempt, ending);
    attempts.delete(attempt);
  };

  return {
    run,
    attempts,
    quiet: () => (isQuiet() ? Promise.resolve() : new Promise((resolve) => void whenQuiet.push(resolve))),
  };
}

/** The payload on its way to the handler, and what the handler made of it; never throws. */
async function handle(context: ContextParts, { handlers }: ExecutorParts, attempt: Attempt): Promise<Ending> {
  const { job } = attempt;
  const found = handlers.get(job.task);
  if (found === undefined) return { kind: 'invalid', problems: [`this node has no task ${job.task}`] };
  const { task, handler } = found;
  let payload: unknown;
  try {
    payload = task.upcast(job.payload, job.payloadVersion);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { kind: 'invalid', problems: [`it can't be brought to version ${task.version}: ${why}`] };
  }
  try {
    const parsed = await task.parse(payload);
    if (!parsed.ok) return { kind: 'invalid', problems: parsed.problems };
    return { kind: 'returned', value: await handler(parsed.payload, contextOf(context, attempt)) };
  } catch (error) {
    return { kind: 'threw', error };
  }
}

function tell(
  { observe }: ExecutorParts,
  attempt: Attempt,
  end: {
    readonly settled: Exclude<Settled, 'repeated'>;
    readonly durationMs: number;
    readonly error?: unknown;
  },
): void {
  const { id, task } = attempt.job;
  const { settled, durationMs, error } = end;
  if (settled === 'failed') return;
  if (settled === 'stale') {
    observe({ type: 'job.stale', job: id, task, during: 'settle' });
    attempt.abort('lease_lost');
    return;
  }
  const why = error === undefined ? {} : { error };
  observe({ type: 'job.settled', job: id, task, verdict: settled, durationMs, ...why });
}
