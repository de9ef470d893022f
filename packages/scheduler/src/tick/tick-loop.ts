import type { Loop } from '@pgqueue/core/internal';
import { retryPauseMs, startLoop } from '@pgqueue/core/internal';
import type { HintedJob, Leader } from '@pgqueue/postgres/internal';
import { leadershipLostState, readHint, sqlState } from '@pgqueue/postgres/internal';
import type { Dispatcher } from './tick.ts';
import type { Election } from '../leadership/election.ts';

import type { Settings } from '../options.ts';

/** Pause of a standby, in milliseconds. Being elected wakes the loop. */
const idleMs = 3_600_000;
/** Most hinted jobs remembered until the next tick. */
const toldMax = 100;
const isId = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Ticks that hints can wake. */
export interface WokenTicks extends Ticks {
  /**
   * Wakes a tick because jobs have ended; nothing new needs to be read. `payload`: their ids; without ids,
   * other jobs ended too.
   */
  readonly wakeDone: (payload: string) => void;
  /**
   * Wakes a tick because jobs were enqueued. `payload`: a list of jobs; any other content means other jobs.
   */
  readonly wakeNew: (payload: string) => void;
}

/** Reasons for the next tick. */
interface Woken {
  /** Null: jobs not listed here have ended, too. */
  ended: string[] | null;
  readonly jobs: HintedJob[];
  /** Woken by hints, or by something else. */
  hinted: boolean;
  otherwise: boolean;
}

function nothing(): Woken {
  return { ended: [], jobs: [], hinted: false, otherwise: false };
}

export function startTicks({
  election,
  dispatcher,
  settings,
}: {
  readonly election: Election;
  readonly dispatcher: Dispatcher;
  readonly settings: Settings;
}): WokenTicks {
  let leader: Leader | undefined;
  let tickedAt = -Infinity;
  let woken = nothing();
  const loop = startLoop({
    step: async () => {
      leader = election.term();
      if (leader === undefined) return idleMs;
      const restMs = woken.otherwise ? dispatcher.restMs() : 0;
      if (restMs > 0) return restMs;
      const { otherwise, hinted, ended, jobs } = woken;
      woken = nothing();
      const news = hinted && !otherwise ? { ended, jobs } : undefined;
      const nextMs = await dispatcher.tick(leader, news);
      tickedAt = performance.now();
      return nextMs;
    },
    failed: (error, failures) => {
      if (sqlState(error) === leadershipLostState) {
        if (leader !== undefined) election.lost(leader.epoch);
        // this scheduler may have been elected again during the tick
        return election.term() === undefined ? idleMs : 0;
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
      const jobs = readHint(payload);
      if (jobs === undefined || woken.jobs.length + jobs.length > toldMax) woken.otherwise = true;
      else woken.jobs.push(...jobs);
      woken.hinted = true;
      loop.wake();
    },
    tickedMsAgo: () => performance.now() - tickedAt,
  };
}

/** The tick loop, and the age of the last successful tick. */
export interface Ticks extends Loop {
  /** Milliseconds since the last successful tick; Infinity before the first. */
  readonly tickedMsAgo: () => number;
}
