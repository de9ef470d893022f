import type { Operator } from '@pgqueue/postgres';
import { expect } from 'vitest';
import type { Seed } from './seed.ts';

/** A step as `start_flow` takes it; `jobs` may be their number. */
export interface SeedStep {
  readonly name: string;
  readonly kind?: 'jobs' | 'signal' | 'timer';
  readonly wants?: 'all' | 'any';
  readonly needs?: readonly (readonly [step: number, condition?: 'done' | 'ended' | 'failed'])[];
  readonly delay_ms?: number;
  readonly stop_after?: number;
  readonly jobs?: number | readonly Readonly<Record<string, unknown>>[];
}

/** A flow as `start_flow` takes it. */
export interface SeedFlow {
  readonly id?: string;
  readonly name?: string;
  readonly key?: string;
  readonly unique_key?: string;
  readonly deadline_ms?: number;
  readonly steps: readonly SeedStep[];
}

/** Starts flows and moves them on, without a scheduler and a worker. */
export interface FlowSeed {
  /** Resolves to the flow's id. */
  readonly start: (flow: SeedFlow) => Promise<string>;
  /** Starts a flow of pages (four jobs), sum, then a signal or a timer, then publish. */
  readonly startSite: (names?: Pick<SeedFlow, 'key' | 'unique_key'>) => Promise<string>;
  /** Does what a leading scheduler does with flows, until nothing is left to do. */
  readonly advance: () => Promise<void>;
  /** Jobs of a step in QUEUE. */
  readonly jobsOf: (flow: string, step: number) => Promise<readonly string[]>;
  /** Runs waiting jobs to that outcome, and moves flows on. */
  readonly end: (ids: readonly string[], outcome?: 'done' | 'dead', result?: unknown) => Promise<void>;
}

const site: readonly SeedStep[] = [
  { name: 'pages', jobs: 4 },
  { name: 'sum', jobs: 1, needs: [[0, 'ended']] },
  { name: 'ok', kind: 'signal', needs: [[1]] },
  { name: 'late', kind: 'timer', delay_ms: 3_600_000, needs: [[1]] },
  { name: 'publish', jobs: 1, needs: [[2], [3]], wants: 'any' },
];

export function flowsOf({ sql, run }: Pick<Seed, 'sql' | 'run'>): FlowSeed {
  const advance: FlowSeed['advance'] = async () => {
    const [{ epoch }] = await sql(`select epoch from pgqueue.lead('s', 60000)`);
    for (let more = true; more;) {
      const [{ moved }] = await sql(
        `select pgqueue.advance_flows('s', $1, '{"from": 0, "max": 500, "walk": null}') as moved`,
        [epoch],
      );
      const [{ stopped }] = await sql(`select pgqueue.stop_jobs('s', $1, 500) as stopped`, [epoch]);
      more = moved.more === true || stopped > 0;
    }
  };
  const start: FlowSeed['start'] = async ({ name = 'a flow', steps, ...flow }) => {
    const given = steps.map(({ jobs, ...step }) => ({
      ...step,
      jobs: typeof jobs === 'number' ? Array.from({ length: jobs }, () => ({ task: 'hello' })) : (jobs ?? []),
    }));
    const text = JSON.stringify({ name, ...flow, steps: given });
    const [row] = await sql('select * from pgqueue.start_flow($1::jsonb)', [text]);
    return row.flow_id;
  };
  return {
    advance,
    start,
    startSite: (names = {}) => start({ name: 'count-site', ...names, steps: site }),
    jobsOf: async (flow, step) =>
      (await sql('select id from pgqueue.queue where flow = $1 and step = $2 order by id', [flow, step])).map(
        ({ id }) => id,
      ),
    end: async (ids, outcome = 'done', result = { n: 1 }) => {
      const token = await run('runner', ids);
      const data = JSON.stringify(outcome === 'done' ? result : { message: 'no' });
      await sql(
        `select * from pgqueue.settle($1::uuid[], array_fill($2::uuid, array[$3::integer]), array_fill($4::text, array[$3::integer]),
           array_fill(0::float8, array[$3::integer]), array_fill($5::text, array[$3::integer]))`,
        [ids, token, ids.length, outcome, data],
      );
      await advance();
    },
  };
}

/** Checks that the doctor finds no damage: whatever is done to flows, no state of theirs is any. */
export async function assertSound(operator: Operator): Promise<void> {
  expect((await operator.doctor()).findings.map(({ check }) => check)).toEqual([]);
}
