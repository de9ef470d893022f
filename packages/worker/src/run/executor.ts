import type { ClaimedJob, JobRow } from '@pgqueue/core/internal';
import { countByTask } from '@pgqueue/core/internal';
import type { Hints, Lease, SettleRequest } from '@pgqueue/postgres/internal';
import { crashJob, persistently } from '@pgqueue/postgres/internal';
import { isTracing } from '@pgqueue/telemetry/internal';
import type { AttemptEvents, Leased } from '../attempt/attempt.ts';
import { Attempt } from '../attempt/attempt.ts';
import type { Bagged } from '../lease/bag.ts';
import { Bag } from '../lease/bag.ts';
import { runBatch } from './run-bundle.ts';
import { batchOf } from '../attempt/batch.ts';
import type { BlockedWatch } from '../node/event-loop-watchdog.ts';
import type { Unit } from '../lease/unit.ts';
import type { Conclusion, EndingInput } from '../attempt/to-settlement.ts';
import type { Ending } from '../lease/ending.ts';
import { conclude } from '../attempt/to-settlement.ts';
import type { Isolation } from '../isolation/isolation.ts';
import type { Floating } from '../attempt/unhandled-rejections.ts';
import type { Held } from '../lease/held-leases.ts';
import type { LeaseParts } from '../attempt/lease-calls.ts';
import { endSpan, spanned, spanOfAttempt } from '../attempt/spans.ts';
import type { WorkerSettings } from '../options.ts';
import type { AttemptEnding, RunParts } from './run.ts';
import { timeOut } from './run.ts';
import { lateError, withFloating } from './late-error.ts';
import type { Settler } from '../settle/settler.ts';
import type { Untold } from './untold.ts';
import { createUntold } from './untold.ts';
import type { Ended, Settled, Told } from '../lease/ended.ts';
import { hungSlots } from './hung.ts';
import { runSingly } from './run-job.ts';
import { tellUnread } from './unread.ts';

export interface ExecutorParts extends Omit<LeaseParts, 'onCommitted' | 'onSuspended' | 'onAdded'> {
  readonly handlers: WorkerSettings['handlers'];
  /** Attempts whose handlers run. */
  readonly attempts: Bag<Attempt>;
  readonly settler: Settler;
  /**
   * Tells the schedulers of jobs that ended without the settler: by a handler's own transaction, or by a
   * crash of its process.
   */
  readonly hints: Pick<Hints, 'send'>;
  /** Tells the schedulers of jobs that handlers have added. */
  readonly queueHints: Pick<Hints, 'send'>;
  /** Runs isolated handlers. */
  readonly isolation: Isolation;
  /** Notices a handler that blocks the event loop. */
  readonly blocked: Pick<BlockedWatch, 'call'>;
  readonly floating: Pick<Floating, 'inTurn'>;
  /** Called when a job whose own process died is ready again. */
  readonly onNext: () => void;
  /** True when jobs of a batch that have not begun are to be given back. Default: never. */
  readonly stopping?: () => boolean;
  /** Called with the run time of each attempt that has ended. */
  readonly ran?: (task: string, durationMs: number) => void;
  /** True if an observer listens for each job that begins and ends. Default: true. */
  readonly listens?: () => boolean;
}

/** Runs claimed jobs, each to its one end. */
export interface AttemptExecutor {
  /**
   * Runs the jobs of one slot. Resolves when the handler has really returned, so that its slot is not given
   * away twice. The settlement does not wait for that: a job past its timeout is settled at once, and later
   * results of its handler are ignored.
   */
  readonly run: (unit: Unit, leased: Leased) => Promise<void>;
  /** Attempts whose handlers run. */
  readonly attempts: Iterable<Attempt>;
  /**
   * Leases that this node still owns: of running units, and of ended attempts whose settlement was never
   * acknowledged; the latter end by their timeouts.
   */
  readonly leases: () => Iterable<Lease>;
  /** Slots of handlers that run on although the time of their jobs is over. */
  readonly hung: () => number;
  /** Jobs of running batches that have not begun. */
  readonly waiting: () => Generator<Held>;
  /** Resolves when every attempt is over; handlers that ignore their signal may still run. */
  readonly quiet: () => Promise<void>;
}

