import type { Task, TaskNeeds } from '@pgqueue/core';
import type { JobRow } from '@pgqueue/core/internal';
import { encodedRows, isNeededTask, issueTexts } from '@pgqueue/core/internal';
import type { PageOfEnds } from '@pgqueue/postgres/internal';
import { addJobs, jobsJson, readNeedPage, readNeeds } from '@pgqueue/postgres/internal';
import { carrying, sendingOf, traceSend } from '@pgqueue/telemetry/internal';
import { neededStep } from '../flow/needs.ts';
import type { NeededSteps, NodePort } from '../flow/node-port.ts';
import { lose } from '../lease/held-leases.ts';
import type { Attempt } from './attempt.ts';
import { decodedPage } from '../codec/encoding.ts';
import type { LeaseParts } from './lease-calls.ts';
import { extendLeases, overError, ownRows, whileHeld } from './lease-calls.ts';
import { ResultError } from '../lease/result.ts';

/** Returns the part of an attempt's port that is about the step of its job. */
export function jobPort(
  parts: LeaseParts,
  attempt: Attempt,
  { task, needs }: { readonly task: Task; readonly needs: NeededSteps },
): Pick<NodePort, 'needs' | 'needPage' | 'addJobs'> {
  return {
    needs,
    needPage: async (need, place) => {
      const { step, name } = neededStep(needs.steps, need);
      const read = (): ReturnType<typeof readNeedPage> =>
        readNeedPage(parts.database, attempt.lease, { ...place, step });
      return checkedPage(task, need, decodedPage(parts.codec, await pageOfLease(parts, attempt, read), name));
    },
    addJobs: async (plain) => {
      if (plain.length === 0) return attempt.live;
      const rows = encodedRows(parts.codec, plain);
      await ownRows([attempt]);
      const answer = await tracedRows(attempt, rows, (carried) =>
        whileHeld([attempt], (_, again) =>
          addJobs(parts.database, attempt.lease, { jobs: jobsJson(carried), again }),
        ),
      );
      if (answer?.given === true) parts.onAdded(rows);
      else if (attempt.live) lose(attempt, { ...parts, during: 'extend' });
      return answer?.given ?? false;
    },
  };
}

/**
 * Reads a page under the lease of a job.
 * @throws {AbortedError} the lease was lost
 */
export async function pageOfLease(
  parts: LeaseParts,
  attempt: Attempt,
  read: () => Promise<PageOfEnds | undefined>,
): Promise<PageOfEnds> {
  await ownRows([attempt]);
  const answer = await whileHeld([attempt], read);
  if (answer?.given !== undefined) return answer.given;
  if (attempt.live) lose(attempt, { ...parts, during: 'extend' });
  throw overError([attempt]);
}

/**
 * Reads the steps that the step of a job has waited for.
 * @throws {AbortedError} the lease was lost
 */
export async function neededSteps(parts: LeaseParts, task: Task, attempt: Attempt): Promise<NeededSteps> {
  const answer = await whileHeld([attempt], () => readNeeds(parts.database, attempt.lease));
  const steps = answer?.given ?? [];
  // a job in no flow has no steps, and a lost lease looks like that
  const isHeld =
    steps.length > 0 ||
    (await extendLeases(parts, [attempt], Math.max(1, attempt.endsAt - performance.now())));
  if (!isHeld) throw overError([attempt]);
  return { names: needNames(task), steps };
}

/** Returns the names of the steps that the jobs of a task read. */
export function needNames({ needs }: Task): readonly string[] {
  return Object.keys(needs ?? {});
}

/** Checks the values of a signal by its schema, and returns them as the schema does. */
async function checkedPage(task: Task, need: string, page: PageOfEnds): Promise<PageOfEnds> {
  const schema = (task.needs as TaskNeeds)[need];
  if (schema === undefined || isNeededTask(schema)) return page;
  const ends = await Promise.all(
    page.ends.map(async (end) => {
      const checked = await schema['~standard'].validate(end.result);
      if (checked.issues === undefined) return { ...end, result: checked.value };
      throw new ResultError(
        issueTexts(checked.issues),
        `the value of the signal ${JSON.stringify(need)} does not fit the schema of the task's needs`,
      );
    }),
  );
  return { ...page, ends };
}

/**
 * Sends rows within a span, which their jobs carry. Without tracing they carry the trace of the job that adds
 * them. Rows with a trace of their own keep it.
 */
export function tracedRows<Result>(
  { job }: Attempt,
  rows: readonly JobRow[],
  send: (carried: readonly JobRow[]) => Promise<Result>,
): Promise<Result> {
  if (rows.length === 0) return send(rows);
  return traceSend(
    () => sendingOf(rows),
    (carried) => {
      const trace = carried ?? job.trace;
      return send(trace === null ? rows : carrying(rows, trace));
    },
    () => rows.slice(0, 1).map(({ id }) => id),
  );
}
