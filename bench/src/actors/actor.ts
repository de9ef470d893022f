// A process of the benchmark: a worker, a scheduler or a producer of one peer, run the way its users run it.
import { counter } from './actor-counter.ts';
import type { Counter } from './actor-counter.ts';
import { enqueue, startFeed } from './actor-producer.ts';
import type { Feed } from './actor-producer.ts';
import { unreachable } from '@pgqueue/core/internal';
import type { Answer, Hiring, Order, Said, WorkOrder } from './orders.ts';
import { loadPeer } from '../peers/index.ts';
import type { Peer, Stoppable } from '../peers/peer.ts';

/** Interval of progress messages while something is counted; `sleepyMs` applies when nothing is. */
const progressMs = 10;
const sleepyMs = 5_000;
const memoryMs = 1_000;

const hiring = JSON.parse(process.argv[2] ?? '{}') as Hiring;
const { place } = hiring;
const peer: Peer = await loadPeer(hiring.peer);

let running: Stoppable | undefined;
let counting: Counter | undefined;
let feed: Feed | undefined;
let enqueued = 0;

function say(said: Said): void {
  if (process.connected) process.send?.(said);
}

async function work(order: WorkOrder): Promise<Answer> {
  const counts = counter(order);
  counting = counts;
  tell(0);
  if (order.idle !== true) tellEvery(progressMs);
  const began = performance.now();
  running = await peer.startWorker(place, order.wish, counts.runner);
  return { kind: 'started', ms: performance.now() - began };
}

async function stop(): Promise<Answer> {
  await running?.stop();
  running = undefined;
  const last = feed;
  feed = undefined;
  if (last !== undefined) return last.stop();
  const counted = counting?.counted();
  counting = undefined;
  return counted ?? { kind: 'heard' };
}

async function obey(order: Order): Promise<Answer> {
  switch (order.kind) {
    case 'work':
      return work(order);
    case 'schedule': {
      const began = performance.now();
      running = await peer.startScheduler?.(place, order.wish);
      return { kind: 'started', ms: performance.now() - began };
    }
    case 'enqueue':
      tellEvery(progressMs);
      return enqueue(peer, place, order, (jobs) => {
        enqueued += jobs;
      });
    case 'feed':
      enqueued = 0;
      tell(0);
      tellEvery(progressMs);
      feed = await startFeed(peer, place, order, (jobs) => {
        enqueued = jobs;
      });
      return { kind: 'heard' };
    case 'run':
      feed?.ran(order.jobs);
      return { kind: 'heard' };
    case 'stop':
      return stop();
    default:
      return unreachable(order);
  }
}

let told = '';
let quietMs = 0;
let remembered = { rss: NaN, heap: NaN };
let rememberedAt = -Infinity;
let timer: NodeJS.Timeout | undefined;

/** Sends progress every `ms`. Each send costs CPU time, which an idle process must not be charged with. */
function tellEvery(ms: number): void {
  clearInterval(timer);
  timer = setInterval(tell, ms, ms).unref();
}

/** Sends progress that has changed. Called before a count begins, so that nobody takes the last one for it. */
function tell(everyMs: number): void {
  const runs = counting?.runs() ?? 0;
  const now = `${runs} ${enqueued} ${counting?.watched()}`;
  quietMs += everyMs;
  if (now === told && quietMs < sleepyMs) return;
  told = now;
  quietMs = 0;
  say({ progress: { runs, enqueued, watched: counting?.watched() ?? 0, ...memory() } });
}

/** Reads memory use at most once a second: it costs more than the rest of a progress message. */
function memory(): { readonly rss: number; readonly heap: number } {
  if (performance.now() - rememberedAt > memoryMs) {
    const { rss, heapUsed: heap } = process.memoryUsage();
    [remembered, rememberedAt] = [{ rss, heap }, performance.now()];
  }
  return remembered;
}

tellEvery(sleepyMs);
process.on('message', ({ id, order }: { readonly id: number; readonly order: Order }) => {
  obey(order).then(
    (answer) => say({ id, answer }),
    (error: unknown) =>
      say({ id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) }),
  );
});
// the bench process has exited, or has told this one to end
process.on('disconnect', () => process.exit(0));
say({ progress: { runs: 0, enqueued: 0, watched: 0, rss: 0, heap: 0 } });
