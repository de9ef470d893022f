import type { Settings } from '../options.ts';
import type { LeaderState } from '../state/leader-state.ts';

/** Target duration of a tick, in milliseconds, because every new job waits for the current tick. */
const tickGoalMs = 50;
/**
 * Smallest batch after slow ticks, unless `batchMax` is smaller. With thousands of waiting lanes, most of a
 * tick is spent on the lanes: half as many jobs hardly shorten it, and double the cost per job.
 */
const batchMin = 1_000;

/**
 * Records the tick's results for the next tick. `looked`: the snapshot was read. A tick planned from hints
 * takes half the time and says nothing about how long work items must last.
 */
export function remember(
  state: LeaderState,
  { batchMax }: Settings,
  tick: {
    readonly room: number;
    readonly jobs: number;
    readonly written: number;
    readonly durationMs: number;
    readonly looked: boolean;
  },
): void {
  const { room, written, durationMs, looked } = tick;
  state.room = room;
  state.dispatched = written;
  if (written > 0 && looked) state.tickMs += (durationMs - state.tickMs) * 0.2;
  state.batch = batchAfter(state, { ...tick, batchMax });
}

/**
 * Returns the next batch size: smaller after a slow tick with a batch at least half full (a slow database,
 * thousands of lanes), larger again after fast ticks.
 */
function batchAfter(
  { batch }: LeaderState,
  tick: { readonly jobs: number; readonly durationMs: number; readonly batchMax: number },
): number {
  const { jobs, durationMs, batchMax } = tick;
  if (durationMs > tickGoalMs && jobs * 2 > batch)
    return Math.max(Math.min(batchMin, batchMax), Math.ceil(batch * 0.8));
  return durationMs < tickGoalMs / 2 ? Math.min(batchMax, Math.ceil(batch * 1.1)) : batch;
}
