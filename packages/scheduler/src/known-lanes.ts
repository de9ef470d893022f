import type { Lane } from '@pgqueue/core';
import { laneName } from '@pgqueue/core';
import type { LaneId, LaneRow } from '@pgqueue/postgres';
import type { KnownJob } from './known-jobs.ts';
import { toJobs } from './known-jobs.ts';

/** `skipped`: some that go before were left out. */
export interface Known extends LaneId, Required<Pick<Lane, 'more' | 'skipped' | 'retryDueMs'>> {
  readonly jobs: readonly KnownJob[];
  readonly lane: Lane;
  /** Where it is in the list of all. */
  at: number;
}

/** Lanes by name, and their jobs. */
export interface KnownLanes {
  readonly known: Map<string, Known>;
  /** The same, in no particular order: snapshots get a copy of it. */
  list: Lane[];
  /** Names of those that were read by the last tick. */
  readonly fresh: Set<string>;
  readonly byId: Map<string, KnownJob>;
}

export function createKnownLanes(): KnownLanes {
  return { known: new Map(), list: [], fresh: new Set(), byId: new Map() };
}

export function forget({ known, byId, list, fresh }: KnownLanes, name: string): void {
  const entry = known.get(name);
  if (entry === undefined) return;
  for (const { id } of entry.jobs) byId.delete(id);
  known.delete(name);
  fresh.delete(name);
  const last = list.pop();
  if (last === undefined || entry.at === list.length) return;
  // the last one takes its place
  list[entry.at] = last;
  const moved = known.get(laneName(last));
  if (moved !== undefined) moved.at = entry.at;
}

/** It was read: what was known of it is not any more, but it keeps its place in the list. Of all, it was read last. */
export function clear({ known, byId }: KnownLanes, name: string): void {
  const entry = known.get(name);
  if (entry === undefined) return;
  for (const { id } of entry.jobs) byId.delete(id);
  known.delete(name);
  known.set(name, { ...entry, jobs: [] });
}

export function put(memory: KnownLanes, entry: Omit<Known, 'lane' | 'at'>, isFresh: boolean): void {
  const { known, list, fresh } = memory;
  const { queue, key, jobs, more, skipped, retryDueMs } = entry;
  const name = laneName(entry);
  const lane: Lane = { queue, key, jobs, more, skipped, retryDueMs, fresh: isFresh };
  const at = known.get(name)?.at ?? list.length;
  known.set(name, { queue, key, jobs, more, skipped, retryDueMs, lane, at });
  list[at] = lane;
  if (isFresh) fresh.add(name);
  else fresh.delete(name);
}

export function outdate(memory: KnownLanes, name: string): void {
  const entry = memory.known.get(name);
  if (entry !== undefined) put(memory, entry, false);
}

/** Jobs that stand behind those that are known. False: one of them is known elsewhere, or the lane is not; nothing is changed. */
export function append(
  memory: KnownLanes,
  name: string,
  { jobs, more }: { readonly jobs: readonly KnownJob[]; readonly more: boolean },
): boolean {
  const entry = memory.known.get(name);
  if (entry === undefined || jobs.some(({ id }) => memory.byId.has(id))) return false;
  for (const job of jobs) memory.byId.set(job.id, job);
  put(memory, { ...entry, jobs: [...entry.jobs, ...jobs], more }, false);
  return true;
}

/**
 * Rows that belong before jobs which are known, or instead of them. False: there are so many that others may lie between them and those, or the lane is not
 * known; nothing is changed.
 */
export function precede(memory: KnownLanes, name: string, rows: readonly LaneRow[]): boolean {
  const entry = memory.known.get(name);
  if (entry === undefined || rows.length >= (rows[0]?.wanted ?? 1)) return false;
  const jobs = toJobs(rows);
  for (const job of jobs) {
    leaveOther(memory, job);
    memory.byId.set(job.id, job);
  }
  const all = jobs.length === 0 ? entry.jobs : byPlace(entry.jobs, jobs);
  if (entry.lane.fresh || jobs.length > 0) put(memory, { ...entry, jobs: all }, false);
  return true;
}

/** Of both, in the order of their places; of one that is in both the newer. */
function byPlace(known: readonly KnownJob[], newer: readonly KnownJob[]): readonly KnownJob[] {
  const ids = new Set(newer.map(({ id }) => id));
  return [...newer, ...known.filter(({ id }) => !ids.has(id))].toSorted(
    (a, b) => a.priority - b.priority || a.seq - b.seq,
  );
}

/** A job whose queue or key was changed is in one lane only: what a plan counts it under is what is checked when it is written. */
export function leaveOther(memory: KnownLanes, job: KnownJob): void {
  const before = memory.byId.get(job.id);
  if (before === undefined || laneName(before) === laneName(job)) return;
  const entry = memory.known.get(laneName(before));
  if (entry === undefined) return;
  put(memory, { ...entry, jobs: entry.jobs.filter(({ id }) => id !== job.id) }, entry.lane.fresh);
}
