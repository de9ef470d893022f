import type { HeldCounts, Hold, JobFacts } from '@pgqueue/core';
import { storableJson } from '@pgqueue/core/internal';
import type { Leader } from './sweeps.ts';
import type { Target } from '../connection/target.ts';
import { ask } from '../connection/target.ts';

/** A part of a policy that failed lately. Times are the database's clock, in Unix milliseconds. */
export interface ReportedFault {
  readonly policy: string;
  /** A gate or an order; or a function of the policy: `plan`, `written`, `restore`, `explain`. */
  readonly part: string;
  readonly message: string;
  readonly count: number;
  readonly firstMs: number;
  readonly atMs: number;
  /** The part is left out until this time, since it took longer than it may; null: it is not left out. */
  readonly suspendedUntilMs: number | null;
}

/** Something that the leader's ticks leave out, since it is not valid. */
export interface ReportedUnreadable {
  readonly kind: 'job' | 'node' | 'queue';
  /** The queue's name, if it is a queue. */
  readonly id: string;
  /** In words: `its attributes are …`. */
  readonly problem: string;
  /** First time that it was seen, by the database's clock, in Unix milliseconds. */
  readonly firstMs: number;
}

/** Facts that only the leader knows, as it writes them into `scheduler_report`: plain JSON. */
export interface SchedulerReport {
  readonly policy: string;
  /** Held jobs of its last snapshot, by queue and reason. */
  readonly held: HeldCounts;
  readonly ticks: {
    /** Since it leads. */
    readonly count: number;
    /** Median of the last few hundred ticks. Null: there was none. */
    readonly p50Ms: number | null;
    readonly p99Ms: number | null;
    /** Number of jobs in the last dispatch that had any. */
    readonly lastBatch: number;
    readonly dispatched: number;
  };
  /** Number of lanes with waiting jobs that it knows of. */
  readonly lanes: number;
  /** Number of work items. */
  readonly inFlight: number;
  /**
   * Slots that each pool could use now: its work items, and those that its waiting jobs would make if there
   * were slots for them. A pool without either is missing. Null: the policy failed when it was asked.
   * Missing: an earlier release wrote the report.
   */
  readonly wanted?: Readonly<Record<string, number>> | null;
  readonly faults: readonly ReportedFault[];
  /** Jobs, nodes and queues left out within the last minute, 100 at most. Default: none. */
  readonly unreadable?: readonly ReportedUnreadable[];
  /** Forecasts of the order (deadlines that will be missed), by name. */
  readonly forecast: Readonly<Record<string, number>> | null;
  /** Differences of a second policy that runs beside it. */
  readonly shadow: unknown;
}

/**
 * Replaces the leader's report.
 * @throws PQ002 when this scheduler no longer leads in this epoch
 */
export async function writeReport(
  { query, schema }: Target,
  { leader, epoch }: Leader,
  report: SchedulerReport,
): Promise<void> {
  await query(`select ${schema}.report($1, $2, $3::jsonb)`, [leader, epoch, storableJson(report)]);
}

/** A scheduler that runs, and its policy. */
export interface SchedulerPolicy {
  readonly scheduler: string;
  readonly policy: string;
  /** Stands for what the policy is made of. */
  readonly parts: string;
  readonly leads: boolean;
}

/**
 * Notes that a scheduler runs, and its policy. `policy` null: it has stopped. Returns the leader and its policy;
 * undefined if nobody leads, or none is noted.
 */
export async function notePolicy(
  { query, schema }: Target,
  scheduler: string,
  policy: Pick<SchedulerPolicy, 'policy' | 'parts'> | null,
): Promise<{ readonly leader: string; readonly policy: string } | undefined> {
  const [leading] = await query<{ leader: string; policy: string }>(
    `select leader, policy from ${schema}.note_policy($1, $2, $3)`,
    [scheduler, policy?.policy ?? null, policy?.parts ?? null],
  );
  return leading;
}

/** Reads the policies of schedulers that ran within the last minute, that of the leader first. */
export async function readPolicies({ query, schema }: Target): Promise<readonly SchedulerPolicy[]> {
  return query<SchedulerPolicy>(
    `select p.scheduler, p.policy, p.parts, p.scheduler is not distinct from l.leader and l.expires > clock_timestamp() as leads
     from ${schema}.scheduler_policy p, ${schema}.scheduler_lease l
     where p.seen > clock_timestamp() - interval '1 minute'
     order by p.scheduler is distinct from l.leader, p.scheduler`,
    [],
  );
}

/** A question to the leader: why a job waits. A tick reads the open ones (`open_explains`). */
export interface OpenExplain {
  readonly n: number;
  readonly job: string;
}

/** Reads the oldest open questions behind a number, up to {@link questionsMax}. */
export async function readQuestions(target: Target, after: number): Promise<readonly OpenExplain[]> {
  return (await ask(target, 'open_explains($1)', [after])) ?? [];
}

/** Maximum of questions in one read: after a full one there may be more. */
export const questionsMax = 20;

/** The leader's answer about a job. Plain JSON: it goes through `explain_request`. */
export interface LeaderAnswer {
  /** False: the job does not wait any more, and the other fields say nothing. */
  readonly waits: boolean;
  readonly policy: string;
  /** Time of the snapshot that the answer rests on, by the database's clock. */
  readonly atMs: number;
  /** Every rule that holds the job. */
  readonly holds: readonly Hold[];
  /** Number of jobs that the leader knows of and the order would let go first; null: it can't say. */
  readonly ahead: number | null;
  readonly flow: RecentDispatches;
  /** Message of the error with which the policy failed when it was asked; null: it did not fail. */
  readonly failed: string | null;
}

/** Jobs dispatched lately, which an estimate rests on. */
export interface RecentDispatches {
  readonly windowMs: number;
  /** Jobs of the asked job's key; null: there are too many keys to count them all. */
  readonly key: number | null;
  readonly queue: number;
  readonly all: number;
}

/**
 * Stores an answer. False: nobody waits for it any more.
 * @throws PQ002 when this scheduler no longer leads in this epoch
 */
export async function answerExplain(
  target: Target,
  { leader, epoch }: Leader,
  { n, answer }: { readonly n: number; readonly answer: LeaderAnswer },
): Promise<boolean> {
  const values = [leader, epoch, n, storableJson(answer)];
  return (await ask(target, 'answer_explain($1, $2, $3, $4::jsonb)', values)) === true;
}

/** A waiting job, and the state of its key. */
export interface WaitingFacts {
  readonly job: JobFacts;
  /** The first job of its key that waits without a work item: this job, or one before it. */
  readonly firstId: string;
  /** Due time of the first job of its key that waits for a retry or the end of a snooze; null: none does. */
  readonly retryDueMs: number | null;
  /** False: the job's attributes can't be read, and the job has none here. */
  readonly legible: boolean;
}

type Facts = Omit<JobFacts, 'attributes' | 'flow'> &
  Pick<WaitingFacts, 'firstId' | 'retryDueMs'> & {
    readonly attributes: JobFacts['attributes'] | null;
    readonly flow: string | null;
  };

/** Reads a waiting job. Undefined: the job does not wait, or is delayed. */
export async function readWaitingJob(target: Target, id: string): Promise<WaitingFacts | undefined> {
  const found = await ask<Facts>(target, 'waiting_job($1::uuid)', [id]);
  if (found === undefined) return undefined;
  const { firstId, retryDueMs, attributes, flow, ...job } = found;
  const legible = attributes !== null;
  const facts = { ...job, attributes: attributes ?? {}, ...(flow === null ? {} : { flow }) };
  return { job: facts, firstId, retryDueMs, legible };
}
