import { retryPauseMs, startLoop } from '@pgqueue/core';
import type { Leader } from '@pgqueue/postgres';
import { leadershipLostState, sqlState } from '@pgqueue/postgres';
import type { Dispatcher } from './dispatcher.ts';
import type { Leadership } from './leadership.ts';
import type { Ticks } from './liveness.ts';
import type { Settings } from './options.ts';

/** Who does not lead asks again when it is elected. */
const idleMs = 3_600_000;
/** Ended jobs that are remembered until the next tick. */
const endedMax = 100;
const isId = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Ticks that hints wake. */
export interface WokenTicks extends Ticks {
  /** Jobs have ended: nothing new needs to be looked for. `payload`: their ids; without any, others ended. */
  readonly wakeDone: (payload: string) => void;
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
  const woken = { done: false, otherwise: false };
  /** Null: others than those that were told ended, too. */
  let ended: readonly string[] | null = [];
  const loop = startLoop({
    step: async () => {
      leader = leadership.reign();
      if (leader === undefined) return idleMs;
      const onlyDone = woken.done && !woken.otherwise;
      const told = ended;
      [woken.done, woken.otherwise, ended] = [false, false, []];
      const nextMs = await dispatcher.tick(leader, onlyDone ? (told ?? []) : undefined);
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
  const wakeBy = (cause: keyof typeof woken): void => {
    woken[cause] = true;
    loop.wake();
  };
  return {
    ...loop,
    wake: () => wakeBy('otherwise'),
    wakeDone: (payload) => {
      const ids = payload.split(',').filter((id) => isId.test(id));
      const all = ids.length === 0 || ended === null ? null : [...ended, ...ids];
      ended = all === null || all.length > endedMax ? null : all;
      wakeBy('done');
    },
    tickedMsAgo: () => performance.now() - tickedAt,
  };
}
