import { errorData } from '@pgqueue/core/internal';
import type { Database } from '../../connection/database.ts';
import { readOnlyText, readReadOnly } from '../../reads/read-only.ts';
import type { Expectation, Severity } from './checks.ts';
import { listSchedules } from '../../reads/schedules.ts';
import { scheduleProblems } from '../../calendar/slots.ts';
import { checks, readableSchedules } from './checks.ts';
import type { Breach } from './invariants.ts';
import { breaches } from './invariants.ts';
import { mend, mends } from './mends.ts';
import { missingObjects, presentObjects } from './missing-objects.ts';

/** Condition without which nothing moves, and no mend can be made. */
const writable: Expectation = {
  name: 'read_only',
  says: 'the database takes writes',
  severity: 'error',
  remedy: 'do that first: nothing can be mended until then',
};

/** One check that found something. */
export interface Finding {
  readonly check: string;
  /** Condition that should hold, and doesn't. */
  readonly says: string;
  readonly severity: Severity;
  readonly count: number;
  /** The first ten: ids of jobs, or names. */
  readonly samples: readonly string[];
  /** `mend` can mend it. */
  readonly mendable: boolean;
  readonly remedy: string;
  /**
   * Outcome of the mend: the number of things still wrong (`left`), and the error if the mend failed. Null:
   * no mend was requested, or there is none.
   */
  readonly mended: { readonly left: number; readonly error: string | null } | null;
}

/** Result of a run of the doctor. */
export interface Diagnosis {
  /** Name of every check that was made. */
  readonly checked: readonly string[];
  readonly findings: readonly Finding[];
  /** No finding of severity `error` is left. */
  readonly healthy: boolean;
}

/**
 * Looks for things that must never be, and mends them on request. Each kind is mended in one transaction,
 * which skips rows that are locked at that moment and can be repeated. Mends that change tables need the
 * rights of their owner. Looks for nothing else where a part of the schema is missing.
 */
export async function diagnose(
  database: Database,
  options: { readonly mend?: boolean } = {},
): Promise<Diagnosis> {
  const missing = await missingObjects(database);
  const [expected, breached] =
    missing !== undefined && missing.count > 0
      ? [[presentObjects], [missing]]
      : [
          [...(missing === undefined ? [] : [presentObjects]), writable, ...checks, readableSchedules],
          [
            await readOnly(database),
            ...(await breaches(database, checks)),
            await unreadableSchedules(database),
          ],
        ];
  const found = new Map(breached.filter(({ count }) => count > 0).map((breach) => [breach.name, breach]));
  const findings: Finding[] = [];
  for (const { name, says, severity, remedy } of expected) {
    const breach = found.get(name);
    if (breach === undefined) continue;
    const mendable = mends[name] !== undefined;
    const mended = options.mend === true && mendable ? await mendOne(database, breach) : null;
    const { count, samples } = breach;
    findings.push({ check: name, says, severity, count, samples, mendable, remedy, mended });
  }
  return {
    checked: expected.map(({ name }) => name),
    findings,
    healthy: findings.every(({ severity, mended }) => severity === 'warning' || mended?.left === 0),
  };
}

async function readOnly(database: Database): Promise<Breach> {
  const why = await readReadOnly(database);
  const samples = why === null ? [] : [readOnlyText(why)];
  return { name: writable.name, count: samples.length, samples };
}

async function unreadableSchedules(database: Database): Promise<Breach> {
  const names = (await listSchedules(database))
    .filter(({ cron, timezone, paused }) => !paused && scheduleProblems(cron, timezone).length > 0)
    .map(({ name }) => name);
  return { name: readableSchedules.name, count: names.length, samples: names.slice(0, 10) };
}

async function mendOne(database: Database, { name, count }: Breach): Promise<Finding['mended']> {
  try {
    await mend(database, name);
  } catch (error) {
    return { left: count, error: errorData(error).message };
  }
  const [left] = await breaches(
    database,
    checks.filter((check) => check.name === name),
  );
  return { left: left?.count ?? 0, error: null };
}
