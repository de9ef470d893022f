import type { Loop } from '@pgqueue/core';
import { retryPauseMs, startLoop } from '@pgqueue/core';
import type { HintedJob, Leader } from '@pgqueue/postgres';
import { leadershipLostState, readHint, sqlState } from '@pgqueue/postgres';
import type { Dispatcher } from './tick.ts';
import type { Leadership } from '../leadership/election.ts';

import type { Settings } from '../options.ts';

/** Who does not lead asks again when it is elected. */
const idleMs = 3_600_000;
/** Jobs that hints tell of are remembered until the next tick: so many. */
const toldMax = 100;
const isId = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Ticks that hints wake. */
export interface WokenTicks extends Ticks {
  /** Jobs have ended: nothing new needs to be looked for. `payload`: their ids; without any, others ended. */
  readonly wakeDone: (payload: string) => void;
  /** Jobs were enqueued. `payload`: one that describes itself, or others. */
  readonly wakeNew: (payload: string) => void;
}

/** What has woken the next tick. */
interface Woken {
  /** Null: others than those that were told have ended, too. */
  ended: string[] | null;
  readonly jobs: HintedJob[];
  /** By hints, and by something else. */
  hinted: boolean;
  otherwise: boolean;
}

function nothing(): Woken {
  return { ended: [], jobs: [], hinted: false, otherwise: false };
}

export function startTicks({
  leadership,
  dispatcher,
  settings,
}: {
  readonly leadership: Leadership;
  readonly dispatcher: Dispatcher;
  readonly settings: Settings;
}): WokenTicks {
  let leader: Leader | undefined;
  let tickedAt = -Infinity;
  let woken = nothing();
  const loop = startLoop({
    step: async () => {
      leader = leadership.reign();
      if (leader === undefined) return idleMs;
      const { otherwise, hinted, ended, jobs } = woken;
      woken = nothing();
      const news = hinted && !otherwise ? { ended: ended ?? [], jobs } : undefined;
      const nextMs = await dispatcher.tick(leader, news);
      tickedAt = performance.now();
      return nextMs;
    },
    failed: (error, failures) => {
      if (sqlState(error) === leadershipLostState) {
        if (leader !== undefined) leadership.lost(leader.epoch);
        // it may have been elected anew while this tick was under way
        return leadership.reign() === undefined ? idleMs : 0;
      }
      const retryMs = retryPauseMs(failures);
      settings.observe({ type: 'database.error', during: 'tick', error, retryMs });
      return retryMs;
    },
  });
  return {
    ...loop,
    wake: () => {
      woken.otherwise = true;
      loop.wake();
    },
    wakeDone: (payload) => {
      const ids = payload.split(',').filter((id) => isId.test(id));
      if (woken.ended !== null && ids.length > 0 && woken.ended.length + ids.length <= toldMax)
        woken.ended.push(...ids);
      else woken.ended = null;
      woken.hinted = true;
      loop.wake();
    },
    wakeNew: (payload) => {
      const job = readHint(payload);
      if (job === undefined || woken.jobs.length >= toldMax) woken.otherwise = true;
      else woken.jobs.push(job);
      woken.hinted = true;
      loop.wake();
    },
    tickedMsAgo: () => performance.now() - tickedAt,
  };
}

/** The loop of ticks, and when one last succeeded. */
export interface Ticks extends Loop {
  /** Infinity: none yet. */
  readonly tickedMsAgo: () => number;
}
