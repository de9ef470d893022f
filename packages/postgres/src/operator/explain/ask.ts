import { ask } from '../../connection/target.ts';
import { setTimeout as delay } from 'node:timers/promises';
import type { Database } from '../../connection/database.ts';
import { sqlState } from '../../connection/pg-errors.ts';
import type { LeaderAnswer } from '../../calls/report.ts';

/** Longest wait for the leader's answer, in milliseconds. */
export const answerWithinMs = 2_000;

/**
 * Asks the leader why a job waits: the policy lives only in its process. The question is a row; a hint wakes
 * the leader, or its next tick finds the row. Undefined: no scheduler leads, no answer came in time, or this
 * database takes no questions (a standby).
 */
export async function askLeader(
  database: Database,
  job: string,
  waitMs: number = answerWithinMs,
): Promise<LeaderAnswer | undefined> {
  if (waitMs <= 0) return undefined;
  const deadline = performance.now() + waitMs;
  const n = await askFor(database, job);
  if (n === null) return undefined;
  for (let pauseMs = 5; performance.now() < deadline; pauseMs = Math.min(50, pauseMs * 2)) {
    const answer = await ask<LeaderAnswer>(database, 'take_explain($1, $2::uuid)', [n, job]);
    if (answer !== undefined) return answer;
    await delay(pauseMs);
  }
  return undefined;
}

/**
 * Writes the question and resolves to its number. Null: no scheduler leads, too many questions are open, or
 * the database is read-only.
 */
async function askFor(database: Database, job: string): Promise<string | null> {
  try {
    return (await ask<string>(database, 'ask_explain($1::uuid)', [job])) ?? null;
  } catch (error) {
    if (sqlState(error) === readOnlyState) return null;
    throw error;
  }
}

const readOnlyState = '25006';