export function createExecutor(parts: ExecutorParts): AttemptExecutor {
  const { observe, attempts, handlers } = parts;
  /** Running units of several jobs, some of which may not have begun. */
  const units = new Bag<RunningUnit>();
  const untold = createUntold();
  let whenQuiet: (() => void)[] = [];

  const isQuiet = (): boolean => [...attempts].every(({ over }) => over);
  const checkQuiet = (): void => {
    if (whenQuiet.length === 0 || !isQuiet()) return;
    for (const resolve of whenQuiet) resolve();
    whenQuiet = [];
  };

  /** Read when a unit begins. Events and spans are not built for jobs that nobody listens to or traces. */
  const watched = { heard: true, traced: false };
  const ending: EndingParts = { ...parts, untold, watched };

  const common: Omit<AttemptEvents, 'timeout'> = {
    over: checkQuiet,
    floated: (attempt, rejection) => {
      const { id: job, task } = attempt.job;
      observe({ type: 'job.floating', job, task, ...rejection });
    },
    settled: (attempt, end) => tell(ending, attempt, end),
  };
  const alone: AttemptEvents = { ...common, timeout: (attempt) => timeOut(runParts, [attempt]) };

  const runParts: RunParts = {
    ...parts,
    onCommitted: (attempt) => {
      const durationMs = performance.now() - attempt.startedAt;
      attempt.span?.end('done');
      parts.hints.send([attempt.job.id]);
      tell(ending, attempt, { settled: 'done', durationMs });
    },
    onSuspended: (attempt, verdict) => suspended(ending, attempt, verdict),
    onAdded: (rows) => tellAdded(parts, rows),
    begin: (job, leased, on) => {
      const attempt = new Attempt(job, leased, on === undefined ? alone : { ...common, ...on });
      attempts.add(attempt);
      return attempt;
    },
    announce: (attempt) => announce(attempt, ending),
    ...callsOf(parts),
    end: (endings) => endAll(ending, endings),
    endPlain: (attempt) => endPlain(ending, attempt),
    stopping: parts.stopping ?? ((): boolean => false),
    leave: (attempt) => {
      attempts.delete(attempt);
      // Closes the span of an attempt that has not ended here: another node has its lease.
      attempt.span?.end('stale');
    },
  };

  return {
    run: (unit, leased) => {
      watched.heard = parts.listens?.() ?? true;
      watched.traced = isTracing();
      const found = handlers.get(unit[0].task);
      if (found?.kind === 'pgqueue.batch_handler')
        return within(units, unit, runBatch(runParts, found, { unit, leased }));
      const ran = runSingly(runParts, found, { unit, leased });
      return unit.length === 1 ? ran : within(units, unit, ran);
    },
    attempts,
    hung: () => hungSlots(attempts, units),
    waiting: function* () {
      for (const { unit } of units) yield* batchOf(unit)?.waiting() ?? [];
    },
    leases: function* () {
      const jobs = new Set([...units].flatMap(({ unit }) => unit));
      yield* jobs;
      for (const { job } of attempts) if (!jobs.has(job)) yield job;
      yield* untold.leases();
    },
    quiet: () => (isQuiet() ? Promise.resolve() : new Promise((resolve) => void whenQuiet.push(resolve))),
  };
}

function announce(attempt: Attempt, { observe, watched, codec }: EndingParts): void {
  const { job } = attempt;
  if (watched.traced) attempt.span = spanOfAttempt(codec, job);
  if (!watched.heard) return;
  const waitedMs = Math.max(0, Date.now() - job.created.getTime());
  const { id, queue, task, key, tries, crashes } = job;
  observe({ type: 'job.started', job: id, queue, task, key, attempt: tries + crashes + 1, waitedMs });
}

/**
 * Returns how handlers are called: watched, so that a handler that blocks or leaves a rejection unhandled is
 * known.
 */
