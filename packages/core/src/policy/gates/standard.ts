import type { Gate, OpenGate } from '../gate.ts';
import type { JobFacts, QueueSeen, Snapshot } from '../snapshot.ts';
import { laneName, queueOf } from '../snapshot.ts';
import { bucketGate } from './bucket-gate.ts';
import { oneJob } from './group.ts';
import { openTallies } from './tallies.ts';
import { sayGroup } from './words.ts';

/** What every plan must keep to, whatever the policy: pauses, and the limits and rates of queue_config. */
export function standardGates(): readonly Gate[] {
  return [pausedQueues(), ...[byQueue, byKey].map(concurrencyOf), ...[byQueue, byKey].map(rateOf)];
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

/** Where a limit of queue_config stands, and what counts together under it. */
interface Scope {
  readonly name: 'queue' | 'key';
  readonly concurrency: (queue: QueueSeen) => QueueSeen['concurrency'];
  readonly rate: (queue: QueueSeen) => QueueSeen['rate'];
  readonly groupOf: (job: JobFacts) => string;
  readonly label: (job: JobFacts) => string;
}

const byQueue: Scope = {
  name: 'queue',
  concurrency: ({ concurrency }) => concurrency,
  rate: ({ rate }) => rate,
  groupOf: ({ queue }) => queue,
  label: ({ queue }) => `queue ${queue}`,
};

const byKey: Scope = {
  name: 'key',
  concurrency: ({ keyConcurrency }) => keyConcurrency,
  rate: ({ keyRate }) => keyRate,
  groupOf: laneName,
  label: ({ queue, key }) => `${sayGroup('key', key)} of queue ${queue}`,
};

const unlimited: OpenGate = { admits: () => 'admit', why: () => ({ message: 'it may go', untilMs: null }) };

function concurrencyOf({ name, concurrency, groupOf, label }: Scope): Gate {
  return {
    name: `${name}_concurrency`,
    onError: 'hold',
    open: (snapshot) => {
      const limits = limitsOf(snapshot, concurrency);
      if (limits.size === 0) return unlimited;
      return openTallies(snapshot, {
        groupOf: (job) => (limits.has(job.queue) ? groupOf(job) : null),
        costsOf: () => oneJob,
        limitOf: (_value, { queue }) => limits.get(queue) ?? null,
        label,
        held: 'hold_lane',
      });
    },
  };
}

function rateOf({ name, rate, groupOf, label }: Scope): Gate {
  return bucketGate(`${name}_rate`, (snapshot) => {
    const rates = limitsOf(snapshot, rate);
    if (rates.size === 0) return null;
    return {
      groupOf: (job) => (rates.has(job.queue) ? groupOf(job) : null),
      costsOf: () => oneJob,
      rateOf: (_value, { queue }) => rates.get(queue) ?? null,
      label,
      held: 'hold_lane',
    };
  });
}

/** The queues that have such a limit. */
function limitsOf<Limit>(
  { queues }: Pick<Snapshot, 'queues'>,
  of: (queue: QueueSeen) => Limit | null,
): ReadonlyMap<string, Limit> {
  const limits = new Map<string, Limit>();
  for (const [name, queue] of Object.entries(queues)) {
    const limit = of(queue);
    if (limit !== null) limits.set(name, limit);
  }
  return limits;
}
