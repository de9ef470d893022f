import type { Target } from './target.ts';

/** The end of one attempt. `data` is the result of a done job or the error of a failed one. */
export interface Settlement {
  readonly id: string;
  readonly token: string;
  readonly outcome: 'done' | 'retry' | 'dead' | 'snooze' | 'cancelled';
  /** For retry and snooze. */
  readonly delayMs: number | null;
  /** JSON text, without NUL. */
  readonly data: string | null;
}

/** What became of an accepted settlement; `repeated`: an earlier call with the same token had been accepted. */
export type Verdict = 'done' | 'retry' | 'dead' | 'snooze' | 'cancelled' | 'repeated';

/**
 * Ends attempts, each fenced by its token: the SQL function `settle` (migration 0005 says why it is safe). Commits
 * synchronously. An id that is missing from the answer was stale: its lease had been lost, and nothing was changed.
 * @param repeat whether the reply of an earlier call with any of these tokens was lost
 */
export async function settle(
  target: Target,
  settlements: readonly Settlement[],
  repeat = false,
): Promise<ReadonlyMap<string, Verdict>> {
  if (settlements.length === 0) return new Map();
  // a name of one word: plug-ins of a handler's library may rename the others
  const rows = await target.query<{ id: string; verdict: Verdict }>(
    `select job_id as id, verdict from ${target.schema}.settle($1::uuid[], $2::uuid[], $3::text[], $4::float8[], $5::text[], $6)`,
    [
      settlements.map(({ id }) => id),
      settlements.map(({ token }) => token),
      settlements.map(({ outcome }) => outcome),
      settlements.map(({ delayMs }) => delayMs),
      settlements.map(({ data }) => data),
      repeat,
    ],
  );
  return new Map(rows.map(({ id, verdict }) => [id, verdict]));
}
