import { neverMs, PgQueueError } from '@pgqueue/core';
import type { Hold } from '@pgqueue/core';
import { errorTexts } from '@pgqueue/core/internal';
import type { Database } from '../../connection/database.ts';
import type { WaitFacts } from '../../reads/explain.ts';
import { readWaitFacts } from '../../reads/explain.ts';
import type { FlowDetails } from '../../reads/flows.ts';
import { readFlow } from '../../reads/flows.ts';
import type { JobSummary } from '../../reads/jobs.ts';
import { readSummary } from '../../reads/jobs.ts';
import type { LeaderAnswer } from '../../calls/report.ts';
import type { Estimate } from './estimate.ts';
import { estimateStart } from './estimate.ts';
import { waitingSteps } from './flow-waits.ts';
import type { Reason } from './reasons.ts';
import { isLastLife } from './reasons.ts';

/** Explanation of a job's present state. */
export interface JobExplanation {
  readonly job: JobSummary;
  /** Reasons for its state, the first to be mended first; for an ended job, its outcome. */
  readonly reasons: readonly Reason[];
  /**
   * Due jobs of its queue and key that come first, counted up to 100,000; null if it does not wait for a
   * turn.
   */
  readonly ahead: number | null;
  /**
   * Jobs of all keys that the policy's order lets go first, among those that the leader knows; null: unknown.
   */
  readonly aheadInOrder: number | null;
  /** Estimated start; null if it does not wait for a turn, or the leader did not answer. */
  readonly start: Estimate | null;
  /**
   * Policy that answered, and the time of the snapshot it used; null: the leader was not asked, or did not
   * answer.
   */
  readonly policy: { readonly name: string; readonly at: Date } | null;
}

/** Asks the leader about a waiting job; undefined: no answer. */
export type Ask = (id: string) => Promise<LeaderAnswer | undefined>;

/**
 * Explains why a job is not running, or what it does. Asks the leader about a job that waits for its turn;
 * without an answer, the explanation rests on the database alone.
 * @throws {PgQueueError} `not_found`
 */
export async function explainJob(database: Database, id: string, ask: Ask): Promise<JobExplanation> {
  const first = await readSummary(database, id);
  if (first === undefined) throw jobNotFound(id);
  if (first.status !== 'pending') return compose(database, first, undefined);
  const answer = await ask(first.id);
  // the job may have moved meanwhile: its present state counts
  const job = await readSummary(database, id);
  if (job === undefined) throw jobNotFound(id);
  return compose(database, job, job.status === 'pending' && answer?.waits === true ? answer : undefined);
}

async function compose(
  database: Database,
  seen: JobSummary,
  answer: LeaderAnswer | undefined,
): Promise<JobExplanation> {
  const facts = seen.finished === null ? await readWaitFacts(database, seen.id) : undefined;
  // it ended after it was read
  const job = seen.finished === null && facts === undefined ? await readSummary(database, seen.id) : seen;
  if (job === undefined) throw jobNotFound(seen.id);
  if (facts === undefined) {
    const reasons = job.finished === null ? [onItsWay(job)] : endedReasons(job);
    return { job, reasons, ...nothingAhead };
  }
  const waited = facts.waitsFor === null ? undefined : await readFlow(database, facts.waitsFor);
  return {
    job,
    reasons: waitReasons(job, facts, { answer, waited }),
    ahead: facts.jobsAhead,
    aheadInOrder: answer?.ahead ?? null,
    start: answer === undefined ? null : estimate(job, facts, answer),
    policy: answer === undefined ? null : { name: answer.policy, at: new Date(answer.atMs) },
  };
}

const nothingAhead = { ahead: null, aheadInOrder: null, start: null, policy: null } as const;

function estimate({ key, queue }: JobSummary, facts: WaitFacts, answer: LeaderAnswer): Estimate {
  const { atMs: nowMs, holds, ahead: aheadInOrder, flow } = answer;
  return estimateStart({ key, queue, nowMs, holds, aheadInOrder, flow, ahead: facts.jobsAhead ?? 0 });
}

export function jobNotFound(id: string): PgQueueError {
  return new PgQueueError(
    'not_found',
    `there is no job ${id}: it never was, was deleted, its history has been dropped, or it belongs to a step of a flow that is still blocked ("pgqueue flows show" tells what those wait for)`,
    { data: { id } },
  );
}

/** Returns the reason of a job that has not ended, and is in no QUEUE: a move of its key has it. */
function onItsWay({ key }: JobSummary): Reason {
  const message = `it is on its way to another installation with key ${JSON.stringify(key)}: "pgqueue keys move" goes on with that`;
  return { kind: 'held', gate: 'moving', message, until: null };
}

function endedReasons(job: JobSummary): readonly Reason[] {
  if (job.status !== 'dead') return [{ kind: 'ended', outcome: job.status, at: job.finished }];
  const error = job.lastError === null ? null : errorTexts(job.lastError).message;
  return [{ kind: 'dead', reason: job.reason ?? 'unknown', error }];
}

