import type { Observer } from '@pgqueue/core';
import { errorLine, loggedError } from '@pgqueue/core/internal';
import { warn } from '@pgqueue/postgres/internal';

/**
 * Warns, once per task, of errors that came after their job had ended. They are in no table, so without an
 * observer they would be lost, and with them whatever the handler still wanted to write.
 */
export function createLateWarnings(): Observer {
  const told = new Set<string>();
  return (event) => {
    if (event.type !== 'job.late_error' && (event.type !== 'job.floating' || event.counted)) return;
    if (told.has(event.task)) return;
    told.add(event.task);
    warn(
      'PGQUEUE_LATE_ERROR',
      `job ${event.job} of task "${event.task}" had ended when its handler failed, and is not tried again: ${errorLine(loggedError(event.error))}. Give the worker "observe" to hear of all such errors`,
    );
  };
}
