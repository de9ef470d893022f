import type { Database } from '@pgqueue/postgres';
import type { FlowsAdvanced, Leader } from '@pgqueue/postgres/internal';
import { advanceFlows, stopJobs } from '@pgqueue/postgres/internal';
import type { Settings } from '../options.ts';

/** State that a leader keeps about flows between two calls. Times are of the monotonic clock, in milliseconds. */
export interface FlowMemory {
  /** Number from which to take tallies. */
  from: number;
  /** Number from which a rescan goes on that has not reached `from`; undefined: there is none. */
  resume: number | undefined;
  /** Number from which a short rescan reads: `from` as it was 10 to 20 s ago. */
  shortFrom: number;
  /** `from` at the last mark: the next `shortFrom`. */
  mark: number;
  markAt: number;
  /** Time of the next short rescan: a late commit may stand before `from`. */
  shortAt: number;
  /** True if the last call looked for no late commits. */
  ahead: boolean;
  /** Time of the next rescan from the start: a commit may be later still. */
  rescanAt: number;
  /** Time of the next look at open steps whose tallies may be missing. */
  walkAt: number;
  /** The flow that the walk has reached. */
  walk: string;
  /** Smoothed duration of a rescan with a walk. */
  walkMs: number;
}

/** Most tallies taken by one call, and jobs cancelled by one call. */
const [talliesMax, stopMax] = [500, 500];
const firstFlow = '00000000-0000-0000-0000-000000000000';
/** Intervals of short rescans and of marks, in milliseconds. */
const [shortMs, markMs] = [250, 10_000];
/** Interval of rescans and walks, in milliseconds, unless they take more than a twentieth of the time. */
const rescanMs = 500;
const timeShare = 20;

export function createFlowMemory(): FlowMemory {
  return {
    from: 0,
    resume: undefined,
    shortFrom: 0,
    mark: 0,
    markAt: 0,
    shortAt: 0,
    ahead: false,
    rescanAt: 0,
    walkAt: 0,
    walk: firstFlow,
    walkMs: 0,
  };
}

/** Moves flows on, once. `now`: milliseconds of the monotonic clock. */
export async function advanceOnce(
  database: Database,
  leader: Leader,
  {
    memory,
    observe,
    now = () => performance.now(),
  }: {
    readonly memory: FlowMemory;
    readonly observe: Settings['observe'];
    readonly now?: () => number;
  },
): Promise<FlowsAdvanced> {
  const beganAt = now();
  const rescans = beganAt >= memory.rescanAt;
  const walks = beganAt >= memory.walkAt;
  const short = beganAt >= memory.shortAt;
  const advanced = await advanceFlows(database, leader, {
    from: rescans ? 0 : short ? memory.shortFrom : (memory.resume ?? memory.from),
    max: talliesMax,
    walk: walks ? memory.walk : null,
  });
  // a full page of a rescan, which may be all of flows that others have locked, is not read again at once
  const { more, next } = advanced;
  memory.resume = more && next !== null && next < memory.from ? next : undefined;
  memory.from = Math.max(memory.from, next ?? 0);
  const endedAt = now();
  if (rescans || walks) memory.walkMs += (endedAt - beganAt - memory.walkMs) * 0.2;
  const nextAt = endedAt + Math.max(rescanMs, timeShare * memory.walkMs);
  if (rescans) memory.rescanAt = nextAt;
  memory.ahead = !rescans && !short;
  if (!memory.ahead) memory.shortAt = endedAt + shortMs;
  if (beganAt >= memory.markAt) {
    [memory.shortFrom, memory.mark, memory.markAt] = [memory.mark, memory.from, endedAt + markMs];
  }
  if (walks) [memory.walk, memory.walkAt] = [advanced.walked ?? firstFlow, nextAt];
  for (const { id, name, state } of advanced.ended) observe({ type: 'flow.ended', flow: id, name, state });
  return advanced;
}

/** Cancels jobs of steps that are to be stopped. Resolves to whether there may be more. */
export async function stopOnce(database: Database, leader: Leader): Promise<boolean> {
  return (await stopJobs(database, leader, stopMax)) > 0;
}
