import type { ClaimedJob, Observer } from '@pgqueue/core';
import { isOutcome } from '@pgqueue/core';
import { crashJob } from '@pgqueue/postgres';
import { Attempt } from './attempt.ts';
import { runBatch } from './batch.ts';
import type { BlockedWatch } from './blocked.ts';
import type { Unit } from './bundles.ts';
import type { Ending } from './ending.ts';
import { conclude } from './ending.ts';
import type { Isolation } from './isolation/isolation.ts';
import type { Floating } from './floating.ts';
import type { LeaseParts } from './leases.ts';
import type { WorkerSettings } from './options.ts';
import { persistently } from './persistently.ts';
import type { AttemptEnding, RunParts } from './run.ts';
import type { Ended, Settled, Settler } from './settler.ts';
import { runSingly } from './single.ts';

export interface ExecutorParts extends Omit<LeaseParts, 'onCommitted'> {
  readonly handlers: WorkerSettings['handlers'];
  /** Where those are kept whose handlers run. */
  readonly attempts: Set<Attempt>;
  readonly settler: Settler;
  /** Where isolated handlers run. */
  readonly isolation: Isolation;
  readonly observe: Observer;
  /** Notices a handler that keeps the event loop. */
  readonly blocked: Pick<BlockedWatch, 'call'>;
  readonly floating: Pick<Floating, 'run'>;
  /** A job of a bundle that was perhaps not claimed whole has ended: the next of it can be. */
  readonly onNext: () => void;
}

/** Runs claimed jobs, each to its one end. */
export interface Executor {
  /**
   * Resolves when the handler has really returned, so that its slot is not given away twice. What the queue is told does not
   * wait for that: a job past its timeout is settled at once, and what its handler does later is ignored.
   */
  readonly run: (unit: Unit, claimedAt: number) => Promise<void>;
  /** Those whose handlers run. */
  readonly attempts: ReadonlySet<Attempt>;
  /** Resolves when every attempt is over, though handlers that ignore their signal may still run. */
  readonly quiet: () => Promise<void>;
}

export function createExecutor(parts: ExecutorParts): Executor {
  const { observe, attempts, handlers, blocked, floating } = parts;
  let whenQuiet: (() => void)[] = [];

  const isQuiet = (): boolean => [...attempts].every(({ over }) => over);
  const checkQuiet = (): void => {
    if (whenQuiet.length === 0 || !isQuiet()) return;
    for (const resolve of whenQuiet) resolve();
    whenQuiet = [];
  };

  const runParts: RunParts = {
    ...parts,
    onCommitted: (attempt) => {
      const durationMs = performance.now() - attempt.startedAt;
      tell(parts, attempt, { settled: 'done', durationMs });
    },
    begin: (job, claimedAt, on) => {
      const attempt = new Attempt(job, claimedAt, { ...on, over: checkQuiet });
      attempts.add(attempt);
      const waitedMs = Math.max(0, Date.now() - job.created.getTime());
      observe({ type: 'job.started', job: job.id, task: job.task, key: job.key, waitedMs });
      return attempt;
    },
    call: (called, run) => {
      const { id = '', task = '' } = called[0]?.job ?? {};
      return blocked.call({ job: id, task }, () => floating.run(called, run));
    },
    end: (endings) => endAll(parts, endings),
    leave: (attempt) => void attempts.delete(attempt),
  };

  return {
    run: (unit, claimedAt) => {
      const found = handlers.get(unit[0].task);
      if (found?.kind === 'pgqueue.batch_handler') return runBatch(runParts, found, { unit, claimedAt });
      return runSingly(runParts, found, { unit, claimedAt });
    },
    attempts,
    quiet: () => (isQuiet() ? Promise.resolve() : new Promise((resolve) => void whenQuiet.push(resolve))),
  };
}

function endAll(parts: ExecutorParts, endings: readonly AttemptEnding[]): void {
  const { observe, settler, handlers } = parts;
  const settled: Ended[] = [];
  const released: ClaimedJob[] = [];
  for (const { attempt, ending } of endings) {
    const { job } = attempt;
    if (ending.kind === 'invalid') {
      observe({ type: 'job.invalid', job: job.id, task: job.task, problems: ending.problems });
    }
    if (!attempt.finish()) continue;
    const retry = handlers.get(job.task)?.task.defaults.retry ?? {};
    const conclusion = conclude({
      job,
      ending: withFloating(attempt, ending),
      retry,
      aborted: attempt.aborted,
      random: Math.random(),
    });
    if (conclusion.kind === 'release') {
      released.push(job);
      continue;
    }
    if (conclusion.kind === 'crash') {
      void crash(parts, attempt, conclusion.why);
      continue;
    }
    const { settlement, error } = conclusion;
    const durationMs = performance.now() - attempt.startedAt;
    const onSettled = (told: Settled): void => {
      const verdict = told === 'repeated' ? settlement.outcome : told;
      tell(parts, attempt, { settled: verdict, durationMs, error });
    };
    settled.push({ settlement, onSettled });
  }
  settler.settle(settled);
  settler.release(released);
}

/** Its own thread or process died. Where the database can't be told, the lease runs out, which is the same crash. */
async function crash(parts: ExecutorParts, attempt: Attempt, why: string): Promise<void> {
  const durationMs = performance.now() - attempt.startedAt;
  let verdict: Awaited<ReturnType<typeof crashJob>>;
  try {
    verdict = await persistently(() => crashJob(parts.database, attempt.lease, why));
  } catch (error) {
    parts.observe({ type: 'database.error', during: 'crash', error });
    return;
  }
  const error = new Error(why);
  if (verdict === undefined) return tell(parts, attempt, { settled: 'stale', durationMs, error });
  if (verdict !== 'ready') return tell(parts, attempt, { settled: verdict, durationMs, error });
  const { id, task } = attempt.job;
  parts.observe({ type: 'job.crashed', job: id, task, durationMs, error });
  parts.onNext();
}

/** What it let go, and nobody handled, has failed: *done* would not be true. Other outcomes are what the handler chose. */
function withFloating(attempt: Attempt, ending: Ending): Ending {
  if (ending.kind !== 'returned' || !attempt.floats || isOutcome(ending.value)) return ending;
  const [error] = attempt.floating.values();
  return { kind: 'threw', error };
}

function tell(
  { observe, handlers, onNext }: ExecutorParts,
  attempt: Attempt,
  end: {
    readonly settled: Exclude<Settled, 'repeated'>;
    readonly durationMs: number;
    readonly error?: unknown;
  },
): void {
  const { id, task, bundle, tries, crashes } = attempt.job;
  const { settled, durationMs, error } = end;
  if (settled === 'failed') return;
  if (settled === 'stale') {
    observe({ type: 'job.stale', job: id, task, during: 'settle' });
    attempt.abort('lease_lost');
    return;
  }
  const why = error === undefined ? {} : { error };
  observe({ type: 'job.settled', job: id, task, verdict: settled, durationMs, ...why });
  if (bundle === null) return;
  const oneByOne = handlers.get(task)?.kind === 'pgqueue.handler';
  if (oneByOne || tries > 0 || crashes > 0) onNext();
}
