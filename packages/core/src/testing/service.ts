import type { Order } from '../policy/order.ts';
import { policy } from '../policy/compose/compose.ts';
import type { Candidate, InFlight, QueueSeen, Settlement } from '../policy/snapshot.ts';
import { defaultPool } from '../policy/snapshot.ts';
import { aJob, anItem, aPool, aSnapshot, lanesOf, nowMs } from './snapshots.ts';

/** A key whose jobs never run out. */
export interface Backlog {
  readonly key: string;
  readonly queue?: string;
  readonly attributes?: Candidate['attributes'];
  /** Cost of its n-th job. */
  readonly cost?: (n: number) => number;
  readonly runMs?: (n: number) => number;
  /** First and last tick at which its jobs wait. Default: always. */
  readonly from?: number;
  readonly to?: number;
}

export interface Service {
  readonly order: Order;
  readonly backlogs: readonly Backlog[];
  /** Free slots at each tick. Each job ends before the next tick. */
  readonly slots: readonly number[];
  readonly queues?: Readonly<Record<string, QueueSeen>>;
  /** Selects planned jobs that the database refuses. Default: none. */
  readonly refuses?: (job: Candidate, tick: number) => boolean;
}

const window = 50;

/** Returns the jobs that the ticks of a scheduler serve, in order. */
export function serve({ order, backlogs, slots, queues = {}, refuses }: Service): readonly Candidate[] {
  const made = policy({ order });
  let { initial: state } = made;
  const waiting = new Map(backlogs.map((backlog) => [backlog, [] as Candidate[]]));
  const counts = new Map<Backlog, number>();
  let seq = 0;
  const served: Candidate[] = [];
  slots.forEach((free, tick) => {
    for (const backlog of backlogs) {
      const jobs = waiting.get(backlog) ?? [];
      const { key, queue = 'default', attributes = {}, cost, from = 0, to = Infinity } = backlog;
      if (tick < from || tick > to) jobs.length = 0;
      else {
        while (jobs.length < window) {
          const n = counts.get(backlog) ?? 0;
          counts.set(backlog, n + 1);
          const own = cost === undefined ? attributes : { ...attributes, cost: cost(n) };
          jobs.push(aJob({ seq: (seq += 1), queue, key, attributes: own }));
        }
      }
    }
    const snapshot = aSnapshot({
      nowMs: nowMs + tick,
      lanes: lanesOf([...waiting.values()].flat()),
      pools: { [defaultPool]: aPool(free) },
      queues,
    });
    const plan = made.plan(snapshot, state);
    if ((plan.faults ?? []).length > 0) throw plan.faults?.[0]?.error;
    const found = new Map([...waiting.values()].flat().map((job) => [job.id, job]));
    const written = plan.dispatch
      .flatMap(({ id }) => found.get(id) ?? [])
      .filter((job) => refuses?.(job, tick) !== true);
    const ids = new Set(written.map(({ id }) => id));
    state = made.written?.(plan.state, { atMs: nowMs + tick, ids }) ?? plan.state;
    for (const [backlog, jobs] of waiting) {
      waiting.set(
        backlog,
        jobs.filter(({ id }) => !ids.has(id)),
      );
    }
    served.push(...written);
  });
  return served;
}

/**
 * Runs jobs for their durations on `slots` slots, in virtual time. Returns the busy milliseconds of each
 * key's jobs, by key.
 */
export function run({
  order,
  backlogs,
  slots,
  forMs,
  tickMs,
}: {
  readonly order: Order;
  readonly backlogs: readonly Backlog[];
  readonly slots: number;
  readonly forMs: number;
  readonly tickMs: number;
}): ReadonlyMap<string, number> {
  const made = policy({ order });
  let { initial: state } = made;
  let running: (InFlight & { readonly endMs: number })[] = [];
  const busy = new Map<string, number>();
  const counts = new Map<string, number>();
  let seq = 0;
  for (let at = nowMs; at < nowMs + forMs; at += tickMs) {
    const ended = running.filter(({ endMs }) => endMs <= at);
    running = running.filter(({ endMs }) => endMs > at);
    const settled = ended.map((job): Settlement => ({
      job,
      outcome: 'done',
      busyMs: job.endMs - job.dispatchedMs,
      endedMs: job.endMs,
    }));
    const jobs = backlogs.flatMap(({ key, queue = 'default', attributes = {} }) =>
      Array.from({ length: slots - running.length }, () =>
        aJob({ seq: (seq += 1), queue, key, attributes, task: 't' }),
      ),
    );
    const plan = made.plan(
      aSnapshot({
        nowMs: at,
        lanes: lanesOf(jobs),
        inFlight: running,
        settled,
        pools: { [defaultPool]: aPool(slots - running.length) },
      }),
      state,
    );
    if ((plan.faults ?? []).length > 0) throw plan.faults?.[0]?.error;
    const found = new Map(jobs.map((job) => [job.id, job]));
    const ids = new Set(plan.dispatch.map(({ id }) => id));
    state = made.written?.(plan.state, { atMs: at, ids }) ?? plan.state;
    for (const id of ids) {
      const job = found.get(id);
      const backlog = backlogs.find(({ key }) => key === job?.key);
      if (job === undefined || backlog === undefined) continue;
      const n = counts.get(job.key) ?? 0;
      counts.set(job.key, n + 1);
      const runMs = backlog.runMs?.(n) ?? tickMs;
      running.push({
        ...anItem({ ...job, dispatchedMs: at, state: 'running', node: 'n' }),
        endMs: at + runMs,
      });
      busy.set(job.key, (busy.get(job.key) ?? 0) + Math.min(runMs, nowMs + forMs - at));
    }
  }
  return busy;
}
