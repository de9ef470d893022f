import type { JobContext, SingleTaskHandler } from '@pgqueue/core';
import type { ClaimedJob } from '@pgqueue/core/internal';
import { isIsolated } from '@pgqueue/core/internal';
import type { Attempt, Leased } from '../attempt/attempt.ts';
import { AbortedError } from '../lease/timing.ts';
import { batchOf } from '../attempt/batch.ts';
import type { Unit } from '../lease/unit.ts';
import { keptCheckpoint } from '../attempt/checkpoint.ts';
import { checkFanOut, fansOut } from '../attempt/fan-out.ts';
import { neededSteps, needNames } from '../attempt/job-port.ts';
import { checkReturned } from '../lease/result.ts';
import { contextOf } from '../attempt/context.ts';
import { rejectionsTold } from '../attempt/unhandled-rejections.ts';
import type { Ending } from '../lease/ending.ts';
import { noNeeds } from '../flow/node-port.ts';
import { withLeftOpen } from './left-open.ts';
import type { Checked, RunParts } from './run.ts';
import { checkPayload } from './run.ts';

/**
 * Time after which a running batch is taken apart: the running job gets a row of its own, finished jobs are
 * settled, and jobs that have not begun are given back.
 */
const slowMs = 250;

/**
 * Runs the jobs of a unit one after another in their slot. It is one function because each awaited one would
 * cost a small job a twentieth of its time.
 */
export async function runSingly(
  parts: RunParts,
  found: SingleTaskHandler | undefined,
  { unit, leased }: { readonly unit: Unit; readonly leased: Leased },
): Promise<void> {
  const batch = batchOf(unit);
  const reads = found !== undefined && needNames(found.task).length > 0;
  let current: Attempt | undefined;
  const outlasted = (): void => {
    batch?.outlasted();
    current?.outlasts();
  };
  const timer = batch === undefined ? undefined : setTimeout(outlasted, slowMs);
  const beganAt = performance.now();
  const call = parts.callInTurn();
  for (const job of unit) {
    let begins = leased;
    if (batch !== undefined) {
      const nowMs = performance.now();
      const fate = batch.fate(job);
      if (fate === 'lost') continue;
      if (fate === 'back' || (job !== unit[0] && (nowMs - beganAt > slowMs || parts.stopping()))) {
        batch.release(job);
        continue;
      }
      batch.begun(job);
      begins = { claimedAt: nowMs, waitedMs: (leased.waitedMs ?? 0) + nowMs - beganAt, batch };
    }
    const attempt = parts.begin(job, begins);
    current = attempt;
    let ending: Ending;
    try {
      parts.announce(attempt);
      if (batch?.fate(job) === 'cancelled') throw cancelled(attempt);
      const checking = found === undefined ? unknown(job) : checkPayload(found.task, job, parts.codec);
      const checked = 'kind' in checking ? checking : await checking;
      if (found === undefined || checked.kind !== 'payload') ending = checked as Exclude<Checked, Payload>;
      else {
        const { task, handler } = found;
        const { payload } = checked;
        const checkpoint = job.checkpoint === null ? null : await keptCheckpoint(parts, task, attempt);
        const needs = reads ? await neededSteps(parts, task, attempt) : noNeeds;
        const context = contextOf(parts, attempt, { task, checkpoint, needs });
        if (isIsolated(handler)) {
          const run = (given: unknown, ctx: JobContext): Promise<Ending> =>
            parts.isolation.run(handler, given, ctx, attempt);
          ending = await call(attempt, run, payload, context);
          if (task.checkResult !== undefined && ending.kind === 'returned' && !attempt.over)
            await checkReturned(task, ending.value);
        } else {
          const value: unknown = await call(attempt, handler, payload, context);
          if (task.checkResult !== undefined && !attempt.over) await checkReturned(task, value);
          ending = value === undefined ? plain : { kind: 'returned', value };
        }
        if (attempt.floats) await rejectionsTold();
      }
    } catch (error) {
      ending = { kind: 'threw', error };
    }
    if (found !== undefined && fansOut(ending))
      ending = await checkFanOut({ task: found.task, codec: parts.codec }, attempt, ending);
    try {
      if (attempt.open !== undefined) parts.end(await withLeftOpen([{ attempt, ending }]));
      else if (ending === plain) parts.endPlain(attempt);
      else parts.end([{ attempt, ending }]);
    } finally {
      parts.leave(attempt);
    }
  }
  clearTimeout(timer);
  batch?.through();
}

/** Ending of a handler that returned nothing. */
const plain: Ending = { kind: 'returned', value: undefined };

/** Aborts a job that was cancelled before it began. */
function cancelled(attempt: Attempt): AbortedError {
  attempt.abort('cancelled');
  return new AbortedError('cancelled');
}

type Payload = Extract<Checked, { readonly kind: 'payload' }>;

function unknown({ task }: ClaimedJob): Exclude<Checked, Payload> {
  return { kind: 'invalid', problems: [`this node has no task ${task}`] };
}
