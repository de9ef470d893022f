import type { Observer } from '@pgqueue/core';
import type { ClaimedJob } from '@pgqueue/core/internal';
import { isKeyMissing } from '../codec/encoding.ts';
import type { Ending } from '../lease/ending.ts';

/** Tells of a job whose values could not be read: they do not fit, or their key is missing. */
export function tellUnread(observe: Observer, { id: job, task }: ClaimedJob, ending: Ending): void {
  if (ending.kind === 'invalid') observe({ type: 'job.invalid', job, task, problems: ending.problems });
  if (ending.kind === 'threw' && isKeyMissing(ending.error))
    observe({ type: 'codec.key_missing', job, task, error: ending.error });
}
