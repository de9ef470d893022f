import { isRecord } from '../../options/options.ts';
import type { Gate, JobGroups, OpenGate } from '../gate.ts';
import type { JobFacts, QueueSeen, Snapshot } from '../snapshot.ts';
import { ownPart } from '../own-parts.ts';
import { laneName, own } from '../snapshot.ts';
import { bucketGate, openBuckets, restoreBuckets, withoutFull, writeBuckets } from './state/bucket-gate.ts';
import type { Buckets } from './state/buckets.ts';
import { openTallies } from './state/tallies.ts';
import { rememberUse } from './state/use.ts';
import { unlimited } from './state/unlimited.ts';
import { sayGroup } from './state/format.ts';

/**
 * Returns the gates that apply to every plan, whatever the policy: moves of keys between installations, pauses, and the
 * limits and rates of queue_config.
 */
export function standardGates(): readonly Gate[] {
  return [movingKeys(), pausedQueues(), queueConcurrency(), keyConcurrency(), queueRate(), keyRate()].map(
    ownPart,
  );
}

const byQueue: JobGroups = { of: ({ queue }) => queue, lane: true };
const byLane: JobGroups = { of: laneName, lane: true };

/** Holds the jobs of keys that move between installations. */
function movingKeys(): Gate {
  return {
    name: 'moving',
    onError: 'hold',
    groups: byLane,
    tellsTime: true,
    open: ({ moving = [] }) => {
      if (moving.length === 0) return unlimited;
      const keys = new Set(moving);
      return {
        admits: ({ key }) => (keys.has(key) ? 'hold_lane' : 'admit'),
        why: ({ key }) => ({
          message: `${sayGroup('key', key)} moves between installations: "pgqueue keys move" goes on with it`,
          untilMs: null,
        }),
      };
    },
  };
}

/** Holds the jobs of paused queues. */
export function pausedQueues(): Gate {
  return {
    name: 'paused_queue',
    onError: 'hold',
    groups: byQueue,
    tellsTime: true,
    open: ({ queues }) => {
      const paused = new Set(Object.keys(queues).filter((name) => queues[name]?.paused === true));
      if (paused.size === 0) return unlimited;
      return {
        admits: ({ queue }) => (paused.has(queue) ? 'hold_lane' : 'admit'),
        why: ({ queue }) => ({ message: `queue ${queue} is paused`, untilMs: null }),
      };
    },
  };
}

const ofQueue = {
  groupOf: ({ queue }: JobFacts): string => queue,
  costsOf: null,
  label: ({ queue }: JobFacts): string => `queue ${queue}`,
  held: 'hold_lane',
} as const;

/** Groups by key, within one queue. */
const ofKey = {
  ...ofQueue,
  groupOf: ({ key }: JobFacts): string => key,
  label: ({ queue, key }: JobFacts): string => `${sayGroup('key', key)} of queue ${queue}`,
} as const;

function queueConcurrency(): Gate {
  const memory = rememberUse(ofQueue);
  return {
    name: 'queue_concurrency',
    onError: 'hold',
    groups: byQueue,
    tellsTime: true,
    open: (snapshot) => {
      const limits = limitsOf(snapshot, ({ concurrency }) => concurrency);
      if (limits.size === 0) return unlimited;
      const limitOf = (queue: string): number | null => limits.get(queue) ?? null;
      return openTallies(snapshot, { ...ofQueue, limitOf }, memory);
    },
  };
}

function keyConcurrency(): Gate {
  const ofLane = { ...ofKey, groupOf: laneName };
  const memory = rememberUse(ofLane);
  return {
    name: 'key_concurrency',
    onError: 'hold',
    groups: byLane,
    tellsTime: true,
    open: (snapshot) => {
      const limits = limitsOf(snapshot, (queue) => queue.keyConcurrency);
      if (limits.size === 0) return unlimited;
      const limitOf = (lane: string): number | null => limits.get(queueNamed(lane)) ?? null;
      return openTallies(snapshot, { ...ofLane, limitOf }, memory);
    },
  };
}

