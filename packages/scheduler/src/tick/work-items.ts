import type { HeldCounts } from '@pgqueue/core';
import type { DispatchInput, TickState } from '@pgqueue/postgres';
import type { KnownJob } from '../state/lanes/known-job.ts';

/** A job of a plan, on its way to a work item. */
export interface PlannedRow extends Omit<DispatchInput['jobs'][number], 'row'> {
  readonly job: KnownJob | undefined;
  /** The number of its work item, where some have several jobs. */
  row?: number;
}

export interface RowParts {
  readonly nodes: TickState['nodes'];
  /** Jobs that have work items already. */
  readonly ready: number;
  readonly held: HeldCounts;
}

/** Work that one slot does in one go. */
const batchMs = 25;
/** A batch of fewer jobs is as much as that: dispatch, claim and settlement cost a row nearly the same, however few jobs it has. */
const fewMin = 5;
const batchMaxMs = 50;
const batchMax = 100;
/** Reasons that say nothing of a rule: a job that goes makes no other wait. */
const placeReasons: ReadonlySet<string> = new Set([
  'no_free_slot',
  'no_capable_node',
  'batch_full',
  'paused_queue',
]);

/**
 * Puts the jobs of a plan together into work items. A batch is what one slot does in one go: jobs of one task, version and pool, {@link batchMs} of
 * work by what nodes have measured, up to {@link batchMaxMs} where that is fewer than {@link fewMin} jobs, {@link batchMax} jobs at most. A task that is not measured, or whose runs are not all short, gets items of
 * one job; so do suspects, jobs that expire, and the jobs of a queue of which a rule holds others: their ends must be known at once. The jobs of a bundle follow
 * each other, and are one item.
 * When little waits, it is spread over the slots. Jobs of one kind keep their order.
 */
export function toRows(jobs: readonly PlannedRow[], parts: RowParts): readonly (readonly PlannedRow[])[] {
  const kinds = new Map<string, Kind>();
  const open = new Map<Kind, PlannedRow[]>();
  const rows: PlannedRow[][] = [];
  let last: { readonly kind: Kind; row: PlannedRow[] } | undefined;
  for (const planned of jobs) {
    const { pool, job } = planned;
    const before = rows.at(-1);
    if (planned.bundle !== null && planned.bundle === before?.[0]?.bundle) {
      before.push(planned);
      continue;
    }
    if (job === undefined || isAlone(planned, job, parts.held)) {
      rows.push([planned]);
      continue;
    }
    const alike = last !== undefined && isOf(last.kind, pool, job);
    const kind = alike && last !== undefined ? last.kind : kindOf(kinds, planned, job);
    let row = alike && last !== undefined ? last.row : open.get(kind);
    kind.size ??= sizeOf(pool, job.task, jobs.length, parts);
    if (row !== undefined && row.length < kind.size) row.push(planned);
    else {
      row = [planned];
      rows.push(row);
      open.set(kind, row);
    }
    last = { kind, row };
  }
  if (rows.length < jobs.length) {
    for (const [index, row] of rows.entries()) for (const planned of row) planned.row = index + 1;
  }
  return rows;
}

/** Jobs that can be in one batch. */
interface Kind {
  readonly pool: string;
  readonly task: string;
  readonly version: number;
  size: number | undefined;
}

function isOf(kind: Kind, pool: string, { task, version }: KnownJob): boolean {
  return kind.task === task && kind.version === version && kind.pool === pool;
}

function kindOf(kinds: Map<string, Kind>, { pool }: PlannedRow, { task, version }: KnownJob): Kind {
  const name = JSON.stringify([pool, task, version]);
  const kind = kinds.get(name) ?? { pool, task, version, size: undefined };
  kinds.set(name, kind);
  return kind;
}

function isAlone({ bundle }: PlannedRow, job: KnownJob, held: HeldCounts): boolean {
  if (bundle !== null || job.crashes > 0 || job.expiresMs !== null) return true;
  const reasons = Object.hasOwn(held, job.queue) ? held[job.queue] : undefined;
  return reasons !== undefined && Object.keys(reasons).some((reason) => !placeReasons.has(reason));
}

/** By the slowest node: who is faster does a batch sooner. */
function sizeOf(pool: string, task: string, planned: number, { nodes, ready }: RowParts): number {
  let [ms, slots] = [0, 0];
  for (const node of nodes) {
    if (node.pool !== pool || !Object.hasOwn(node.tasks, task)) continue;
    const able = node.tasks[task];
    if (able?.batch === true || able?.isolated === true) return 1;
    slots += node.slots;
    if (Object.hasOwn(node.runs, task)) ms = Math.max(ms, node.runs[task] ?? 0);
  }
  if (ms <= 0) return 1;
  const worth = Math.max(Math.floor(batchMs / ms), Math.min(fewMin, Math.floor(batchMaxMs / ms)));
  const spread = Math.ceil((planned + ready) / Math.max(1, slots));
  return Math.max(1, Math.min(batchMax, worth, spread));
}
