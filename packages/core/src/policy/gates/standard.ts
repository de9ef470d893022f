import type { Gate } from '../gate.ts';
import { queueOf } from '../snapshot.ts';

/** What every plan must keep to, whatever the policy: pauses, and the limits and rates of queue_config. */
export function standardGates(): readonly Gate[] {
  return [pausedQueues()];
}

/** Holds the jobs of paused queues. */
export function pausedQueues(): Gate {
  return {
    name: 'paused_queue',
    onError: 'hold',
    open: (snapshot) => ({
      admits: ({ queue }) => (queueOf(snapshot, queue).paused ? 'hold_lane' : 'admit'),
      why: ({ queue }) => ({ message: `queue ${queue} is paused`, untilMs: null }),
    }),
  };
}
