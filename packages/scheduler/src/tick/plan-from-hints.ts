import type { HintedJob, Supposition, TickRead } from '@pgqueue/postgres';
import type { Load } from '../state/consumption.ts';
import type { Flying } from '../state/items/item.ts';
import { knowsAll } from './read-snapshot.ts';
import type { Memory } from '../state/leader-state.ts';
import { loadOf } from './snapshot.ts';

/** What hints have said since the last tick. */
export interface News {
  /** Jobs that have ended. */
  readonly ended: readonly string[];
  /** Jobs that have been enqueued, in the order of the hints. */
  readonly jobs: readonly HintedJob[];
}

/** A snapshot that was not read: the last one, without the jobs that are said to have ended since, and with those that are said to wait. */
export interface Supposed {
  readonly read: TickRead;
  readonly load: Load;
  readonly flying: Flying;
  /** What must hold when the plan is written, or nothing is. */
  readonly supposed: Supposition;
  /** It was written, so it was so. */
  readonly confirm: () => void;
  /** It was not: what hints have said is forgotten. */
  readonly undo: () => void;
}

/** What is known of nodes and settings may be so old. */
const lookMaxMs = 2_500;
/** With more of them, a look costs less than it spares. */
const endedMax = 64;
const jobsMax = 16;
const inFlightMax = 1_000;

/** No hint tells of a job of which this is not so. */
const untried = { expiresMs: null, tries: 0, crashes: 0 } as const;

/** The last look, where hints may stand in for another one. */
function lastLook(memory: Memory, startedAt: number): Memory['lastLook'] {
  const { lastLook: last, feeds, owesLook } = memory;
  const serves = last !== undefined && !feeds && !owesLook && startedAt <= last.atMs + lookMaxMs;
  return serves && knowsAll(memory) ? last : undefined;
}

/** Whether jobs have ended while none waits: whatever is planned next will know of them. */
export function nothingWaits(memory: Memory, { ended, jobs }: News, startedAt: number): boolean {
  if (jobs.length > 0 || ended.length === 0 || !memory.view.empty()) return false;
  if (lastLook(memory, startedAt) === undefined) return false;
  memory.ended = [...memory.ended, ...ended];
  return memory.ended.length <= endedMax;
}

/**
 * Where a slot became free and a job of a known key waits for it, or a job was enqueued and all others are known, most of the time until it is
 * dispatched would go into asking what is in flight and what waits. So the plan is made from what was known, and what hints said, which proves
 * nothing: the statement that writes the plan checks it. Undefined: a look is needed.
 */
export function suppose(memory: Memory, news: News, startedAt: number): Supposed | undefined {
  const { ledger, view } = memory;
  const last = lastLook(memory, startedAt);
  const ended = [...memory.ended, ...news.ended];
  if (last === undefined || news.ended.length + news.jobs.length === 0 || ended.length > endedMax)
    return undefined;
  const left = ledger.without(new Set(ended));
  if (left === undefined && news.jobs.length === 0) return undefined;
  const flying = left?.flying ?? ledger.flying();
  if (flying.count > inFlightMax || !follow(memory, news.jobs, last.read)) return undefined;
  view.age();
  const added: HintedJob[] = [];
  const undo = (): void => {
    for (const job of added) view.remove(job);
  };
  for (const job of news.jobs) {
    if (!view.add({ ...job, ...untried })) {
      undo();
      return undefined;
    }
    added.push(job);
  }
  const { read, config, atMs } = last;
  // never ahead of the database's clock: the answer was under way for a while
  const now = read.state.now + (startedAt - atMs);
  const supposed: TickRead = {
    ...read,
    state: { ...read.state, now, settled: [], expiredLeases: false, lostNodes: false },
    enqueuers: null,
    config: null,
    due: null,
    rows: [],
    questions: [],
  };
  const jobs = added.map((job) => ({ ...job, after: memory.cursors.passed(job, job.priority) }));
  return {
    read: supposed,
    load: loadOf(supposed, flying.items),
    flying,
    supposed: { ended, jobs, config },
    confirm: () => {
      left?.confirm();
      memory.ended = [];
      memory.seq = jobs.at(-1)?.seq ?? memory.seq;
    },
    undo,
  };
}

/** Whether they are the next that were enqueued, without one between that nobody has told of, and their queues take part. */
function follow({ seq }: Memory, jobs: readonly HintedJob[], { state }: TickRead): boolean {
  if (jobs.length > jobsMax) return false;
  return jobs.every(
    (job, index) =>
      job.seq === seq + index + 1 &&
      (!Object.hasOwn(state.queues, job.queue) || state.queues[job.queue]?.paused === false),
  );
}