function callsOf({ blocked, floating, codec }: ExecutorParts): Pick<RunParts, 'call' | 'callInTurn'> {
  const call: RunParts['call'] = (called, run) => {
    const first = called[0];
    if (first === undefined) return run();
    return blocked.call(first.job, floating.inTurn(), called, () => spanned(called, run, codec));
  };
  const callInTurn: RunParts['callInTurn'] = () => {
    const run = floating.inTurn();
    // Serves most jobs without a closure.
    return (attempt, handler, payload, context) =>
      attempt.span === undefined
        ? blocked.call(attempt.job, run, attempt, handler, payload, context)
        : call([attempt], () => handler(payload, context));
  };
  return { call, callInTurn };
}

/** Keeps a unit in the bag while it runs. */
async function within(units: Bag<RunningUnit>, unit: Unit, ran: Promise<void>): Promise<void> {
  const running = { unit, place: -1 };
  units.add(running);
  try {
    await ran;
  } finally {
    units.delete(running);
  }
}

interface RunningUnit extends Bagged {
  readonly unit: Unit;
}

interface EndingParts extends ExecutorParts {
  readonly untold: Untold;
  readonly watched: { readonly heard: boolean; readonly traced: boolean };
}

/** Ends an attempt whose handler returned `undefined`, as `endAll` would. */
function endPlain(parts: EndingParts, attempt: Attempt): void {
  const { batch } = attempt;
  if (batch === undefined || attempt.span !== undefined || attempt.floats || attempt.over) {
    return endAll(parts, [{ attempt, ending: { kind: 'returned', value: undefined } }]);
  }
  attempt.finish();
  const busyMs = performance.now() - attempt.startedAt;
  parts.ran?.(attempt.job.task, busyMs);
  batch.done(attempt, { busyMs, data: null });
}

function endAll(parts: EndingParts, endings: readonly AttemptEnding[]): void {
  const { observe, settler, handlers } = parts;
  const settled: Ended[] = [];
  const released: ClaimedJob[] = [];
  const nowMs = performance.now();
  for (const { attempt, ending } of endings) {
    const { job } = attempt;
    tellUnread(observe, job, ending);
    if (!attempt.finish()) {
      if (attempt.committed) tellLate(parts, attempt, ending);
      continue;
    }
    const durationMs = nowMs - attempt.startedAt;
    parts.ran?.(job.task, durationMs);
    const task = handlers.get(job.task)?.task;
    const input: EndingInput = {
      job,
      ending: withFloating(attempt, ending),
      retry: task?.defaults.retry ?? none,
      strict: task?.checkResult !== undefined,
      aborted: attempt.aborted,
      random: Math.random(),
      ranMs: durationMs,
      codec: parts.codec,
      waitedMs: attempt.waitedMs,
    };
    const conclusion = concludeAny(input);
    endSpan(attempt, conclusion);
    const { batch } = attempt;
    if (conclusion.kind === 'release') {
      if (batch === undefined) released.push(job);
      else batch.release(job);
      continue;
    }
    if (conclusion.kind === 'crash') {
      void crash(parts, attempt, conclusion.why);
      continue;
    }
    const { error, settlement } = conclusion;
    const adds = settlement.jobs !== undefined;
    if (batch !== undefined && settlement.outcome === 'done' && error === undefined && !adds) {
      batch.done(attempt, { busyMs: durationMs, data: settlement.data });
      continue;
    }
    const onSettled = (told: Settled): void => {
      const verdict = told === 'repeated' ? settlement.outcome : told;
      tell(parts, attempt, { settled: verdict, durationMs, error });
    };
    const ended = adds
      ? addingEnd(parts, attempt, { input, settlement })
      : { settlement, task: job.task, onSettled };
    if (batch === undefined) settled.push(ended);
    else batch.ended(ended);
  }
  settler.settle(settled);
  settler.release(released);
}

const none = {};

/** Tells of an attempt that a wait of its handler has ended. */
function suspended(parts: EndingParts, attempt: Attempt, verdict: 'snooze' | 'cancelled'): void {
  attempt.span?.end(verdict);
  parts.hints.send(verdict === 'cancelled' ? [attempt.job.id] : undefined);
  tell(parts, attempt, { settled: verdict, durationMs: performance.now() - attempt.startedAt });
}

