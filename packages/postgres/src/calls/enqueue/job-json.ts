import type { JobRow } from '@pgqueue/core/internal';
import { tableDefaults } from './enqueue-columns.ts';

/**
 * Writes a job as a JSON object, as SQL functions take jobs: what differs from their defaults, since each member is
 * parsed, stored with a step, and looked up. The payload goes in as the text that it is.
 * @param more further members
 */
export function jobJson(row: JobRow, more: Readonly<Record<string, unknown>> = {}): string {
  const fields = JSON.stringify({
    id: row.id,
    queue: unless(tableDefaults.queue, row.queue),
    task: row.task,
    key: unless(tableDefaults.key, row.key),
    priority: unless(tableDefaults.priority, row.priority),
    attributes: Object.keys(row.attributes).length === 0 ? undefined : row.attributes,
    run_after: unless(null, row.runAfter),
    delay_ms: unless(null, row.delayMs),
    expires_at: unless(null, row.expiresAt),
    timeout_ms: unless(null, row.timeoutMs),
    max_tries: unless(tableDefaults.maxTries, row.maxTries),
    max_crashes: unless(tableDefaults.maxCrashes, row.maxCrashes),
    retry: unless(null, row.retry),
    payload_version: unless(tableDefaults.payloadVersion, row.payloadVersion),
    trace: unless(null, row.trace),
    ...more,
  });
  return `${fields.slice(0, -1)},"payload":${row.payload}}`;
}

/** Returns a value; undefined, which JSON leaves out, if it is the default. */
export function unless<Value>(usual: Value, value: Value): Value | undefined {
  return value === usual ? undefined : value;
}

/** Writes jobs as SQL functions take them: as one list. */
export function jobsJson(rows: readonly JobRow[]): string {
  return `[${rows.map((row) => jobJson(row)).join(',')}]`;
}
