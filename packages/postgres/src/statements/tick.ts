import type { Attributes } from '@pgqueue/core';
import type { NodeTasks } from '../rows.ts';
import type { Target } from './target.ts';

/** Where a tick looks for candidates, and for how many. */
export interface TickInput {
  /** By queue: the key that was served last; the keys behind it come first. */
  readonly cursors: Readonly<Record<string, string>>;
  /** By queue and key: the (priority, seq) behind which that key's scan begins. */
  readonly starts: Readonly<Record<string, Readonly<Record<string, readonly [number, number]>>>>;
  /** Jobs wanted altogether, shared out over the keys found. */
  readonly want: number;
  /** Keys at most, by queue. */
  readonly keys: number;
  /** Jobs looked at in a key that has a start. */
  readonly lookahead: number;
}

/** What a tick needs beside its candidates. Times are the database's, in Unix milliseconds. */
export interface TickOverview {
  readonly now: number;
  readonly nodes: readonly {
    readonly id: string;
    readonly pool: string;
    readonly slots: number;
    readonly tasks: NodeTasks;
  }[];
  readonly pools: Readonly<
    Record<
      string,
      { readonly ready: number; readonly running: number; readonly lastPosition: number }
    >
  >;
  readonly queues: Readonly<Record<string, { readonly paused: boolean; readonly pool: string }>>;
}

/** A key that was looked at, and one of its waiting jobs; id is null where all its jobs are scheduled already. */
export interface CandidateRow {
  readonly queue: string;
  readonly key: string;
  /** 0: behind the cursor; 1: up to it. */
  readonly ring: number;
  readonly id: string | null;
  readonly seq: number;
  readonly priority: number;
  readonly task: string;
  readonly version: number;
  readonly createdMs: number;
  readonly attributes: Attributes;
}

/** The snapshot of a tick, in one round trip: SQL functions `tick_overview` and `candidates` (migration 0003). */
export async function readTick(
  target: Target,
  input: TickInput,
): Promise<{ readonly overview: TickOverview; readonly candidates: readonly CandidateRow[] }> {
  const { schema } = target;
  const rows = await target.query<CandidateRow & { readonly overview: TickOverview | null }>(
    `select case when c.n is null or c.n = 1 then o end as overview, c.queue, c.key, c.ring, c.id, c.seq::float8 as seq,
            c.priority, c.task, c.version, extract(epoch from c.created)::float8 * 1000 as "createdMs", c.attributes
     from ${schema}.tick_overview() o
     left join ${schema}.candidates($1::jsonb, $2::jsonb, $3, $4, $5) c on true
     order by c.n`,
    [
      JSON.stringify(input.cursors),
      JSON.stringify(input.starts),
      input.want,
      input.keys,
      input.lookahead,
    ],
  );
  const overview = rows[0]?.overview;
  if (overview === undefined || overview === null)
    throw new Error("a tick's snapshot came back without its overview");
  return { overview, candidates: rows.filter(({ key }) => key !== null) };
}
