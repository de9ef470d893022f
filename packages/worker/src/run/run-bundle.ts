import type { BatchTaskHandler, Codec, Task } from '@pgqueue/core';
import type { Attempt, Leased } from '../attempt/attempt.ts';
import { batchOf } from '../attempt/batch.ts';
import { batchContextOf, batchJob, createBatchSignal } from './bundle-context.ts';
import { batchEndings } from './bundle-ending.ts';
import type { Unit } from '../lease/unit.ts';
import { keptCheckpoint } from '../attempt/checkpoint.ts';
import { rejectionsTold } from '../attempt/unhandled-rejections.ts';
import type { Ending } from '../lease/ending.ts';
import { checkFanOut, fansOut } from '../attempt/fan-out.ts';
import { checkReturned } from '../lease/result.ts';
import { withLeftOpen } from './left-open.ts';
import type { AttemptEnding, RunParts } from './run.ts';
import { checkPayload, timeOut } from './run.ts';

/** A job with a valid payload. */
interface Fit {
  readonly attempt: Attempt;
  readonly payload: unknown;
  readonly checkpoint: unknown;
}

/**
 * Runs the jobs of a unit with one handler call. Each job has an attempt of its own, and ends once. A job
 * with an invalid payload ends before the call; a job whose lease was lost by then is left out of it. The
 * first job that reaches its timeout takes the others with it: they were leased together, until the shortest
 * of their timeouts.
 */
export async function runBatch(
  parts: RunParts,
  { task, handler }: BatchTaskHandler,
  { unit, leased }: { readonly unit: Unit; readonly leased: Leased },
): Promise<void> {
  let handed: readonly Attempt[] = [];
  const whole = createBatchSignal(() => handed);
  const timeout = (): void => timeOut(parts, attempts);
  const batch = batchOf(unit);
  const attempts: readonly Attempt[] = unit.map((job) =>
    parts.begin(job, { ...leased, batch }, { timeout, aborted: whole.check }),
  );
  for (const attempt of attempts) {
    batch?.begun(attempt.job);
    attempt.outlasts();
  }
  try {
    for (const attempt of attempts) parts.announce(attempt);
    const fit = await fitOf(parts, task, attempts);
    if (fit.length === 0) return;
    handed = fit.map(({ attempt }) => attempt);
    whole.check();
    const jobs = fit.map(({ attempt, ...given }) => batchJob(attempt, given));
    const bundle = { task, attempts: handed, jobs, signal: whole.signal };
    const call = (): unknown => handler(jobs, batchContextOf(parts, bundle));
    parts.end(
      await withLeftOpen(
        await endingsOf({ task, codec: parts.codec }, handed, () => parts.call(handed, call)),
      ),
    );
  } catch (error) {
    parts.end(attempts.map((attempt) => ({ attempt, ending: { kind: 'threw', error } })));
  } finally {
    for (const attempt of attempts) parts.leave(attempt);
    batch?.through();
  }
}

/**
 * Returns the attempts for the handler. The others end here, or were lost while their payloads were checked.
 */
async function fitOf(parts: RunParts, task: Task, attempts: readonly Attempt[]): Promise<readonly Fit[]> {
  const checks = await Promise.all(
    attempts.map(async (attempt) => {
      const checked = await checkPayload(task, attempt.job, parts.codec);
      const checkpoint = checked.kind === 'payload' ? await keptCheckpoint(parts, task, attempt) : null;
      return { attempt, checked, checkpoint };
    }),
  );
  const fit: Fit[] = [];
  const unfit: AttemptEnding[] = [];
  for (const { attempt, checked, checkpoint } of checks) {
    if (checked.kind !== 'payload') unfit.push({ attempt, ending: checked });
    else if (!attempt.over) fit.push({ attempt, payload: checked.payload, checkpoint });
  }
  parts.end(unfit);
  return fit;
}

/** Judge of endings: the schemas of the task, and the codec of the jobs that are added. */
interface Judged {
  readonly task: Task;
  readonly codec: Codec | undefined;
}

/** Calls the handler, and returns the endings of its jobs; never rejects. */
async function endingsOf(
  of: Judged,
  attempts: readonly Attempt[],
  call: () => unknown,
): Promise<readonly AttemptEnding[]> {
  try {
    const ids = attempts.map(({ job }) => job.id);
    const returned = await call();
    if (attempts.some(({ floats }) => floats)) await rejectionsTold();
    const endings = await batchEndings(ids, returned);
    return await Promise.all(
      attempts.map(async (attempt, index) => {
        const ending = endings[index] ?? { kind: 'returned', value: undefined };
        return { attempt, ending: attempt.over ? ending : await checked(of, attempt, ending) };
      }),
    );
  } catch (error) {
    return attempts.map((attempt) => ({ attempt, ending: { kind: 'threw', error } }));
  }
}

/** Checks the jobs that a job adds, and fails a job whose result does not fit the schema of its task. */
async function checked(of: Judged, attempt: Attempt, ending: Ending): Promise<Ending> {
  const { task } = of;
  if (fansOut(ending)) return checkFanOut(of, attempt, ending);
  if (task.checkResult === undefined || ending.kind !== 'returned') return ending;
  try {
    await checkReturned(task, ending.value);
    return ending;
  } catch (error) {
    return { kind: 'threw', error };
  }
}
