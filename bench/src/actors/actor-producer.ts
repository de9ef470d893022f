import { setTimeout as delay } from 'node:timers/promises';
import type { Range } from '../load.ts';
import { jobsOf } from '../load.ts';
import type { Enqueued, EnqueueOrder, FeedOrder } from './orders.ts';
import type { BenchProducer, Peer, Place, Stoppable } from '../peers/peer.ts';

/** Enqueues `count` jobs, or until `seconds` have passed. */
export async function enqueue(
  peer: Peer,
  place: Place,
  order: EnqueueOrder,
  told: (jobs: number) => void,
): Promise<Enqueued> {
  const { from, count, batch, connections, keys, key, seconds = Infinity } = order;
  const sink = await openSink(peer, place, order);
  let next = from;
  let jobs = 0;
  const began = performance.now();
  const loop = async (): Promise<void> => {
    while (next < from + count && performance.now() - began < seconds * 1_000) {
      const size = Math.min(batch, from + count - next);
      const first = next;
      next += size;
      await sink.put({ from: first, count: size, keys, key });
      jobs += size;
      told(size);
    }
  };
  try {
    await Promise.all(Array.from({ length: connections }, loop));
    return { kind: 'enqueued', jobs, seconds: (performance.now() - began) / 1_000 };
  } finally {
    await sink.stop();
  }
}

/** Takes ranges of jobs: a call for each, or for each job, or a flow for each. */
interface Sink extends Stoppable {
  readonly put: (range: Range) => Promise<void>;
}

async function openSink(
  peer: Peer,
  place: Place,
  { wish, batch, connections, steps }: EnqueueOrder | FeedOrder,
): Promise<Sink> {
  if (steps === undefined) {
    const producer = await peer.openProducer(place, wish, { calls: connections });
    return { put: (range) => put(producer, range, batch), stop: producer.close };
  }
  const starter = await peer.openFlowStarter?.(place, wish, { calls: connections });
  if (starter === undefined) throw new Error(`${peer.name} has no flows`);
  return {
    put: (range) => {
      const jobs = jobsOf(range);
      let next = 0;
      return starter.start(steps.map((size) => jobs.slice(next, (next += size))));
    },
    stop: starter.close,
  };
}

async function put(producer: BenchProducer, range: Range, batch: number): Promise<void> {
  const jobs = jobsOf(range);
  if (batch > 1) return producer.many(jobs);
  for (const job of jobs) await producer.one(job);
}

/** A producer that runs alongside the workers. */
export interface Feed {
  readonly ran: (jobs: number) => void;
  readonly stop: () => Promise<Enqueued>;
}

const pauseMs = 2;

/**
 * Enqueues until stopped, at the order's rate if it has one, and at most `leadMax` jobs ahead of the workers.
 */
export async function startFeed(
  peer: Peer,
  place: Place,
  order: FeedOrder,
  told: (jobs: number) => void,
): Promise<Feed> {
  const { from, to, batch, connections, leadMax } = order;
  const sink = await openSink(peer, place, order);
  const began = performance.now();
  const stopping = new AbortController();
  const isDue = paceOf(order);
  let [next, jobs, ran] = [from, 0, 0];
  const loop = async (): Promise<void> => {
    while (!stopping.signal.aborted && next < to) {
      if (next - ran >= leadMax || !isDue(next - from)) {
        await delay(pauseMs);
        continue;
      }
      const first = next;
      const count = Math.min(batch, to - next);
      next += count;
      await sink.put({ from: first, count });
      jobs += count;
      told(jobs);
    }
  };
  const loops = Promise.all(Array.from({ length: connections }, loop));
  // a failure is thrown by stop()
  loops.catch(() => {});
  return {
    ran: (now) => {
      ran = now;
    },
    stop: async () => {
      stopping.abort();
      try {
        await loops;
        return { kind: 'enqueued', jobs, seconds: (performance.now() - began) / 1_000 };
      } finally {
        await sink.stop();
      }
    },
  };
}

/**
 * Reports whether job `n` may be enqueued yet. Due times are exponentially distributed, with mean
 * `perSecond`.
 */
function paceOf({ perSecond, batch }: FeedOrder): (n: number) => boolean {
  if (perSecond === undefined) return () => true;
  const began = performance.now();
  let dueMs = 0;
  let given = 0;
  return (n) => {
    for (; given <= n; given += batch) dueMs -= (Math.log(1 - Math.random()) * 1_000 * batch) / perSecond;
    return performance.now() - began >= dueMs;
  };
}
