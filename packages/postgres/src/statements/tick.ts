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
  /** Whether to ask, too, when sweeps are due. */
  readonly due: boolean;
}

/** What a tick needs beside its candidates. `now` is the database's clock, in Unix milliseconds. */
export interface TickOverview {
  readonly now: number;
  /** Live ones that take work, and how many leases each holds. */
  readonly nodes: readonly {
    readonly id: string;
    readonly pool: string;
    readonly slots: number;
    readonly running: number;
    readonly tasks: NodeTasks;
  }[];
  /** Work items without a lease. */
  readonly ready: readonly {
    readonly pool: string;
    readonly task: string;
    readonly version: number;
    readonly count: number;
  }[];
  /** Those that differ from the defaults. */
  readonly queues: Readonly<Record<string, { readonly paused: boolean; readonly pool: string }>>;
  /** Whether {@link reap} and {@link loseNodes} would find anything. */
  readonly expiredLeases: boolean;
  readonly lostNodes: boolean;
}

/** Milliseconds until something is due (negative: overdue); null: nothing is. */
export interface TickDue {
  readonly promoteMs: number | null;
  readonly expireMs: number | null;
  readonly cronMs: number | null;
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

/** A tick's snapshot: what the database knows, and the candidates. */
export interface TickRead {
  readonly overview: TickOverview;
  readonly due: TickDue | null;
  readonly candidates: readonly CandidateRow[];
}

/** The snapshot of a tick, in one round trip: SQL functions `tick_overview`, `tick_due` and `candidates` (migration 0003). */
export async function readTick(target: Target, input: TickInput): Promise<TickRead> {
  const { schema } = target;
  const rows = await target.query<
    CandidateRow & { readonly overview: TickOverview | null; readonly due: TickDue | null }
  >(
    `select case when c.n is null or c.n = 1 then o end as overview, case when c.n is null or c.n = 1 then d end as due,
            c.queue, c.key, c.ring, c.id, c.seq::float8 as seq, c.priority, c.task, c.version,
            extract(epoch from c.created)::float8 * 1000 as "createdMs", c.attributes
     from ${schema}.tick_overview() o
     cross join (select case when $6 then ${schema}.tick_due() end as d) due
     left join ${schema}.candidates($1::jsonb, $2::jsonb, $3, $4, $5) c on true
     order by c.n`,
    [
      JSON.stringify(input.cursors),
      JSON.stringify(input.starts),
      input.want,
      input.keys,
      input.lookahead,
      input.due,
    ],
  );
  const [first] = rows;
  if (first === undefined || first.overview === null)
    throw new Error("a tick's snapshot came back without its overview");
  const candidates = rows.filter(({ key }) => key !== null);
  return { overview: first.overview, due: first.due, candidates };
}
