import type { JobContext, JobLogger, Task } from '@pgqueue/core';
import { durationMs } from '@pgqueue/core';
import type { Attempt } from './attempt.ts';
import { keepCheckpoint } from './checkpoint.ts';
import { jsonText } from './json.ts';
import type { LeaseParts } from './leases.ts';
import { extendLeases, loggerWith, settleIn, settleWith } from './leases.ts';
import type { Progress } from './progress.ts';
import { createProgress } from './progress.ts';

/** What a handler gets beside its payload; what most handlers don't ask for is made when they do. */
export function contextOf(
  parts: LeaseParts,
  attempt: Attempt,
  { task, checkpoint }: { readonly task: Task; readonly checkpoint: unknown },
): JobContext {
  const attempts = [attempt];
  let job: JobContext['job'] | undefined;
  let log: JobLogger | undefined;
  let progress: Progress | undefined;
  return {
    get job() {
      return (job ??= { ...jobOf(attempt), checkpoint });
    },
    get log() {
      const { id, task, tries } = attempt.job;
      return (log ??= loggerWith(parts.logger, { job: id, task, try: tries + 1 }));
    },
    get signal() {
      return attempt.signal;
    },
    extend: async (by) => extendLeases(parts, attempts, durationMs(by, 'extend')),
    progress: async (value) => (progress ??= createProgress(parts, attempts))(jsonText(value)),
    checkpoint: async (data) => keepCheckpoint(parts, { task, attempt }, data),
    transaction: async (work) => settleWith(parts, attempts, work),
    settleIn: async (run) => settleIn(parts, attempts, run),
  };
}

/** What handlers may know of a job. */
export function jobOf(attempt: Attempt): JobContext['job'] {
  const { payload: _payload, token: _token, position: _position, ...job } = attempt.job;
  return job;
}
