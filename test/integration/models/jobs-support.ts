import { randomUUID } from 'node:crypto';
import type { Ground } from '../sql/support.ts';

/** A small model of jobs as the database should keep them: without times and locks, with one node. */
export const maxTries = 2;
export const maxCrashes = 2;

export type State = 'delayed' | 'pending' | 'ready' | 'running' | 'done' | 'cancelled' | 'dead';

export interface ModelJob {
  readonly id: string;
  state: State;
  tries: number;
  crashes: number;
  /** Its work item was lost with a node. */
  suspect: boolean;
  /** Its place among the work items. */
  position: number;
  /** The first job of its bundle. */
  bundle: string | null;
  token: string | undefined;
  cancelled: boolean;
  checkpoint: number | null;
}

export interface Model {
  readonly jobs: (ModelJob | undefined)[];
  positions: number;
  /** `key_pending` of their queue. */
  limit: number | null;
  /** True if the node accepts bundles. */
  takesBundles: boolean;
}

export const emptyModel = (): Model => ({
  jobs: [],
  positions: 0,
  limit: null,
  takesBundles: true,
});

export const jobsOf = ({ jobs }: Model): readonly ModelJob[] => jobs.filter((job) => job !== undefined);

export function absent(): ModelJob {
  return {
    id: randomUUID(),
    state: 'pending',
    tries: 0,
    crashes: 0,
    suspect: false,
    position: 0,
    bundle: null,
    token: undefined,
    cancelled: false,
    checkpoint: null,
  };
}

export function put(job: ModelJob, state: State): void {
  job.state = state;
  if (state !== 'running') [job.token, job.cancelled] = [undefined, false];
  if (state !== 'running' && state !== 'ready') job.bundle = null;
  if (state === 'done' || state === 'cancelled') job.checkpoint = null;
}

/** Releases a job that has not run: a job of a bundle becomes pending again. */
export function giveBack(job: ModelJob): void {
  put(job, job.cancelled ? 'cancelled' : job.bundle === null ? 'ready' : 'pending');
}

export function crash(job: ModelJob): void {
  job.crashes += 1;
  if (job.crashes >= maxCrashes && !job.cancelled) put(job, 'dead');
  else giveBack(job);
  job.suspect = job.state === 'ready';
}

/**
 * Ends the node. Charges the suspects that it ran, or all its jobs if it ran none, and every job of a bundle.
 */
export function die(model: Model): void {
  const running = jobsOf(model).filter(({ state }) => state === 'running');
  const suspects = running.filter(({ suspect }) => suspect);
  const charged = suspects.length > 0 ? suspects : running;
  for (const job of running) {
    if (charged.includes(job) || job.bundle !== null) crash(job);
    else giveBack(job);
    job.suspect = job.state === 'ready';
  }
}

/** Makes work items of jobs, in this order; together they form one bundle. */
export function schedule(model: Model, jobs: readonly ModelJob[], together: boolean): void {
  for (const job of jobs) {
    model.positions += 1;
    job.position = model.positions;
    put(job, 'ready');
    job.suspect = job.crashes > 0;
    job.bundle = together ? (jobs[0]?.id ?? null) : null;
  }
}

/** True if one more job may be inserted. */
export function hasRoom(model: Model): boolean {
  const waiting = jobsOf(model).filter(({ state }) => ['pending', 'ready', 'running'].includes(state));
  return model.limit === null || waiting.length < model.limit;
}

/** True if a job may go with others: one whose next failure or crash would be its last goes alone. */
export const isSafe = ({ tries, crashes }: ModelJob): boolean =>
  crashes === 0 && (tries === 0 || tries + 1 < maxTries);

/**
 * Returns the jobs that a claim of up to `max` units gets. Time stands still in the model, so a node runs one
 * suspect at a time.
 */
export function claimable(model: Model, max: number): readonly ModelJob[] {
  const items = jobsOf(model)
    .filter(({ state }) => state === 'ready' || state === 'running')
    .toSorted((a, b) => a.position - b.position);
  const ready = items.filter(({ state }) => state === 'ready');
  const isBusy = items.some(({ state, suspect }) => state === 'running' && suspect);
  const suspect = max > 0 && !isBusy ? ready.find((job) => job.suspect) : undefined;
  const plain = ready.filter((job) => !job.suspect && (job.bundle === null || model.takesBundles));
  const units = [...Map.groupBy(plain, ({ id, bundle }) => bundle ?? id).values()];
  const first = suspect === undefined ? [] : [suspect];
  return [...first, ...units.slice(0, max - first.length).flat()].toSorted((a, b) => a.position - b.position);
}

/** Sets in the database whether the node accepts bundles. */
export async function takesBundles(ground: Ground, whole: boolean): Promise<void> {
  await ground.sql(`update pgqueue.node set tasks = jsonb_set(tasks, '{hello,batch}', $1::jsonb)`, [
    String(whole),
  ]);
}

/** Limits the number of waiting jobs of a key. */
export async function limitTo(ground: Ground, limit: number | null): Promise<void> {
  await ground.sql(
    `insert into pgqueue.queue_config (queue, key_pending) values ('default', $1)
     on conflict (queue) do update set key_pending = excluded.key_pending`,
    [limit],
  );
}
