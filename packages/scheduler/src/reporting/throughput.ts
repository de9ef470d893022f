import type { RecentDispatches } from '@pgqueue/postgres';
import type { LaneId } from '@pgqueue/postgres/internal';

/** Counts the jobs recently dispatched by key, as the basis of a wait estimate. */
export interface FlowMeter {
  readonly dispatched: (jobs: readonly LaneId[]) => void;
  readonly of: (lane: LaneId) => RecentDispatches;
  readonly reset: () => void;
}

/** Window of 30 s, counted in spans of 5 s. */
const windowMs = 30_000;
const spanMs = 5_000;
/** Most lanes counted per span, which bounds the memory. */
const lanesMax = 10_000;

interface Span {
  readonly beganMs: number;
  all: number;
  readonly queues: Map<string, number>;
  /** By queue, then by key. Nested maps avoid building a combined string for each job. */
  readonly lanes: Map<string, Map<string, number>>;
  /** Number of lanes counted. */
  known: number;
  /** True if there were more lanes than `lanesMax`. */
  cut: boolean;
}

export function createFlowMeter(clock: () => number = () => performance.now()): FlowMeter {
  let beganMs = clock();
  let spans: Span[] = [];

  /** Drops spans that ended before the window. */
  const prune = (nowMs: number): void => {
    if (spans.some((span) => nowMs - span.beganMs >= windowMs + spanMs)) {
      spans = spans.filter((span) => nowMs - span.beganMs < windowMs + spanMs);
    }
  };
  const current = (): Span => {
    const nowMs = clock();
    prune(nowMs);
    const last = spans.at(-1);
    if (last !== undefined && nowMs - last.beganMs < spanMs) return last;
    const span: Span = { beganMs: nowMs, all: 0, queues: new Map(), lanes: new Map(), known: 0, cut: false };
    spans.push(span);
    return span;
  };

  return {
    dispatched: (jobs) => {
      if (jobs.length === 0) return;
      const span = current();
      span.all += jobs.length;
      let [last, count]: [LaneId | undefined, number] = [undefined, 0];
      const close = (): void => {
        if (last === undefined) return;
        add(span.queues, last.queue, count);
        addLane(span, last, count);
      };
      for (const job of jobs) {
        if (last === undefined || last.key !== job.key || last.queue !== job.queue) {
          close();
          [last, count] = [job, 0];
        }
        count += 1;
      }
      close();
    },
    of: (lane) => {
      const nowMs = clock();
      const countOf = ({ lanes }: Span): number | undefined => lanes.get(lane.queue)?.get(lane.key);
      prune(nowMs);
      const sum = (of: (span: Span) => number): number => spans.reduce((total, span) => total + of(span), 0);
      // in a span that was cut off, only the lanes it counted are known
      const known = spans.every((span) => !span.cut || countOf(span) !== undefined);
      return {
        // the oldest span counts in full
        windowMs: Math.min(nowMs - beganMs, Math.max(windowMs, nowMs - (spans[0]?.beganMs ?? nowMs))),
        key: known ? sum((span) => countOf(span) ?? 0) : null,
        queue: sum(({ queues }) => queues.get(lane.queue) ?? 0),
        all: sum(({ all }) => all),
      };
    },
    reset: () => {
      beganMs = clock();
      spans = [];
    },
  };
}

function addLane(span: Span, { queue, key }: LaneId, jobs: number): void {
  const keys = span.lanes.get(queue) ?? new Map<string, number>();
  const before = keys.get(key);
  if (before === undefined && span.known >= lanesMax) {
    span.cut = true;
    return;
  }
  if (before === undefined) span.known += 1;
  span.lanes.set(queue, keys.set(key, (before ?? 0) + jobs));
}

/** Adds to a queue's count. Queues beyond `lanesMax` are not counted. */
function add(counts: Map<string, number>, name: string, jobs: number): void {
  const before = counts.get(name);
  if (before === undefined && counts.size >= lanesMax) return;
  counts.set(name, (before ?? 0) + jobs);
}
