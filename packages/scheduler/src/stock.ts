import type { PlannedJob } from '@pgqueue/core';
import { laneName } from '@pgqueue/core';
import type { LaneBehind, LaneRow, Target } from '@pgqueue/postgres';
import { readBehind } from '@pgqueue/postgres';
import type { KnownJob } from './known-jobs.ts';
import type { Memory } from './memory.ts';

/*
 * Of lanes of which many go, more is known than one plan takes: while a plan is written, what comes behind is read by another connection. So most ticks
 * of a busy queue ask for nothing but what is in flight; what else was enqueued, or changed, is looked for by the others.
 */

/** So many jobs must be known of busy lanes, and as many as the last plan had places for. */
const stockMin = 100;
/** Every look is so old at most; and where something new was heard of. */
const lookMs = 50;
const lookNewsMs = 20;
/** Fewer are not worth a statement of their own. */
const tookMin = 64;
/** With less than what so many plans take, a lane is read on, up to what so many take. */
const plansMin = 1.5;
const plansMax = 3;
const depthMax = 2_000;
const lanesMax = 8;

/** In how many milliseconds a tick must look at everything, where it can live from what is known until then; undefined: now. */
export function stockLastsMs(memory: Memory, nowMs: number, news: boolean): number | undefined {
  const { lastLook, view, skipAhead, cursors } = memory;
  const room = Math.min(memory.room, memory.batch);
  if (lastLook === undefined || skipAhead.walking() || view.wants()) return undefined;
  const leftMs = lastLook.atMs + (news ? lookNewsMs : lookMs) - nowMs;
  if (leftMs <= 0) return undefined;
  let known = 0;
  for (const name of cursors.busy()) known += view.tail(name)?.known ?? 0;
  return known >= Math.max(stockMin, room) ? leftMs : undefined;
}

/** The last known job of a lane of which enough is known: its part of what a plan has places for. */
export function stockOf({ view, cursors, room }: Memory): (lane: string) => KnownJob | undefined {
  const lanes = [...cursors.busy()].length;
  const enough = Math.max(tookMin, Math.ceil(room / Math.max(1, lanes)));
  return (lane) => {
    const tail = view.tail(lane);
    return tail !== undefined && tail.known >= enough && !view.wants(lane) ? tail.last : undefined;
  };
}

/** What is to be read while this plan is written. `room`: places that there were before it. */
export function lanesToReadOn(
  { view, cursors }: Pick<Memory, 'view' | 'cursors'>,
  dispatch: readonly PlannedJob[],
  room: number,
): readonly LaneBehind[] {
  if (dispatch.length < tookMin) return [];
  const places = Math.max(room, dispatch.length);
  const busy = new Set(cursors.busy());
  const took = new Map<string, number>();
  for (const { id } of dispatch) {
    const job = view.find(id);
    if (job === undefined) continue;
    const name = laneName(job);
    if (busy.has(name)) took.set(name, (took.get(name) ?? 0) + 1);
  }
  const most = [...took].filter(([, jobs]) => jobs >= tookMin).toSorted(([, a], [, b]) => b - a);
  return most.slice(0, lanesMax).flatMap(([name, jobs]) => {
    const tail = view.tail(name);
    if (tail === undefined) return [];
    const own = (places * jobs) / dispatch.length;
    const left = tail.known - jobs;
    if (left >= plansMin * own) return [];
    const { queue, key, priority, seq } = tail.last;
    const depth = Math.min(depthMax, Math.ceil(plansMax * own - left));
    return [{ queue, key, behind: [priority, seq], depth }];
  });
}

/** Never rejects. Undefined: nothing was to be read, or could be. */
export async function readOn(
  database: Target,
  memory: Memory,
  plan: { readonly dispatch: readonly PlannedJob[]; readonly room: number },
): Promise<readonly LaneRow[] | undefined> {
  const lanes = lanesToReadOn(memory, plan.dispatch, plan.room);
  if (lanes.length === 0) return undefined;
  try {
    const rows = await readBehind(database, lanes);
    memory.cursors.sawBeside(rows);
    return rows;
  } catch {
    // as after any look that failed; the next one says why
    memory.cursors.reset();
    return undefined;
  }
}
