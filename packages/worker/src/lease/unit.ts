import type { ClaimedJob } from '@pgqueue/core/internal';

/** Jobs that use one slot: the jobs of a bundle or a batch, or a single job. */
export type Unit<Job extends Pick<ClaimedJob, 'bundle'> = ClaimedJob> = readonly [Job, ...Job[]];

/**
 * Groups the jobs of one claim into units, in the order of their first jobs. Jobs of one bundle are one unit,
 * whatever their rows.
 */
export function unitsOf<Job extends Pick<ClaimedJob, 'bundle'>>(jobs: readonly Job[]): readonly Unit<Job>[] {
  const bundles = new Map<string, [Job, ...Job[]]>();
  const units: [Job, ...Job[]][] = [];
  for (const job of jobs) {
    const begun = job.bundle === null ? undefined : bundles.get(job.bundle);
    if (begun !== undefined) {
      begun.push(job);
      continue;
    }
    const unit: [Job, ...Job[]] = [job];
    units.push(unit);
    if (job.bundle !== null) bundles.set(job.bundle, unit);
  }
  return units;
}
