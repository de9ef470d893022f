import type { ClaimedJob } from '@pgqueue/core';

/** Jobs that use one slot: those of a bundle, or one alone. */
export type Unit<Job extends Pick<ClaimedJob, 'bundle'> = ClaimedJob> = readonly [Job, ...Job[]];

/** The units of one claim, in the order of their first jobs: jobs of one bundle are one, whatever their rows. */
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