/** Longest time that the leader takes to make a due job pending, unless it is far behind. */
const lateMs = 2_000;

const lockedRow: Reason = {
  kind: 'held',
  gate: 'locked_row',
  message: "it is due, and an application's transaction holds its row, unless the scheduler is behind",
  until: null,
};

/** Returns the reasons that hold an unfinished job. `waited`: the flow that it waits for. Pure: needs no database. */
export function waitReasons(
  job: JobSummary,
  facts: WaitFacts,
  {
    answer,
    waited,
  }: { readonly answer?: LeaderAnswer | undefined; readonly waited?: FlowDetails | undefined } = {},
): readonly Reason[] {
  if (facts.startedAgoMs !== null) return runningReasons(job, facts);
  const reasons: Reason[] = [];
  if (facts.expired) reasons.push({ kind: 'expiring' });
  if (waited?.state === 'open') {
    const waits = waitingSteps(waited.steps).flatMap((step) => (step.state === 'open' ? step.waits : []));
    reasons.push({ kind: 'suspended', flow: waited.id, name: waited.name, waits });
  } else if (facts.dueInMs !== null && facts.dueInMs > 0) {
    const { runAfter, tries } = job;
    reasons.push({ kind: 'delayed', until: runAfter, ms: facts.dueInMs, tries });
  } else if (facts.dueInMs !== null && facts.dueInMs < -lateMs && facts.leader !== null) {
    reasons.push(lockedRow);
  }
  const isReady = job.position !== null;
  if (facts.paused && !isReady) reasons.push({ kind: 'paused_queue', queue: job.queue });
  if (facts.leader === null && !isReady) reasons.push({ kind: 'no_leader' });
  if (job.status === 'pending') reasons.push(...policyReasons(job, facts, answer));
  const { pool, nodes, capable, slots, running, ready, itemsAhead } = facts;
  if (capable === 0) {
    const { task, payloadVersion } = job;
    reasons.push({ kind: 'no_capable_node', pool, task, payloadVersion, nodes });
  } else if (running >= slots || holdsBy(answer, 'no_free_slot')) {
    reasons.push({ kind: 'no_free_slot', pool, slots, running, ready });
  }
  if (isReady)
    reasons.push({ kind: 'ready', pool, itemsAhead, suspect: job.suspect, lastLife: isLastLife(job) });
  else if (facts.jobsAhead !== null) {
    const { key } = job;
    const aheadInOrder = answer?.ahead ?? null;
    reasons.push({ kind: 'in_line', key, ahead: facts.jobsAhead, aheadInOrder });
  }
  return reasons;
}

/** Gates whose holds the database's facts explain better, with their remedy. */
const toldByFacts: ReadonlySet<string> = new Set(['paused_queue', 'no_capable_node', 'no_free_slot']);

function holdsBy(answer: LeaderAnswer | undefined, gate: string): boolean {
  return answer?.holds.some((hold) => hold.gate === gate) === true;
}

function policyReasons(
  job: JobSummary,
  facts: WaitFacts,
  answer: LeaderAnswer | undefined,
): readonly Reason[] {
  if (answer === undefined) {
    return [
      ...(facts.leader === null ? [] : [{ kind: 'policy_unknown' } as const]),
      ...limitReasons(job, facts),
    ];
  }
  const told = ({ gate }: Hold): boolean =>
    toldByFacts.has(gate) &&
    (gate !== 'paused_queue' || facts.paused) &&
    (gate !== 'no_capable_node' || facts.capable === 0) &&
    (gate !== 'no_free_slot' || facts.capable > 0);
  return [
    ...(answer.failed === null
      ? []
      : [{ kind: 'policy_failed', policy: answer.policy, message: answer.failed } as const]),
    ...answer.holds
      .filter((hold) => !told(hold))
      .map(({ gate, message, untilMs }): Reason => {
        const byTime = untilMs !== null && untilMs < neverMs;
        return { kind: 'held', gate, message, until: byTime ? new Date(untilMs) : null };
      }),
  ];
}

/**
 * Returns the limits of queue_config that are reached, counted from the work items, and the configured rates.
 * For an explanation without the leader.
 */
function limitReasons({ queue, key }: JobSummary, facts: WaitFacts): readonly Reason[] {
  const { concurrency, keyConcurrency, queueInFlight, keyInFlight, rate, keyRate } = facts;
  const reasons: Reason[] = [];
  if (concurrency !== null && queueInFlight >= concurrency) {
    reasons.push({
      kind: 'limit',
      limit: 'concurrency',
      queue,
      key,
      inFlight: queueInFlight,
      max: concurrency,
    });
  }
  if (keyConcurrency !== null && keyInFlight >= keyConcurrency) {
    reasons.push({
      kind: 'limit',
      limit: 'key_concurrency',
      queue,
      key,
      inFlight: keyInFlight,
      max: keyConcurrency,
    });
  }
  if (rate !== null) reasons.push({ kind: 'rate', limit: 'rate', queue, rate });
  if (keyRate !== null) reasons.push({ kind: 'rate', limit: 'key_rate', queue, rate: keyRate });
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
