import type { AbortReason, ClaimedJob, Observer } from '@pgqueue/core';
import { isOutcome } from '@pgqueue/core';
import { release } from '@pgqueue/postgres';
import type { Attempt } from './attempts.ts';
import type { ContextParts } from './context.ts';
import { contextOf } from './context.ts';
import type { WorkerSettings } from './options.ts';
import type { Ended } from './settlements.ts';
import { settlementOf } from './settlements.ts';
import type { Settler } from './settler.ts';

export interface ExecutorParts extends ContextParts {
  readonly settings: WorkerSettings;
  readonly settler: Settler;
  readonly observe: Observer;
}

/**
 * Runs one claimed job. Resolves when its handler has really returned (so that a slot is never given away twice); what the
 * queue is told does not wait for that: a job past its timeout is settled at once.
 */
export type Execute = (job: ClaimedJob, claimedAt: number) => Promise<void>;

export function createExecutor(parts: ExecutorParts): Execute {
  const { attempts, observe } = parts;

  return async (job, claimedAt) => {
    const attempt = attempts.begin(job, claimedAt);
    const waitedMs = Math.max(0, Date.now() - job.created.getTime());
    observe({ type: 'job.started', job: job.id, task: job.task, key: job.key, waitedMs });
    const running = runHandler(parts, attempt);
    const first = await Promise.race([running, attempt.over]);
    if (first === 'timeout') {
      observe({ type: 'job.timeout', job: job.id, task: job.task, timeoutMs: job.leaseMs });
      const ended: Ended = { kind: 'timeout', timeoutMs: Math.round(job.leaseMs) };
      void finish(parts, attempt, ended, 'timeout');
    }
    const ended = await running;
    void finish(parts, attempt, ended, abortReason(attempt));
  };
}

/** The handler's run as a value; never throws. */
async function runHandler(parts: ExecutorParts, attempt: Attempt): Promise<Ended> {
  const { job } = attempt;
  const found = parts.settings.tasks.get(job.task);
  if (found === undefined) return { kind: 'invalid', problems: [`this node has no task ${job.task}`] };
  const { task, handler } = found;
  try {
    const parsed = await task.parse(task.upcast(job.payload, job.payloadVersion));
    if (!parsed.ok) return { kind: 'invalid', problems: parsed.problems };
    try {
      return { kind: 'returned', value: await handler(parsed.payload, contextOf(parts, attempt)) };
    } catch (error) {
      return { kind: 'threw', error };
    }
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return { kind: 'invalid', problems: [`it could not be brought to version ${task.version}: ${message}`] };
  }
}

/** Tells the queue how the attempt ended, once; whoever comes later is ignored. */
async function finish(
  parts: ExecutorParts,
  attempt: Attempt,
  ended: Ended,
  aborted: AbortReason | undefined,
): Promise<void> {
  const { observe, settler, settings } = parts;
  const { job } = attempt;
  if (!attempt.takeSettlement()) return attempt.end();
  try {
    if (aborted === 'shutdown' && ended.kind === 'threw' && !isOutcome(ended.error)) {
      await release(parts.control, [job]); // a shutdown is never counted as a try
      return;
    }
    if (ended.kind === 'invalid') {
      observe({ type: 'job.invalid', job: job.id, task: job.task, problems: ended.problems });
    }
    const retry = settings.tasks.get(job.task)?.task.defaults.retry ?? {};
    const settlement = settlementOf({ job, ended, retry, aborted, random: Math.random() });
    const verdict = await settler.settle(settlement);
    if (verdict === 'stale') {
      observe({ type: 'job.stale', job: job.id, task: job.task, during: 'settle' });
      attempt.abort('lease_lost');
    } else if (verdict !== 'failed') {
      const { outcome } = settlement;
      observe({
        type: 'job.settled',
        job: job.id,
        task: job.task,
        verdict: verdict === 'repeated' ? outcome : verdict,
        durationMs: performance.now() - attempt.startedAt,
        ...(ended.kind === 'threw' ? { error: ended.error } : {}),
      });
    }
  } catch (error) {
    observe({ type: 'database.error', during: 'release', error });
  } finally {
    attempt.end();
  }
}

function abortReason({ signal }: Attempt): AbortReason | undefined {
  return signal.aborted ? (signal.reason as { readonly code: AbortReason }).code : undefined;
}
