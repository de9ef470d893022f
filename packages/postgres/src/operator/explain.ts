import { PgQueueError, unreachable } from '@pgqueue/core';
import type { Database } from '../database.ts';
import type { WaitFacts } from '../queries/explain.ts';
import { aheadMax, readWaitFacts } from '../queries/explain.ts';
import type { JobSummary } from '../queries/jobs.ts';
import { readSummary } from '../queries/jobs.ts';

/** One thing that a job waits for, or that says what became of it. */
export type Reason =
  | { readonly kind: 'delayed'; readonly until: Date | null; readonly ms: number; readonly tries: number }
  | { readonly kind: 'queue_paused'; readonly queue: string }
  | { readonly kind: 'no_leader' }
  | {
      readonly kind: 'no_capable_node';
      readonly pool: string;
      readonly task: string;
      readonly payloadVersion: number;
      /** Live nodes of the pool, none of which can run it. */
      readonly nodes: number;
    }
  | {
      readonly kind: 'no_free_slots';
      readonly pool: string;
      readonly slots: number;
      readonly running: number;
      readonly ready: number;
    }
  | { readonly kind: 'in_line'; readonly key: string; readonly ahead: number }
  | { readonly kind: 'ready'; readonly pool: string; readonly itemsAhead: number }
  | {
      readonly kind: 'running';
      readonly node: string;
      readonly sinceMs: number;
      readonly leaseEndsInMs: number;
    }
  | { readonly kind: 'node_silent'; readonly node: string; readonly ms: number | null }
  | { readonly kind: 'cancel_asked' }
  | { readonly kind: 'expiring' }
  | { readonly kind: 'dead'; readonly reason: string; readonly error: string | null }
  | { readonly kind: 'ended'; readonly outcome: string; readonly at: Date | null };

/** Why a job stands where it does. */
export interface Explanation {
  readonly job: JobSummary;
  /** What it waits for, the first to be mended first; for a job that has ended, what became of it. */
  readonly reasons: readonly Reason[];
  /** Due jobs of its queue and key that come first; null where it does not wait for a turn. At most 100,000 are counted. */
  readonly ahead: number | null;
}

/** Why a job is not running, or what it does. @throws {PgQueueError} `not_found` */
export async function explain(database: Database, id: string): Promise<Explanation> {
  const job = await readSummary(database, id);
  if (job === undefined) throw jobNotFound(id);
  const facts = job.finished === null ? await readWaitFacts(database, id) : undefined;
  return {
    job,
    reasons: facts === undefined ? endedReasons(job) : waitReasons(job, facts),
    ahead: facts?.jobsAhead ?? null,
  };
}

export function jobNotFound(id: string): PgQueueError {
  return new PgQueueError(
    'not_found',
    `there is no job ${id}: it never was, was deleted, or its history has been dropped`,
    { data: { id } },
  );
}

function endedReasons(job: JobSummary): readonly Reason[] {
  if (job.status !== 'dead') return [{ kind: 'ended', outcome: job.status, at: job.finished }];
  return [{ kind: 'dead', reason: job.reason ?? 'unknown', error: job.lastError?.message ?? null }];
}

/** The rule, without a database: what holds a job that has not ended. */
export function waitReasons(job: JobSummary, facts: WaitFacts): readonly Reason[] {
  if (facts.startedAgoMs !== null) return runningReasons(job, facts);
  const reasons: Reason[] = [];
  if (facts.expired) reasons.push({ kind: 'expiring' });
  if (facts.dueInMs !== null && facts.dueInMs > 0) {
    const { runAfter, tries } = job;
    reasons.push({ kind: 'delayed', until: runAfter, ms: facts.dueInMs, tries });
  }
  const isReady = job.position !== null;
  if (facts.paused && !isReady) reasons.push({ kind: 'queue_paused', queue: job.queue });
  if (facts.leader === null && !isReady) reasons.push({ kind: 'no_leader' });
  const { pool, nodes, capable, slots, running, ready, itemsAhead } = facts;
  if (capable === 0) {
    const { task, payloadVersion } = job;
    reasons.push({ kind: 'no_capable_node', pool, task, payloadVersion, nodes });
  } else if (running >= slots) {
    reasons.push({ kind: 'no_free_slots', pool, slots, running, ready });
  }
  if (isReady) reasons.push({ kind: 'ready', pool, itemsAhead });
  else if (facts.jobsAhead !== null) reasons.push({ kind: 'in_line', key: job.key, ahead: facts.jobsAhead });
  return reasons;
}

