import type { HeldCounts } from '@pgqueue/core';
import type { DispatchInput, TickState } from '@pgqueue/postgres/internal';
import type { KnownJob } from '../state/lanes/known-job.ts';

/** A planned job on its way to a work item. */
export interface PlannedRow extends Omit<DispatchInput['jobs'][number], 'row'> {
  readonly job: KnownJob | undefined;
  /** Number of its work item; set only if some items have several jobs. */
  row?: number;
}

export interface RowParts {
  readonly nodes: TickState['nodes'];
  /** Jobs that already have work items. */
  readonly ready: number;
  readonly held: HeldCounts;
}

/**
 * Target work of a batch, in milliseconds: half of one for each slot, between these two. So with many slots one becomes free as
 * often as with few, and other jobs wait for it no longer. Each row costs claim and settlement 30 to 40 us, however few
 * jobs it has.
 */
const batchMs = { least: 25, most: 50, perSlot: 0.5 };
/** Batches of fewer than `fewMin` jobs may take that many times as long. */
const fewMin = 5;
const fewTimes = 2;
const batchMax = 100;
/** Least work to spread over slots, in milliseconds: below it, a row costs more than the wait for a slot. */
const spreadMs = 1;
/** Reasons that do not come from a rule. Dispatching a job does not make others wait for these reasons. */
const placeReasons: ReadonlySet<string> = new Set([
  'no_free_slot',
  'no_capable_node',
  'batch_full',
  'paused_queue',
  'moving',
]);

/**
 * Groups the jobs of a plan into work items. A batch is the work of one slot in one go: jobs of one task,
 * version and pool, {@link batchMs} of work by the nodes' measurements, up to {@link fewTimes} as much if that is
 * fewer than {@link fewMin} jobs, and {@link batchMax} jobs at most.
 * Jobs of a task that is not measured, or whose runs are not all short, get an item each. So do suspects,
 * jobs that expire, and jobs of a queue in which a rule holds others, because their end must be known at
 * once.
 * The jobs of a bundle follow each other and form one item.
 * If few jobs wait, they are spread over all slots, at least {@link spreadMs} of work each. Jobs of one kind
 * keep their order.
 */
export function toRows(jobs: readonly PlannedRow[], parts: RowParts): readonly (readonly PlannedRow[])[] {
  const kinds = new Map<string, BatchKind>();
  const open = new Map<BatchKind, PlannedRow[]>();
  const rows: PlannedRow[][] = [];
  let last: { readonly kind: BatchKind; row: PlannedRow[] } | undefined;
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

/** Jobs that may share a batch. */
interface BatchKind {
  readonly pool: string;
  readonly task: string;
  readonly version: number;
  size: number | undefined;
}

function isOf(kind: BatchKind, pool: string, { task, version }: KnownJob): boolean {
  return kind.task === task && kind.version === version && kind.pool === pool;
}

function kindOf(kinds: Map<string, BatchKind>, { pool }: PlannedRow, { task, version }: KnownJob): BatchKind {
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

/** Returns the batch size by the slowest node's measurement; faster nodes finish the batch sooner. */
function sizeOf(pool: string, task: string, planned: number, { nodes, ready }: RowParts): number {
  const { ms, slots } = measured(pool, task, nodes);
  if (ms === undefined) return 1;
  const spread = Math.max(Math.ceil((planned + ready) / Math.max(1, slots)), Math.floor(spreadMs / ms));
  return Math.max(1, Math.min(fullSize(ms, slots), spread));
}

/** Returns the batch size for a task while more of its jobs wait than slots can take, and the slots that can; 1: it gets no batches. */
export function fullBatch(
  pool: string,
  task: string,
  nodes: RowParts['nodes'],
): { readonly size: number; readonly slots: number } {
  const { ms, slots } = measured(pool, task, nodes);
  return { size: ms === undefined ? 1 : fullSize(ms, slots), slots };
}

function fullSize(ms: number, slots: number): number {
  const { least, most, perSlot } = batchMs;
  return within(ms, Math.max(least, Math.min(most, slots * perSlot)));
}

/**
 * Returns the size of a batch when many jobs of the task wait and slots are few. Slots that are wanted are counted by it: a
 * size that grew with the slots would want fewer of them the more there are.
 */
export function batchSizeOf(pool: string, task: string, nodes: RowParts['nodes']): number {
  const { ms } = measured(pool, task, nodes);
  return ms === undefined ? 1 : within(ms, batchMs.least);
}

/** Returns how many jobs of `ms` each make a batch of so much work. */
function within(ms: number, workMs: number): number {
  const count = Math.max(Math.floor(workMs / ms), Math.min(fewMin, Math.floor((workMs * fewTimes) / ms)));
  return Math.max(1, Math.min(batchMax, count));
}

/** `ms`: run time on the slowest node that is able to run the task; undefined: it gets no batches. */
function measured(
  pool: string,
  task: string,
  nodes: RowParts['nodes'],
): { readonly ms: number | undefined; readonly slots: number } {
  let [ms, slots] = [0, 0];
  for (const node of nodes) {
    if (node.pool !== pool || !Object.hasOwn(node.tasks, task)) continue;
    const able = node.tasks[task];
    if (able?.batch === true || able?.isolated === true) return { ms: undefined, slots: 0 };
    slots += node.slots;
    if (Object.hasOwn(node.runs, task)) ms = Math.max(ms, node.runs[task] ?? 0);
  }
  return { ms: ms > 0 ? ms : undefined, slots };
}
