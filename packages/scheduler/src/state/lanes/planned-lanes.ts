import { laneName } from '@pgqueue/core';
import type { Refusals } from './conflict-backoff.ts';
import type { KnownJob } from './known-job.ts';

/** A cached lane's part of a plan: jobs planned, jobs written, and whether any was refused. */
export interface PlannedLane<Entry> {
  readonly entry: Entry;
  jobs: number;
  written: number;
  refused: boolean;
  /** The planned jobs are the lane's first ones. */
  first: boolean;
}

/** Removes the planned jobs from the index. Returns the lanes they belong to. */
export function leave<Entry extends { readonly lane: { readonly jobs: readonly KnownJob[] } }>(
  {
    known,
    byId,
    refusals,
    leftOut,
    nowMs,
  }: {
    readonly known: ReadonlyMap<string, Entry>;
    readonly byId: Map<string, KnownJob>;
    readonly refusals: Refusals;
    readonly leftOut: Set<string>;
    readonly nowMs: number;
  },
  planned: Iterable<string>,
  written: ReadonlyMap<string, number>,
): Iterable<PlannedLane<Entry>> {
  const touched = new Map<string, PlannedLane<Entry>>();
  let last: KnownJob | undefined;
  let left: PlannedLane<Entry> | undefined;
  for (const id of planned) {
    const job = byId.get(id);
    if (job === undefined) continue;
    if (last === undefined || last.key !== job.key || last.queue !== job.queue) {
      const name = laneName(job);
      const entry = known.get(name);
      left = touched.get(name);
      if (left === undefined && entry !== undefined) {
        left = { entry, jobs: 0, written: 0, refused: false, first: true };
        touched.set(name, left);
      }
    }
    last = job;
    byId.delete(id);
    const refused = !written.has(id);
    if (refused) {
      refusals.note(id, job.rowVersion, nowMs);
      leftOut.add(id);
    }
    if (left === undefined) continue;
    left.first &&= left.entry.lane.jobs[left.jobs] === job;
    left.jobs += 1;
    if (refused) left.refused = true;
    else left.written += 1;
  }
  return touched.values();
}
