import type { TraceContext } from '@pgqueue/core';
import type { Target } from '../connection/target.ts';

/** Reads the trace contexts of unfinished jobs that carry one, by the SQL function `job_traces`. */
export async function readTraces(
  { query, schema }: Target,
  ids: readonly string[],
): Promise<readonly TraceContext[]> {
  const rows = await query<{ trace: TraceContext }>(
    `select t.trace from ${schema}.job_traces($1::uuid[]) t (trace)`,
    [ids],
  );
  return rows.map(({ trace }) => trace);
}