function runningReasons(job: JobSummary, facts: WaitFacts): readonly Reason[] {
  const node = job.node ?? '';
  const reasons: Reason[] = [
    {
      kind: 'running',
      node,
      sinceMs: facts.startedAgoMs ?? 0,
      leaseEndsInMs: facts.leaseEndsInMs ?? 0,
    },
  ];
  const lives = facts.nodeState === 'alive' || facts.nodeState === 'draining';
  if (!lives) reasons.push({ kind: 'node_silent', node, ms: facts.nodeBeatAgoMs });
  else if ((facts.nodeBeatAgoMs ?? 0) > silentMs)
    reasons.push({ kind: 'node_silent', node, ms: facts.nodeBeatAgoMs });
  if (facts.cancelAsked) reasons.push({ kind: 'cancel_asked' });
  return reasons;
}

const silentMs = 15_000;

/** A reason in words. `age` writes a length of time. */
export function reasonText(reason: Reason, age: (ms: number) => string): string {
  switch (reason.kind) {
    case 'delayed': {
      const why =
        reason.tries > 0 ? ` after ${reason.tries} failed ${reason.tries === 1 ? 'try' : 'tries'}` : '';
      return `delayed${why}: due in ${age(reason.ms)}, at ${reason.until?.toISOString() ?? 'an unknown time'}`;
    }
    case 'queue_paused':
      return `queue ${reason.queue} is paused: "pgqueue queues resume ${reason.queue}"`;
    case 'no_leader':
      return 'no scheduler leads: start one with "pgqueue scheduler"';
    case 'no_capable_node':
      return reason.nodes === 0
        ? `no node lives in pool ${reason.pool}: start a worker`
        : `none of the ${reason.nodes} live nodes of pool ${reason.pool} runs task ${reason.task} with payloads of version ${reason.payloadVersion}`;
    case 'no_free_slots':
      return `no free slots: ${reason.running} jobs run in the ${reason.slots} slots of pool ${reason.pool} that can take it, ${reason.ready} more are ready`;
    case 'in_line':
      return `waits for its turn: ${reason.ahead >= aheadMax ? `${aheadMax} or more` : reason.ahead} jobs of key ${JSON.stringify(reason.key)} come first`;
    case 'ready':
      return `scheduled: the next free node of pool ${reason.pool} takes it, after ${reason.itemsAhead} others`;
    case 'running':
      return `runs on ${reason.node} for ${age(reason.sinceMs)}; its lease ${reason.leaseEndsInMs < 0 ? 'ended' : 'ends'} ${reason.leaseEndsInMs < 0 ? `${age(-reason.leaseEndsInMs)} ago` : `in ${age(reason.leaseEndsInMs)}`}`;
    case 'node_silent':
      return `node ${reason.node} gives no sign of life${reason.ms === null ? '' : ` for ${age(reason.ms)}`}: "pgqueue nodes reset ${reason.node}" takes its jobs back at once`;
    case 'cancel_asked':
      return 'its cancellation was asked for; its node is told with the next heartbeat';
    case 'expiring':
      return 'its expires_at has passed: the scheduler ends it as expired';
    case 'dead':
      return `dead (${reason.reason})${reason.error === null ? '' : `: ${reason.error}`}; "pgqueue dead redrive" puts it back`;
    case 'ended':
      return `${reason.outcome} at ${reason.at?.toISOString() ?? 'an unknown time'}`;
    default:
      return unreachable(reason);
  }
}
