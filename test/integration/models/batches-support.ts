import { randomUUID } from 'node:crypto';

/** A small model of work items and their jobs as the database should keep them: without times and locks. */
export const maxTries = 2;
export const maxCrashes = 2;

export type End = 'done' | 'dead' | 'cancelled';

export interface Job {
  readonly id: string;
  /** `waiting`: it is due, and may have a work item. */
  state: 'waiting' | 'delayed' | End;
  tries: number;
  crashes: number;
}

/** A row of WORK_QUEUE. */
export interface Item {
  position: number;
  jobs: readonly Job[];
  batch: boolean;
  node: string | null;
  token: string | null;
  suspect: boolean;
  /** Its cancellation was asked for. */
  told: boolean;
}

export interface Model {
  jobs: Job[];
  /** In the order of their positions. */
  items: Item[];
}

export function newJob(): Job {
  return { id: randomUUID(), state: 'waiting', tries: 0, crashes: 0 };
}

export function itemOf({ items }: Model, job: Job): Item | undefined {
  return items.find(({ jobs }) => jobs.includes(job));
}

export function pendingOf(model: Model): readonly Job[] {
  return model.jobs.filter((job) => job.state === 'waiting' && itemOf(model, job) === undefined);
}

function sort(model: Model): void {
  model.items.sort((a, b) => a.position - b.position);
}

/**
 * Adds a work item for each list of jobs, without jobs that are not pending. `place` returns an item's
 * position by its first job.
 */
export function dispatched(
  model: Model,
  rows: readonly (readonly Job[])[],
  place: (job: Job) => number | undefined,
): void {
  const pending = new Set(pendingOf(model));
  for (const row of rows) {
    const jobs = row.filter((job) => pending.has(job));
    const [first] = jobs;
    if (first === undefined) continue;
    const batch = jobs.length > 1;
    const suspect = !batch && first.crashes > 0;
    const position = place(first) ?? -1;
    model.items.push({ position, jobs, batch, node: null, token: null, suspect, told: false });
  }
  sort(model);
}

/**
 * Replaces a batch by rows of single jobs: all of them, or those in `ids`. Returns the row of the others. A
 * batch that is the rest of another one is always taken apart completely.
 */
export function apart(model: Model, item: Item, ids?: readonly string[]): Item | undefined {
  if (!item.batch) return undefined;
  const { position, jobs } = item;
  const all = ids === undefined || position % 256 > 0;
  const alone = (job: Job): boolean => all || ids.includes(job.id);
  const singles = jobs.flatMap((job, index): Item[] =>
    alone(job) ? [{ ...item, position: position + index + 1, jobs: [job], batch: false }] : [],
  );
  const left = jobs.filter((job) => !alone(job));
  const rest: Item | undefined =
    left.length === 0 ? undefined : { ...item, position: position + jobs.length + 1, jobs: left };
  model.items = [
    ...model.items.filter((other) => other !== item),
    ...singles,
    ...(rest === undefined ? [] : [rest]),
  ];
  sort(model);
  return rest;
}

/** Takes apart the batches that have any of these jobs. */
export function spread(model: Model, jobs: readonly Job[]): void {
  for (const item of model.items.filter((one) => one.jobs.some((job) => jobs.includes(job))))
    apart(model, item);
}

export function spreadNode(model: Model, node: string): void {
  for (const item of model.items.filter((one) => one.node === node)) apart(model, item);
}

function drop(model: Model, item: Item): void {
  model.items = model.items.filter((other) => other !== item);
}

/** Ends the jobs of an item, and removes the item. */
export function end(model: Model, item: Item, state: Job['state']): void {
  for (const job of item.jobs) job.state = state;
  drop(model, item);
}

/** Makes an item ready again, in its old place; or cancels it if that was asked for. */
export function release(model: Model, item: Item): void {
  if (item.told) end(model, item, 'cancelled');
  [item.node, item.token] = [null, null];
}

export function takeBack(model: Model, jobs: readonly Job[]): readonly string[] {
  spread(model, jobs);
  const back = model.items.filter(
    ({ node, jobs: [job] }) => node === null && job !== undefined && jobs.includes(job),
  );
  for (const item of back) drop(model, item);
  return back.flatMap((item) => item.jobs.map(({ id }) => id));
}

/**
 * Returns the items that a claim gets. With `ahead` as a number, batches stay whole, and up to `ahead`
 * batches come beyond `max`; with null, the first ones are taken apart. Time stands still in the model, so a
 * node holds one suspect.
 */
export function claimed(
  model: Model,
  node: string,
  { max, ahead }: { readonly max: number; readonly ahead: number | null },
): readonly Item[] {
  if (ahead === null) {
    for (const item of model.items.filter(isReadyBatch).slice(0, Math.floor((max + 1) / 2)))
      apart(model, item);
  }
  const ready = model.items.filter((item) => item.node === null);
  const holds = model.items.some((item) => item.suspect && item.node === node);
  const suspect = holds ? undefined : ready.find((item) => item.suspect);
  const left = max - (suspect === undefined ? 0 : 1);
  const taken = ready.filter((item) => !item.suspect && (ahead !== null || !item.batch)).slice(0, left);
  const first = suspect === undefined ? taken : [suspect, ...taken];
  if (taken.length < left || ahead === null) return first;
  const from = first.at(-1)?.position ?? 0;
  const next = ready.filter((item) => !item.suspect && item.position > from).slice(0, ahead);
  const single = next.findIndex(({ batch }) => !batch);
  return [...first, ...(single < 0 ? next : next.slice(0, single))];
}

const isReadyBatch = ({ node, batch }: Item): boolean => node === null && batch;

/** Ends the lease of a single job by a crash, which another job may have caused. */
export function crash(model: Model, item: Item, charged: boolean): void {
  const [job] = item.jobs;
  if (job === undefined) return;
  if (charged) job.crashes += 1;
  if (item.told) end(model, item, 'cancelled');
  else if (charged && job.crashes >= maxCrashes) end(model, item, 'dead');
  else Object.assign(item, { node: null, token: null, suspect: true });
}

/**
 * Ends a node. Charges the suspects that it held, or all its items if it held none. Returns the number of
 * items.
 */
export function die(model: Model, node: string): number {
  spreadNode(model, node);
  const held = model.items.filter((item) => item.node === node);
  const suspects = held.filter(({ suspect }) => suspect);
  const charged = suspects.length > 0 ? suspects : held;
  for (const item of held) crash(model, item, charged.includes(item));
  return held.length;
}
