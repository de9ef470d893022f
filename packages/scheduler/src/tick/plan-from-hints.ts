import type { HintedJob, Supposition, TickRead } from '@pgqueue/postgres/internal';
import type { Load } from '../state/consumption.ts';
import type { Flying } from '../state/items/item.ts';
import { knowsAll } from './read-snapshot.ts';
import type { LeaderState } from '../state/leader-state.ts';
import { loadOf } from './snapshot.ts';

/** Content of the hints received since the last tick. */
export interface News {
  /** Ids of jobs that have ended; null: others have ended, too. */
  readonly ended: readonly string[] | null;
  /** Jobs that have been enqueued, in no particular order. */
  readonly jobs: readonly HintedJob[];
}

/**
 * A snapshot derived from the last one instead of a read: without the jobs that hints report as ended, and
 * with the jobs they report as enqueued.
 */
export interface Supposed {
  readonly read: TickRead;
  readonly load: Load;
  readonly flying: Flying;
  /** Conditions the dispatch statement checks; if they do not hold, nothing is written. */
  readonly supposed: Supposition;
  /** The plan was written, so the assumptions held. */
  readonly confirm: () => void;
  /** The plan was not written: removes the hinted jobs again. */
  readonly undo: () => void;
}

/** Maximum age of the last read of nodes and settings, in milliseconds. */
const lookMaxMs = 2_500;
/** Limits beyond which a read costs less than checking the assumptions. */
const endedMax = 64;
const jobsMax = 64;
const inFlightMax = 1_000;

/** Fields that hints omit: hints describe only jobs that never ran and do not expire. */
const untried = { expiresMs: null, tries: 0, crashes: 0 } as const;

/** Returns the last read if hints may replace another one. */
function lastLook(state: LeaderState, startedAt: number): LeaderState['lastLook'] {
  const { lastLook: last, feeds, owesLook, unheard } = state;
  const serves = last !== undefined && !feeds && startedAt <= last.atMs + lookMaxMs;
  const due = owesLook || startedAt >= unheard.dueAt();
  return serves && !due && knowsAll(state) ? last : undefined;
}

/** Leaves out the jobs that wait or are in flight as the leader knows: a read saw them before their hint came. */
export function withoutKnown({ unheard, inFlight, laneCache }: LeaderState, news: News): News {
  if (!news.jobs.some(({ seq }) => seq <= unheard.highest())) return news;
  const flying = new Set(inFlight.flying().items.flatMap(({ jobs }) => jobs.map(({ id }) => id)));
  return {
    ...news,
    jobs: news.jobs.filter(({ id }) => !flying.has(id) && laneCache.find(id) === undefined),
  };
}

/**
 * Reports whether nothing new waits, and nothing that the ended jobs made room for, so that this tick can be skipped.
 * The ended jobs are kept for the next plan.
 */
export function nothingWaits(state: LeaderState, { ended, jobs }: News, startedAt: number): boolean {
  if (jobs.length > 0 || ended === null || !state.laneCache.empty()) return false;
  if (lastLook(state, startedAt) === undefined) return false;
  state.ended = [...state.ended, ...ended];
  return state.ended.length <= endedMax;
}

/**
 * Builds a snapshot from the last read plus the hints. It applies when a slot became free and a job of a
 * known key waits for it, or when a job was enqueued and all others are known: most of the time to dispatch
 * would then go into reading what is in flight and what waits. Hints prove nothing, so the statement that
 * writes the plan checks the assumptions. Returns undefined if a read is needed.
 */
export function suppose(state: LeaderState, news: News, startedAt: number): Supposed | undefined {
  const { inFlight, laneCache } = state;
  const last = lastLook(state, startedAt);
  const told = news.ended ?? [];
  const ended = [...state.ended, ...told];
  if (last === undefined || told.length + news.jobs.length === 0 || ended.length > endedMax) return undefined;
  const left = inFlight.without(new Set(ended));
  if (left === undefined && news.jobs.length === 0) return undefined;
  const flying = left?.flying ?? inFlight.flying();
  const fresh = news.jobs.toSorted((one, other) => one.seq - other.seq);
  if (flying.count > inFlightMax || !mayRun(fresh, last.read)) return undefined;
  laneCache.age();
  const added: HintedJob[] = [];
  const undo = (): void => {
    for (const job of added) laneCache.remove(job);
  };
  for (const job of fresh) {
    if (!laneCache.add({ ...job, ...untried })) {
      undo();
      return undefined;
    }
    added.push(job);
  }
  const { read, config, atMs } = last;
  // never ahead of the database's clock, because the response took time to arrive
  const now = read.state.now + (startedAt - atMs);
  const supposed: TickRead = {
    ...read,
    state: { ...read.state, now, settled: [], expiredLeases: false, lostNodes: false },
    enqueuers: null,
    config: null,
    due: null,
    lanes: [],
    questions: [],
  };
  const jobs = added.map((job) => ({ ...job, after: state.cursors.passed(job, job.priority) }));
  return {
    read: supposed,
    load: loadOf(supposed, flying.items),
    flying,
    supposed: { ended, jobs, config },
    confirm: () => {
      left?.confirm();
      state.ended = [];
      state.unheard.heard(
        jobs.map(({ seq }) => seq),
        startedAt,
      );
    },
    undo,
  };
}

/** Reports whether the jobs are few, and their queues are not paused. */
function mayRun(jobs: readonly HintedJob[], { state }: TickRead): boolean {
  if (jobs.length > jobsMax) return false;
  return jobs.every(
    ({ queue }) => !Object.hasOwn(state.queues, queue) || state.queues[queue]?.paused === false,
  );
}
