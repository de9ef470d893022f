import type { HeldCounts, Hold, JobFacts } from '@pgqueue/core';
import type { Leader } from './sweeps.ts';
import type { Target } from '../connection/target.ts';

/** Something of a policy that failed lately. Times are the database's clock, in Unix milliseconds. */
export interface ReportedFault {
  readonly policy: string;
  /** A gate or an order; or a function of the policy: `plan`, `written`, `restore`, `explain`. */
  readonly part: string;
  readonly message: string;
  readonly count: number;
  readonly firstMs: number;
  readonly atMs: number;
  /** Until then it is left out, since it took longer than it may; null: it is not. */
  readonly suspendedUntilMs: number | null;
}

/** Something that the leader's ticks leave out, since it is not what it must be. */
export interface ReportedUnreadable {
  readonly kind: 'job' | 'node' | 'queue';
  /** Of a queue its name. */
  readonly id: string;
  /** In words: `its attributes are …`. */
  readonly problem: string;
  /** When it was seen first, by the database's clock, in Unix milliseconds. */
  readonly firstMs: number;
}

/** What the leader knows and nobody else: its own words in `scheduler_report`, plain JSON. */
export interface SchedulerReport {
  readonly policy: string;
  /** Held jobs of its last snapshot, by queue and reason. */
  readonly held: HeldCounts;
  readonly ticks: {
    /** Since it leads. */
    readonly count: number;
    /** Of the last few hundred. Null: there was none. */
    readonly p50Ms: number | null;
    readonly p99Ms: number | null;
    /** Jobs in the last batch that had any. */
    readonly lastBatch: number;
    readonly dispatched: number;
  };
  /** Keys of queues with waiting jobs that it knows of. */
  readonly lanes: number;
  /** Work items. */
  readonly inFlight: number;
  readonly faults: readonly ReportedFault[];
  /** What it left out within the last minute: at most a hundred. Default: nothing. */
  readonly unreadable?: readonly ReportedUnreadable[];
  /** What the order forecasts (deadlines that will be missed), by name. */
  readonly forecast: Readonly<Record<string, number>> | null;
  /** How a second policy that runs beside it differs. */
  readonly shadow: unknown;
}

/** Replaces the leader's report. @throws PQ002 when this scheduler no longer leads in this epoch */
export async function writeReport(
  { query, schema }: Target,
  { leader, epoch }: Leader,
  report: SchedulerReport,
): Promise<void> {
  await query(`select ${schema}.report($1, $2, $3::jsonb)`, [leader, epoch, JSON.stringify(report)]);
}

/** The policy that a leader reported. */
export interface ReportedPolicy {
  readonly leader: string;
  readonly policy: string;
  /** It still leads. */
  readonly leads: boolean;
}

/** Undefined: no leader has ever reported. */
export async function readReportedPolicy({ query, schema }: Target): Promise<ReportedPolicy | undefined> {
  const [row] = await query<ReportedPolicy>(
    `select r.leader, coalesce(r.report ->> 'policy', '') as policy,
            l.leader is not distinct from r.leader and l.epoch = r.epoch and l.expires > clock_timestamp() as leads
     from ${schema}.scheduler_report r, ${schema}.scheduler_lease l`,
    [],
  );
  return row;
}

/** A question to the leader: why a job waits. A tick reads the open ones (`open_explains`). */
export interface OpenExplain {
  readonly n: number;
  readonly job: string;
}

/** The oldest open questions behind a number, at most as many as one read gives ({@link questionsMax}). */
export async function readQuestions(
  { query, schema }: Target,
  after: number,
): Promise<readonly OpenExplain[]> {
  const [row] = await query<{ open: readonly OpenExplain[] | null }>(
    `select ${schema}.open_explains($1) as open`,
    [after],
  );
  return row?.open ?? [];
}

/** Where a read gives so many, there may be more. */
export const questionsMax = 20;

/** What the leader says about a job. Plain JSON: it goes through `explain_request`. */
export interface LeaderAnswer {
  /** False: by now the job does not wait; the rest says nothing then. */
  readonly waits: boolean;
  readonly policy: string;
  /** The time of the snapshot that it looked at, by the database's clock. */
  readonly atMs: number;
  /** Every rule that holds the job. */
  readonly holds: readonly Hold[];
  /** Jobs that the order would let go first, of those that the leader knows; null: it can't say. */
  readonly ahead: number | null;
  readonly flow: Flow;
  /** The policy failed when it was asked, with this message. */
  readonly failed: string | null;
}

/** Jobs dispatched lately: what an estimate rests on. */
export interface Flow {
  readonly windowMs: number;
  /** Of the job's key; null: there are too many keys to count them all. */
  readonly key: number | null;
  readonly queue: number;
  readonly all: number;
}

/** False: nobody waits for this answer any more. @throws PQ002 when this scheduler no longer leads in this epoch */
export async function answerExplain(
  { query, schema }: Target,
  { leader, epoch }: Leader,
  { n, answer }: { readonly n: number; readonly answer: LeaderAnswer },
): Promise<boolean> {
  const [row] = await query<{ answered: boolean }>(
    `select ${schema}.answer_explain($1, $2, $3, $4::jsonb) as answered`,
    [leader, epoch, n, JSON.stringify(answer)],
  );
  return row?.answered === true;
}

/** A waiting job, and how its key stands. */
export interface WaitingFacts {
  readonly job: JobFacts;
  /** The first job of its key that waits without a work item: itself, or one that comes before it. */
  readonly firstId: string;
  /** When the first job of its key that waits for a retry or the end of a snooze is due; null: none does. */
  readonly retryDueMs: number | null;
  /** Its attributes can be read: else the job has none here. */
  readonly legible: boolean;
}

type Facts = Omit<JobFacts, 'attributes'> &
  Pick<WaitingFacts, 'firstId' | 'retryDueMs'> & { readonly attributes: JobFacts['attributes'] | null };

/** Undefined: it does not wait, or not yet. */
export async function readWaitingJob(
  { query, schema }: Target,
  id: string,
): Promise<WaitingFacts | undefined> {
  const [row] = await query<{ facts: Facts | null }>(`select ${schema}.waiting_job($1::uuid) as facts`, [id]);
  if (row === undefined || row.facts === null) return undefined;
  const { firstId, retryDueMs, attributes, ...job } = row.facts;
  const legible = attributes !== null;
  return { job: { ...job, attributes: attributes ?? {} }, firstId, retryDueMs, legible };
}
