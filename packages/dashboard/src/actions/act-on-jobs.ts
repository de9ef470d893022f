import { unreachable } from '@pgqueue/core/internal';
import type { Before } from '@pgqueue/postgres/internal/dashboard';
import { readBefore } from '@pgqueue/postgres/internal/dashboard';
import type { JobAction, JobVerdict, UndoResult } from '../contract.ts';
import type { Desk } from '../desk.ts';

/** Result of an action on jobs, with their state before it where that can be restored. */
export interface Acted {
  readonly verdicts: readonly JobVerdict[];
  readonly done: number;
  /** Empty: the action cannot be undone. */
  readonly before: readonly Before[];
}

const undoable: ReadonlySet<JobAction['kind']> = new Set(['reprioritise', 'run_now']);

export function canUndo({ kind }: Pick<JobAction, 'kind'>): boolean {
  return undoable.has(kind);
}

const undone: ReadonlySet<JobVerdict['verdict']> = new Set(['busy', 'unchanged', 'missing']);

/** Runs one action on the given jobs. */
export async function actOnJobs(desk: Desk, ids: readonly string[], action: JobAction): Promise<Acted> {
  const before = canUndo(action) ? await readBefore(desk.database, ids) : [];
  const verdicts = (await run(desk, ids, action)).map(({ id, verdict, status }): JobVerdict => ({
    id,
    verdict,
    status: status ?? null,
  }));
  const changed = new Set(verdicts.flatMap(({ id, verdict }) => (undone.has(verdict) ? [] : [id])));
  return {
    verdicts,
    done: changed.size,
    before: before.filter((one) => changed.has(one.id) && differs(one, action)),
  };
}

/** Reports whether a job is other than the action leaves it. */
function differs({ priority, runAfter }: Before, action: JobAction): boolean {
  return action.kind === 'reprioritise' ? priority !== action.priority : runAfter !== null;
}

async function run(
  { operator: { jobs } }: Desk,
  ids: readonly string[],
  action: JobAction,
): Promise<readonly (Pick<JobVerdict, 'id' | 'verdict'> & { readonly status?: JobVerdict['status'] })[]> {
  switch (action.kind) {
    case 'retry':
      return jobs.retry(ids);
    case 'run_now':
      return jobs.runNow(ids);
    case 'cancel':
      return jobs.cancel(ids);
    case 'reprioritise':
      return jobs.amend(ids, { priority: action.priority });
    case 'delete':
      return jobs.erase(ids);
    default:
      return unreachable(action);
  }
}

const readMax = 1_000;

/** Restores priority or due time of the jobs that still wait, and are as the action left them. */
export async function putBack(
  { database, operator: { jobs } }: Desk,
  before: readonly Before[],
  action: JobAction,
): Promise<UndoResult> {
  let undone = 0;
  const { kind } = action;
  const now = new Map<string, Before>();
  for (let from = 0; from < before.length; from += readMax) {
    const ids = before.slice(from, from + readMax).map(({ id }) => id);
    for (const one of await readBefore(database, ids)) now.set(one.id, one);
  }
  const left = before.filter(({ id }) => {
    const present = now.get(id);
    return present !== undefined && !differs(present, action);
  });
  const alike = (one: Before): string =>
    kind === 'reprioritise' ? String(one.priority) : String(one.runAfter?.getTime());
  for (const same of Map.groupBy(left, alike).values()) {
    const [first] = same;
    if (first === undefined) continue;
    const { priority, runAfter } = first;
    const amendment = kind === 'reprioritise' ? { priority } : runAfter === null ? {} : { runAfter };
    const verdicts = await jobs.amend(
      same.map(({ id }) => id),
      amendment,
    );
    undone += verdicts.filter(({ verdict }) => verdict === 'changed').length;
  }
  return { undone, missed: before.length - undone };
}
