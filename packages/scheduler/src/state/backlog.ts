import type { JobFacts, Lane, QueueSeen, Snapshot } from '@pgqueue/core';
import { laneName, own } from '@pgqueue/core';
import type { HintedJob } from '@pgqueue/postgres/internal';
import type { SafePlan } from '../policy/planner.ts';
import type { Flying } from './items/item.ts';
import type { LaneCache } from './lanes/lane-cache.ts';

/**
 * Jobs that wait in the one lane that has any left: all like the template, as far as they follow it. No rule
 * tells them apart or holds them, so they are dispatched without being read.
 */
export interface Backlog {
  /** Stands for each of the jobs, whose own ids and numbers are not known. */
  readonly template: JobFacts;
  /** Seq behind which they begin. */
  after: number;
  /** Reasons for which the last plan held jobs, and its forecast. */
  readonly held: SafePlan['held'];
  readonly forecast: SafePlan['forecast'];
  /** Time by which what waits must be read again, by a monotonic clock, in milliseconds. */
  readonly untilMs: number;
}

/** A plan, and what was written of it. */
export interface PlanWritten {
  readonly snapshot: Pick<Snapshot, 'queues' | 'moving' | 'lanes'>;
  readonly planned: Pick<SafePlan, 'held' | 'forecast'>;
  readonly written: Pick<Flying, 'items'>;
  /** Start of the read, by a monotonic clock, in milliseconds. */
  readonly readAt: number;
  /** Milliseconds since then. */
  readonly tookMs: number;
}

/**
 * Shortest time between two reads of what waits while there is a backlog, in milliseconds, and the largest share of the time
 * that they take.
 */
const unreadMs = 50;
const readShare = 0.2;

/** Reasons for which jobs wait that are to go as soon as there are slots. */
const slotReasons: ReadonlySet<string> = new Set(['no_free_slot', 'batch_full']);

/**
 * Returns the backlog that a plan leaves; undefined: there is none, or its jobs must be read. The cache is that
 * after the plan.
 */
export function backlogOf(
  laneCache: Pick<LaneCache, 'lanes' | 'find'>,
  { snapshot, planned, written, readAt, tookMs }: PlanWritten,
): Backlog | undefined {
  const [lane, ...others] = laneCache.lanes().filter(({ jobs, more }) => jobs.length > 0 || more);
  if (lane === undefined || others.length > 0 || snapshot.moving !== undefined) return undefined;
  const name = laneName(lane);
  // a lane without it was left out of the plan
  if (lane.skipped === true || !snapshot.lanes.some((seen) => laneName(seen) === name)) return undefined;
  if (!isUnlimited(own(snapshot.queues, lane.queue))) return undefined;
  const { held, forecast } = planned;
  const reasons = Object.values(held).flatMap((counts) => Object.keys(counts));
  if (!reasons.every((reason) => slotReasons.has(reason))) return undefined;
  const begin = nextOf(laneCache, lane) ?? lastOf(name, written);
  const untilMs = readAt + Math.max(unreadMs, tookMs / readShare);
  return begin === undefined ? undefined : { ...begin, held, forecast, untilMs };
}

/** Reports whether all jobs that hints describe have come behind the backlog. */
export function isBehind(
  { template, after }: Backlog,
  news: { readonly jobs: readonly HintedJob[] } | undefined,
): boolean {
  const name = laneName(template);
  return (news?.jobs ?? []).every(
    (job) => laneName(job) === name && job.priority === template.priority && job.seq > after,
  );
}

/** Reports whether a queue has no limit that could hold a job. */
export function isUnlimited(queue: QueueSeen | undefined): boolean {
  if (queue === undefined) return true;
  const { paused, concurrency, keyConcurrency, rate, keyRate } = queue;
  return !paused && (concurrency ?? keyConcurrency ?? rate ?? keyRate) === null;
}

type Begin = Pick<Backlog, 'template' | 'after'> | undefined;

/** Begins with the first job that still waits. */
function nextOf({ find }: Pick<LaneCache, 'find'>, { jobs: [first] }: Lane): Begin {
  const next = first === undefined ? undefined : find(first.id);
  if (next === undefined || next.crashes > 0 || !isPlain(next)) return undefined;
  return { template: next, after: next.seq - 1 };
}

/** Begins behind the last job that went, with jobs like those of the last batch: a job in a batch has never crashed. */
function lastOf(name: string, { items }: PlanWritten['written']): Begin {
  const went = items.filter(({ jobs: [first] }) => first !== undefined && laneName(first) === name);
  const last = went.at(-1)?.jobs.at(-1);
  const template = went.findLast(({ batch }) => batch)?.jobs.at(-1);
  if (last === undefined || template === undefined || !isPlain(template)) return undefined;
  return template.priority === last.priority ? { template, after: last.seq } : undefined;
}

/** Reports whether nothing distinguishes a job from others of its task. */
function isPlain({ tries, expiresMs, attributes, flow }: JobFacts): boolean {
  return tries === 0 && expiresMs === null && flow === undefined && Object.keys(attributes).length === 0;
}
