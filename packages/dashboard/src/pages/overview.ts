import type { QueueStatus, Status } from '@pgqueue/postgres';
import type { Activity, ActivitySums, Histogram, QueueActivity } from '@pgqueue/postgres/internal/dashboard';
import { addHistograms, quantileMs } from '@pgqueue/postgres/internal/dashboard';
import type { Bucket, Ended, Overview, Quantiles, QueueOverview, Window } from '../contract.ts';
import type { Office } from '../desk.ts';
import { flowsMax } from '../desk.ts';
import type { Parameters } from '../http/parameters.ts';
import { depthsOf, flowCountsOf, timeOf, warningsOf, workersOf } from './wire.ts';

const queuesMax = 100;
/** Delay of the leader's count of ended jobs above which a warning is shown, in milliseconds. */
const behindMs = 120_000;

export async function overviewPage(office: Office, query: Parameters): Promise<Overview> {
  const window = query.oneOf('window', ['hour', 'day']) ?? 'hour';
  const queue = query.text('queue', 100);
  query.done();
  const [status, activity, failed] = await Promise.all([
    office.status(),
    office.activity(window, queue),
    office.failedFlows(),
  ]);
  const queues = queuesOf(status, activity, queue);
  const stepMs = window === 'hour' ? 60_000 : 900_000;
  const { now, from, countedTo, buckets } = activity;
  const own = queue === undefined ? undefined : status.queues.find((one) => one.queue === queue);
  return {
    at: timeOf(now),
    window,
    from: timeOf(from),
    stepMs,
    countedTo: timeOf(countedTo),
    now: depthsOf(queue === undefined ? status.totals : (own ?? nothing)),
    ended: endedOf(sumsOf(buckets), {
      waits: addHistograms(buckets.map(({ waits }) => waits)),
      runs: addHistograms(buckets.map(({ runs }) => runs)),
    }),
    workers: workersOf(status),
    flows: flowCountsOf(status, { failed, max: flowsMax }),
    buckets: gapless(activity, window),
    queues: queues.slice(0, queuesMax),
    moreQueues: queues.length > queuesMax,
    warnings: [...warningsOf(status), ...behind(status, activity)],
  };
}

const nothing = {
  exact: true,
  delayed: 0,
  pending: 0,
  ready: 0,
  running: 0,
  dead: 0,
  oldestMs: null,
  claimAgeMs: null,
  retryRate: null,
};

function behind({ leader }: Status, { now, countedTo }: Activity): Overview['warnings'] {
  if (leader.leader === null) return [];
  const ms = countedTo === null ? null : now.getTime() - countedTo.getTime();
  if (ms !== null && ms < behindMs) return [];
  const message =
    ms === null
      ? 'what ended has not been counted yet: the leading scheduler begins soon after it took over; an older one does not count'
      : `what ended is counted up to ${Math.round(ms / 1_000)} s ago: the leading scheduler catches up, or is an older one that does not count`;
  return [{ kind: 'behind', message }];
}

function queuesOf(status: Status, activity: Activity, only: string | undefined): readonly QueueOverview[] {
  const ended = new Map(activity.queues.map((one) => [one.queue, one]));
  const known = status.queues.filter(({ queue }) => only === undefined || queue === only);
  const rows = known.map((queue) => rowOf(queue, ended.get(queue.queue)));
  const busy = ({ ended: { done, dead }, now }: QueueOverview): number =>
    done + dead + now.pending.count + now.running.count;
  return rows.toSorted((a, b) => busy(b) - busy(a) || (a.queue < b.queue ? -1 : 1));
}

function rowOf(queue: QueueStatus, ended: QueueActivity | undefined): QueueOverview {
  return {
    queue: queue.queue,
    paused: queue.paused,
    pool: queue.pool,
    now: depthsOf(queue),
    ended: endedOf(ended ?? sumsOf([]), { waits: ended?.waits ?? {}, runs: ended?.runs ?? {} }),
    held: queue.held,
  };
}

function sumsOf(parts: readonly ActivitySums[]): ActivitySums {
  const sum = (of: (part: ActivitySums) => number): number =>
    parts.reduce((total, part) => total + of(part), 0);
  return {
    done: sum(({ done }) => done),
    cancelled: sum(({ cancelled }) => cancelled),
    expired: sum(({ expired }) => expired),
    dead: sum(({ dead }) => dead),
    failures: sum(({ failures }) => failures),
    busyMs: sum(({ busyMs }) => busyMs),
  };
}

function endedOf(
  { done, dead, cancelled, expired, failures, busyMs }: ActivitySums,
  { waits, runs }: { readonly waits: Histogram; readonly runs: Histogram },
): Ended {
  return {
    done,
    dead,
    cancelled,
    expired,
    failures,
    waits: quantilesOf(waits),
    runs: quantilesOf(runs),
    busyMs,
  };
}

function quantilesOf(histogram: Histogram): Quantiles {
  return {
    p50Ms: quantileMs(histogram, 0.5),
    p95Ms: quantileMs(histogram, 0.95),
    p99Ms: quantileMs(histogram, 0.99),
  };
}

/** Returns all buckets of the window, including those in which nothing ended. */
function gapless({ from, buckets }: Activity, window: Window): readonly Bucket[] {
  const [count, stepMs] = window === 'hour' ? [60, 60_000] : [96, 900_000];
  const known = new Map(buckets.map((bucket) => [bucket.at.getTime(), bucket]));
  return Array.from({ length: count }, (_, index): Bucket => {
    const at = new Date(from.getTime() + index * stepMs);
    const { done = 0, failures = 0, dead = 0, busyMs = 0, waits = {} } = known.get(at.getTime()) ?? {};
    const { p50Ms, p95Ms, p99Ms } = quantilesOf(waits);
    return {
      at: timeOf(at),
      done,
      failures,
      dead,
      waitP50Ms: p50Ms,
      waitP95Ms: p95Ms,
      waitP99Ms: p99Ms,
      busyMs,
    };
  });
}
