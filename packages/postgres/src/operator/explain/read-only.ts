import type { Database } from '../../connection/database.ts';
import { readReadOnly } from '../../reads/read-only.ts';
import type { JobExplanation } from './explain.ts';

/**
 * Puts first that the database only reads, if it does: nothing starts there, whatever else holds the job. No
 * scheduler can lead there, so that is left out.
 */
export async function withReadOnly(
  database: Database,
  explaining: Promise<JobExplanation>,
): Promise<JobExplanation> {
  const [explanation, why] = await Promise.all([explaining, readReadOnly(database)]);
  if (why === null || explanation.job.finished !== null) return explanation;
  const reasons = explanation.reasons.filter(({ kind }) => kind !== 'no_leader');
  return { ...explanation, reasons: [{ kind: 'read_only', why }, ...reasons] };
}
