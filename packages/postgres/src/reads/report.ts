import type { Database } from '../connection/database.ts';
import type { SchedulerReport } from '../calls/report.ts';

/** Last report of a leader. */
export interface StoredReport extends SchedulerReport {
  readonly leader: string;
  readonly epoch: number;
  readonly ageMs: number;
  /** Time of the read, by the database's clock. */
  readonly nowMs: number;
  /**
   * The report is from another scheduler than the present leader, or is older than a minute and a half: it
   * says nothing about the present.
   */
  readonly stale: boolean;
}

/** Three times the longest silence of a leader that ticks, in milliseconds. */
const staleMs = 90_000;

/** Reads the last report; null: none was ever written. */
export async function readReport({ query, schema }: Database): Promise<StoredReport | null> {
  const [row] = await query<{
    leader: string;
    epoch: number;
    ageMs: number;
    nowMs: number;
    leads: boolean;
    report: SchedulerReport;
  }>(
    `select r.leader, r.epoch::float8 as epoch, extract(epoch from clock_timestamp() - r.written)::float8 * 1000 as "ageMs",
            extract(epoch from clock_timestamp())::float8 * 1000 as "nowMs",
            l.leader is not distinct from r.leader and l.epoch = r.epoch and l.expires > clock_timestamp() as leads, r.report
     from ${schema}.scheduler_report r, ${schema}.scheduler_lease l`,
    [],
  );
  if (row === undefined) return null;
  const { leader, epoch, ageMs, nowMs, leads, report } = row;
  return { ...report, leader, epoch, ageMs, nowMs, stale: !leads || ageMs > staleMs };
}
