import { randomUUID } from 'node:crypto';
import type { Ground } from './database-support.ts';

/** What the database should make of jobs, in a few lines: no time, no locks, one node. */
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
  /** The batch that it was dispatched with, and the first job of its bundle. */
  batch: number;
  bundle: string | null;
  token: string | undefined;
  cancelled: boolean;
  checkpoint: number | null;
}

export interface Model {
  readonly jobs: (ModelJob | undefined)[];
  positions: number;
  batches: number;
  /** `key_pending` of their queue. */
  limit: number | null;
  /** Whether the node takes bundles whole. */
  takesBundles: boolean;
}

export const emptyModel = (): Model => ({
  jobs: [],
  positions: 0,
  batches: 0,
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
    batch: 0,
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
  if (state === 'done' || state === 'dead' || state === 'cancelled') job.checkpoint = null;
}

export function crash(job: ModelJob): void {
  const wasCancelled = job.cancelled;
  job.crashes += 1;
  put(job, wasCancelled ? 'cancelled' : job.crashes >= maxCrashes ? 'dead' : 'ready');
  job.suspect = job.state === 'ready';
}

/** The node dies: charged are the suspects that it ran, or all, where it ran none. */
export function die(model: Model): void {
  const running = jobsOf(model).filter(({ state }) => state === 'running');
  const suspects = running.filter(({ suspect }) => suspect);
  const charged = suspects.length > 0 ? suspects : running;
  for (const job of running) {
    if (charged.includes(job)) crash(job);
    else put(job, job.cancelled ? 'cancelled' : 'ready');
    job.suspect = job.state === 'ready';
  }
}

/** Work items for those of them that are pending, in this order; of several together, one bundle. */
export function schedule(model: Model, jobs: readonly ModelJob[], together: boolean): void {
  model.batches += 1;
  for (const job of jobs) {
    model.positions += 1;
    [job.position, job.batch] = [model.positions, model.batches];
    put(job, 'ready');
    job.suspect = job.crashes > 0;
    job.bundle = together ? (jobs[0]?.id ?? null) : null;
  }
}

/** Whether one more job may be inserted. */
export function hasRoom(model: Model): boolean {
  const waiting = jobsOf(model).filter(({ state }) => ['pending', 'ready', 'running'].includes(state));
  return model.limit === null || waiting.length < model.limit;
}

/** What a claim of up to `max` units gets. No time goes by here, so a node runs one suspect at a time. */
export function claimable(model: Model, max: number): readonly ModelJob[] {
  const items = jobsOf(model)
    .filter(({ state }) => state === 'ready' || state === 'running')
    .toSorted((a, b) => a.position - b.position);
  const running = items.filter(({ state }) => state === 'running');
  const ready = items.filter(({ state }) => state === 'ready');
  const held = new Set(running.map(({ bundle }) => bundle ?? 'none'));
  const mayBegin = (job: ModelJob): boolean => isSuspect(job) && !held.has(job.bundle ?? '');
  const suspect = max > 0 && !running.some(isSuspect) ? ready.find(mayBegin) : undefined;
  const units = ready.flatMap((job) => {
    const isTaken = suspect?.bundle !== undefined && suspect.bundle !== null && job.bundle === suspect.bundle;
    const unit = isTaken ? [] : unitOf(model, job, items);
    return unit.length > 0 ? [unit] : [];
  });
  const first = suspect === undefined ? [] : [suspect];
  return [...first, ...units.slice(0, max - first.length).flat()].toSorted((a, b) => a.position - b.position);
}

const isSuspect = ({ suspect }: ModelJob): boolean => suspect;

/** What comes with a job that is ready: its bundle, where it is the first of it and nobody has any of it. */
function unitOf(model: Model, job: ModelJob, items: readonly ModelJob[]): readonly ModelJob[] {
  if (job.bundle === null) return isSuspect(job) ? [] : [job];
  const all = items.filter(({ bundle }) => bundle === job.bundle);
  if (all[0] !== job || all.some(({ state }) => state === 'running')) return [];
  const members = all.filter((other) => other.batch === job.batch && !isSuspect(other));
  // one whose next failure would be its last is not drawn into others'
  const safe = members.filter(({ tries }) => !(tries > 0 && tries + 1 >= maxTries));
  return model.takesBundles && safe.length > 0 ? safe : members.slice(0, 1);
}

/** Whether the node takes them whole. */
export async function takesBundles(ground: Ground, whole: boolean): Promise<void> {
  await ground.sql(`update pgqueue.node set tasks = jsonb_set(tasks, '{hello,batch}', $1::jsonb)`, [
    String(whole),
  ]);
}

/** So many jobs of a key, at most. */
export async function limitTo(ground: Ground, limit: number | null): Promise<void> {
  await ground.sql(
    `insert into pgqueue.queue_config (queue, key_pending) values ('default', $1)
     on conflict (queue) do update set key_pending = excluded.key_pending`,
    [limit],
  );
}