/** Returns the end of an attempt that adds jobs. If the database refuses them, the attempt fails. */
function addingEnd(
  parts: EndingParts,
  attempt: Attempt,
  { input, settlement }: { readonly input: EndingInput; readonly settlement: SettleRequest },
): Ended {
  const durationMs = performance.now() - attempt.startedAt;
  let asked = settlement;
  let refusal: unknown;
  return {
    settlement,
    task: attempt.job.task,
    onSettled: (told) => {
      const verdict = told === 'repeated' ? asked.outcome : told;
      if (verdict === 'done' && input.ending.kind === 'fan_out') tellAdded(parts, input.ending.rows);
      tell(parts, attempt, { settled: verdict, durationMs, error: refusal });
    },
    onRefused: (error) => {
      refusal = error;
      // a job is given back by a release, and never by a settlement
      const aborted = input.aborted === 'cancelled' ? input.aborted : undefined;
      const failed = concludeAny({ ...input, aborted, ending: { kind: 'threw', error } });
      if (failed.kind === 'settle') asked = failed.settlement;
      return asked;
    },
  };
}

/** Tells observers and schedulers of jobs that were added. */
function tellAdded({ observe, queueHints }: ExecutorParts, rows: readonly JobRow[]): void {
  if (rows.length === 0) return;
  queueHints.send();
  for (const { queue, task, jobs } of countByTask(rows))
    observe({ type: 'enqueued', count: jobs, queue, task });
}

/** Concludes an attempt. If reading its result or outcome throws, that error is the ending. */
function concludeAny(input: EndingInput): Conclusion {
  try {
    return conclude(input);
  } catch (error) {
    return conclude({ ...input, ending: { kind: 'threw', error } });
  }
}

/**
 * Reports that the attempt's own process died. If the database cannot be told, the lease runs out, which is
 * the same crash.
 */
async function crash(parts: EndingParts, attempt: Attempt, why: string): Promise<void> {
  const durationMs = performance.now() - attempt.startedAt;
  let verdict: Awaited<ReturnType<typeof crashJob>>;
  parts.untold.add(attempt);
  try {
    await attempt.batch?.apart();
    // it may quote the last words of the process
    const told = parts.codec?.errors === true ? why.replace(/:.*/s, '') : why;
    verdict = await persistently(() => crashJob(parts.database, attempt.lease, told));
  } catch (error) {
    parts.observe({ type: 'database.error', during: 'crash', error });
    return;
  }
  parts.untold.delete(attempt);
  const error = new Error(why);
  if (verdict === undefined) return tell(parts, attempt, { settled: 'stale', durationMs, error });
  if (verdict !== 'ready') {
    parts.hints.send([attempt.job.id]);
    return tell(parts, attempt, { settled: verdict, durationMs, error });
  }
  const { id, queue, task } = attempt.job;
  parts.observe({ type: 'job.crashed', job: id, queue, task, durationMs, error });
  parts.onNext();
}

/**
 * Reports an error of a handler whose job is already done. The job stays done, but the error must not be
 * lost.
 */
function tellLate({ observe }: EndingParts, attempt: Attempt, ending: Ending): void {
  const error = lateError(withFloating(attempt, ending));
  if (error === undefined) return;
  const { id, queue, task } = attempt.job;
  observe({ type: 'job.late_error', job: id, queue, task, error });
}

function tell(
  { observe, untold, watched }: EndingParts,
  attempt: Attempt,
  end: {
    readonly settled: Told;
    readonly durationMs: number;
    readonly error?: unknown;
  },
): void {
  const { id, queue, task } = attempt.job;
  const { settled, durationMs, error } = end;
  if (settled === 'failed') return untold.add(attempt);
  if (settled === 'stale') {
    observe({ type: 'job.stale', job: id, task, during: 'settle' });
    attempt.abort('lease_lost');
    return;
  }
  if (error !== undefined)
    observe({ type: 'job.settled', job: id, queue, task, verdict: settled, durationMs, error });
  else if (watched.heard)
    observe({ type: 'job.settled', job: id, queue, task, verdict: settled, durationMs });
}
