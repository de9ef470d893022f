import type { JobRow } from '@pgqueue/core/internal';

/**
 * Writes a job as a JSON object, as SQL functions take jobs. The payload goes in as the text that it is.
 * @param more further members
 */
export function jobJson(row: JobRow, more: Readonly<Record<string, unknown>> = {}): string {
  const fields = JSON.stringify({
    id: row.id,
    queue: row.queue,
    task: row.task,
    key: row.key,
    priority: row.priority,
    attributes: row.attributes,
    run_after: row.runAfter,
    delay_ms: row.delayMs,
    expires_at: row.expiresAt,
    timeout_ms: row.timeoutMs,
    max_tries: row.maxTries,
    max_crashes: row.maxCrashes,
    retry: row.retry,
    payload_version: row.payloadVersion,
    trace: row.trace,
    ...more,
  });
  return `${fields.slice(0, -1)},"payload":${row.payload}}`;
}

/** Writes jobs as SQL functions take them: as one list. */
export function jobsJson(rows: readonly JobRow[]): string {
  return `[${rows.map((row) => jobJson(row)).join(',')}]`;
}
