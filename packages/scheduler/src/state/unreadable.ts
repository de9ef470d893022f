import type { Observer, QueueSeen } from '@pgqueue/core';
import { defaultQueue, isRecord } from '@pgqueue/core/internal';
import type { ReportedUnreadable } from '@pgqueue/postgres';
import type { LaneJob, LaneRead, TickRead, TickState } from '@pgqueue/postgres/internal';
import { jobsOf } from './lanes/known-job.ts';

/**
 * Validates what others wrote before anything is planned with it. A row that violates its table's checks
 * affects only itself: a job is left out of its lane, a node is left out of its pool, or gets no batches, and the jobs
 * of a queue wait while its settings can't be read. Each is reported once (`tick.unreadable`), and stays in the status
 * for a minute after it was last seen.
 */
export interface Unreadable {
  /**
   * Returns the read without unreadable nodes and settings. `jobs`: ids of jobs that must be left out of
   * plans.
   */
  readonly without: (
    read: TickRead,
    nowMs: number,
  ) => { readonly read: TickRead; readonly jobs: ReadonlySet<string> };
  readonly current: () => readonly ReportedUnreadable[];
}

const rememberMs = 60_000;
/** Most problems remembered. Further ones are left out in the same way, but not reported. */
const knownMax = 100;

interface KnownProblem extends ReportedUnreadable {
  /** Time on the monotonic clock. */
  readonly seenAt: number;
}

export function createUnreadable(observe: Observer): Unreadable {
  const known = new Map<string, KnownProblem>();
  const forget = (nowMs: number): void => {
    for (const [name, { seenAt }] of known) if (nowMs > seenAt + rememberMs) known.delete(name);
  };
  const note = (found: Omit<ReportedUnreadable, 'firstMs'>, seen: SeenAt): void => {
    const name = `${found.kind} ${found.id}`;
    const before = known.get(name);
    if (before === undefined && known.size >= knownMax) return;
    known.set(name, { ...found, firstMs: before?.firstMs ?? seen.databaseMs, seenAt: seen.nowMs });
    if (before === undefined) observe({ type: 'tick.unreadable', ...found });
  };
  return {
    without: (read, nowMs) => {
      forget(nowMs);
      const seen = { nowMs, databaseMs: read.state.now };
      const jobs = new Set<string>();
      for (const job of read.lanes.flatMap(jobsOf)) {
        const problem = jobProblem(job);
        if (problem === undefined) continue;
        jobs.add(job.id);
        note({ kind: 'job', id: job.id, problem }, seen);
      }
      const lanes = jobs.size === 0 ? read.lanes : read.lanes.map((lane) => withoutAttributes(lane, jobs));
      const state = legibleState(read.state, (found) => note(found, seen));
      return { read: { ...read, state, lanes }, jobs };
    },
    current: () => [...known.values()].map(({ seenAt: _seenAt, ...told }) => told),
  };
}

interface SeenAt {
  readonly nowMs: number;
  readonly databaseMs: number;
}

function withoutAttributes(lane: LaneRead, ids: ReadonlySet<string>): LaneRead {
  const without = (job: LaneJob): LaneJob => (ids.has(job.id) ? { ...job, attributes: null } : job);
  const { jobs, ahead } = lane;
  return { ...lane, jobs: jobs.map(without), ...(ahead === undefined ? {} : { ahead: ahead.map(without) }) };
}

export const attributesProblem =
  'its attributes are not one flat JSON object of numbers that a double can hold, or their text is longer than 64 KiB';

/** Returns the problem of a job; undefined: it can be planned. */
function jobProblem(job: LaneJob): string | undefined {
  if (!isFlat(job.attributes)) return attributesProblem;
  const { seq, priority, version, tries, createdMs } = job;
  if (Number.isFinite(seq + priority + version + tries + createdMs)) return undefined;
  const odd = Object.entries({ seq, priority, version, tries, createdMs }).find(
    ([, value]) => !Number.isFinite(value),
  );
  return odd === undefined ? undefined : `its ${odd[0]} is ${String(odd[1])}`;
}

export function isFlat(attributes: unknown): boolean {
  return (
    isRecord(attributes) &&
    Object.values(attributes).every((value) => value === null || typeof value !== 'object') &&
    Object.values(attributes).every((value) => typeof value !== 'number' || Number.isFinite(value))
  );
}

function legibleState(
  state: TickState,
  note: (found: Omit<ReportedUnreadable, 'firstMs'>) => void,
): TickState {
  const nodes = state.nodes.flatMap((node) => {
    const { id, tasks, runs } = node;
    const problem = tasksProblem(tasks);
    const odd = problem ?? runsProblem(runs);
    if (odd !== undefined) note({ kind: 'node', id, problem: odd });
    if (problem !== undefined) return [];
    return [odd === undefined ? node : { ...node, runs: {} }];
  });
  const queues = Object.entries(state.queues).map(([id, queue]): [string, QueueSeen] => {
    const problem = queueProblem(queue);
    if (problem === undefined) return [id, queue];
    note({ kind: 'queue', id, problem });
    return [id, { ...defaultQueue, pool: queue.pool, paused: true }];
  });
  return { ...state, nodes, queues: Object.fromEntries(queues) };
}

function tasksProblem(tasks: unknown): string | undefined {
  if (!isRecord(tasks)) return 'its tasks are no JSON object';
  const odd = Object.entries(tasks).find(([, range]) => !isRange(range));
  return odd === undefined
    ? undefined
    : `its task ${odd[0].slice(0, 200)} has no min and max, which are whole numbers`;
}

function runsProblem(runs: unknown): string | undefined {
  const values = isRecord(runs) ? Object.values(runs) : [undefined];
  return values.every((ms) => Number.isFinite(ms))
    ? undefined
    : 'its run times are no JSON object of numbers: it gets no batches';
}

function isRange(range: unknown): boolean {
  return isRecord(range) && Number.isSafeInteger(range['min']) && Number.isSafeInteger(range['max']);
}

function queueProblem(queue: QueueSeen): string | undefined {
  const { concurrency, keyConcurrency, rate, keyRate, weight } = queue;
  const numbers = {
    concurrency,
    keyConcurrency,
    rate: rate?.perSecond,
    'burst of its rate': rate?.burst,
    'rate by key': keyRate?.perSecond,
    'burst of its rate by key': keyRate?.burst,
    weight,
  };
  const odd = Object.entries(numbers).find(
    ([, value]) => (value ?? null) !== null && !Number.isFinite(value),
  );
  return odd === undefined
    ? undefined
    : `its ${odd[0]} is ${String(odd[1])}: its jobs wait until it is set anew`;
}
