import { setTimeout as pause } from 'node:timers/promises';
import type { Database } from '@pgqueue/postgres';
import type { MoveId, MovePlace, Received } from '@pgqueue/postgres/internal';
import {
  finishMove,
  forgetSlice,
  handOver,
  holdKey,
  nextSlice,
  noMoveState,
  persistently,
  receiveJobs,
  sqlState,
} from '@pgqueue/postgres/internal';

/** State of a move under way. */
export interface MoveProgress {
  readonly key: string;
  /** `tail`: the old home works on; `end`: the key is held, and what still runs there ends; `open`: it is over. */
  readonly phase: 'tail' | 'end' | 'open';
  /** Jobs that have come to the new home by this call. */
  readonly jobs: number;
  /** In phase `end`: what the old home has left. */
  readonly left?: 'running' | 'waiting' | 'delayed';
}

export interface Moving {
  readonly id: MoveId;
  readonly old: Database;
  readonly home: Database;
  /** Number of the old home. */
  readonly from: number;
  readonly tell: (progress: Omit<MoveProgress, 'key'>) => void;
  readonly signal: AbortSignal | undefined;
}

/** Sums over the slices of a move. */
export interface Moved extends Received {
  /** Milliseconds for which neither home began a job of the key; null: another mover ended the move. */
  readonly pausedMs: number | null;
}

/** Jobs of one slice. More cost less for each, and hold up their cancellation longer. */
const sliceMax = 2_000;
/** Shortest and longest time between two looks at jobs that still run. */
const lookMs = { min: 20, max: 1_000 } as const;
/** Time between two signs of life to the new home, while jobs that run are waited for. */
const aliveMs = 15_000;

/** Waits, and rejects as soon as the signal aborts. */
function rest(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return pause(ms, undefined, signal === undefined ? {} : { signal });
}

/** Reports whether an installation refused a step since the move is not under way there: it has ended. */
export function isOver(error: unknown): boolean {
  return sqlState(error) === noMoveState;
}

/**
 * Hands over all jobs of a key, and resolves when the old home has none left. Begins with what an earlier mover left on
 * its way. The old home works on the head of the key while its tail is handed over; it stops for the rest. All steps can be
 * repeated, and are, while a database is gone for a moment.
 */
export async function handOverAll(moving: Moving): Promise<Moved> {
  const sums = { jobs: 0, known: 0, freed: 0 };
  try {
    await deliver(moving, sums);
    await handOverTail(moving, sums);
    const pausedMs = await handOverEnd(moving, sums);
    return { ...sums, pausedMs };
  } catch (error) {
    // the old home forgets a move only when nothing is left, and the new one opens only after that
    if (!isOver(error)) throw error;
    return { ...sums, pausedMs: null };
  }
}

type Sums = { -readonly [Name in keyof Received]: number };

async function handOverTail(moving: Moving, sums: Sums): Promise<void> {
  await pass(moving, sums, { after: delayed, last: false });
  // a pass leaves out what came behind its place: the last few go when the key is held
  for (let passes = 0; passes < 20; passes += 1) {
    if ((await pass(moving, sums, { after: null, last: false })) < sliceMax) return;
  }
}

/** Resolves to the milliseconds that the key was held in both homes. */
async function handOverEnd(moving: Moving, sums: Sums): Promise<number> {
  const { id, old, home, from, tell, signal } = moving;
  const heldAt = performance.now();
  let toldAt = heldAt;
  let waitMs: number = lookMs.min;
  for (;;) {
    const went = await pass(moving, sums, { after: null, last: true });
    const left = await persistently(() => finishMove(old, id));
    if (left === 'ended') return performance.now() - heldAt;
    if (left === 'slices') await deliver(moving, sums);
    else tell({ phase: 'end', jobs: sums.jobs, left });
    if (left === 'delayed') await pass(moving, sums, { after: delayed, last: true });
    if (performance.now() > toldAt + aliveMs) {
      await persistently(() => holdKey(home, id, from)); // changes nothing, and tells that its mover lives
      toldAt = performance.now();
    }
    waitMs = went > 0 ? lookMs.min : Math.min(lookMs.max, waitMs * 1.3);
    await rest(waitMs, signal);
  }
}

const delayed: MovePlace = { due: '-infinity' };

/** Goes once over the waiting, or the delayed jobs. Resolves to the number that left the old home's QUEUE. */
async function pass(
  moving: Moving,
  sums: Sums,
  { after, last }: { readonly after: MovePlace | null; readonly last: boolean },
): Promise<number> {
  const { id, old, tell, signal } = moving;
  let went = 0;
  let place = after;
  let delivering = Promise.resolve();
  for (;;) {
    signal?.throwIfAborted();
    const from = place;
    // one slice leaves while the one before it arrives
    const [{ jobs, next }] = await Promise.all([
      persistently(() => handOver(old, id, { after: from, jobsMax: sliceMax, last })),
      delivering,
    ]);
    went += jobs;
    delivering = jobs > 0 ? deliverOne(moving, sums).then(() => {}) : Promise.resolve();
    delivering.catch(() => {}); // it is awaited with the next slice
    if (next === null) break;
    if (jobs === 0) await rest(lookMs.min, signal); // the next one is locked
    place = next;
    tell({ phase: last ? 'end' : 'tail', jobs: sums.jobs });
  }
  await delivering;
  return went;
}

/** Brings all slices that are on their way to the new home. */
async function deliver(moving: Moving, sums: Sums): Promise<void> {
  while (await deliverOne(moving, sums));
}

/** Brings a slice to the new home. Resolves to false if there is none. */
async function deliverOne({ id, old, home }: Moving, sums: Sums): Promise<boolean> {
  const slice = await persistently(() => nextSlice(old, id.key));
  if (slice === undefined) return false;
  const { jobs, known, freed } = await persistently(() => receiveJobs(home, id, slice));
  await persistently(() => forgetSlice(old, id.key, slice));
  sums.jobs += jobs;
  sums.known += known;
  sums.freed += freed;
  return true;
}
