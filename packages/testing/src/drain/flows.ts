import type { Database } from '@pgqueue/postgres';

/** A flow as a drain left it. */
export interface DrainedFlow {
  readonly id: string;
  readonly name: string;
  readonly key: string;
  readonly state: 'open' | 'done' | 'failed' | 'cancelled';
  /** Reason of a state other than `done`, for people. */
  readonly reason: string | null;
  /** Steps by name, in their order. */
  readonly steps: Readonly<Record<string, DrainedStep>>;
}

/** A step of a {@link DrainedFlow}. */
export interface DrainedStep {
  readonly kind: 'jobs' | 'signal' | 'timer';
  /** `blocked`: it waits for other steps. */
  readonly state: 'blocked' | 'open' | 'ended';
  /** Null: it has not ended. `skipped`: a need of it was not met, or nothing waits for it any more. */
  readonly outcome: 'done' | 'failed' | 'cancelled' | 'skipped' | null;
  /** Numbers of its jobs. `other`: cancelled, expired or erased. `left`: not ended, or not enqueued yet. */
  readonly jobs: {
    readonly done: number;
    readonly dead: number;
    readonly other: number;
    readonly left: number;
  };
}

/** Notes of the flows that are open during a drain. */
export interface FlowNotes {
  /** Notes flows that have ended. Call it before the clock goes forward: flows are deleted seven days after their end. */
  readonly noteEnded: () => Promise<void>;
  /** Notes open flows, too, and resolves to all that were noted, in the order of their starts. */
  readonly all: () => Promise<readonly DrainedFlow[]>;
}

/** Most flows that are read at once, the last ones that were started. */
const flowsMax = 1_000;

interface FlowRead {
  readonly createdMs: number;
  readonly flow: Omit<DrainedFlow, 'steps'>;
  readonly steps: readonly (readonly [name: string, step: DrainedStep])[];
}

/** Takes notes of flows that are open now, or are started later. */
export async function noteFlows({ query, schema }: Database): Promise<FlowNotes> {
  // not qualified: the test database's clock
  const [began] = await query<{ readonly at: string }>('select clock_timestamp()::text as at', []);
  const noted = new Map<string, FlowRead>();
  const read = async (open: boolean): Promise<void> => {
    const rows = await query<FlowRead>(
      `select extract(epoch from f.created)::float8 * 1000 as "createdMs",
         jsonb_build_object('id', f.id, 'name', f.name, 'key', f.key, 'state', f.state, 'reason', f.reason) as flow,
         (select jsonb_agg(jsonb_build_array(s.name, jsonb_build_object(
            'kind', s.kind, 'state', s.state, 'outcome', s.outcome, 'jobs', jsonb_build_object(
              'done', s.done, 'dead', s.failed, 'other', s.other,
              'left', case when s.state = 'ended' then 0 else s.added - s.done - s.failed - s.other end))) order by s.step)
          from ${schema}.flow_step s where s.flow = f.id) as steps
       from ${schema}.flow f where f.ended >= $1::text::timestamptz or ($2::boolean and f.state = 'open')
       order by f.created desc, f.id desc limit ${flowsMax}`,
      [began?.at, open],
    );
    for (const row of rows.toReversed()) noted.set(row.flow.id, row);
  };
  return {
    noteEnded: () => read(false),
    all: async () => {
      await read(true);
      return [...noted.values()]
        .toSorted((a, b) => a.createdMs - b.createdMs)
        .map(({ flow, steps }) => ({ ...flow, steps: Object.fromEntries(steps) }));
    },
  };
}