/** Returns the queue of a {@link laneName}. */
function queueNamed(lane: string): string {
  const from = lane.indexOf(':') + 1;
  return lane.slice(from, from + Number(lane.slice(0, from - 1)));
}

function queueRate(): Gate {
  const gate = bucketGate('queue_rate', (snapshot) => {
    const rates = limitsOf(snapshot, ({ rate }) => rate);
    return rates.size === 0 ? null : { ...ofQueue, rateOf: (queue) => rates.get(queue) ?? null };
  });
  return { ...gate, groups: byQueue, tellsTime: true };
}

/** Buckets of each queue's keys, by queue. */
type KeyBuckets = Readonly<Record<string, Buckets>>;

function keyRate(): Gate {
  return {
    name: 'key_rate',
    onError: 'hold',
    groups: byLane,
    tellsTime: true,
    initial: {},
    restore: (saved, savedMs) => eachOf(isRecord(saved) ? saved : {}, (own) => restoreBuckets(own, savedMs)),
    written: (state, written) => eachOf(state as KeyBuckets, (own) => writeBuckets(own, written)),
    open: (snapshot, state) => {
      const rates = limitsOf(snapshot, (queue) => queue.keyRate);
      if (rates.size === 0) return unlimited;
      const before = state as KeyBuckets;
      const gates = new Map<string, OpenGate>();
      const gate = eachQueue(rates, (queue, rate) => {
        const made = openBuckets(
          { ...ofKey, rateOf: () => rate, byKey: true },
          snapshot,
          own(before, queue) ?? none,
        );
        gates.set(queue, made);
        return made;
      });
      return { ...gate, state: () => statesOf(before, gates, snapshot.nowMs) };
    },
  };
}

const none: Buckets = {};

/** Combines one gate for each queue that has such a limit into one gate. */
function eachQueue<Limit>(
  limits: ReadonlyMap<string, Limit>,
  open: (queue: string, limit: Limit) => OpenGate,
): OpenGate {
  const gates = new Map([...limits].map(([queue, limit]) => [queue, open(queue, limit)] as const));
  return {
    admits: (job, lane, member) => gates.get(job.queue)?.admits(job, lane, member) ?? 'admit',
    take: (job, lane, member) => gates.get(job.queue)?.take?.(job, lane, member),
    why: (job, lane) => (gates.get(job.queue) ?? unlimited).why(job, lane),
    nextMs: () => {
      const times = [...gates.values()].map((gate) => gate.nextMs?.() ?? Infinity);
      const first = times.reduce((one, other) => Math.min(one, other), Infinity);
      return first === Infinity ? null : first;
    },
  };
}

/**
 * Returns the saved state of all queues after a plan. The same object is returned if nothing changed. Otherwise all
 * queues are saved again, so also those whose keys do nothing now, or that have no rate any more, forget full buckets.
 */
function statesOf(before: KeyBuckets, gates: ReadonlyMap<string, OpenGate>, nowMs: number): KeyBuckets {
  const after = new Map(Object.entries(before));
  let changed = false;
  for (const [queue, gate] of gates) {
    const state = gate.state?.() as Buckets | undefined;
    if (state === undefined || state === (own(before, queue) ?? none)) continue;
    after.set(queue, state);
    changed = true;
  }
  if (!changed) return before;
  for (const [queue, buckets] of after) {
    if (buckets === own(before, queue)) after.set(queue, withoutFull(buckets, nowMs));
  }
  return Object.fromEntries([...after].filter(([, buckets]) => Object.keys(buckets).length > 0));
}

function eachOf<Value>(record: Readonly<Record<string, Value>>, of: (value: Value) => Buckets): KeyBuckets {
  const entries = Object.entries(record).map(([queue, value]) => [queue, of(value)] as const);
  const kept = entries.filter(([, buckets]) => Object.keys(buckets).length > 0);
  const same = kept.length === entries.length && kept.every(([queue, buckets]) => record[queue] === buckets);
  return same ? (record as unknown as KeyBuckets) : Object.fromEntries(kept);
}

/** Returns the limit of each queue that has one. */
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
