import { laneName } from '@pgqueue/core';
import type { Refusals } from './conflict-backoff.ts';
import type { KnownJob } from './known-job.ts';

/** A lane's part of a plan: jobs planned, jobs written, and whether any was refused. */
export interface PlannedLane {
  jobs: number;
  written: number;
  refused: boolean;
}

/** Removes the planned jobs from the index. Returns the lanes they belong to. */
export function leave(
  {
    byId,
    refusals,
    leftOut,
    nowMs,
  }: {
    readonly byId: Map<string, KnownJob>;
    readonly refusals: Refusals;
    readonly leftOut: Set<string>;
    readonly nowMs: number;
  },
  planned: Iterable<string>,
  written: ReadonlyMap<string, number>,
): ReadonlyMap<string, PlannedLane> {
  const touched = new Map<string, PlannedLane>();
  let last: KnownJob | undefined;
  let left: PlannedLane = { jobs: 0, written: 0, refused: false };
  for (const id of planned) {
    const job = byId.get(id);
    if (job === undefined) continue;
    if (last === undefined || last.key !== job.key || last.queue !== job.queue) {
      const name = laneName(job);
      left = touched.get(name) ?? { jobs: 0, written: 0, refused: false };
      touched.set(name, left);
    }
    last = job;
    left.jobs += 1;
    if (written.has(id)) left.written += 1;
    else {
      left.refused = true;
      refusals.note(id, job.rowVersion, nowMs);
      leftOut.add(id);
    }
    byId.delete(id);
  }
  return touched;
}
